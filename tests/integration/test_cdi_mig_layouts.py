# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every MIG layout of mig-parted's default configuration on the boards that NVIDIA imitates itself,
and every profile of RTX PRO: names, capabilities, and the whole spec beside that of nvidia-ctk.
"""

from __future__ import annotations

import dataclasses as dc
import itertools
import re
import shutil
from pathlib import Path

import pytest

from tests import night
from tests.gpu import spec_facts
from tests.lab import mig_layouts, trees
from tests.lab.fakegpu import device_nodes, inventories
from tests.tools import oracle

pytestmark = [
    pytest.mark.lab,
    pytest.mark.skipif(
        not shutil.which("go"), reason="NVIDIA's boards and tools are built with Go, which is not here"
    ),
]  # fmt: skip

BY_NIGHT = pytest.mark.nightly(
    "layouts differ by numbers alone; by day each board has its mixed one"
)
LAYOUT = next(layout for layout in trees.LAYOUTS if layout.name == "rhel-580")
NAMES = ("index", "uuid")
BY_GUIDE = ("rtx-pro-5000", "rtx-pro-4500")
CASES = sorted(
    (
        (board, layout, numbering)
        for (board, layout), numbering in itertools.product(
            mig_layouts.cases(), mig_layouts.NUMBERINGS
        )
    ),
    key=lambda case: case[1] not in mig_layouts.BY_DAY or case[2] != mig_layouts.NUMBERINGS[0],
)
BOARDS = len({board for board, _layout, _numbering in CASES})


def build(root: Path, inv: inventories.Inventory) -> Path:
    drawing = tuple(dc.replace(gpu, drm=True) for gpu in inv.gpus)
    whole = dc.replace(inv, gpus=drawing)
    trees.build_for(root, whole, dc.replace(LAYOUT, version=inv.version, compat32=""))
    return root


def expected(inv: inventories.Inventory) -> dict[str, set[str]]:
    """Each name and its device nodes, by the inventory alone."""
    found: dict[str, set[str]] = {}
    for index, gpu in enumerate(inv.gpus):
        for number, (gi, ci, uuid) in enumerate(gpu.migs):
            minors = (
                device_nodes.mig_minor(gpu.minor, gi, None),
                device_nodes.mig_minor(gpu.minor, gi, ci),
            )
            nodes = {f"/dev/nvidia{gpu.minor}"}
            nodes |= {f"/dev/nvidia-caps/nvidia-cap{minor}" for minor in minors}
            if gpu.profiles[gi].name.endswith("+gfx"):
                drawing = dc.replace(gpu, drm=True)
                nodes |= {path for path, _major, _minor in device_nodes.drm_nodes(drawing)}
            found[f"{index}:{number}"] = found[uuid] = nodes
    return found


@pytest.mark.parametrize(
    ("board", "layout", "numbering"), night.leave_rest(BY_NIGHT, CASES, BOARDS)
)
def test_each_layout(
    board: str, layout: str, numbering: mig_layouts.Numbering, tmp_path: Path
) -> None:
    inv = mig_layouts.inventory(board, layout, numbering)
    root = build(tmp_path, inv)
    spec = oracle.ours(root, cdi_device_names=NAMES)
    wanted = expected(inv)
    assert {d.name: {n.path for n in d.edits.device_nodes} for d in spec.devices} == {
        **wanted,
        "all": set().union(*wanted.values()),
    }
    flags = [word for name in NAMES for word in ("--device-name-strategy", name)]
    theirs = spec_facts.place_links_by_bus(
        spec_facts.list_facts(oracle.theirs(root, "nvml", *flags), root), root
    )
    found = spec_facts.compare_facts(theirs, spec_facts.list_facts(spec, root))
    assert found.pop("", []) == []
    assert set(found) == {spec_facts.NODE_NUMBERS}


@pytest.mark.parametrize(
    ("board", "layout", "numbering"), night.leave_rest(BY_NIGHT, CASES, BOARDS)
)
def test_names_by_model_tell_the_profile(
    board: str, layout: str, numbering: mig_layouts.Numbering, tmp_path: Path
) -> None:
    inv = mig_layouts.inventory(board, layout, numbering)
    made = oracle.ours(build(tmp_path, inv), layout="model")
    told = {re.sub(r".*-mig-(.+)-(\d+:\d+)$", r"\2 \1", d.name) for d in made.devices}
    assert told == {
        f"{index}:{number} {gpu.profiles[gi].name.replace('+', '.')}"
        for index, gpu in enumerate(inv.gpus)
        for number, (gi, _ci, _uuid) in enumerate(gpu.migs)
    }


UPPER, LOWER = mig_layouts.NUMBERINGS
# What nodes were seen to have: board, place, instance. By `nvidia-smi mig -lgi` on A100, and by the
# capabilities 102 and 103 that the DRA driver gave for a MIG device of an H200 at place 0.
OBSERVED: list[tuple[str, mig_layouts.Place, mig_layouts.Numbering, int]] = [
    ("a100-40gb", (4, 1), UPPER, 7),
    ("a100-40gb", (6, 1), UPPER, 9),
    ("a100-40gb", (0, 1), UPPER, 11),
    ("a100-40gb", (3, 1), UPPER, 14),
    ("a100-40gb", (6, 1), LOWER, 13),
    ("a100-40gb", (0, 4), LOWER, 1),
    ("h200", (0, 1), UPPER, 11),
]


@pytest.mark.parametrize(("board", "place", "numbering", "instance"), OBSERVED)
def test_instances_are_numbered_as_drivers_were_seen_to_do(
    board: str, place: mig_layouts.Place, numbering: mig_layouts.Numbering, instance: int
) -> None:
    assert mig_layouts.number_instance(mig_layouts.board(board), place, numbering) == instance


def test_capabilities_are_numbered_as_a_node_was_seen_to_do() -> None:
    assert (device_nodes.mig_minor(0, 11, None), device_nodes.mig_minor(0, 11, 0)) == (102, 103)


@pytest.mark.parametrize("board", [*BY_GUIDE, "rtx-pro-6000"])
def test_each_profile_of_rtx_pro_is_in_a_layout(board: str) -> None:
    """RTX PRO 6000 has mig-parted's layouts, which leave out one profile of the guide."""
    given = mig_layouts.read()["boards"][board]
    used = {profile for layout in given["layouts"].values() for profile in layout}
    left_out = {"1g.24gb+me"} if board == "rtx-pro-6000" else set()
    assert set(given["profiles"]) - used == left_out


def test_no_layout_is_left_out() -> None:
    """A layout has a board here, or it stands in the list of those without one."""
    known = mig_layouts.read()
    described = {layout for board, layout in mig_layouts.cases() if board not in BY_GUIDE}
    assert not described & set(known["undescribed"])
    assert len(described | set(known["undescribed"])) + len(("all-disabled", "all-enabled")) == 81


@pytest.mark.parametrize("board", sorted({board for board, _layout in mig_layouts.cases()}))
def test_a_board_has_the_profiles_that_its_imitation_has(board: str) -> None:
    """The table of names is whole: a profile of the imitation without a name would be missed."""
    mocks = mig_layouts.ask_mocks()
    numbers = {profile.number for profile in mig_layouts.board(board).profiles.values()}
    if board in mocks:
        assert numbers == {profile["number"] for profile in mocks[board]["profiles"]}
    else:
        assert board in ("rtx-pro-6000", *BY_GUIDE)
