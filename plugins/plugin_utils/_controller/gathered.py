# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Gather the results that hosts have registered in a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    host_variables,
    unanswered_hosts,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import outcomes
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.text import (
    bounds,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet.report import (
    registered,
)


def gather_results(task_vars: Mapping[str, Any], args: Mapping[str, Any]) -> outcomes.Results:
    """Return each host's result, with what else failed in the same run."""
    hosts = [str(h) for h in task_vars.get("ansible_play_hosts_all") or ()]
    known = {host: host_variables.HostVariables(task_vars["hostvars"], host) for host in hosts}
    gathered = {host: known[host].get(args["results"]) for host in hosts}
    if hosts and not any(gathered.values()):
        registered.require_known_variable(
            args["results"], sorted({str(name) for v in known.values() for name in v})
        )
    results = {
        host: outcomes.merge_failures(
            dict(gathered[host] or {}), list_step_results(known[host], args["also"])
        )
        for host in hosts
    }
    return {
        host: bounds.limit_result(result)
        for host, result in unanswered_hosts.fail_unread_hosts(
            results, task_vars["hostvars"]
        ).items()
    }


def list_step_results(
    variables: Mapping[str, Any], names: list[str]
) -> dict[bool, list[outcomes.Result]]:
    """Return the results of other steps, by whether they are looks: True -> looks, False -> other
    steps.

    A look counts only if nothing came after it.
    """
    by_kind: dict[bool, list[outcomes.Result]] = {True: [], False: []}
    for name in names:
        by_kind[name == registered.LOOK].append(dict(variables.get(name) or {}))
    return by_kind
