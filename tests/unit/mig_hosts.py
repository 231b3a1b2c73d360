# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts with two GPUs and MIG devices, and the specs that are planned for them."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Plan,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi import (
    resource,
    spec_facts,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.devices.inventory import (
    Hardware,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.generate import (
    build as generate_build,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.spec.model import (
    Spec,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import (
    driver_state,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import (
    packages,
)

from tests.unit import cdi_plans
from tests.unit.builders import obs
from tests.unit.gpus import cap_minor, host, instances, mig, nvml
from tests.unit.written_files import map_written_specs

PAIRS = ((1, 0), (2, 0), (2, 1))
MIGS = [mig(index, gi, ci) for index, (gi, ci) in enumerate(PAIRS)]
MIXED = {**host(2), **instances(0, *PAIRS)}
BY_NVML = nvml(migs={0: MIGS})


def see_host(files: dict[str, Any], answers: dict[str, Any] = BY_NVML, **more: Any) -> Observation:
    """Return an observation of a host with these files. None takes a file away."""
    there = {path: text for path, text in files.items() if text is not None}
    return obs(files=there, packages={packages.BASE: "1.20.1-1"}, answers=answers, **more)


def plan_devices(there: Observation, cap: str = "1.0.0", **policy: Any) -> Plan:
    """Plan the specs of a host whose profile is `devices`.

    cap: the newest version of the format that each reader knows.
    """
    wanted = Policy(cdi_profile="devices", single=True, **policy)
    return cdi_plans.plan_specs(
        wanted,
        spec_facts.read_spec_facts(
            wanted,
            there,
            resource.record_of_options("collection", cap),
            driver_state.read_driver(wanted, there),
            "",
        ),
        resource.record_of_options("collection", cap),
        driver_state.read_driver(wanted, there),
    )


def read_only_spec(made: Plan) -> Spec:
    """Return the spec of a plan that writes one."""
    (found,) = map_written_specs(made).values()
    return found


def map_nodes(found: Spec) -> dict[str, list[str]]:
    """Return the paths of the nodes that each device has, by its name."""
    return {d.name: [n.path for n in d.edits.device_nodes] for d in found.devices}


def list_caps(gi: int, ci: int, minor: int = 0) -> list[str]:
    """Return the capability nodes of a GPU instance and a compute instance of it."""
    return [
        f"/dev/nvidia-caps/nvidia-cap{cap_minor(minor, gi)}",
        f"/dev/nvidia-caps/nvidia-cap{cap_minor(minor, gi, ci)}",
    ]


def generate(seen: Hardware, **options: Any) -> generate_build.Generated:
    return generate_build.generate(seen, generate_build.Options(**options))
