# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run one step of this collection's playbooks.

The steps of a rollout are imported when Ansible loads the action, before it makes a process for
each task: a rollout runs some of them for every batch. Other steps are imported when they run, with
the steps that they take functions from.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    arguments,
    messages,
    omitted_options,
    validation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError

SPEC = arguments.derive_argument_spec("playbook_step")
PACKAGE = "ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller.steps."
# The function of each step, in the file that has the step's name.
STEPS: Mapping[str, str] = {
    "hand_over": "hand_node_over",
    "keep_failure": "keep_failure",
    "rollout_asked": "list_asked_hosts",
    "rollout_batch": "begin_or_end_batch",
    "rollout_cluster": "apply_to_clusters",
    "rollout_driver": "change_driver",
    "rollout_plan": "plan_fleet",
    "rollout_report": "report_rollout",
    "rollout_settings": "check_rollout_settings",
    "rollout_soak": "run_soak_command",
}
# The steps that each rollout runs. Importing them in a worker took a third of a batch's step.
OF_EVERY_ROLLOUT = (
    "rollout_asked",
    "rollout_batch",
    "rollout_plan",
    "rollout_report",
    "rollout_settings",
)
# Steps that act once for the whole play. Ansible would run them for each host without run_once.
ONCE = frozenset(
    {
        "rollout_asked",
        "rollout_batch",
        "rollout_cluster",
        "rollout_plan",
        "rollout_report",
        "rollout_settings",
    }
)


def load_rollout_steps() -> None:
    """Load the code and the options of the steps that each rollout runs."""
    for step in OF_EVERY_ROLLOUT:
        importlib.import_module(PACKAGE + step)
        arguments.derive_step_spec(step)


load_rollout_steps()


def require_run_once(step: str, task: Any, task_vars: Mapping[str, Any]) -> None:
    """Raise PlanError if a step that acts once for the play would run for several hosts.

    `ansible_play_batch` has the hosts of the play that still take tasks.
    """
    hosts = task_vars.get("ansible_play_batch") or ()
    if step in ONCE and len(hosts) > 1 and not task.run_once:
        raise PlanError(messages.STEP_NOT_ONCE.fill(step=step, count=len(hosts)))


class ActionModule(ActionBase):
    _supports_check_mode = True
    _supports_async = False

    @omitted_options.guard_action
    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        given = {name: value for name, value in self._task.args.items() if name in SPEC}
        step = str(validation.validate(SPEC, given)["step"])
        require_run_once(step, self._task, task_vars or {})
        run_step = getattr(importlib.import_module(PACKAGE + step), STEPS[step])
        result: dict[str, Any] = run_step(self, task_vars or {})
        return result
