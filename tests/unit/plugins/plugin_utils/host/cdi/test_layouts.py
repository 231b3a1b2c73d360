# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which devices a layout has and how they are named, whatever the hardware is."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    PlanError,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Policy,
    SeenGpu,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi import (
    resource,
    spec_facts,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.devices import (
    inventory,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.devices.inventory import (
    Board,
    Hardware,
    MigDevice,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.engine_view import (
    reader,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.generate import (
    build as generate_build,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.generate import (
    layouts,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.spec import (
    version,
    writer,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver.gpus import (
    DeviceFile,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.draws import count_examples
from tests.unit.gpus import UUIDS, host, instances, node, nvml
from tests.unit.mig_hosts import (
    MIGS,
    MIXED,
    PAIRS,
    generate,
    list_caps,
    map_nodes,
    plan_devices,
    read_only_spec,
    see_host,
)
from tests.unit.written_files import map_written_specs

CONTROL = {"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-modeset", "/dev/nvidia-uvm-tools"}
CHANNEL = "/dev/nvidia-caps-imex-channels/channel0"
MANAGEMENT = "/etc/cdi/management.nvidia.com-gpu.yaml"


def test_management() -> None:
    extra = {
        "/dev/nvidia-nvswitchctl": node(234, 255),
        "/dev/nvidia-fs0": node(235, 0),
        CHANNEL: node(509, 0),
    }
    made = plan_devices(see_host({**MIXED, **extra}), cdi_layout="management")
    assert list(map_written_specs(made)) == [MANAGEMENT]
    found = map_written_specs(made)[MANAGEMENT]
    assert found.kind == "management.nvidia.com/gpu"
    every = [path for pair in PAIRS for path in list_caps(*pair)]
    assert list(map_nodes(found)) == ["0", "1", *UUIDS[:2], "all"]
    assert set(map_nodes(found)["0"]) == set(map_nodes(found)[UUIDS[0]]) == {"/dev/nvidia0", *every}
    assert {n.path for n in found.edits.device_nodes} == {
        *CONTROL,
        "/dev/nvidia-caps/nvidia-cap1",
        "/dev/nvidia-caps/nvidia-cap2",
    }
    everything = {*map_nodes(found)["all"], *(n.path for n in found.edits.device_nodes)}
    there = {
        path
        for path, text in {**MIXED, **extra}.items()
        if isinstance(text, dict) and text.get("type") == "char"
    }
    assert everything == there - {"/dev/nvidia-nvswitchctl", "/dev/nvidia-fs0"}


def test_management_leaves_the_others_file_alone() -> None:
    theirs = {
        "/var/run/cdi/nvidia.yaml": "cdiVersion: 0.5.0\nkind: nvidia.com/gpu\ndevices: [{name: '0', containerEdits: {env: [A=b]}}]\n"
    }
    assert [
        c["path"]
        for c in plan_devices(see_host({**MIXED, **theirs}), cdi_layout="management").changes
    ] == [MANAGEMENT]
    absent = resource.plan_absent(
        Policy(cdi_layout="management"),
        spec_facts.read_spec_removal_facts(
            see_host({**MIXED, "/etc/cdi/nvidia.yaml": writer.HEADER})
        ),
    )
    assert absent.empty


NAMES = [
    (("index", "uuid"), "1.0.0", ["0:0", "1", UUIDS[1], MIGS[0]["uuid"], "all"]),
    (("uuid",), "1.0.0", [UUIDS[1], MIGS[0]["uuid"], "all"]),
    (("index",), "1.0.0", ["0:0", "1", "all"]),
    (("type-index",), "1.0.0", ["mig0:0", "gpu1", "all"]),
    (("index", "type-index"), "0.5.0", ["0:0", "mig0:0", "1", "gpu1", "all"]),
    (("index", "uuid"), "0.4.0", ["mig0:0", "gpu1", UUIDS[1], MIGS[0]["uuid"], "all"]),
    (("index", "type-index"), "0.3.0", ["mig0:0", "gpu1", "all"]),
]


@pytest.mark.parametrize(("names", "cap", "expected"), NAMES)
def test_names_by_strategy(names: tuple[str, ...], cap: str, expected: list[str]) -> None:
    files = {**host(2), **instances(0, (1, 0))}
    found = read_only_spec(
        plan_devices(see_host(files, nvml(migs={0: MIGS[:1]})), cap, cdi_device_names=names)
    )
    assert [d.name for d in found.devices] == expected
    assert version.list_needs_above_cap(found, cap) == []


def test_another_vendor_and_class_get_a_file_of_their_own() -> None:
    made = map_written_specs(
        plan_devices(see_host(MIXED), cdi_vendor="example.com", cdi_class="accelerator")
    )
    assert [(path, found.kind) for path, found in made.items()] == [
        ("/etc/cdi/example.com-accelerator.yaml", "example.com/accelerator")
    ]


def test_a_class_with_a_dot_needs_0_6_0() -> None:
    assert (
        read_only_spec(plan_devices(see_host(MIXED), "0.6.0", cdi_class="gpu.big")).version
        == "0.6.0"
    )
    with pytest.raises(PlanError, match=r"a dot in the class needs 0.6.0.*\[cdi.readers-too-old\]"):
        plan_devices(see_host(MIXED), "0.5.0", cdi_class="gpu.big")


def test_a_second_kind_names_by_model() -> None:
    files = {**host(3), **instances(0, (1, 0))}
    made = map_written_specs(
        plan_devices(see_host(files, nvml(3, migs={0: MIGS[:1]})), cdi_model_class="model")
    )
    assert list(made) == ["/etc/cdi/nvidia.yaml", "/etc/cdi/nvidia.com-model.yaml"]
    assert map_nodes(made["/etc/cdi/nvidia.com-model.yaml"]) == {
        "h100-80gb-hbm3": ["/dev/nvidia1", "/dev/nvidia2"],
        "h100-80gb-hbm3-1": ["/dev/nvidia1"],
        "h100-80gb-hbm3-2": ["/dev/nvidia2"],
        "h100-80gb-hbm3-mig-1g.10gb-0:0": ["/dev/nvidia0", *list_caps(1, 0)],
    }
    there = {
        **files,
        **{
            c["path"]: c["content"]
            for c in plan_devices(
                see_host(files, nvml(3, migs={0: MIGS[:1]})), cdi_model_class="model"
            ).changes
        },
    }
    assert plan_devices(
        see_host(there, {}), cdi_model_class="model"
    ).empty  # the profile is known from our own file
    gone = resource.plan_absent(
        Policy(cdi_model_class="model"), spec_facts.read_spec_removal_facts(see_host(there))
    )
    assert [c["path"] for c in gone.changes] == [
        "/etc/cdi/nvidia.yaml",
        "/etc/cdi/nvidia.com-model.yaml",
    ]


migs = st.lists(st.tuples(st.integers(0, 14), st.integers(0, 7)), unique=True, max_size=7)
boards = st.lists(
    st.tuples(st.integers(0, 31), st.booleans(), migs),
    unique_by=lambda b: b[0],
    min_size=1,
    max_size=8,
)


def build(specified: list[tuple[int, bool, list[tuple[int, int]]]], order: int) -> Hardware:
    """Return the hardware that is specified. order: 1 for its nodes and capabilities from the end."""
    found, paths, table = [], [*CONTROL, "/dev/nvidia-caps/nvidia-cap1"], {}
    for index, (minor, draws, pairs) in enumerate(specified):
        drm = (f"/dev/dri/card{index}", f"/dev/dri/renderD{128 + index}") if draws else ()
        devices = tuple(
            MigDevice(gi, ci, place, f"MIG-{minor}-{gi}-{ci}")
            for place, (gi, ci) in enumerate(sorted(pairs))
        )
        board = Board(
            SeenGpu(index, minor, f"0000:{index:02x}:00.0", f"GPU-{minor}", "NVIDIA H100"),
            bool(devices),
            devices,
            drm,
        )
        keys = [key for m in devices for key in inventory.get_mig_cap_keys(board, m)]
        table.update({key: 100 + number for number, key in enumerate(keys, 1000 * index)})
        found.append(board)
        paths += [board.path, *drm, *(inventory.get_cap_path(table[key]) for key in keys)]
    turned = list(reversed(paths)) if order else paths
    return Hardware(
        tuple(found),
        {path: DeviceFile(path, (195, 0), 0o666) for path in turned},
        dict(sorted(table.items(), reverse=bool(order))),
    )


@settings(max_examples=count_examples(60), deadline=None)
@given(
    boards,
    st.sampled_from(list(layouts.LAYOUTS)),
    st.sampled_from(version.KNOWN),
    st.sampled_from(["none", "static", "all"]),
)
def test_every_spec_is_valid_within_its_cap_and_always_the_same(
    specified: Any, layout: str, cap: str, attributes: Any
) -> None:
    options = generate_build.Options(cap=cap, layout=layout, node_attributes=attributes)
    first, second = (generate_build.generate(build(specified, order), options) for order in (0, 1))
    assert writer.render_spec(first.spec) == writer.render_spec(second.spec)
    assert first.missing == ()
    assert version.list_needs_above_cap(first.spec, cap) == []
    assert first.spec.version == version.get_minimum_version(first.spec)
    names = [d.name for d in first.spec.devices]
    assert len(set(names)) == len(names)
    assert all(d.edits.device_nodes for d in first.spec.devices)
    for device in first.spec.devices:
        paths = [n.path for n in (*device.edits.device_nodes, *first.spec.edits.device_nodes)]
        assert len(set(paths)) == len(paths), device.name
    assert reader.parse_spec(writer.render_spec(first.spec)) == first.spec


@settings(max_examples=count_examples(40), deadline=None)
@given(boards)
def test_no_mig_device_shares_a_capability_of_a_compute_instance(specified: Any) -> None:
    found = generate(build(specified, 0), names=("index",)).spec
    shares = [
        {n.path for n in d.edits.device_nodes if "caps" in n.path}
        for d in found.devices
        if ":" in d.name
    ]
    assert all(one != other for one, other in itertools.combinations(shares, 2))
