# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The GPUs of nodes that others recorded: our spec and that of nvidia-ctk 1.20.2 on the same tree,
equal but for what docs/cdi.md lists.

A harmed tree shows that the comparison sees what it is there for.
"""

from __future__ import annotations

import dataclasses as dc
import itertools
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import night
from tests.gpu import spec_facts
from tests.integration.recorded_trees import PROFILES, STRATEGIES, ask, build
from tests.lab import recorded
from tests.lab.fakegpu import device_nodes, packaged
from tests.lab.fakegpu.inventories import Inventory
from tests.tools import oracle

pytestmark = [
    pytest.mark.lab,
    pytest.mark.skipif(
        not shutil.which("go"), reason="nvidia-ctk is built with Go, which is not here"
    ),
]

BY_NIGHT = pytest.mark.nightly(
    "profiles and names differ alike on all nodes; by day each node has one of each"
)
NODES = recorded.nodes()
# The nodes that differ most: one with MIG, and one with domains and minors that no other node has.
FEW = ("h100-mig-enabled", "vrnvl72")
EVERYWHERE = {spec_facts.NODE_NUMBERS}
OF_WHOLE_GPUS = {*EVERYWHERE, spec_facts.MEMORY_LIMITS}
# What the other profiles have of nvidia-ctk's spec: device nodes, and no files by the same names.
OF_NODES = ("node", "node number", "group")


def is_whole(name: str) -> bool:
    """Tell whether containers get whole GPUs of a node."""
    return all(gpu.mig != "on" for gpu in NODES[name].inventory.gpus)


def drawing(inv: Inventory) -> Inventory:
    """The same GPUs, with the nodes that drawing programs use."""
    return dc.replace(inv, gpus=tuple(dc.replace(gpu, drm=True) for gpu in inv.gpus))


def compared(
    theirs: frozenset[spec_facts.Fact],
    ours: frozenset[spec_facts.Fact],
    kinds: tuple[str, ...] = (),
) -> set[str]:
    """The topics of what differs; what no topic explains is shown."""
    told = [
        frozenset(fact for fact in facts if not kinds or fact.kind in kinds)
        for facts in (theirs, ours)
    ]
    found = spec_facts.compare_facts(*told)
    assert found.pop("", []) == []
    return set(found)


MATRIX = [
    (name, strategies, profile)
    for strategies, profile in itertools.product(STRATEGIES, PROFILES)
    for name in NODES
]


@pytest.mark.parametrize(
    ("name", "strategies", "profile"), night.leave_rest(BY_NIGHT, MATRIX, len(NODES))
)
def test_each_node(
    name: str, strategies: tuple[str, ...], profile: oracle.profiles.Profile, tmp_path: Path
) -> None:
    root = build(tmp_path, NODES[name].inventory)
    theirs = ask(root, strategies)
    ours = spec_facts.list_facts(oracle.ours(root, profile, cdi_device_names=strategies), root)
    if profile == "full":
        assert compared(theirs, ours) == (OF_WHOLE_GPUS if is_whole(name) else EVERYWHERE)
    else:
        assert compared(theirs, ours, OF_NODES) == EVERYWHERE


SOME_FIRST = [(name,) for name in sorted(NODES, key=lambda name: name not in FEW)]


@pytest.mark.parametrize(("name",), night.leave_rest(BY_NIGHT, SOME_FIRST, len(FEW)))
def test_each_node_that_draws(name: str, tmp_path: Path) -> None:
    root = build(tmp_path, drawing(NODES[name].inventory))
    ours = spec_facts.list_facts(oracle.ours(root), root)
    theirs = ask(root, ("index", "uuid"))
    differ = {*OF_WHOLE_GPUS, spec_facts.LINKS_BY_BUS} if is_whole(name) else EVERYWHERE
    assert compared(theirs, ours) == differ
    placed = spec_facts.place_links_by_bus(theirs, root)
    assert spec_facts.LINKS_BY_BUS not in compared(placed, ours)


@pytest.mark.parametrize(("name",), night.leave_rest(BY_NIGHT, SOME_FIRST, len(FEW)))
def test_each_node_for_management(name: str, tmp_path: Path) -> None:
    root = build(tmp_path, NODES[name].inventory)
    theirs = spec_facts.list_facts(oracle.theirs(root, "management"), root)
    ours = spec_facts.list_facts(oracle.ours(root, layout="management"), root)
    assert compared(
        spec_facts.select_device_facts(theirs, "all"), spec_facts.select_device_facts(ours, "all")
    ) == {spec_facts.NODE_NUMBERS}


# ---------------------------------------------------------------- the judge judged


def with_gpu(inv: Inventory, at: int, **more: object) -> Inventory:
    boards = [dc.replace(gpu, **more) if n == at else gpu for n, gpu in enumerate(inv.gpus)]  # type: ignore[arg-type]
    return dc.replace(inv, gpus=tuple(boards))


def other_domain(inv: Inventory) -> Inventory:
    """The last GPU in a domain that is as far behind the others."""
    return with_gpu(inv, -1 % len(inv.gpus), bus=f"0100:{inv.gpus[-1].bus.partition(':')[2]}")


def other_minors(inv: Inventory) -> Inventory:
    """The driver counts the first and the last GPU the other way round."""
    first, last = inv.gpus[0].minor, inv.gpus[-1].minor
    return with_gpu(with_gpu(inv, 0, minor=last), len(inv.gpus) - 1, minor=first)


def other_order(inv: Inventory) -> Inventory:
    """The first and the last GPU in each other's slot."""
    first, last = inv.gpus[0], inv.gpus[-1]
    moved = [dc.replace(last, bus=first.bus), *inv.gpus[1:-1], dc.replace(first, bus=last.bus)]
    return dc.replace(inv, gpus=tuple(moved))


def one_less(inv: Inventory) -> Inventory:
    return dc.replace(inv, gpus=inv.gpus[:-1])


HARMS: dict[str, Callable[[Inventory], Inventory]] = {
    "domain": other_domain,
    "minor": other_minors,
    "order": other_order,
    "one less": one_less,
}
SEVERAL = [name for name, node in NODES.items() if len(node.inventory.gpus) > 1]
# The domain is seen in the links by bus, which no container with a MIG device gets.
HARMED = [
    *((harm, "vrnvl72") for harm in HARMS),
    *(
        (harm, name)
        for harm, name in itertools.product(HARMS, SEVERAL)
        if name != "vrnvl72" and (is_whole(name) or harm != "domain")
    ),
]


@pytest.mark.parametrize(("harm", "name"), night.leave_rest(BY_NIGHT, HARMED, len(HARMS)))
def test_the_judge_notices_gpus_that_are_not_as_they_are(
    harm: str, name: str, tmp_path: Path
) -> None:
    inv = drawing(NODES[name].inventory)
    whole, harmed = build(tmp_path / "whole", inv), build(tmp_path / "harmed", HARMS[harm](inv))
    theirs = ask(whole, ("index", "uuid"))
    ours = spec_facts.list_facts(oracle.ours(harmed), harmed)
    found = spec_facts.compare_facts(spec_facts.place_links_by_bus(theirs, whole), ours)
    assert found.get("") or found.get(spec_facts.LINKS_BY_BUS)


ACCESS = (
    ("gi1/access", device_nodes.mig_minor(0, 2, None)),
    ("gi1/ci0/access", device_nodes.mig_minor(0, 2, 0)),
    ("gi6/ci0/access", device_nodes.mig_minor(1, 6, 0)),
)


@pytest.mark.parametrize(("capability", "minor"), ACCESS)
def test_the_judge_notices_a_capability_with_another_minor(
    capability: str, minor: int, tmp_path: Path
) -> None:
    root = build(tmp_path, NODES["h100-mig-enabled"].inventory)
    theirs = ask(root, ("index", "uuid"))
    assert compared(theirs, spec_facts.list_facts(oracle.ours(root), root)) == EVERYWHERE
    file = root / packaged.TOP / "proc/driver/nvidia/capabilities/gpu0/mig" / capability
    file.write_text(f"DeviceFileMinor: {minor}\nDeviceFileMode: 292\nDeviceFileModify: 1\n")
    assert spec_facts.compare_facts(theirs, spec_facts.list_facts(oracle.ours(root), root)).get("")
