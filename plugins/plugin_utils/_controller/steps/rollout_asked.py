# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Report the hosts of a rollout whose orchestrators have to be asked before it is planned."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    arguments,
    host_variables,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller.steps import rollout_plan
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster import drain
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import left_out, waves


def list_asked_hosts(action: ActionBase, task_vars: dict[str, Any]) -> dict[str, Any]:
    """Return the hosts whose orchestrators have to be asked, as a pattern for `hosts` of a play."""
    args = arguments.read_step_options(action, "rollout_asked")
    hosts = [str(host) for host in task_vars.get("ansible_play_hosts_all") or ()]
    known = {host: host_variables.HostVariables(task_vars["hostvars"], host) for host in hosts}
    asked = [host for host in hosts if is_host_asked(known[host], args["results"])]
    return {"changed": False, "pattern": asked or rollout_plan.NO_HOST}


def is_host_asked(variables: Mapping[str, Any], results: str) -> bool:
    """Tell whether an orchestrator has to be asked about a host before the rollout is planned."""
    look = rollout_plan.get_host_look(variables, results)
    # A host in the middle of a change of its driver may be out of service by an earlier run.
    unjudged = left_out.is_change_unjudged(look)
    if left_out.explain_unknown_host(look) if unjudged else left_out.explain_broken_host(look):
        return False
    by = [
        str(name) for name in waves.parse_written_list(variables.get("gpufleet_drain_by") or "auto")
    ]
    commands = variables.get("gpufleet_drain_commands") or {}
    return drain.is_orchestrator_asked(
        str(variables.get("gpufleet_drain") or "auto"), by, drain.Work.read_work(look), commands
    )
