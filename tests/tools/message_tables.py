# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the packages' tables of sentences, and write what follows from them.

    message_tables.py --write    write the golden files, tests/fixtures/messages/PACKAGE.txt

A golden file shows a reviewer which sentences a change touches. docs/errors.md has the same rows.
"""

from __future__ import annotations

import importlib
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
for entry in (ROOT / ".cache" / "collections", Path(__file__).parent):
    sys.path.insert(0, str(entry))

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Sentence,
)
from page_table import table

GOLDEN = ROOT / "tests/fixtures/messages"
UTILS = ROOT / "plugins/plugin_utils"
PREFIX = "ansible_collections.gpufleet.nvidia.plugins.plugin_utils."


def find_tables() -> Mapping[str, Path]:
    """Return the file of each package's table by the package's name, such as `engines.containerd`.

    A long table is a directory, `messages/`, with one file for each subject, or has a further file
    `SUBJECT_messages.py`.
    """
    paths = sorted(
        [*UTILS.rglob("*messages.py"), *(path for path in UTILS.rglob("messages") if path.is_dir())]
    )
    return {find_name(path): path for path in paths}


def find_name(path: Path) -> str:
    """Return the name of a table: its package, and of a package's further table the word before
    `_messages`.
    """
    parts = [*path.parent.relative_to(UTILS).parts, path.stem.removesuffix("messages").rstrip("_")]
    return ".".join(filter(None, parts)).removeprefix("_planner.")


def read_rows(path: Path) -> dict[str, Sentence]:
    """Return the rows of a table by the names of their constants, in the order of the file.

    Raise ValueError if two files of a table have the same name.
    """
    files = sorted(path.glob("*.py")) if path.is_dir() else [path]
    modules = [
        importlib.import_module(PREFIX + ".".join(file.relative_to(UTILS).with_suffix("").parts))
        for file in files
    ]
    rows = [
        (name, value)
        for module in modules
        for name, value in vars(module).items()
        if isinstance(value, Sentence)
    ]
    twice = sorted(
        name for name, count in Counter(name for name, _row in rows).items() if count > 1
    )
    if twice:
        raise ValueError(f"{path} has {', '.join(twice)} twice")
    return dict(rows)


def write_golden(path: Path) -> str:
    """Return the text of a table's golden file."""
    return "\n".join(line for row in read_rows(path).values() for line in (*describe_row(row), ""))


def describe_row(row: Sentence) -> Iterator[str]:
    yield row.code
    for name in ("what", "why", "next"):
        text = getattr(row, name)
        if text:
            yield f"  {name}: {text}"


def build_page_tables() -> str:
    """Return a section for each package, for docs/errors.md."""
    parts = []
    for package, path in find_tables().items():
        rows = [
            [f"`{row.code}`", *map(escape_fields, (row.what, row.why, row.next))]
            for row in sorted_rows(path)
        ]
        parts.append(f"## {package}\n\n{table(['code', 'message', 'cause', 'what to do'], rows)}")
    return "\n".join(parts)


def sorted_rows(path: Path) -> list[Sentence]:
    return sorted(read_rows(path).values(), key=lambda row: row.code)


def escape_fields(text: str) -> str:
    """Return a template as a page shows it: `{name}` stands for a value."""
    return text.replace("<", "&lt;").replace("|", "\\|").replace("{{", "{").replace("}}", "}")


def main(arguments: list[str]) -> int:
    GOLDEN.mkdir(parents=True, exist_ok=True)
    wanted = {
        GOLDEN / f"{package}.txt": write_golden(path) for package, path in find_tables().items()
    }
    outdated = [
        path for path, text in wanted.items() if not path.exists() or path.read_text() != text
    ]
    gone = [path for path in GOLDEN.glob("*.txt") if path not in wanted]
    if "--write" in arguments:
        for path in outdated:
            path.write_text(wanted[path])
        for path in gone:
            path.unlink()
    for path in (*outdated, *gone):
        print(f"{'written' if '--write' in arguments else 'outdated'}: {path.relative_to(ROOT)}")
    return 1 if (outdated or gone) and "--write" not in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
