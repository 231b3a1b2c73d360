# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts that NVIDIA's own `nvidia-ctk runtime configure` has configured: its releases 1.17 and
1.20, and containerd 1.6 to 2.4 as judges.

After adoption the effective configuration is that of a host that nobody had touched before us. No
daemon runs.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.fixtures.containerd_releases import NEWEST, list_distinct
from tests.integration.containerd_trees import RELEASES, cri_of
from tests.integration.nvidia_ctk_trees import (
    CDI,
    DEFAULT,
    DROP_IN,
    TreeHost,
    ctk,
    effective,
    files,
    prepared,
    said,
    shapes,
)
from tests.night import leave_unless

# (containerd, shape, flags): every shape with the flags that most guides have, and every flag with
# the shape that most nodes have.
USUAL = [(release, shape, (DEFAULT, CDI)) for release in RELEASES for shape in shapes(release)]
FLAGS = [
    (), (DEFAULT,), ("--nvidia-runtime-name=gpu", DEFAULT), ("--nvidia-runtime-name=gpu",),
    ("--nvidia-runtime-path=/opt/nvidia-container-runtime", DEFAULT), ("--config-source=command", DEFAULT),
]  # fmt: skip
NODES = {
    "1.6": "secrets",
    "1.7": "secrets",
    "2.1": "kubeadm v3",
    "2.3": "kubeadm v2",
    "2.4": "kubeadm v3",
}
OTHER_FLAGS = pytest.mark.nightly(
    "the tool writes the same with every release; by day an old release and the newest have all flags and shapes, others one"
)
MATRIX = [*USUAL, *((release, shape, flags) for release, shape in NODES.items() for flags in FLAGS)]


def test_each_way_to_read_a_configuration_has_a_node() -> None:
    assert tuple(NODES) == list_distinct()


def is_by_day(case: tuple[str, str, tuple[str, ...]]) -> bool:
    """Tell whether a row is judged by day."""
    release, shape, _flags = case
    usual = case in USUAL and shape == NODES.get(release)
    return usual or case in PRINTED_DIRS or release in ("1.7", NEWEST)


# A file without `version` makes the tool write the whole document where nobody imports it: nothing
# in force, nothing to take over.
UNREAD = ("no version", "version 1", "version 1 that is migrated")
# containerd prints the one's bin_dir as bin_dirs from 2.1 on; 2.3 and newer print a copy that is
# newer than this file.
PRINTED_DIRS = [
    (release, "debian v2", ("--config-source=command", CDI))
    for release in ("1.7", *list_distinct("2.3"))
]


@pytest.mark.parametrize(
    ("release", "shape", "flags"),
    leave_unless(
        OTHER_FLAGS, [*(c for c in MATRIX if c[1] not in UNREAD), *PRINTED_DIRS], is_by_day
    ),
)
def test_a_drop_in_of_1_20_goes_and_all_is_as_on_a_host_that_it_never_was_on(
    tmp_path: Path, release: str, shape: str, flags: tuple[str, ...]
) -> None:
    tree, untouched = (
        prepared(tmp_path, release, shape),
        prepared(tmp_path, release, shape, "untouched"),
    )
    ctk(tree, "1.20", *flags)
    theirs = tree.config.parent / DROP_IN
    theirs.chmod(0o640)
    was = files(tree)
    tree_host, plain = TreeHost(tree), TreeHost(untouched)
    plan = tree_host.plan("present")
    assert [(left.tool, left.path, left.exact, left.fate) for left in plan.leftovers] == [
        ("nvidia-ctk", str(theirs), True, "adopted")
    ]
    assert not re.search("hunter2|u:p@", repr(plan))
    tree_host.apply(plan)
    plain.apply(plain.plan("present"))
    assert not theirs.exists()
    assert effective(tree, "gpu") == effective(untouched)
    assert ("gpu" in cri_of(effective(tree))["containerd"]["runtimes"]) == any(
        "=gpu" in flag for flag in flags
    )
    again = tree_host.plan("present")
    assert (again.differences, again.leftovers) == ((), ())
    tree_host.apply(tree_host.plan("absent"))
    assert files(tree) == was


@pytest.mark.parametrize(
    ("release", "shape"),
    [(release, shape) for release in RELEASES for shape in shapes(release) if shape in UNREAD],
)
def test_a_whole_document_that_nobody_imports_has_no_effect_and_stays(
    tmp_path: Path, release: str, shape: str
) -> None:
    tree = prepared(tmp_path, release, shape)
    ctk(tree, "1.20", DEFAULT)
    theirs = tree.config.parent / DROP_IN
    text = theirs.read_text()
    tree_host = TreeHost(tree)
    plan = tree_host.plan("present")
    assert [(left.path, left.fate) for left in plan.leftovers] == [(str(theirs), "kept")]
    assert "no effect" in plan.leftovers[0].why
    tree_host.apply(plan)
    assert theirs.read_text() == text
    assert tree_host.plan("present").empty


# The same, with a main file that 1.17 makes. The one that 2.3 and newer print imports
# /etc/containerd/conf.d, which is not below this test's tree.
PRINTED = [c for c in MATRIX if c[0] in list_distinct("2.3") and c[2] == FLAGS[-1]]


@pytest.mark.parametrize(
    ("release", "shape", "flags"),
    leave_unless(
        OTHER_FLAGS,
        [c for c in MATRIX if c[1] not in UNREAD and c not in PRINTED],
        is_by_day,
    ),
)
def test_edits_in_place_of_1_17_stay_and_the_handler_is_ours(
    tmp_path: Path, release: str, shape: str, flags: tuple[str, ...]
) -> None:
    tree, untouched = (
        prepared(tmp_path, release, shape),
        prepared(tmp_path, release, shape, "untouched"),
    )
    ctk(tree, "1.17", *flags)
    was = files(tree)
    tree_host, plain = TreeHost(tree), TreeHost(untouched)
    tree_host.apply(tree_host.plan("present"))
    plain.apply(plain.plan("present"))
    now, there = (cri_of(effective(it))["containerd"] for it in (tree, untouched))
    assert said(now["runtimes"]["nvidia"]) == said(there["runtimes"]["nvidia"])
    assert now["default_runtime_name"] == there["default_runtime_name"] == "nvidia"
    assert tree_host.plan("present").empty
    tree_host.apply(tree_host.plan("absent"))
    assert files(tree) == was


@pytest.mark.parametrize(("release", "shape"), [("2.1", "kubeadm v3"), ("2.4", "kubeadm v2")])
def test_a_drop_in_of_1_20_goes_beside_a_handler_that_1_17_edited_in_and_a_person_has_added_to(
    tmp_path: Path, release: str, shape: str
) -> None:
    tree, without = (
        prepared(tmp_path, release, shape),
        prepared(tmp_path, release, shape, "without"),
    )
    for each in (tree, without):
        ctk(each, "1.17", DEFAULT)
        header = re.compile(r"(?m)^( *\[plugins\.\S+\.containerd\.runtimes\.nvidia\]\n)")
        text, count = header.subn(
            r"\1base_runtime_spec = '/etc/containerd/cri-base.json'\n", each.config.read_text()
        )
        assert count == 1
        each.config.write_text(text)
    ctk(tree, "1.20", DEFAULT)
    was = files(tree)
    tree_host, plain = TreeHost(tree), TreeHost(without)
    plan = tree_host.plan("present")
    theirs = tree.config.parent / DROP_IN
    assert (str(theirs), "adopted") in [(left.path, left.fate) for left in plan.leftovers], (
        plan.leftovers
    )
    tree_host.apply(plan)
    plain.apply(plain.plan("present"))
    assert effective(tree) == effective(without)
    assert (
        cri_of(effective(tree))["containerd"]["runtimes"]["nvidia"]["base_runtime_spec"]
        == "/etc/containerd/cri-base.json"
    )
    assert tree_host.plan("present").empty
    tree_host.apply(tree_host.plan("absent"))
    assert files(tree) == was
