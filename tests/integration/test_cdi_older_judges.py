# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Our specs for hosts with older releases of the toolkit, beside those of that release's nvidia-ctk
on the same tree: containers get all that it gives, and what they get besides later releases give.

docs/cdi.md has the differences of all releases. Hooks are the one part of a spec that runs the
toolkit's own program, so each must be one that its release knows.
"""

from __future__ import annotations

import dataclasses as dc
import itertools
import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.generate import (
    hooks,
)

from tests import night
from tests.gpu import spec_facts
from tests.integration import recorded_trees
from tests.lab import artefacts, recorded, trees
from tests.tools import oracle

pytestmark = [
    pytest.mark.lab,
    pytest.mark.skipif(
        not shutil.which("go"), reason="nvidia-ctk is built with Go, which is not here"
    ),
]

BY_NIGHT = pytest.mark.nightly(
    "releases differ alike on all trees; by day each has one of each kind of comparison"
)
NEWER, OLDER = "1.19.1", "1.17.8"
MODES = {"nvml": oracle.layouts.WORKLOADS, "management": oracle.layouts.MANAGEMENT}
# What a release gives and ours does not. CHANGELOG.md of 1.18.0: `Disable chmod hook by default`. It
# was for low-level runtimes that made the folder of the nodes without permissions.
LOST: dict[tuple[str, str], set[str]] = {(OLDER, "management"): {"hook chmod"}}
# What ours has besides, since later releases have it: CHANGELOG.md of 1.20.0 and pkg/nvcdi/wrapper.go
# of 1.20.2; CHANGELOG.md of 1.18.0 and 1.19.0.
OF_1_20 = {
    "hook enable-cuda-compat",  # of the management spec; that of workloads has had it before
    "mount libnvidia-egl-xcb",
    "mount libnvidia-egl-xlib",
    "mount libnvidia-nvvm70",
    "mount nvidia-xconfig",
    "mount nvidia.icd",
    "mount void",
}
OF_1_19 = {
    "env NVIDIA_CTK_LIBCUDA_DIR",
    "link",
    "mount libnvidia-egl-wayland2",
    "mount nvidia_icd.x86_64.json",
}
# A GPU in MIG mode was a device of its own, although a container can use its MIG devices alone.
NAMES_MIG_PARENTS = {OLDER}
MORE = {NEWER: OF_1_20, OLDER: OF_1_20 | OF_1_19}


def keep_grants(facts: Iterable[spec_facts.Fact]) -> frozenset[spec_facts.Fact]:
    """Return facts without the numbers of nodes, the order of hooks and the options of mounts, which
    releases before 1.19 and 1.18 write in other ways and which give a container nothing.
    """
    return frozenset(
        dc.replace(fact, value=fact.value[:2]) if fact.kind == "mount" else fact
        for fact in facts
        if fact.kind not in ("node number", "hook order")
    )


def name_fact(fact: spec_facts.Fact) -> str:
    """Return a fact in the words of the tables here."""
    what = {
        "mount": lambda: f"mount {Path(fact.value[1]).name.partition('.so')[0]}",
        "hook": lambda: f"hook {fact.value[3]}",
        "env": lambda: f"env {fact.value[0].partition('=')[0]}",
        "link": lambda: "link",
    }
    return what.get(fact.kind, lambda: f"{fact.kind} {fact.value[0]}")()


def find_apart(
    theirs: frozenset[spec_facts.Fact], ours: frozenset[spec_facts.Fact]
) -> tuple[set[str], set[str]]:
    """Return what only theirs gives, and what only ours does."""
    lots = keep_grants(theirs), keep_grants(ours)
    lost, more = lots[0] - lots[1], lots[1] - lots[0]
    return set(map(name_fact, lost)), set(map(name_fact, more))


TREES = [
    (release, mode, layout)
    for layout in sorted(trees.LAYOUTS, key=lambda layout: layout.name != "rhel-580")
    for release, mode in itertools.product(MORE, MODES)
]


@pytest.mark.parametrize(
    ("release", "mode", "layout"),
    night.leave_rest(BY_NIGHT, TREES, len(MORE) * len(MODES)),
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_each_layout(release: str, mode: str, layout: trees.Layout, tmp_path: Path) -> None:
    trees.build(tmp_path, layout)
    of = oracle.RELEASES[release]
    theirs = spec_facts.list_facts(oracle.theirs(tmp_path, mode, release=of), tmp_path)
    ours = spec_facts.list_facts(oracle.ours(tmp_path, layout=MODES[mode], release=of), tmp_path)
    if mode == "management":
        theirs, ours = (
            spec_facts.select_device_facts(theirs, "all"),
            spec_facts.select_device_facts(ours, "all"),
        )
    lost, more = find_apart(theirs, ours)
    assert lost == LOST.get((release, mode), set())
    assert more - MORE[release] == set()


NODES = recorded.nodes()
MATRIX = [
    (release, name, strategies, profile)
    for strategies, profile in itertools.product(recorded_trees.STRATEGIES, recorded_trees.PROFILES)
    for name in sorted(NODES, key=lambda name: name != "h100-mig-enabled")
    for release in MORE
]


@pytest.mark.parametrize(
    ("release", "name", "strategies", "profile"),
    night.leave_rest(BY_NIGHT, MATRIX, len(MORE)),
)
def test_each_recorded_node(
    release: str,
    name: str,
    strategies: tuple[str, ...],
    profile: oracle.profiles.Profile,
    tmp_path: Path,
) -> None:
    root = recorded_trees.build(tmp_path, NODES[name].inventory)
    of = oracle.RELEASES[release]
    told = recorded_trees.ask(root, strategies, of)
    ours = spec_facts.list_facts(
        oracle.ours(root, profile, release=of, cdi_device_names=strategies), root
    )
    beside = list_names(told) - list_names(ours)
    with_mig = sum(gpu.mig == "on" for gpu in NODES[name].inventory.gpus)
    assert len(beside) == (with_mig * len(strategies) if release in NAMES_MIG_PARENTS else 0)
    theirs = frozenset(fact for fact in told if fact.device not in beside)
    assert list_nodes(theirs) == list_nodes(ours)
    if profile == "full":
        lost, more = find_apart(theirs, ours)
        assert (lost, more - MORE[release]) == (set(), set())


def list_names(facts: Iterable[spec_facts.Fact]) -> set[str]:
    return {fact.device for fact in facts if fact.device}


def list_nodes(facts: Iterable[spec_facts.Fact]) -> set[spec_facts.Fact]:
    return {fact for fact in facts if fact.kind in ("node", "group")}


@pytest.mark.parametrize("release", oracle.RELEASES)
def test_each_hook_is_one_that_the_release_knows(release: str) -> None:
    """`nvidia-ctk hook` has the commands of nvidia-cdi-hook."""
    of = oracle.RELEASES[release]
    told = subprocess.run(
        [artefacts.go_tool(of.tool) / "nvidia-ctk", "hook", "--help"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    known = set(re.findall(r"(?m)^ +([a-z-]+)(?:,| {2,})", told))
    assert {name for name in hooks.SINCE if of.hooks.has_command(name)} == known & set(hooks.SINCE)
