# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the CDI spec of a host has, whatever its GPUs."""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Iterable, Mapping

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import SeenGpu
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi import resource
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.devices import (
    inventory,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.engine_view import (
    reader,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.generate import (
    build,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.spec import (
    version,
    writer,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver.gpus import (
    DeviceFile,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import (
    packages,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.draws import count_examples
from tests.unit.builders import obs
from tests.unit.cdi_plans import plan, seen, written
from tests.unit.coded import read_all_coded, read_coded
from tests.unit.gpus import UUIDS, host, nvml


def build_hardware(whole: Iterable[SeenGpu], nodes: Mapping[str, DeviceFile]) -> inventory.Hardware:
    """Build the hardware of whole GPUs and their nodes."""
    return inventory.Hardware(tuple(map(inventory.Board, whole)), nodes)


def test_two_gpus() -> None:
    made = written(plan(seen()))
    assert made.names == tuple(f"nvidia.com/gpu={n}" for n in ("0", "1", UUIDS[0], UUIDS[1], "all"))
    assert made.version == "0.5.0"
    assert made.edits.env == ("NVIDIA_VISIBLE_DEVICES=void",)
    assert [n.path for n in made.edits.device_nodes] == [
        "/dev/nvidia-modeset",
        "/dev/nvidia-uvm",
        "/dev/nvidia-uvm-tools",
        "/dev/nvidiactl",
    ]
    assert {d.name: [n.path for n in d.edits.device_nodes] for d in made.devices} == {
        "0": ["/dev/nvidia0"],
        "1": ["/dev/nvidia1"],
        UUIDS[0]: ["/dev/nvidia0"],
        UUIDS[1]: ["/dev/nvidia1"],
        "all": ["/dev/nvidia0", "/dev/nvidia1"],
    }


def test_numbers_that_the_kernel_hands_out_are_not_recorded() -> None:
    made = written(plan(seen()))
    nodes = {
        n.path: (n.major, n.minor)
        for e in (made.edits, *(d.edits for d in made.devices))
        for n in e.device_nodes
    }
    assert nodes == {
        "/dev/nvidiactl": (195, 255),
        "/dev/nvidia-modeset": (195, 254),
        "/dev/nvidia-uvm": (None, None),
        "/dev/nvidia-uvm-tools": (None, None),
        "/dev/nvidia0": (195, 0),
        "/dev/nvidia1": (195, 1),
    }


def test_the_node_follows_the_minor_and_the_name_the_bus() -> None:
    made = written(
        plan(
            obs(
                files=host(2, minors=(1, 0)),
                packages={packages.BASE: "1"},
                answers=nvml(2, minors=(1, 0)),
            )
        )
    )
    first = next(d for d in made.devices if d.name == "0")
    assert [n.path for n in first.edits.device_nodes] == ["/dev/nvidia1"]


def test_ten_gpus_are_ordered_as_numbers() -> None:
    gpus = [SeenGpu(i, i, f"0000:{i:02x}:00.0", "") for i in range(11)]
    made = build.generate(build_hardware(gpus, {}), build.Options(assume_nodes=True))
    assert [d.name for d in made.spec.devices] == [*map(str, range(11)), "all"]


def test_a_node_that_is_not_there_yet_is_looked_for_where_the_others_are() -> None:
    """Beneath a root of its own every node has its place there, whether it is there when the spec
    is made or only later.
    """
    nodes = {
        "/dev/nvidiactl": DeviceFile("/dev/nvidiactl", (195, 255), 0o666, "/drv/dev/nvidiactl")
    }
    seen_there = dc.replace(
        build_hardware([SeenGpu(0, 0, "0000:00:00.0", "")], nodes), dev_root="/drv"
    )
    for attributes in ("none", "static", "all"):
        options = build.Options(assume_nodes=True, node_attributes=attributes)
        made = build.generate(seen_there, options).spec
        found = [
            n
            for edits in (made.edits, *(d.edits for d in made.devices))
            for n in edits.device_nodes
        ]
        assert {n.path for n in found} >= {"/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia-uvm"}
        assert [n for n in found if n.host_path != f"/drv{n.path}"] == []


def test_a_consumer_below_0_5_0_gets_names_with_a_letter_first() -> None:
    made = plan(seen(), resource.record_of_options("collection", "0.3.0"))
    assert [d.name for d in written(made).devices] == ["gpu0", "gpu1", UUIDS[0], UUIDS[1], "all"]
    assert written(made).version == "0.3.0"
    assert read_coded(made.advice[0]) == ("spec.names-of-old-cdi", {"version": "0.3.0"})


def test_optional_nodes_are_left_out_with_a_word() -> None:
    made = plan(seen({"/dev/nvidia-modeset": None}))
    assert "/dev/nvidia-modeset" not in [n.path for n in written(made).edits.device_nodes]
    assert read_all_coded(made.advice) == [("spec.node-optional", {"path": "/dev/nvidia-modeset"})]


gpu_lists = st.lists(
    st.tuples(st.integers(0, 40), st.sampled_from(["", "GPU-x"])),
    unique_by=lambda g: g[0],
    min_size=1,
    max_size=12,
)


@settings(max_examples=count_examples(60), deadline=None)
@given(gpu_lists, st.sampled_from(("", *version.KNOWN)))
def test_whatever_the_gpus_the_spec_is_valid_within_the_cap_and_the_same_again(
    minors: list[tuple[int, str]], cap: str
) -> None:
    gpus = [
        SeenGpu(i, minor, f"0000:{i:02x}:00.0", uuid and f"{uuid}{minor}")
        for i, (minor, uuid) in enumerate(minors)
    ]
    nodes = {
        f"/dev/nvidia{minor}": DeviceFile(f"/dev/nvidia{minor}", (195, minor), 0o666)
        for minor, _uuid in minors
    }
    made = build.generate(build_hardware(gpus, nodes), build.Options(cap=cap))
    assert version.list_needs_above_cap(made.spec, cap) == []
    assert made.spec.version == version.get_minimum_version(made.spec)
    names = [d.name for d in made.spec.devices]
    assert len(set(names)) == len(names)
    assert all(d.edits.device_nodes for d in made.spec.devices)
    assert set(made.missing) == {"/dev/nvidiactl", "/dev/nvidia-uvm"}
    assert reader.parse_spec(writer.render_spec(made.spec)) == made.spec
    assert (
        build.generate(build_hardware(gpus, dict(reversed(nodes.items()))), build.Options(cap=cap))
        == made
    )
