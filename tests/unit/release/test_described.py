# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a release says of itself: the announcement, the tag, its needs and README's commands."""

from __future__ import annotations

import ast
import sys

import pytest
import yaml

from tests.unit import tool_modules

with tool_modules.reachable():
    import release_needs
    import release_trial
    import release_words

from .conftest import GALAXY, ROOT


def test_the_sbom_has_a_row_for_each_library_that_plugins_import() -> None:
    """Modules of the standard library need no row, and some of them only newer Pythons have."""
    named = {module for need in release_needs.NEEDS for module in need.modules}
    found = set()
    for path in (ROOT / "plugins").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                found.update(name.name.partition(".")[0] for name in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module.partition(".")[0])
    # _sha256 belongs to the standard library of Python 3.6 to 3.11
    assert found - {*sys.stdlib_module_names, "_sha256"} - named == set()
    rows = {need["name"]: need["versions"] for need in release_needs.list_needs()}
    assert (
        rows["ansible-core"]
        == yaml.safe_load((ROOT / "meta/runtime.yml").read_text())["requires_ansible"]
    )


def test_readme_begins_with_the_commands_of_a_new_user() -> None:
    commands = release_trial.list_commands((ROOT / "README.md").read_text())
    assert commands[0] == release_trial.INSTALL
    assert len(commands) >= 3
    assert all(" gpufleet.nvidia." in command for command in commands[1:])


DESCRIBED = {
    **GALAXY,
    "archive": "gpufleet-nvidia-0.1.0-rc.1.tar.gz",
    "sha256": "ab" * 32,
}
NOTED = {
    "changes": {"release_summary": "It is\nthere.", "breaking_changes": ["host - ``cdi`` goes."]}
}


@pytest.mark.parametrize(
    ("version", "candidate", "wanted"),
    [
        ("0.1.0-rc.1", True, "ansible-galaxy collection install gpufleet.nvidia:==0.1.0-rc.1"),
        ("0.1.0", False, "ansible-galaxy collection install gpufleet.nvidia"),
    ],
)
def test_the_announcement_says_how_to_install_what_breaks_and_where_to_ask(
    version: str, candidate: bool, wanted: str
) -> None:
    lines = release_words.build_announcement({**DESCRIBED, "version": version}, NOTED).splitlines()
    assert lines[0] == f"# gpufleet.nvidia {version}"
    assert wanted in lines
    assert "- host - `cdi` goes." in lines
    assert any("forum.ansible.com" in line for line in lines)
    assert any("release candidate" in line for line in lines) is candidate


def test_the_text_of_the_tag_names_the_archive_and_its_digest() -> None:
    text = release_words.build_tag_text({**DESCRIBED, "version": "0.1.0-rc.1"}, NOTED)
    assert text.startswith("gpufleet.nvidia 0.1.0-rc.1\n\nIt is there.\n\n")
    assert DESCRIBED["archive"] in text
    assert "ab" * 32 in text
