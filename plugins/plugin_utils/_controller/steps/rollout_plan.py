# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plan a rollout from the look at all of its hosts."""

from __future__ import annotations

import dataclasses as dc
import functools
import json
from collections.abc import Callable, Collection, Mapping
from typing import Any

from ansible.module_utils.parsing.convert_bool import boolean
from ansible.plugins.action import ActionBase
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    arguments,
    base,
    batch_hosts,
    claims,
    console,
    host_variables,
    named_paths,
    outside,
    rollout_events,
    unanswered_hosts,
    unreadable_variables,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller.steps import (
    rollout_settings,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.text import names
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import (
    approval,
    approved,
    events,
    messages,
    plan_file,
    progress,
    rollout,
    settings,
    steps_of_batch,
    uniform,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet.awx import slices
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet.report import (
    registered,
)

NO_HOST = ["all", "!all"]  # a play needs a pattern, and this one matches none without a warning
APPLY = "gpufleet_kubernetes_apply"
DIRECTORY = "gpufleet_kubernetes_dir"
OF_HOSTS = (
    "gpufleet_cluster",
    "gpufleet_slurm_partition",
    APPLY,
    DIRECTORY,
    registered.DRAIN_CHECK,
)


def plan_fleet(action: ActionBase, task_vars: dict[str, Any]) -> dict[str, Any]:
    """Plan the rollout, print the plan, and return it as the other steps take it."""
    args = arguments.read_step_options(action, "rollout_plan")
    wanted = settings.build_rollout_settings(args["settings"])
    fleet = read_fleet(task_vars, wanted, args["results"], args["settings"].get("tasks") or {})
    uniform.require_policy(args["fleet_policy"], fleet.results)
    fleet = bind_approved_plan(fleet, args["settings"]["approved"])
    planned, unsettled = (
        (rollout.plan_rollout(fleet, wanted), [])
        if args["approvals"]
        else take_hosts(action, fleet, wanted, task_vars)
    )
    lines = rollout.list_rollout_lines(planned, batches=not args["approvals"])
    lines += rollout.may_fail(planned, wanted.max_failed)
    if args["settings"]["plan_file"] and not planned.ended:
        write_rollout_plan(
            args["settings"]["plan_file"], plan_file.build_plan_document(planned, fleet.results)
        )
    if args["settings"]["plan_file"] or not args["approvals"]:
        console.show(["", *lines, ""])
    elif wanted.driver:
        console.show(["", *rollout.list_driver_lines(planned, wanted.driver), ""])
    changes = approval.build_approval_digests([] if planned.ended else rollout.digests(planned))
    every, check = fleet.variables.values(), bool(action._task.check_mode)
    clusters = any(is_cluster_applied(of_host) for of_host in every)
    is_bound = bool(args["settings"]["approved"]) or wanted.approved_changes is not None
    shaped = {
        "changed": False,
        **convert_rollout_plan(planned, is_bound),
        "clusters": clusters,
        "rendered": clusters or any(of_host.get(DIRECTORY) for of_host in every),
        "plain": is_rollout_plain(
            every, clusters, wanted, args["settings"], check, unjudged=planned.has_unjudged_hosts
        ),
        "approved_changes": changes,
        "lines": lines,
    }
    if not args["approvals"]:
        shaped["warnings"] = [*warn_of_sliced_rollout(task_vars), *unsettled]
    if not (args["approvals"] or action._task.check_mode):
        writer = rollout_events.EventWriter(action, task_vars, wanted.events)
        unheard = writer.write(
            progress.Progress(), events.START, events.build_start_event(shaped)
        ).unheard
        said = [*shaped["warnings"], *writer.result.get("warnings", ())]
        return {**shaped, "unheard": unheard, "warnings": said}
    return {
        **shaped,
        "ansible_stats": {
            "data": {approval.SETTING: changes},
            "per_host": False,
            "aggregate": False,
        },
    }


def take_hosts(
    action: ActionBase,
    seen: rollout.Fleet,
    wanted: settings.RolloutSettings,
    task_vars: Mapping[str, Any],
) -> tuple[rollout.Rollout, list[str]]:
    """Plan without the hosts that another rollout has, and record the changed hosts as this
    rollout's.

    Return the plan, and the sentences about verifications that are not settled.
    """
    unsettled: list[str] = []
    of_hosts = {
        host: host_variables.HostVariables(task_vars["hostvars"], host) for host in seen.results
    }
    require_fresh(of_hosts)
    known = {
        host: claims.list_host_identities(host, result, of_hosts[host])
        for host, result in seen.results.items()
    }
    with claims.lock_claims() as directory:
        earlier = claims.list_claims_of_others(directory)
        others = {host: who for host, ids in known.items() if (who := earlier.find_holder(ids))}
        whole = dc.replace(
            seen,
            others={**seen.others, **others},
            verification=frozenset(
                host for host in known if host_variables.wants_verification(of_hosts[host])
            ),
            verified=frozenset(host for host, ids in known.items() if earlier.is_verified(ids)),
            unverified=frozenset(host for host, ids in known.items() if earlier.is_unverified(ids)),
        )
        planned = rollout.plan_rollout(whole, wanted)
        if not action._task.check_mode:
            begun = outside.format_present_time()
            about = base.read_run_reference(action, task_vars).text
            unsettled = claims.take(directory, known, planned.order, begun, about)
    return planned, unsettled


OF_A_ROLLOUT = (
    *registered.STEPS,
    registered.DRAINED,
    registered.DIAGNOSIS,
    registered.ROLLOUT_STEP,
)


def require_fresh(hosts: Mapping[str, Mapping[str, Any]]) -> None:
    """Raise PlanError if an earlier play of this command has changed hosts.

    The gate reads the results that the batches register. An earlier play's result would pass for
    the result of a lost host.
    """
    stale = [
        host
        for host, of_host in hosts.items()
        if any(batch_hosts.get_step_result(of_host, name) for name in OF_A_ROLLOUT)
    ]
    if stale:
        raise PlanError(messages.CHANGED_BEFORE.fill(hosts=names.show_some_runs(stale)))


def read_fleet(
    task_vars: Mapping[str, Any],
    wanted: settings.RolloutSettings,
    name: str,
    tasks: Mapping[str, Any],
) -> rollout.Fleet:
    """Return what is known of all hosts of the play before the rollout is planned.

    name: the variable that holds the look at each host. tasks: the files of the user's own tasks.
    """
    hosts = [str(h) for h in task_vars.get("ansible_play_hosts_all") or ()]
    known = {host: host_variables.HostVariables(task_vars["hostvars"], host) for host in hosts}
    keys = {*OF_HOSTS, *(path.split(".")[0] for path in (*wanted.hardware_class, *wanted.domain))}
    variables = {
        host: {key: of_host[key] for key in keys if key in of_host}
        for host, of_host in known.items()
    }
    checks = {
        host: dict(of_host.get(registered.DRAIN_CHECK) or {}) for host, of_host in known.items()
    }
    return rollout.Fleet(
        {
            host: get_named_look(
                of_host,
                name,
                functools.partial(
                    unreadable_variables.get_raw_variables, task_vars["hostvars"], host
                ),
            )
            for host, of_host in known.items()
        },
        variables,
        drained=frozenset(
            host
            for host, check in checks.items()
            if check.get("outcome") == "ready" or is_interrupted_by_tasks(known[host], tasks)
        ),
        first=frozenset(host for host, check in checks.items() if was_drained_before(check)),
        changes=bool(tasks.get("change")),
        others={
            host: str(check.get("why") or check.get("msg"))
            for host, check in checks.items()
            if check.get("failed")
        },
    )


def is_cluster_applied(variables: Mapping[str, Any]) -> bool:
    """Tell whether the cluster gets what follows from the change of a host."""
    return bool(boolean(variables.get(APPLY) or False, strict=False))


def is_rollout_plain(
    every: Collection[Mapping[str, Any]],
    clusters: bool,
    wanted: settings.RolloutSettings,
    given: Mapping[str, Any],
    check: bool,
    *,
    unjudged: bool = False,
) -> bool:
    """Tell whether no batch of a rollout needs anything around the change of its hosts.

    every: the variables of each host. given: the settings as the tasks hand them on. unjudged:
    whether a host has a change of its driver that no run has judged.
    """
    needs = steps_of_batch.Needs(
        ends=False,
        drains=any(registered.DRAIN_CHECK in of_host for of_host in every),
        soaks=wanted.soak > 0 and not check,
        clusters=clusters,
        verifies=True,
        check=check,
        unjudged=unjudged,
    )
    return steps_of_batch.is_plain(steps_of_batch.choose_files(needs, given.get("tasks") or {}))


def is_interrupted_by_tasks(variables: Mapping[str, Any], tasks: Mapping[str, Any]) -> bool:
    """Tell whether a user's file of tasks takes the host out of service, for example by a reboot.

    That counts even if the host has no work that must be drained.
    """
    said = variables.get("gpufleet_drain_driver_changes")
    return bool(tasks.get("change")) and (said is None or boolean(said, strict=False))


def warn_of_sliced_rollout(variables: Mapping[str, Any]) -> list[str]:
    """Return a warning if this job of AWX looks like a slice: the limits of a rollout are those of
    one job.
    """
    if "awx_job_id" not in variables:
        return []
    numbers = {
        host: variables["hostvars"][host].get("remote_tower_id", "")
        for host in variables["groups"]["all"]
    }
    warning = slices.warn_of_slice(variables, numbers)
    return [warning] if warning else []


def was_drained_before(check: Mapping[str, Any]) -> bool:
    """Tell whether an earlier run of this rollout has taken the host out of service, and it still
    is.
    """
    return any(node.get("state") == "held" for node in (check.get("nodes") or {}).values())


def bind_approved_plan(seen: rollout.Fleet, name: str) -> rollout.Fleet:
    """Bind the fleet to the approved plan of this name, if there is one.

    Hosts that plan something else now are left out.
    """
    if not name:
        return seen
    plan = rollout_settings.read_plan(name)
    plan_file.require_inventory(plan, list(seen.results), name)
    return dc.replace(seen, others={**plan_file.map_moved_hosts(plan, seen.results), **seen.others})


def write_rollout_plan(name: str, document: Mapping[str, Any]) -> None:
    """Write the plan with the mode of the umask, since it names what is configured on every host."""
    path = named_paths.expand_named_path(name).absolute()
    outside.write_outside_file(
        path.parent,
        path.name,
        json.dumps(document, indent=1, ensure_ascii=False) + "\n",
        plan_file.FILE,
        mode=None,
    )


def get_host_look(variables: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the look at a host, or the failure that prevented it."""
    return dict(registered.read_kept_failure(variables) or variables.get(name) or {})


def get_named_look(
    variables: Mapping[str, Any], name: str, written: Callable[[], Mapping[str, Any]]
) -> dict[str, Any]:
    """Return the look at a host, or the failure that prevented it.

    If no look has answered, the message names the variable that cannot be read.
    """
    look = get_host_look(variables, name)
    before = unanswered_hosts.is_without_answer(variables.get(name) or {}) and not look.get(
        "unreachable"
    )
    said = unanswered_hosts.explain_unread_variable(variables, written()) if before else ""
    return {**look, "failed": True, "msg": said} if said else look


def convert_rollout_plan(found: rollout.Rollout, is_bound: bool = False) -> dict[str, Any]:
    """Return a plan as the next tasks take it.

    is_bound: the plan is bound to an approval. The task that changes a host compares it with the
    approval once more.
    """
    return {
        "ended": found.ended,
        "pattern": found.order or NO_HOST,
        "sizes": [len(batch.hosts) for batch in found.batches] or [1],
        "batches": [{"wave": b.wave, "hosts": list(b.hosts)} for b in found.batches],
        "hosts": {
            name: {**show_rollout_host(host), "approved": get_allowed_change(host, is_bound)}
            for name, host in found.hosts.items()
        },
        "limits": {
            "allowed": dict(found.limits.allowed),
            "groups": {h: found.limits.groups[h] for h in found.order if h in found.limits.groups},
        },
    }


def get_allowed_change(host: rollout.RolloutHost, is_bound: bool) -> str:
    """Return the change that the host may have; '' if nothing has to be approved."""
    return (host.change or approved.NONE) if is_bound else ""


def show_rollout_host(host: rollout.RolloutHost) -> dict[str, Any]:
    """Return the plan of one host, as the next tasks take it."""
    values = dc.asdict(host)
    return {
        "class": values["hardware"],
        **{
            key: values[key]
            for key in ("state", "why", "domain", "change", "gpus", "running", "unjudged", "moves")
        },
    }
