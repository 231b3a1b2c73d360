# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Our `full` profile and the spec of nvidia-ctk 1.20.2 on the same tree: equal but for what
docs/cdi.md lists.
"""

from __future__ import annotations

import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.adoption import (
    cdi_files,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi import deviations
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.spec.model import (
    KIND,
    VOID_MOUNT,
)

from tests.gpu import spec_facts
from tests.lab import trees, userland
from tests.lab.trees import Layout
from tests.tools import oracle

pytestmark = [
    pytest.mark.lab,
    pytest.mark.skipif(
        not shutil.which("go"), reason="nvidia-ctk is built with Go, which is not here"
    ),
]

# Both differ on every host: theirs records every number of a node, and adds a hook that reads
# limits few containers have.
ALWAYS = {spec_facts.NODE_NUMBERS, spec_facts.MEMORY_LIMITS}


@pytest.fixture(params=trees.LAYOUTS, ids=[layout.name for layout in trees.LAYOUTS])
def tree(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    trees.build(tmp_path, request.param)
    return tmp_path


@pytest.fixture(scope="module", params=["bookworm", "trixie"])
def debian(request: pytest.FixtureRequest) -> Iterator[Path]:
    with userland.tree(request.param) as root:
        yield root


def compared(theirs: frozenset[spec_facts.Fact], ours: frozenset[spec_facts.Fact]) -> set[str]:
    """The topics of what differs; what no topic explains is shown."""
    found = spec_facts.compare_facts(theirs, ours)
    assert found.pop("", []) == []
    return set(found)


def test_layouts_of_documented_lists(tree: Path) -> None:
    assert (
        compared(
            spec_facts.list_facts(oracle.theirs(tree), tree),
            spec_facts.list_facts(oracle.ours(tree), tree),
        )
        == ALWAYS
    )


def test_nothing_that_the_tool_generates_is_taken_for_a_persons_work(tree: Path) -> None:
    for mode in ("nvml", "management"):
        assert cdi_files.list_unexplained_spec_parts(oracle.theirs(tree, mode)) == ()


def test_layouts_for_management(tree: Path) -> None:
    """Theirs has the one device `all`."""
    theirs, ours = (
        spec_facts.list_facts(oracle.theirs(tree, "management"), tree),
        spec_facts.list_facts(oracle.ours(tree, layout="management"), tree),
    )
    assert compared(
        spec_facts.select_device_facts(theirs, "all"), spec_facts.select_device_facts(ours, "all")
    ) == {spec_facts.NODE_NUMBERS}
    assert {fact.device for fact in theirs} == {"", "all"}
    assert {"0", "1", "all"} < {fact.device for fact in ours}


def test_real_drivers_as_a_host_has_them(debian: Path) -> None:
    made = oracle.chrooted(debian)
    assert (made.kind, cdi_files.list_unexplained_spec_parts(made)) == (KIND, ())
    assert (
        compared(
            spec_facts.list_facts(oracle.chrooted(debian), debian),
            spec_facts.list_facts(oracle.ours(debian), debian),
        )
        == ALWAYS
    )


def test_real_drivers_in_a_tree_of_their_own(debian: Path) -> None:
    """Debian's alternatives are absolute links. Theirs are followed on the host, where they lead
    nowhere; ours inside the tree.
    """
    theirs, ours = (
        spec_facts.list_facts(oracle.theirs(debian), debian),
        spec_facts.list_facts(oracle.ours(debian), debian),
    )
    assert compared(theirs, ours) == {*ALWAYS, spec_facts.ABSOLUTE_LINKS}
    missed = {fact.value[1] for fact in ours - theirs}
    assert "/usr/bin/nvidia-smi" in missed
    for mount in (m for m in oracle.ours(debian).edits.mounts if m != VOID_MOUNT):
        assert Path(mount.host_path).is_file(), mount
        assert not Path(mount.host_path).is_symlink() or Path(
            mount.host_path
        ).resolve().is_relative_to(debian), mount


def test_real_drivers_hold_what_hookless_mounts(debian: Path) -> None:
    spec = oracle.ours(debian, "hookless")
    assert not spec.edits.hooks
    names = {m.container_path for m in spec.edits.mounts}
    assert len(names) == len(spec.edits.mounts)
    for folder in ("/usr/lib/x86_64-linux-gnu", "/usr/lib64"):
        assert {
            f"{folder}/libcuda.so.1",
            f"{folder}/libcuda.so",
            f"{folder}/libnvidia-ml.so.1",
            f"{folder}/libnvidia-nvvm.so.4",
        } <= names


MIXED: trees.Gpus = [{"mig": "on", "migs": 2}, {"mig": "off"}, {"mig": "on", "migs": 7, "minor": 3}]


def test_mig_devices_beside_a_whole_gpu(tmp_path: Path) -> None:
    trees.build(tmp_path, trees.LAYOUTS[-4], MIXED)
    theirs, ours = (
        spec_facts.list_facts(oracle.theirs(tmp_path), tmp_path),
        spec_facts.list_facts(oracle.ours(tmp_path), tmp_path),
    )
    assert {"0:0", "0:1", "1", "2:6"} <= {fact.device for fact in ours}
    assert compared(theirs, ours) == ALWAYS


def test_sockets_of_daemons(tmp_path: Path) -> None:
    trees.build(tmp_path, Layout("sockets", "550.163.01"))
    place = tmp_path / "run/nvidia-persistenced"
    place.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place / "socket"))
        theirs = spec_facts.list_facts(oracle.theirs(tmp_path), tmp_path)
        assert compared(theirs, spec_facts.list_facts(oracle.ours(tmp_path), tmp_path)) == {
            *ALWAYS,
            spec_facts.SOCKETS,
        }
        assert (
            compared(
                theirs, spec_facts.list_facts(oracle.ours(tmp_path, cdi_sockets=True), tmp_path)
            )
            == ALWAYS
        )


def test_every_topic_is_on_the_page() -> None:
    assert {d.topic for d in deviations.DEVIATIONS} >= {
        *ALWAYS,
        spec_facts.SOCKETS,
        spec_facts.ABSOLUTE_LINKS,
        spec_facts.LINKS_BY_BUS,
    }
