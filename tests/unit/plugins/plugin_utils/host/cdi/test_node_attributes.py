# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a spec records of a node: its number, its type, its group, and whether everyone may open it."""

from __future__ import annotations

import dataclasses as dc
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    PlanError,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    SeenGpu,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.devices.inventory import (
    Board,
    Hardware,
    MigDevice,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver.gpus import (
    DeviceFile,
)

from tests.unit.coded import read_all_coded
from tests.unit.gpus import UUIDS, host, node, nvml
from tests.unit.mig_hosts import generate, map_nodes, plan_devices, read_only_spec, see_host

HARDWARE = Hardware(
    (
        Board(
            SeenGpu(0, 0, "0000:17:00.0", UUIDS[0]),
            True,
            (MigDevice(1, 0, 0, "MIG-1"),),
            ("/dev/dri/renderD128",),
        ),
    ),
    {
        "/dev/nvidia0": DeviceFile("/dev/nvidia0", (195, 0), 0o666),
        "/dev/nvidiactl": DeviceFile("/dev/nvidiactl", (195, 255), 0o666),
        "/dev/nvidia-uvm": DeviceFile("/dev/nvidia-uvm", (511, 0), 0o666),
        "/dev/nvidia-uvm-tools": DeviceFile("/dev/nvidia-uvm-tools", (511, 1), 0o666),
        "/dev/nvidia-modeset": DeviceFile("/dev/nvidia-modeset", (195, 254), 0o666),
        "/dev/dri/renderD128": DeviceFile("/dev/dri/renderD128", (226, 128), 0o660, gid=105),
    },
    {"gpu0/gi1/access": 12, "gpu0/gi1/ci0/access": 13},
    {"nvidia-caps": 510, "nvidia-uvm": 511},
)
WHOLE = dc.replace(
    HARDWARE, boards=(Board(HARDWARE.boards[0].gpu, False, (), HARDWARE.boards[0].drm),)
)
ATTRIBUTES = [
    ("none", {"/dev/nvidiactl": (None, None), "/dev/nvidia-uvm": (None, None)}),
    ("static", {"/dev/nvidiactl": (195, 255), "/dev/nvidia-uvm": (None, None)}),
    ("all", {"/dev/nvidiactl": (195, 255), "/dev/nvidia-uvm": (511, 0)}),
]


@pytest.mark.parametrize(("attributes", "numbers"), ATTRIBUTES)
def test_numbers_by_option(attributes: str, numbers: dict[str, Any]) -> None:
    found = {
        n.path: (n.major, n.minor)
        for n in generate(WHOLE, node_attributes=attributes).spec.edits.device_nodes
    }
    assert found.items() >= numbers.items()


def test_with_everything_recorded_a_node_need_not_be_there() -> None:
    assert generate(HARDWARE).missing == (
        "/dev/nvidia-caps/nvidia-cap12",
        "/dev/nvidia-caps/nvidia-cap13",
    )
    every = generate(HARDWARE, node_attributes="all")
    assert every.missing == ()
    device = every.spec.devices[0]
    cap = next(n for n in device.edits.device_nodes if n.path.endswith("cap12"))
    assert (cap.type, cap.major, cap.minor, cap.permissions) == ("c", 510, 12, "rwm")


def test_an_instance_draws_only_with_its_attribute() -> None:
    assert "/dev/dri/renderD128" not in map_nodes(generate(HARDWARE).spec)["0:0"]
    board = HARDWARE.boards[0]
    drawing = dc.replace(
        HARDWARE,
        boards=(dc.replace(board, devices=(dc.replace(board.devices[0], graphics=True),)),),
    )
    assert "/dev/dri/renderD128" in map_nodes(generate(drawing).spec)["0:0"]
    assert "/dev/dri/renderD128" in map_nodes(generate(WHOLE).spec)["0"]
    assert (
        "/dev/dri/renderD128"
        not in map_nodes(generate(WHOLE, features=frozenset(("compute", "utility"))).spec)["0"]
    )


def test_group_ids_are_asked_for_and_dropped_below_0_7_0() -> None:
    assert [d.edits.additional_gids for d in generate(WHOLE, cap="1.0.0").spec.devices] == [
        (),
        (),
        (),
    ]
    found = generate(WHOLE, cap="1.0.0", group_ids=True)
    assert ([d.edits.additional_gids for d in found.spec.devices], found.spec.version) == (
        [(105,)] * 3,
        "0.7.0",
    )
    lean = generate(WHOLE, cap="0.6.0", group_ids=True)
    assert ([d.edits.additional_gids for d in lean.spec.devices], lean.spec.version) == (
        [()] * 3,
        "0.5.0",
    )
    left_out = (
        "spec.left-out",
        {"part": "additional group ids", "needed": "0.7.0", "limit": "0.6.0"},
    )
    assert read_all_coded(lean.notes) == [left_out]


def test_group_ids_can_be_insisted_on() -> None:
    drm = {"/sys/bus/pci/devices/0000:17:00.0/drm/renderD128": {"type": "dir"}}
    there = see_host(
        {**host(1), **drm, "/dev/dri/renderD128": {**node(226, 128), "mode": 0o660, "gid": 105}},
        nvml(1),
    )
    assert read_only_spec(plan_devices(there, "1.0.0", cdi_group_ids=True)).version == "0.7.0"
    assert read_only_spec(plan_devices(there, "0.6.0", cdi_group_ids=True)).version == "0.5.0"
    with pytest.raises(
        PlanError, match=r"additional group ids needs 0.7.0.*\[cdi.readers-too-old\]"
    ):
        plan_devices(there, "0.6.0", cdi_group_ids=True, cdi_above_cap="refuse")


def modes(mode: int, gid: int, *paths: str) -> dict[str, DeviceFile]:
    return {
        path: dc.replace(HARDWARE.nodes[path], mode=mode, gid=gid)
        for path in paths or HARDWARE.nodes
    }


NVIDIA = [path for path in HARDWARE.nodes if not path.startswith("/dev/dri")]
TO_GROUP, TO_USERS = "spec.node-closed-to-group", "spec.node-closed-to-users"
# Where it was told, the nodes of the host, the option, and the advice: its code, the nodes, the
# group and the mode.
CLOSED = [
    ("all are open to everyone", {}, False, []),
    (
        "NVIDIA/nvidia-docker#657: root:video",
        modes(0o660, 33, *NVIDIA),
        False,
        [(TO_GROUP, "/dev/nvidiactl, /dev/nvidia-uvm, /dev/nvidia0 and 2 more", 33, "0660")],
    ),
    ("NVIDIA/nvidia-docker#1608: the spec has the group", modes(0o660, 33, *NVIDIA), True, []),
    (
        "one node alone",
        modes(0o660, 33, "/dev/nvidia0"),
        False,
        [(TO_GROUP, "/dev/nvidia0", 33, "0660")],
    ),
    (
        "root's alone",
        modes(0o600, 0, "/dev/nvidia0"),
        True,
        [(TO_USERS, "/dev/nvidia0", None, "0600")],
    ),
    (
        "root's group may write too",
        modes(0o660, 0, "/dev/nvidia0"),
        False,
        [(TO_USERS, "/dev/nvidia0", None, "0660")],
    ),
    (
        "the first group behind root's",
        modes(0o660, 1, "/dev/nvidia0"),
        False,
        [(TO_GROUP, "/dev/nvidia0", 1, "0660")],
    ),
    (
        "a group that may not write",
        modes(0o640, 33, "/dev/nvidia0"),
        True,
        [(TO_USERS, "/dev/nvidia0", None, "0640")],
    ),
    (
        "two groups",
        {**modes(0o660, 33, "/dev/nvidia0"), **modes(0o660, 44, "/dev/nvidia-uvm")},
        False,
        [(TO_GROUP, "/dev/nvidia0", 33, "0660"), (TO_GROUP, "/dev/nvidia-uvm", 44, "0660")],
    ),
    ("those of DRM, as most hosts have them", modes(0o660, 44, "/dev/dri/renderD128"), False, []),
]


@pytest.mark.parametrize(
    ("there", "group_ids", "said"), [row[1:] for row in CLOSED], ids=[row[0] for row in CLOSED]
)
def test_nodes_that_not_everyone_may_open(
    there: dict[str, DeviceFile], group_ids: bool, said: list[tuple[Any, ...]]
) -> None:
    found = read_all_coded(
        generate(
            dc.replace(WHOLE, nodes={**WHOLE.nodes, **there}), cap="1.0.0", group_ids=group_ids
        ).notes
    )
    assert [
        (code, values["nodes"], values.get("group"), values["mode"]) for code, values in found
    ] == said


def test_a_node_for_reading_capabilities_is_not_counted() -> None:
    cap = DeviceFile("/dev/nvidia-caps/nvidia-cap12", (510, 12), 0o444)
    assert (
        generate(dc.replace(HARDWARE, nodes={**HARDWARE.nodes, cap.path: cap}), cap="1.0.0").notes
        == ()
    )


def test_a_driver_container_needs_host_paths_and_so_0_5_0() -> None:
    moved = {
        (f"/run/nvidia/driver{path}" if path.startswith("/dev") else path): text
        for path, text in host(1).items()
    }
    found = read_only_spec(
        plan_devices(
            see_host(moved, nvml(1)),
            cdi_driver_root="/run/nvidia/driver",
            cdi_device_names=("type-index",),
        )
    )
    assert [(n.path, n.host_path) for n in found.devices[0].edits.device_nodes] == [
        ("/dev/nvidia0", "/run/nvidia/driver/dev/nvidia0")
    ]
    assert found.version == "0.5.0"
