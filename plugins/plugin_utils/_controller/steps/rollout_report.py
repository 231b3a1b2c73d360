# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Print the outcome of a rollout, and return its totals."""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Mapping
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    arguments,
    base,
    batch_hosts,
    claims,
    console,
    host_variables,
    rollout_events,
    run_messages,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import outcomes
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.text import (
    bounds,
    names,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import (
    events,
    health,
    progress,
    rollout,
    settings,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet.report import (
    fleet_hosts,
    registered,
)

# The parts of a look about the host itself, regardless of what becomes of it in the rollout.
ABOUT = ("row", "decision", "versions", "freshness", "drift", "pending")


def report_rollout(action: ActionBase, task_vars: dict[str, Any]) -> dict[str, Any]:
    """Print the outcome of the rollout, and return its totals and its problem."""
    args = arguments.read_step_options(action, "rollout_report")
    plan = args["plan"]
    check = bool(action._task.check_mode)
    hostvars = task_vars["hostvars"]
    reached = batch_hosts.get_reached_progress(plan, hostvars)
    results = {
        host: bounds.limit_result(
            get_rollout_result(host, plan, host_variables.HostVariables(hostvars, host), reached)
        )
        for host in plan["hosts"]
    }
    totals = outcomes.count_outcomes(results, check)
    wrong = (
        explain_rollout_problem(totals, reached)
        or explain_nothing_taken(totals, results, reached)
        or args["refused"]
    )
    status = describe_rollout_end(reached, wrong, check)
    # A run that changes nothing shows what would change. With --diff the files themselves show it.
    details = check and not task_vars.get("ansible_diff_mode")
    lines = fleet_hosts.list_fleet_lines(
        results,
        fleet_hosts.FleetView(console.get_terminal_width(), details, check, reasons=False),
    )
    why = reached.ended or (waits(reached) if status == "paused" else "")
    lines += [f"the rollout is {status}: {why}"] if why and why != wrong else []
    about = base.read_run_reference(action, task_vars)
    lines += [f"change: {about.text}"] if about.text else []
    following = console.find_following("rollout", totals, check)
    console.show(["", *lines, *console.write_end(wrong, following), ""])
    sink = (
        settings.build_rollout_settings(args["settings"]).events
        if args["settings"] and not check
        else ()
    )
    writer = rollout_events.EventWriter(action, task_vars, sink)
    failures = outcomes.list_failures(results, check, False) if wrong else {}
    stats = {
        "gpufleet_totals": totals,
        "gpufleet_rollout_result": status,
        "gpufleet_rollout_totals": totals,
    }
    shaped = {
        "changed": False,
        "lines": lines,
        "status": status,
        "totals": totals,
        "problem": wrong,
        "failures": failures,
        **dc.asdict(about),
    }
    counts = {key: value for key, value in totals.items() if isinstance(value, int)}
    heard = dc.replace(reached, unheard=reached.unheard or bool(plan.get("unheard")))
    writer.write(heard, events.END, {"status": status, "totals": counts, "why": why or wrong})
    # Last, after everything was reported: if the disk is full, for example, this ends with a
    # warning.
    begun = [
        host for host, r in results.items() if r.get("standing") not in ("pending", "left out")
    ]
    warnings = [] if check else rollout_events.note_host_outcomes(lambda: claims.give_up(begun))
    shaped = {**shaped, "warnings": [*writer.result.get("warnings", ()), *warnings]}
    return {**shaped, "ansible_stats": {"data": stats, "per_host": False, "aggregate": False}}


def describe_rollout_end(found: progress.Progress, wrong: str, check: bool) -> str:
    """Return how the rollout ended.

    Hosts that wait for others are begun by a later run, as after a pause.
    """
    if check:
        return "predicted"
    if found.paused:
        return "paused"
    if found.ended or found.stopped:
        return "stopped"
    return "failed" if wrong else "paused" if waits(found) else "done"


def waits(found: progress.Progress) -> str:
    """Return why hosts were not begun although no host failed; '' if none waits."""
    classes = [
        run_messages.CLASS_WAITS.fill(label=label, cause=why)
        for label, why in found.untried.items()
    ]
    return "; ".join([*classes, *found.full])


def explain_rollout_problem(totals: Mapping[str, Any], found: progress.Progress) -> str:
    """Return the problem of the rollout; '' if there is none.

    A rollout that the gate has stopped has one, regardless of the numbers.
    """
    return outcomes.explain_failed_run(totals) or (
        found.ended if found.ended and not found.paused else ""
    )


def explain_nothing_taken(
    totals: Mapping[str, Any], results: Mapping[str, outcomes.Result], found: progress.Progress
) -> str:
    """Return the problem of a rollout that has taken none of its hosts; '' otherwise.

    In a small fleet, one host may be left out in any case.
    """
    idle = [host for host, r in results.items() if r.get("standing") == "left out"]
    waiting = found.paused or (found.untried and len(idle) < len(results))  # the next run goes on
    if not idle or waiting or any(totals[key] for key in ("changed", "would_change", "unchanged")):
        return ""
    first = sorted(idle, key=names.build_natural_key)[0]
    return run_messages.NOTHING_TAKEN.fill(
        idle=len(idle),
        all=outcomes.format_host_count(len(results)),
        hosts=names.show_some_runs(idle),
        first=first,
        cause=fleet_hosts.explain_host_row(results[first], ""),
    )


def get_rollout_result(
    host: str, plan: Mapping[str, Any], variables: Mapping[str, Any], found: progress.Progress
) -> outcomes.Result:
    """Return what became of one host, in the shape of a result of `host`."""
    planned = plan["hosts"][host]
    look = dict(variables.get(registered.LOOK) or {})
    about = {key: look[key] for key in ABOUT if key in look}
    if planned["state"] == rollout.LEFT_OUT:
        return {**about, "standing": "left out", "msg": planned["why"]}
    if planned["state"] == rollout.DONE:
        return {**about, "advice": look.get("advice") or []}
    drained = batch_hosts.get_step_result(variables, registered.DRAINED)
    if drained.get("failed") and drained.get("outcome") in batch_hosts.WAITING:
        return {
            **about,
            "standing": batch_hosts.WAITING[drained["outcome"]],
            "msg": drained.get("why") or drained.get("msg"),
        }
    converged, steps = (
        batch_hosts.get_converged_result(variables),
        batch_hosts.list_other_steps(variables),
    )
    step = variables.get(registered.ROLLOUT_STEP) or {}
    if host in (step.get("unstarted") or ()) or (not converged and not any(steps)):
        if host in found.bad or has_started(host, variables):
            return {**about, "unreachable": True, "msg": run_messages.LOST_IN_BATCH.fill()}
        why = (
            ""
            if plan.get("ended")
            else progress.map_held_hosts(found, {host: planned["class"]}).get(host, "")
        )
        return {**about, "standing": "pending", "msg": why or run_messages.BATCH_NOT_STARTED.fill()}
    sick = found.unhealthy.get(host)
    noted = list_second_look_notes(host, plan, variables)
    about = {**about, "advice": noted} if noted else about
    converged = (
        {**converged, "advice": [*(converged.get("advice") or ()), *noted]}
        if noted and converged
        else converged
    )
    return outcomes.merge_failures(
        {**about, **converged},
        {False: [*steps, *([{"failed": True, "msg": sick}] if sick else [])]},
    )


def has_started(host: str, variables: Mapping[str, Any]) -> bool:
    """Tell whether the host's batch has begun with it, and has not ended.

    Then the host is lost, with all others of its batch.
    """
    step = variables.get(registered.ROLLOUT_STEP) or {}
    return (
        step.get("point") == "begin"
        and not step.get("ended")
        and host not in (step.get("held") or {})
    )


def list_second_look_notes(
    host: str, plan: Mapping[str, Any], variables: Mapping[str, Any]
) -> list[str]:
    """Return what the second look found beside the reasons to fail; [] if there was no second look."""
    second = batch_hosts.get_second_look(host, plan, variables)
    return [
        *(health.list_health_notes(second) if second.after else ()),
        *health.list_diagnosis_notes(batch_hosts.get_step_result(variables, registered.DIAGNOSIS)),
    ]
