# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The host side applies the plans for containerd, and gives the files back byte for byte, also
after another release has come.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError

from tests.integration.containerd_trees import CASES, TreeHost, binary, cri_of, dump, prepared
from tests.night import leave_unless


@pytest.mark.parametrize(("release", "shape"), CASES)
def test_the_executor_applies_it_after_the_engine_has_agreed_and_gives_the_bytes_back(
    tmp_path: Path, release: str, shape: str
) -> None:
    tree = prepared(tmp_path, release, shape)
    was = tree.files()
    tree_host = TreeHost(tree)
    plan = tree_host.plan("present")
    assert plan.validate
    assert tree_host.apply(plan, check=True)["changed"]
    assert tree.files_without_journal() == was
    assert tree_host.apply(plan)["validation"]
    assert cri_of(dump(release, tree.config))["containerd"]["runtimes"]["nvidia"]
    assert tree_host.plan("present").empty
    tree_host.apply(tree_host.plan("absent"))
    assert tree.files_without_journal() == was
    assert tree_host.plan("absent").empty


# What a distribution's upgrade does to a host that we have been on, and what its downgrade does.
MOVES = [
    ("1.6", "1.7"),
    ("1.6", "2.1"),
    ("1.7", "2.1"),
    ("1.7", "2.4"),
    ("2.1", "2.2"),
    ("2.1", "2.3"),
    ("2.3", "2.4"),
    ("1.7", "1.6"),
    ("2.4", "2.1"),
]

BY_NIGHT = pytest.mark.nightly(
    "by day a change of the file's version, one within it and a way back; the others differ by tables"
)
BY_DAY = {("1.7", "2.1"), ("2.1", "2.3"), ("2.4", "2.1")}


@pytest.mark.parametrize("shape", ["no file", "debian v2", "kubeadm v2", "dotted v2"])
@pytest.mark.parametrize(("old", "new"), leave_unless(BY_NIGHT, MOVES, BY_DAY.__contains__))
def test_after_another_release_has_come_the_next_run_makes_it_right_and_absent_gives_the_bytes_back(
    tmp_path: Path, old: str, new: str, shape: str
) -> None:
    tree = prepared(tmp_path, old, shape)
    binary(new)
    was = tree.files()
    tree_host = TreeHost(tree)
    tree_host.apply(tree_host.plan("present"))
    tree.release = new
    plan = tree_host.plan("present")
    if not plan.empty:
        tree_host.apply(plan)
    containers = cri_of(dump(new, tree.config))["containerd"]
    assert (
        containers["runtimes"]["nvidia"]["options"]["BinaryName"]
        == "/usr/bin/nvidia-container-runtime"
    )
    assert containers["default_runtime_name"] == "nvidia"
    assert tree_host.plan("present").empty
    tree_host.apply(tree_host.plan("absent"))
    assert tree.files_without_journal() == was


def test_our_drop_in_of_2_x_beneath_1_x_is_named_and_taken_out(tmp_path: Path) -> None:
    """1.x reads a drop-in's CRI table instead of the root file's, so after a downgrade ours hides
    everything else.
    """
    tree = prepared(tmp_path, "2.1", "kubeadm v2")
    was = tree.files()
    tree_host = TreeHost(tree)
    tree_host.apply(tree_host.plan("present"))
    binary("1.7")
    tree.release = "1.7"
    with pytest.raises(PlanError, match=r"\[containerd\.own-drop-in-hides-root\]"):
        tree_host.plan("present")
    tree_host.apply(tree_host.plan("absent"))
    assert tree.files_without_journal() == was
    tree_host.apply(tree_host.plan("present"))
    containers = cri_of(dump("1.7", tree.config))["containerd"]
    assert containers["runtimes"]["runc"]["options"]["SystemdCgroup"] is True
    assert containers["runtimes"]["nvidia"]["options"]["SystemdCgroup"] is True
