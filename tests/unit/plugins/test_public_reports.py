# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Conditions that people reported in public, in our words and with names of our own, each with what
is right on such a host.

Here are those whose host changes between two runs or whose engine is stopped; all others are in
tests/fixtures/public_reports.
"""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import (
    host_plan,
    seen_host,
)

from tests.unit import cdi_plans, gpus
from tests.unit.builders import obs
from tests.unit.gpus import BUSES, nvml
from tests.unit.gpus import node as device
from tests.unit.taken_back import JSON

OURS, SWITCHES = cdi_plans.OURS, "/etc/cdi/nvidia.com-nvswitch.yaml"
SWITCH = {
    f"/dev/nvidia-nvswitch{name}": device(234, minor) for name, minor in (("0", 0), ("ctl", 255))
}
NETWORK = "0000:00:03.0"


def test_a_fabric_stays_where_virtual_machines_have_the_gpus() -> None:
    """NVIDIA/gpu-operator/pull/2045: the host's driver serves the switches, Fabric Manager shares
    them, and the GPUs are vfio-pci's.
    """
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
        assert BUSES[0] in found.advice[0]
    unasked = cdi_plans.plan(cdi_plans.seen({**before, **given, **SWITCH}, answers=nvml(0)))
    assert cdi_plans.paths(unasked) == [("remove", OURS), ("remove", SWITCHES)]


# ---------------------------------------------------------------- an engine that is stopped

DOWN: Any = {
    "docker.service": {"ActiveState": "inactive", "UnitFileState": "disabled"},
    "docker.socket": {"ActiveState": "active"},
}


def test_a_docker_that_is_stopped_is_not_reached_by_its_socket() -> None:
    """geerlingguy/ansible-role-docker/issues/332: switched off, and started by whoever connected to
    its socket.
    """
    files = {**gpus.host(1), "/usr/bin/dockerd": "", JSON: "{}"}
    there = obs(files=files, packages={"docker-ce": "5:28.1.1-1"}, units=DOWN, answers=nvml(1))
    facts = seen_host.read_host_facts(Policy(), there, seen_host.see(Policy(), there), "")
    with pytest.raises(
        PlanError,
        match=r"Docker is installed but not running \(docker\.service is inactive and disabled\)",
    ):
        host_plan.plan_host(Policy(), facts)
