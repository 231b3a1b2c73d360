# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whole tasks in a directory tree (gpufleet_root): what the table knows there, and that a refused
task leaves every file as it was.
"""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    get_code,
)

from tests.unit.bare_trees import Tree

ROW = "toolkit-1.18.0-wrong-directory"
DPKG = "Package: nvidia-container-toolkit-base\nStatus: install ok installed\nVersion: {}\n\n"
# The release in the tree's packages, the setting, and what becomes of the task.
CASES: list[tuple[str, dict[str, Any], str]] = [
    ("1.18.0-1", {}, "refused"),
    ("1.18.0-1", {"known_bad": "warn"}, "said"),
    ("1.18.0-1", {"known_bad": "ignore"}, "nothing"),
    ("1.18.1-1", {}, "nothing"),
    ("1.17.9-1", {}, "nothing"),
]


@pytest.fixture
def tree(tmp_path: pathlib.Path) -> Tree:
    made = Tree(tmp_path / "root")
    made.write("/etc/containerd/config.toml", "version = 2\n")
    made.write("/etc/os-release", "ID=debian\n")
    return made


def converge(tree: Tree, release: str, **options: Any) -> dict[str, Any]:
    tree.write("/var/lib/dpkg/status", DPKG.format(release))
    return tree.run_host(engines=("containerd",), engine_version="1.7.24", **options)


@pytest.mark.parametrize(("release", "options", "becomes"), CASES)
def test_a_tree_is_held_against_the_table(
    tree: Tree, release: str, options: dict[str, Any], becomes: str
) -> None:
    tree.write("/var/lib/dpkg/status", DPKG.format(release))
    before = tree.state()
    result = converge(tree, release, **options)
    said = [sentence for sentence in result["advice"] if get_code(sentence) == f"known-bad.{ROW}"]
    assert (result["failed"], ROW in str(result.get("msg")), bool(said)) == (
        becomes == "refused",
        becomes == "refused",
        becomes == "said",
    )
    assert (tree.state() == before) is (becomes == "refused")


def test_a_tree_that_is_as_desired_is_not_refused(tree: Tree) -> None:
    assert converge(tree, "1.20.1-1")["changed"]
    result = converge(tree, "1.18.0-1")
    assert (result["failed"], result["changed"]) == (False, False)
    assert [s for s in result["advice"] if get_code(s) == f"known-bad.{ROW}"]


def test_what_was_written_can_be_taken_back_whatever_the_table_says(tree: Tree) -> None:
    tree.write("/var/lib/dpkg/status", DPKG.format("1.18.0-1"))
    before = tree.state()
    assert converge(tree, "1.18.0-1", known_bad="warn")["changed"]
    back = converge(tree, "1.18.0-1", state="absent")
    assert (back["failed"], back["changed"]) == (False, True)
    assert tree.read("/etc/containerd/config.toml") == "version = 2\n"
    assert set(before) <= set(tree.state())


def test_a_toolkit_that_no_package_has_brought_is_said_to_be_not_known(tree: Tree) -> None:
    tree.write("/usr/bin/nvidia-container-runtime", "#!/bin/sh\n", 0o755)
    tree.write(
        "/usr/bin/nvidia-ctk",
        "#!/bin/sh\necho NVIDIA Container Toolkit CLI version 1.18.0\n",
        0o755,
    )
    tree.write("/var/lib/dpkg/status", "\n")
    result = tree.run_host(engines=("containerd",), engine_version="1.7.24")
    assert (result["failed"], result["changed"]) == (False, True)
    (said,) = [s for s in result["advice"] if get_code(s) == "known-bad.not-judged"]
    assert said.endswith("since the version of the NVIDIA Container Toolkit is not known")
