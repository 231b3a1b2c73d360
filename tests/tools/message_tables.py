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
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
for entry in (ROOT / ".cache" / "collections", Path(__file__).parent):
    sys.path.insert(0, str(entry))

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import causes
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Sentence,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections import (
    file_places,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.lint import rules
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.known_bad import (
    rules as known_bad_rules,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.known_bad import (
    table as known_bad_table,
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


def list_known_bad_rows() -> list[Sentence]:
    return [Sentence(row.code, row.what, next=row.way) for row in known_bad_table.ROWS]


def list_state_rows() -> list[Sentence]:
    return [
        Sentence(known_bad_rules.build_state_code(state), says)
        for state, says in known_bad_rules.WORDS.items()
    ]


def list_lint_rows() -> list[Sentence]:
    return [
        Sentence(rules.build_rule_code(name), rule.what, rule.effect, rule.remedy)
        for name, rule in rules.RULES.items()
    ]


def list_cause_rows() -> list[Sentence]:
    return [Sentence(causes.build_cause_code(cause.code), cause.says) for cause in causes.CAUSES]


def list_fault_rows() -> list[Sentence]:
    return [
        Sentence(file_places.build_fault_code(name), says)
        for name, says in file_places.FAULTS.items()
    ]


# Tables of facts whose rows have ids. An id is the second half of the code of messages about it.
TABLES_BY_ID: Mapping[str, Callable[[], list[Sentence]]] = {
    "core.causes": list_cause_rows,
    "core.projections.faults": list_fault_rows,
    "host.cdi.lint.rules": list_lint_rows,
    "host.known_bad.states": list_state_rows,
    "host.known_bad.table": list_known_bad_rows,
}


def write_golden(rows: Iterable[Sentence]) -> str:
    """Return the text of a table's golden file."""
    return "\n".join(line for row in rows for line in (*describe_row(row), ""))


def map_golden_files() -> dict[str, str]:
    """Return the text of each golden file by the name of its table."""
    tables = {package: read_rows(path).values() for package, path in find_tables().items()}
    by_id = {name: list_rows() for name, list_rows in TABLES_BY_ID.items()}
    return {name: write_golden(rows) for name, rows in {**tables, **by_id}.items()}


def describe_row(row: Sentence) -> Iterator[str]:
    yield row.code
    for name in ("what", "why", "next"):
        text = getattr(row, name)
        if text:
            yield f"  {name}: {text}"


def build_page_tables() -> str:
    """Return a section for each package, for docs/errors.md."""
    tables = {package: read_rows(path).values() for package, path in find_tables().items()}
    by_id = {name: list_rows() for name, list_rows in TABLES_BY_ID.items()}
    return "\n".join(
        f"## {name}\n\n{build_page_table(rows)}" for name, rows in {**tables, **by_id}.items()
    )


def build_page_table(rows: Iterable[Sentence]) -> str:
    cells = [
        [f"`{row.code}`", *map(escape_fields, (row.what, row.why, row.next))]
        for row in sorted(rows, key=lambda row: row.code)
    ]
    return table(["code", "message", "cause", "what to do"], cells)


def escape_fields(text: str) -> str:
    """Return a template as a page shows it: `{name}` stands for a value."""
    return text.replace("<", "&lt;").replace("|", "\\|").replace("{{", "{").replace("}}", "}")


def main(arguments: list[str]) -> int:
    GOLDEN.mkdir(parents=True, exist_ok=True)
    wanted = {GOLDEN / f"{name}.txt": text for name, text in map_golden_files().items()}
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
