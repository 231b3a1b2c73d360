# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build the one file that measures a machine: build.py FILE.

It has what the planner needs to make CDI specs, the host side's programs, and tests/gpu. The same
checkout makes the same bytes.
"""

from __future__ import annotations

import json
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / ".cache" / "collections")]

NAMESPACE = "ansible_collections/gpufleet/nvidia"
PARTS = ("plugins/module_utils/_host", "plugins/plugin_utils/_planner")
EPOCH = (2020, 1, 1, 0, 0, 0)
START = """\
import sys

from tests.gpu import main

if __name__ == "__main__":
    sys.exit(main.main(sys.argv[1:]))
"""


def list_contents() -> Iterator[tuple[str, str]]:
    """Yield name and text of each entry, in the order of the names."""
    texts = {"__main__.py": START, "questions.json": render_questions()}
    texts["version.json"] = json.dumps({"tool": f"gpufleet.nvidia {read_version()}"})
    for part in PARTS:
        for path in (ROOT / part).rglob("*.py"):
            texts[f"{NAMESPACE}/{path.relative_to(ROOT)}"] = path.read_text(encoding="utf-8")
    for path in (ROOT / "tests/gpu").glob("*.py"):
        texts[str(path.relative_to(ROOT))] = path.read_text(encoding="utf-8")
    for name in list(texts):
        for folder in Path(name).parents:
            if str(folder) != ".":
                texts.setdefault(f"{folder}/__init__.py", "")
    yield from sorted(texts.items())


def read_version() -> str:
    """Return the collection's version, of galaxy.yml."""
    lines = (ROOT / "galaxy.yml").read_text(encoding="utf-8").splitlines()
    return next(line.split()[1] for line in lines if line.startswith("version:"))


def render_questions() -> str:
    """Return the questions of a look, which a Python without the planner asks as well."""
    from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Policy
    from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import seen_host

    from tests.gpu import specs

    questions = {
        "driver": specs.list_questions(specs.make_policy()),
        "host": seen_host.list_host_questions(Policy()),
    }
    return json.dumps(questions, sort_keys=True)


def write(file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("wb") as handle:
        handle.write(b"#!/usr/bin/env python3\n")
        with zipfile.ZipFile(handle, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, text in list_contents():
                archive.writestr(zipfile.ZipInfo(name, EPOCH), text, zipfile.ZIP_DEFLATED, 9)
    file.chmod(0o755)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
