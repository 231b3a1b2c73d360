# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Converge the handlers in one CRI-O, and nothing else."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import arguments, base
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import engine_module

SPEC = arguments.derive_argument_spec("crio_runtime")


def plan_crio_runtime(policy: Policy, obs: Observation) -> base.Outcome:
    """Plan the handler in CRI-O's configuration, or its removal."""
    if policy.state == "absent":
        back = engine_module.read_engine_removal_facts(policy, obs, "crio")
        return base.Outcome(engine_module.plan_engine_module_removal(policy, back, "crio"))
    facts = engine_module.read_engine_module_facts(policy, obs, "crio")
    return base.Outcome(engine_module.plan_engine_module(policy, facts))


class ActionModule(ActionBase):
    _supports_check_mode = True
    _supports_async = False

    @base.guard_action
    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        asks = engine_module.list_engine_module_questions("crio")
        return base.run(
            self,
            task_vars,
            module="crio_runtime",
            spec=SPEC,
            questions=asks,
            planner=plan_crio_runtime,
            single=True,
        )
