# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Converge the handlers in one containerd, and nothing else."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.gpufleet.nvidia.plugins.action import arguments, base
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner import node
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.model import Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.observation import Observation

SPEC = arguments.spec("containerd_runtime")


def planner(policy: Policy, obs: Observation) -> base.Outcome:
    if policy.state == "absent":
        return base.Outcome(node.single_absent(policy, obs, "containerd"))
    return base.Outcome(node.single_plan(policy, obs, "containerd"))


class ActionModule(ActionBase):
    _supports_check_mode = True
    _supports_async = False

    @base.shown
    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        asks = node.single_questions("containerd")
        return base.run(self, task_vars, module="containerd_runtime", spec=SPEC, questions=asks, planner=planner, single=True)
