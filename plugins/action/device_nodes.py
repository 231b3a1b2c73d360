# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Converge the device nodes of NVIDIA's driver, and nothing else."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    arguments,
    base,
    transport,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import (
    originals,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import (
    driver_state,
    gpus,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import (
    device_nodes,
)

SPEC = arguments.derive_argument_spec("device_nodes")


def list_device_node_module_questions(policy: Policy) -> list[dict[str, Any]]:
    """List what a host is asked before its device nodes are planned."""
    return [*gpus.list_questions(policy), *device_nodes.list_questions(policy)]


def plan_device_node_module(policy: Policy, obs: Observation) -> base.Outcome:
    """Plan the driver's device nodes and the unit that makes them at boot, or their removal."""
    facts = device_nodes.read_device_node_facts(policy, obs)
    if policy.state == "absent":
        return base.Outcome(
            originals.complete_resource_removal(
                facts.service.earlier,
                device_nodes.PATHS,
                lambda: device_nodes.plan_absent(policy, facts),
            )
        )
    return base.Outcome(
        device_nodes.plan_device_nodes(
            policy,
            facts,
            driver_state.read_driver(policy, obs),
            transport.map_resident_sources()["device_nodes"],
        )
    )


class ActionModule(ActionBase):
    _supports_check_mode = True
    _supports_async = False

    @base.guard_action
    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        args = arguments.read_task_options(self, SPEC)
        wanted = arguments.build_policy(args, single=True, device_nodes="present")
        way = str(args["transport"])
        return base.converge_host(
            self,
            task_vars or {},
            wanted,
            list_device_node_module_questions,
            plan_device_node_module,
            reason="gpufleet.nvidia.device_nodes",
            way=way,
        )
