# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rules of the house about files: their names, their size, their licence."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.unit.plugin_sources import (
    PLUGINS,
    find_breaches,
    list_sources,
    name_plugin_file,
    read_tree,
)


def test_all_that_is_not_promised_has_a_name_that_says_so() -> None:
    """The contract is modules, roles, playbooks, their options and results; a leading underscore
    says that the rest may change.
    """
    rooms = [
        path
        for side in ("plugin_utils", "module_utils")
        for path in PLUGINS.joinpath(side).iterdir()
    ]
    assert [path.name for path in rooms if not path.name.startswith("_")] == []


def test_a_file_fits_on_a_few_screens() -> None:
    """A file has one reason to exist; documentation of a module does not count as code."""
    sizes = {
        path: len(path.read_text().splitlines())
        for path in list_sources()
        if path.parent.name != "modules"
    }
    assert {name_plugin_file(path): lines for path, lines in sizes.items() if lines >= 630} == {}


def find_stubs(path: Path) -> list[int]:
    """Give the functions whose body stands in the line of their name.

    Releases of pycodestyle that ansible-test has on ansible-core 2.16 to 2.18 refuse them (E704).
    """
    lines = path.read_text().splitlines()
    return [
        node.lineno
        for node in ast.walk(read_tree(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and lines[node.body[0].lineno - 1][: node.body[0].col_offset].strip()
    ]


def test_a_function_has_lines_of_its_own() -> None:
    assert {
        name_plugin_file(path): lines for path in list_sources() if (lines := find_stubs(path))
    } == {}


def find_long_lines(path: Path) -> list[int]:
    """Give the lines over 100 columns that are neither an import, nor part of a string, nor end in a
    linter's note.
    """
    texts = {
        line
        for node in ast.walk(read_tree(path))
        if isinstance(node, ast.JoinedStr | ast.Constant)
        and isinstance(getattr(node, "value", ""), str | bytes)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    return [
        number
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if len(line) > 100
        and number not in texts
        and not re.match(r"from \S+ import|.*# (noqa|type: ignore)", line)
    ]


def test_a_line_fits_on_a_screen() -> None:
    """A sentence in a string may be longer, which ruff holds at 140."""
    assert find_breaches(list_sources(), find_long_lines) == {}


def test_every_file_says_its_licence() -> None:
    """The licence of each file stands in its first lines."""
    heads = {path: path.read_text().splitlines()[:6] for path in list_sources()}
    # REUSE-IgnoreStart
    assert [
        name_plugin_file(path)
        for path, head in heads.items()
        if head and "# SPDX-License-Identifier: GPL-3.0-or-later" not in head
    ] == []
    # REUSE-IgnoreEnd
