# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes that others recorded, and each state that a GPU can be in: a GPU is in the spec with all
that it needs, or it is absent and the result says why.
"""

from __future__ import annotations

import dataclasses as dc
import itertools
import re
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Plan
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.engine_view import (
    reader,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.spec.model import (
    Spec,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.draws import count_examples
from tests.lab import recorded
from tests.lab.fakegpu import device_nodes, inventories
from tests.unit import recorded_hosts
from tests.unit.coded import Coded, read_all_coded
from tests.unit.gpus import cap_minor

pytestmark = recorded_hosts.NEEDS_COMPILER

NODES = recorded.nodes()
CONTROL = {"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset"}
PROFILES = ("full", "hookless", "devices")
STRATEGIES = (("index",), ("uuid",), ("type-index",), ("index", "uuid", "type-index"))
GONE = "absent"


def spec_of(found: Plan | PlanError) -> Spec:
    assert isinstance(found, Plan), found
    (text,) = (c["content"] for c in found.changes if c["op"] == "write")
    return reader.parse_spec(text)


def expected(inv: inventories.Inventory, strategies: tuple[str, ...]) -> dict[str, set[str]]:
    """Each device and the nodes that are its own, by the inventory alone."""
    found: dict[str, set[str]] = {}
    for index, gpu in enumerate(sorted(inv.served, key=lambda one: one.bus)):
        own = {f"/dev/nvidia{gpu.minor}"}
        if gpu.mig == "on":
            for number, (gi, ci, uuid) in enumerate(gpu.migs):
                minors = (cap_minor(gpu.minor, gi), cap_minor(gpu.minor, gi, ci))
                nodes = own | {f"/dev/nvidia-caps/nvidia-cap{minor}" for minor in minors}
                names = {"index": f"{index}:{number}", "uuid": uuid, "type-index": f"mig{index}:{number}"}  # fmt: skip
                found.update({names[strategy]: nodes for strategy in strategies})
        else:
            drm = {path for path, _major, _minor in device_nodes.drm_nodes(gpu)}
            names = {"index": str(index), "uuid": gpu.uuid, "type-index": f"gpu{index}"}
            found.update({names[strategy]: own | drm for strategy in strategies})
    return found


def nodes(spec: Spec) -> dict[str, set[str]]:
    """What a container gets with each device, but the control nodes, which all of them give."""
    shared = {n.path for n in spec.edits.device_nodes}
    assert shared == CONTROL
    return {d.name: {n.path for n in d.edits.device_nodes} for d in spec.devices}


def check(
    inv: inventories.Inventory, spec: Spec, strategies: tuple[str, ...], profile: str
) -> None:
    wanted = expected(inv, strategies)
    assert nodes(spec) == {**wanted, "all": set().union(*wanted.values())}
    for node in (node for device in spec.devices for node in device.edits.device_nodes):
        numbers = re.fullmatch(r"/dev/nvidia(\d+)", node.path)
        assert (node.major, node.minor) == ((195, int(numbers[1])) if numbers else (None, None))
    mounted = {m.container_path.rpartition("/")[2] for m in spec.edits.mounts}
    of_driver = {"nvidia-smi", "libcuda.so.1", f"libcuda.so.{inv.version}"}
    assert bool(mounted & of_driver) == (profile != "devices")
    assert bool(spec.edits.hooks) == (profile == "full")


MATRIX = list(itertools.product(NODES, STRATEGIES, PROFILES))


@pytest.mark.parametrize(("name", "strategies", "profile"), MATRIX)
def test_each_gpu_has_all_that_it_needs(
    name: str, strategies: tuple[str, ...], profile: str
) -> None:
    inv = NODES[name].inventory
    made = recorded_hosts.plan(inv, cdi_device_names=strategies, cdi_profile=profile)
    check(inv, spec_of(made), strategies, profile)


def test_nodes_of_drawing_belong_to_the_gpu_of_their_bus() -> None:
    inv = NODES["vrnvl72"].inventory
    inv = dc.replace(inv, gpus=tuple(dc.replace(gpu, drm=True) for gpu in inv.gpus))
    check(inv, spec_of(recorded_hosts.plan(inv)), ("index", "uuid"), "full")


# ---------------------------------------------------------------- a GPU in each state

# State -> what changes of the GPU, and the code of the reason where it is absent.
STATES: dict[str, tuple[dict[str, Any], str]] = {
    "excluded": ({"excluded": True}, "driver.gpus-excluded"),
    "off the bus for the driver": ({"lost": True}, "driver.gpus-lost"),
    "kept for virtual machines": ({"bound": "vfio-pci"}, "driver.gpus-held"),
    "kept by a variant of vfio": ({"bound": "nvgrace_gpu_vfio_pci"}, "driver.gpus-held"),
    "of another driver": ({"bound": "nouveau"}, "driver.gpus-held"),
    "not initialised": ({"initialised": False}, ""),
    "MIG from the next reset on": ({"mig": "off", "pending": "on", "migs": ()}, ""),
    "MIG until the next reset": ({"mig": "on", "pending": "off", "migs": ()}, "spec.mig-without-instance"),
    "MIG without an instance": ({"mig": "on", "migs": ()}, "spec.mig-without-instance"),
    "without MIG": ({"mig": "-", "migs": ()}, ""),
    "fabric not started": ({"fabric": inventories.Fabric(state=1)}, ""),
    "fabric in progress": ({"fabric": inventories.Fabric(state=2)}, ""),
    "a fabric that failed": ({"fabric": inventories.Fabric(state=3, status=999)}, ""),
}  # fmt: skip


# Why no spec is made where the driver serves no GPU at all.
WITHOUT_GPU = {"cdi.driver-broken", "cdi.no-spec-here"}


def changed(inv: inventories.Inventory, states: dict[int, str]) -> inventories.Inventory:
    boards = [
        dc.replace(gpu, **STATES[states[at]][0]) if at in states else gpu
        for at, gpu in enumerate(inv.gpus)
    ]
    return dc.replace(inv, gpus=tuple(boards))


def reasons(made: Plan) -> list[Coded]:
    return read_all_coded(made.advice)


def tells(found: list[Coded], code: str, gpu: inventories.Gpu, index: int) -> bool:
    """Whether a reason of this code names the GPU, by its bus or by NVML's index."""
    named = [str(value) for is_code, values in found if is_code == code for value in values.values()]  # fmt: skip
    words = {word.strip() for text in named for word in text.split(",")}
    return gpu.bus in words or str(index) in words


def check_states(inv: inventories.Inventory, states: dict[int, str]) -> None:
    there = changed(inv, states)
    made = recorded_hosts.plan(there)
    if not there.served:
        if isinstance(made, PlanError):
            assert made.code in WITHOUT_GPU, made
        else:
            assert (made.changes, bool(made.advice)) == ((), True)
        return
    assert isinstance(made, Plan), made
    places = {gpu.bus: at for at, gpu in enumerate(sorted(there.served, key=lambda g: g.bus))}
    for at, state in states.items():
        gpu, code = there.gpus[at], STATES[state][1]
        if code:
            assert tells(reasons(made), code, gpu, places.get(gpu.bus, -1)), (state, made.advice)
    if any(gpu.mig != "on" or gpu.migs for gpu in there.served):
        check(there, spec_of(made), ("index", "uuid"), "full")
    else:
        assert [c for c in made.changes if c["op"] == "write"] == []


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("name", [name for name, node in NODES.items() if len(node.inventory.gpus) > 1])  # fmt: skip
def test_one_gpu_in_a_state(name: str, state: str) -> None:
    inv = NODES[name].inventory
    check_states(inv, {len(inv.gpus) - 1: state})


@given(data=st.data())
@settings(max_examples=count_examples(150), deadline=None)
def test_any_gpus_in_any_state(data: st.DataObject) -> None:
    inv = NODES[data.draw(st.sampled_from(sorted(NODES)))].inventory
    places = st.sampled_from(range(len(inv.gpus)))
    check_states(inv, data.draw(st.dictionaries(places, st.sampled_from(sorted(STATES)))))


@pytest.mark.parametrize("name", NODES)
def test_a_gpu_that_nvml_calls_lost_is_refused_by_name(name: str) -> None:
    inv = dc.replace(NODES[name].inventory, errors={"nvmlDeviceGetHandleByIndex@0": 15})
    found = recorded_hosts.plan(inv)
    assert isinstance(found, PlanError)
    assert found.code == "devices.nvml-gpu-lost"
