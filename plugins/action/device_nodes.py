# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Converge the device nodes of NVIDIA's driver, and nothing else."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.gpufleet.nvidia.plugins.action import arguments, base, transport
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner import originals
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.driver import gpus
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.model import Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.observation import Observation
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.resources import device_nodes

SPEC = arguments.spec("device_nodes")


def questions(policy: Policy) -> list[dict[str, Any]]:
    return [*gpus.questions(policy), *device_nodes.questions(policy)]


def planner(policy: Policy, obs: Observation) -> base.Outcome:
    if policy.state == "absent":
        return base.Outcome(originals.taken_back(obs, device_nodes.PATHS, lambda: device_nodes.plan_absent(policy, obs)))
    return base.Outcome(device_nodes.plan(policy, obs, gpus.parse(policy, obs), transport.resident_sources()["device_nodes"]))


class ActionModule(ActionBase):
    _supports_check_mode = True
    _supports_async = False

    @base.shown
    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        args = arguments.of_task(self, SPEC)
        wanted = arguments.policy(args, single=True, device_nodes="present")
        way = str(args["transport"])
        return base.converge(self, task_vars or {}, wanted, questions, planner, reason="gpufleet.nvidia.device_nodes", way=way)
