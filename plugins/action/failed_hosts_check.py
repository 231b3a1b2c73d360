# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stop a play if too many hosts failed or were lost, or if the fleet is not uniform and should be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    arguments,
    base,
    host_variables,
    messages,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.text import names
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import (
    budget,
    uniform,
    waves,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet.report import (
    registered,
)

SPEC = arguments.derive_argument_spec("failed_hosts_check")


def was_host_lost(variables: Mapping[str, Any], results: str) -> bool:
    """Tell whether a step of this run lost the host.

    `ignore_unreachable` keeps it in the play so that the table shows it.
    """
    return any(
        (variables.get(name) or {}).get("unreachable") for name in (*registered.STEPS, results)
    )


class ActionModule(ActionBase):
    _supports_check_mode = True
    _supports_async = False
    _requires_connection = False
    # Once per batch, regardless of the task's settings: its answer is about the play, not about a
    # host.
    BYPASS_HOST_LOOP = True

    @base.guard_action
    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        args = arguments.read_task_options(self, SPEC)
        variables = task_vars or {}
        # Unreachable hosts leave ansible_play_hosts as failed ones do; counts of failures alone
        # miss them (ansible#56265).
        every, left = (
            list(variables.get(name) or [])
            for name in ("ansible_play_hosts_all", "ansible_play_hosts")
        )
        known = {host: host_variables.HostVariables(variables["hostvars"], host) for host in left}
        lost = sorted(
            {
                *(set(every) - set(left)),
                *(host for host in left if was_host_lost(known[host], args["results"])),
            }
        )
        results = (
            {host: dict(known[host].get(args["results"]) or {}) for host in left}
            if args["results"]
            else {}
        )
        uniform.require_policy(args["fleet_policy"], results)
        most = waves.parse_amount("max_failed", args["max_failed"])
        verdict = budget.judge_failed_hosts(len(lost), len(every), most)
        answer = {
            "changed": False,
            "lost": lost,
            "allowed": verdict.allowed,
            "total": verdict.total,
        }
        if verdict.ok:
            return {**answer, "msg": verdict.sentence}
        row, hosts = messages.PLAY_STOPS, names.show_some_runs(lost)
        error = PlanError(row.fill(sentence=verdict.sentence, hosts=hosts))
        return {
            **answer,
            **arguments.build_option_failure(error),
            "failed": True,
            "msg": str(error),
        }
