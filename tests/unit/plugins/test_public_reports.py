# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Conditions that people reported in public, in our words and with names of our own, each with what is right on such a host.

Here are those that take a host which runs; all others are in tests/fixtures/public_reports.
"""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner import node
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cdi.engine_view import reader
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.model import PlanError, Policy

from tests.unit import cdi_plans, gpus
from tests.unit.builders import obs
from tests.unit.gpus import BUSES, UUIDS, nvml
from tests.unit.gpus import node as device
from tests.unit.taken_back import JSON

GITHUB = "https://github.com"
TOOLKIT = f"{GITHUB}/NVIDIA/nvidia-container-toolkit"
OURS, THEIRS = cdi_plans.OURS, cdi_plans.THEIRS
IMEX, SWITCHES = "/etc/cdi/nvidia.com-imex-channel.yaml", "/etc/cdi/nvidia.com-nvswitch.yaml"
CHANNEL = "/dev/nvidia-caps-imex-channels/channel"
SWITCH = {f"/dev/nvidia-nvswitch{name}": device(234, minor) for name, minor in (("0", 0), ("ctl", 255))}
SECOND, NETWORK = BUSES[1], "0000:00:03.0"
UNSERVED: dict[str, Any] = {f"/proc/driver/nvidia/gpus/{SECOND}/information": None, "/dev/nvidia1": None}
GPUS = {"0", "1", *UUIDS[:2], "all"}
FORMER = next(str(c["content"]) for c in cdi_plans.plan(cdi_plans.seen()).changes if c["op"] == "write")
Host = tuple[str, str, dict[str, Any], dict[str, Any], Any]

# ---------------------------------------------------------------- what containers get by CDI


def test_a_spec_that_the_toolkit_made_before_the_driver_was_whole_is_replaced() -> None:
    """Azure/AgentBaker/pull/8736: it names a device that is not there."""
    made = cdi_plans.plan(cdi_plans.seen({THEIRS: cdi_plans.file_of().replace("/dev/nvidia0", "/dev/nvidia9")}))
    (spec,) = (reader.parse(c["content"]) for c in made.changes if c["op"] == "write")
    assert set(cdi_plans.paths(made)) == {("write", OURS), ("remove", THEIRS)}
    assert {d.name for d in spec.devices} == GPUS
    assert {n.path for d in spec.devices for n in d.edits.device_nodes} <= set(gpus.host())


# Where it was told, the host, its files, the options, and what is said.
REFUSED: list[Host] = [
    (
        f"{TOOLKIT}/issues/1309",
        "a channel that no node is there for",
        {f"{CHANNEL}0": device(509, 0)},
        {"cdi_imex_channels": ("0", "9999")},
        f"device node missing: {CHANNEL}9999",
    ),
    (
        f"{GITHUB}/NVIDIA/NVSentinel/issues/155",
        "a GPU that the driver could not probe: off the bus without an Xid",
        {OURS: FORMER, **UNSERVED},
        {},
        f"GPU {SECOND} is on the PCI bus, but the driver does not serve it",
    ),
    (
        f"{GITHUB}/aws/eks-node-monitoring-agent/pull/94",
        "fewer GPUs answer than have nodes",
        {OURS: FORMER, **{path: None for path in UNSERVED if "/proc/" in path}},
        {},
        f"GPU {SECOND} is on the PCI bus, but the driver does not serve it",
    ),
    (
        f"{GITHUB}/kubernetes-sigs/dra-driver-nvidia-gpu/issues/1089",
        "a GPU without any driver since it could not be given to a virtual machine",
        {OURS: FORMER, **UNSERVED, "/sys/bus/pci/drivers/vfio-pci/new_id": ""},
        {},
        f"GPU {SECOND} is on the PCI bus, but the driver does not serve it",
    ),
]  # fmt: skip


@pytest.mark.parametrize("row", REFUSED, ids=[row[1] for row in REFUSED])
def test_what_is_not_there_is_told_and_nothing_goes(row: Host) -> None:
    _address, _condition, files, options, right = row
    with pytest.raises(PlanError) as caught:
        cdi_plans.plan(cdi_plans.seen(files, answers=nvml(1) if OURS in files else {}), **options)
    assert right in str(caught.value)
    assert caught.value.next


def test_a_fabric_stays_where_virtual_machines_have_the_gpus() -> None:
    """NVIDIA/gpu-operator/pull/2045: the host's driver serves the switches, Fabric Manager shares them, and the GPUs are vfio-pci's."""
    made = cdi_plans.plan(cdi_plans.seen(SWITCH), cdi_nvswitch=True)
    before = {c["path"]: c["content"] for c in made.changes if c["op"] == "write"}
    without = {f"/proc/driver/nvidia/gpus/{bus}/information": None for bus in BUSES[:2]}
    given = {
        **without,
        "/dev/nvidia0": None,
        "/dev/nvidia1": None,
        **{f"/sys/bus/pci/drivers/vfio-pci/{bus}": "" for bus in (NETWORK, *BUSES[:2])},
    }
    for switches, gone in ((SWITCH, [OURS]), ({}, [OURS, SWITCHES])):
        there = cdi_plans.seen({**before, **given, **switches}, answers=nvml(0))
        found = cdi_plans.plan(there, cdi_nvswitch=True)
        assert cdi_plans.paths(found) == [("remove", path) for path in gone]
        assert [d.cause for d in found.differences] == ["hardware_gone"] * len(gone)
        assert f"it serves no GPU. GPU {BUSES[0]}: it is passed through to virtual machines" in found.advice[0]
    unasked = cdi_plans.plan(cdi_plans.seen({**before, **given, **SWITCH}, answers=nvml(0)))
    assert cdi_plans.paths(unasked) == [("remove", OURS), ("remove", SWITCHES)]


# ---------------------------------------------------------------- an engine that is stopped

DOWN: Any = {"docker.service": {"ActiveState": "inactive", "UnitFileState": "disabled"}, "docker.socket": {"ActiveState": "active"}}


def test_a_docker_that_is_stopped_is_not_reached_by_its_socket() -> None:
    """geerlingguy/ansible-role-docker/issues/332: switched off, and started by whoever connected to its socket."""
    files = {**gpus.host(1), "/usr/bin/dockerd": "", JSON: "{}"}
    there = obs(files=files, packages={"docker-ce": "5:28.1.1-1"}, units=DOWN, answers=nvml(1))
    with pytest.raises(PlanError, match=r"Docker is installed but not running \(docker\.service is inactive and disabled\)"):
        node.plan(Policy(), there, node.see(Policy(), there), "")
