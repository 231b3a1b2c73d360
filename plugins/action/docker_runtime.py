# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Converge the handlers, the default and CDI in one Docker Engine, and nothing else."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.gpufleet.nvidia.plugins.action import arguments, base
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner import node
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.model import Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.observation import Observation

SPEC = arguments.spec("docker_runtime")


def planner(policy: Policy, obs: Observation) -> base.Outcome:
    if policy.state == "absent":
        return base.Outcome(node.single_absent(policy, obs, "docker"))
    return base.Outcome(node.single_plan(policy, obs, "docker"))


class ActionModule(ActionBase):
    _supports_check_mode = True
    _supports_async = False

    @base.shown
    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        asks = node.single_questions("docker")
        return base.run(self, task_vars, module="docker_runtime", spec=SPEC, questions=asks, planner=planner, single=True)
