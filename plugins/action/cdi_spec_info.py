# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Look at the CDI specs of a host and judge them; change nothing."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.gpufleet.nvidia.plugins.action import arguments, base
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cdi.lint import run as validate
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.model import Plan, Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.observation import Observation
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.report import journal

SPEC = arguments.spec("cdi_spec_info")


class ActionModule(ActionBase):
    _supports_check_mode = True
    _supports_async = False

    @base.shown
    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        args = arguments.of_task(self, SPEC)

        def planner(policy: Policy, obs: Observation) -> base.Outcome:
            return base.Outcome(Plan(), validate.report(policy, obs, args["cdi_version"]).facts())

        wanted, way = arguments.policy(args, single=True), str(args["transport"])
        seen, outcome = base.observe_and_plan(self, task_vars or {}, wanted, validate.questions, planner, way)
        return {"changed": False, "advice": list(journal.advice(seen)), **outcome.facts}
