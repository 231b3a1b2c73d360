# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""README's picture: a command's own lines, columns that stay columns, and a table as this release
prints it.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.unit import tool_modules

ROOT = Path(__file__).resolve().parents[2]
terminal = tool_modules.loaded("terminal")

SPACE = "{http://www.w3.org/2000/svg}"
PICTURE = ROOT / "docs/plan.svg"


def rows(picture: str) -> list[str]:
    """The lines of a picture, each with its indentation."""
    drawn = list(ElementTree.fromstring(picture).iter(f"{SPACE}text"))
    return [
        " " * round((float(t.attrib["x"]) - terminal.MARGIN) / terminal.ADVANCE)
        + (t.text or "").replace("\u00a0", " ")
        for t in drawn
    ]


def test_a_picture_has_the_commands_own_lines(tmp_path: Path) -> None:
    lines = ["HOST  WHY", 'gpu1  a <b> & "c"', "", "  two in"]
    command = [sys.executable, "-c", f"print({chr(10).join(lines)!r})"]
    assert terminal.main([str(tmp_path / "it.svg"), "--prompt", "look", "--", *command]) == 0
    assert rows((tmp_path / "it.svg").read_text()) == ["$ look", *(line for line in lines if line)]


def test_a_command_that_fails_leaves_no_picture(tmp_path: Path) -> None:
    assert (
        terminal.main([str(tmp_path / "it.svg"), "--", sys.executable, "-c", "raise SystemExit(3)"])
        == 3
    )
    assert not (tmp_path / "it.svg").exists()


@pytest.mark.parametrize(
    ("parts", "wanted"),
    [
        ([("^a", "^b")], ["a"]),
        ([("^a", "^c")], ["a", "b"]),
        ([("^a", "^b"), ("^b", "^c")], ["a", "b"]),
        ([("^a", "^b"), ("^c", "^d")], ["a", terminal.CUT, "c"]),
        ([("^c", "^z")], ["c", "d"]),
    ],
)
def test_what_is_cut_is_shown_by_dots(parts: list[tuple[str, str]], wanted: list[str]) -> None:
    assert list(terminal.shown(["a", "b", "c", "d"], parts)) == wanted


def test_a_part_that_is_not_there_is_an_error() -> None:
    with pytest.raises(SystemExit, match="no line matches"):
        list(terminal.shown(["a"], [("^b", "^c")]))


def test_readmes_picture_has_the_columns_of_this_release() -> None:
    """When the table changes, the picture is to be taken again; tests/tools/terminal.py says how."""
    page = (ROOT / "docs/reading-the-plan.md").read_text()
    columns = re.search(r"^HOST .*$", page, re.MULTILINE)
    assert columns
    drawn = rows(PICTURE.read_text())
    assert "$ ansible-playbook -i inventory gpufleet.nvidia.plan" in drawn
    # WHY stands below its line where the terminal is narrow.
    assert next(line for line in drawn if line.startswith("HOST ")).split() == [
        name for name in columns[0].split() if name != "WHY"
    ]
