# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Look at the CDI specs of a host and judge them; change nothing."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    arguments,
    base,
    host_look,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Plan,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import earlier_runs
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.lint import run
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.results import journal

SPEC = arguments.derive_argument_spec("cdi_spec_info")


class ActionModule(ActionBase):
    _supports_check_mode = True
    _supports_async = False

    @base.guard_action
    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        args = arguments.read_task_options(self, SPEC)

        def planner(policy: Policy, obs: Observation) -> base.Outcome:
            return base.Outcome(Plan(), run.report(policy, obs, args["cdi_version"]).list_facts())

        wanted, way = arguments.build_policy(args, single=True), str(args["transport"])
        observation, outcome = host_look.observe_and_plan(
            self, task_vars or {}, wanted, run.list_lint_questions, planner, way
        )
        return {
            "changed": False,
            "advice": list(journal.advise_on_journal(earlier_runs.read_earlier_runs(observation))),
            **outcome.facts,
        }
