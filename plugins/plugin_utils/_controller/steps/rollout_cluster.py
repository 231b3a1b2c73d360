# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Apply to clusters what the hosts of a rollout's batch need before and after their change."""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Mapping, Sequence
from typing import Any

from ansible.errors import AnsibleError
from ansible.plugins.action import ActionBase
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    arguments,
    batch_gates,
    batch_hosts,
    cluster_api,
    clusters,
    console,
    host_variables,
    run_messages,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller.steps import (
    rollout_plan,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster import api_calls
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Sentence,
    end_with_code,
    join_texts,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import (
    rollout,
    settings,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet.report import (
    registered,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.results import results

WHEN = {"before": "before the change", "after": "after the change", "end": "at the end"}
REFUSED: Mapping[str, Sentence] = {
    "before": run_messages.NOT_APPLIED_BEFORE,
    "after": run_messages.NOT_APPLIED_AFTER,
    "end": run_messages.NOT_APPLIED_END,
}


@dc.dataclass(frozen=True)
class Asked:
    """One cluster that was judged, with its changes."""

    one: clusters.OneCluster
    todo: clusters.InApi
    api: cluster_api.ClusterApi

    @property
    def calls(self) -> Sequence[api_calls.Call]:
        return self.todo.plan.calls


def apply_to_clusters(action: ActionBase, task_vars: dict[str, Any]) -> dict[str, Any]:
    """Apply the objects, and return what was applied, or why that was refused."""
    args = arguments.read_step_options(action, "rollout_cluster")
    variables, check = task_vars, bool(action._task.check_mode)
    done: list[Asked] = []
    refused = ""
    concerned = list_applied_hosts(args, variables, check)
    closed = (
        batch_gates.explain_closed_window(settings.build_rollout_settings(args["settings"]))
        if concerned and args["point"] == "end" and not check
        else ""
    )
    try:
        every = list_asked(action, [] if closed else concerned, args, variables)
        for asked in every:
            with clusters.name_cluster_in_errors(asked.one):
                asked.api.judge(asked.calls)
        for asked in every:
            with clusters.name_cluster_in_errors(asked.one):
                asked.api.carry_out([] if check else asked.calls)
            done.append(asked)
    except (PlanError, AnsibleError) as error:
        refused = describe_refused_step(args, variables, error)
    calls = [call for asked in done for call in asked.calls]
    waits = end_with_code(run_messages.CLUSTERS_WAIT.fill(closed=closed))
    lines = [str(waits)] if closed else []
    lines += [line for asked in done for line in describe_cluster_step(asked, args["point"], check)]
    if lines:
        console.show(lines)
    return {
        "changed": bool(calls),
        "refused": refused,
        "waits": any(asked.calls and asked.todo.which.ahead for asked in done),
        "differences": results.describe_differences(d for call in calls for d in call.differences),
        "diff": [clusters.build_api_diff(*change) for call in calls for change in call.changes],
        "lines": lines,
    }


def list_asked(
    action: ActionBase, names: Sequence[str], args: Mapping[str, Any], variables: Mapping[str, Any]
) -> list[Asked]:
    """Judge all clusters, before anything is done in one of them."""
    if not names:
        return []
    given = {name: option.get("default") for name, option in clusters.SPEC.items()}
    given["results"] = args["results"]
    of_play, _others = clusters.find_play_clusters(
        {**variables, "ansible_play_hosts_all": list(names)}, given
    )
    wanted = [one for one in of_play if one.options["apply"] and one.options["state"] == "present"]
    clusters.require_own_access(wanted)
    return [apply_to_one(action, one, given, variables) for one in wanted]


def apply_to_one(
    action: ActionBase,
    one: clusters.OneCluster,
    given: Mapping[str, Any],
    variables: Mapping[str, Any],
) -> Asked:
    """Judge one cluster, and return it with what is to be done there."""
    api = clusters.build_cluster_api(action, one, variables)
    return Asked(
        one,
        clusters.plan_in_api(one, api, clusters.build_cluster_settings(one.options, given)),
        api,
    )


def describe_refused_step(
    args: Mapping[str, Any], variables: Mapping[str, Any], error: Exception
) -> str:
    """Return why something was not applied to a cluster, and what that means for the rollout."""
    cause = REFUSED[args["point"]].fill(cause=str(error))
    if args["point"] != "before":
        return join_texts(". ", (cause, run_messages.CLUSTERS_GO_ON.fill()))
    if has_several_clusters(args, variables):
        return join_texts(". ", (cause, run_messages.ROLLOUT_ENDS_HERE.fill()))
    return cause


def list_applied_hosts(
    args: Mapping[str, Any], variables: Mapping[str, Any], check: bool
) -> list[str]:
    """Return the hosts for which something is applied in the cluster at this point."""
    known = {
        host: host_variables.HostVariables(variables["hostvars"], host)
        for host in list_point_hosts(args, variables)
    }
    applied = [host for host, of_host in known.items() if rollout_plan.is_cluster_applied(of_host)]
    plan = args["plan"]["hosts"]
    if args["point"] == "before":
        return applied
    return [
        host
        for host in applied
        if plan[host]["state"] == rollout.DONE or has_come_through(known[host], check)
    ]


def list_point_hosts(args: Mapping[str, Any], variables: Mapping[str, Any]) -> list[str]:
    """Return the hosts of the batch that started; at the end, all hosts that are not known to be
    broken.

    A rollout that has paused does nothing more: its window is closed, or a person has ended it.
    """
    if args["point"] == "end":
        reached = batch_hosts.get_reached_progress(args["plan"], variables["hostvars"])
        return (
            []
            if reached.ended
            else [host for host in args["plan"]["hosts"] if host not in reached.bad]
        )
    held = (variables.get(registered.ROLLOUT_STEP) or {}).get("held") or {}
    return [str(host) for host in variables.get("ansible_play_batch") or () if host not in held]


def has_come_through(variables: Mapping[str, Any], check: bool) -> bool:
    """Tell whether a host came through its change."""
    return batch_hosts.get_host_word(variables, check) in ("yes", "no")


def has_several_clusters(args: Mapping[str, Any], variables: Mapping[str, Any]) -> bool:
    """Tell whether the rollout has hosts of more than one cluster, or also hosts outside of the
    one.

    The cluster is known by the inventory, otherwise by the CA.
    """
    known = (
        host_variables.HostVariables(variables["hostvars"], host) for host in args["plan"]["hosts"]
    )
    clusters_of_hosts = (
        rollout.get_host_cluster(of_host, of_host.get(args["results"]) or {}) for of_host in known
    )
    return len({name or authority for name, authority in clusters_of_hosts}) > 1


def describe_cluster_step(asked: Asked, point: str, check: bool) -> list[str]:
    """Return the lines about what was done in one cluster, or would be."""
    doing = ", ".join(dict.fromkeys(call.doing for call in asked.calls))
    would = "would " if check else ""
    first = [f"cluster {asked.one.name}, {WHEN[point]}: {would}{doing}"] if doing else []
    return [*first, *(f"  {text}" for text in asked.todo.plan.said if doing)]
