# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rules of the house about files: their names, their size, their licence."""

from __future__ import annotations

from tests.unit.plugin_sources import PLUGINS, list_sources, name_plugin_file


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
