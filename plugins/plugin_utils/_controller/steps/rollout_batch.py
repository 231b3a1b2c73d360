# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Begin or end one batch of a rollout, as the rollout's gate."""

from __future__ import annotations

import dataclasses as dc
import time
from collections.abc import Collection, Mapping
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    arguments,
    batch_gates,
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
    layout,
    names,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import (
    events,
    health,
    progress,
    rollout,
    room,
    settings,
    steps_of_batch,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet.report import (
    fleet_hosts,
    registered,
)


def begin_or_end_batch(action: ActionBase, task_vars: dict[str, Any]) -> dict[str, Any]:
    """Begin or end the batch, and return the progress and the hosts that must not start.

    With `tried`, tell of every batch.
    """
    args = arguments.read_step_options(action, "rollout_batch")
    variables, plan, wanted = (
        task_vars,
        args["plan"],
        settings.build_rollout_settings(args["settings"]),
    )
    check = bool(action._task.check_mode)
    tried = args["point"] == "tried"
    number = 0 if tried else batch_hosts.get_batch_number(plan, variables)
    writer = rollout_events.EventWriter(action, variables, wanted.events if not check else ())
    task = BatchTask(args, plan, wanted, number, variables["hostvars"], check, writer)
    if tried:
        return tell_tried_batches(task, variables.get("ansible_play_batch") or ())
    so_far = batch_hosts.get_progress_before_batch(plan, number, variables["hostvars"])
    return (
        end_rollout_batch(task, so_far)
        if args["point"] == "end"
        else begin_rollout_batch(task, so_far, variables.get("ansible_play_batch") or ())
    )


@dc.dataclass(frozen=True)
class BatchTask:
    """The task that begins or ends a batch: its arguments, and what is known of the hosts."""

    args: Mapping[str, Any]
    plan: Mapping[str, Any]
    wanted: settings.RolloutSettings
    number: int
    hostvars: Mapping[str, Any]
    check: bool
    writer: rollout_events.EventWriter

    @property
    def batch(self) -> Mapping[str, Any]:
        batch: Mapping[str, Any] = self.plan["batches"][self.number]
        return batch

    @property
    def classes(self) -> dict[str, str]:
        return {host: str(self.plan["hosts"][host]["class"]) for host in self.batch["hosts"]}

    @property
    def earlier(self) -> progress.Progress:
        """The progress that was reported before.

        It does not tell that the result of the batch before is unknown, since this batch finds that
        out.
        """
        return batch_hosts.get_reached_progress(self.plan, self.hostvars, self.number)

    def refuse_batch(self, found: progress.Progress) -> progress.Progress:
        """Return the progress, ended if objects could not be applied to a cluster."""
        return progress.end_progress(found, self.args["refused"]) if self.args["refused"] else found


def begin_rollout_batch(
    task: BatchTask, so_far: progress.Progress, batch: Collection[str]
) -> dict[str, Any]:
    """Begin a batch; with `ready`, answer whether it may begin.

    batch: the hosts that Ansible has in it.
    """
    so_far = admit_batch_hosts(task, so_far, batch)
    if task.args["point"] == "ready":
        return shape_batch_result(task.args, so_far, {})
    plan, wanted, number, check = task.plan, task.wanted, task.number, task.check
    so_far = so_far if check else batch_gates.ask_gate_before_first(so_far, wanted, number)
    so_far = so_far if check or so_far.began else dc.replace(so_far, began=time.time())
    console.show(
        [
            *(batch_gates.predict_pauses(wanted, number) if check else ()),
            describe_begun_batch(plan, number, so_far),
        ]
    )
    so_far = dc.replace(so_far, unheard=so_far.unheard or bool(plan.get("unheard")))
    so_far = (
        rollout_events.report_rollout_stop(task.writer, task.earlier, so_far)
        if so_far.ended
        else task.writer.write(so_far, events.BATCH, events.build_batch_place(plan, number))
    )
    soaks, clusters = wanted.soak > 0 and not check, bool(plan.get("clusters"))
    looks = {"soaks": soaks, "clusters": clusters, "looks": soaks or (clusters and not check)}
    held = progress.map_held_hosts(so_far, task.classes)
    needs = find_needs(task, held, bool(so_far.ended), soaks, clusters)
    files = steps_of_batch.choose_files(needs, task.args["settings"].get("tasks") or {})
    return {
        **shape_batch_result(task.args, so_far, held),
        **looks,
        "files": files,
        "verifies": needs.verifies,
        **task.writer.result,
    }


def find_needs(
    task: BatchTask, held: Collection[str], ends: bool, soaks: bool, clusters: bool
) -> steps_of_batch.Needs:
    """Return what the hosts of a batch need besides their change."""
    known = [
        host_variables.HostVariables(task.hostvars, host)
        for host in task.classes
        if host not in held
    ]
    drains = any(registered.DRAIN_CHECK in variables for variables in known)
    verifies = not task.check and any(map(host_variables.wants_verification, known))
    unjudged = any(task.plan["hosts"][host].get("unjudged") for host in task.classes)
    return steps_of_batch.Needs(ends, drains, soaks, clusters, verifies, task.check, unjudged)


def admit_batch_hosts(
    task: BatchTask, so_far: progress.Progress, batch: Collection[str]
) -> progress.Progress:
    """Decide which hosts of the batch may start, or why the rollout ends before it."""
    plan, number = task.plan, task.number
    so_far = batch_gates.check_planned_batch(so_far, task.classes, batch)
    so_far = batch_gates.limit_to_wave(so_far, task.wanted, task.batch["wave"])
    so_far = so_far if task.check else batch_gates.check_window(so_far, task.wanted)
    most = room.limits(plan)
    so_far = room.begin_batch(
        so_far,
        batch_hosts.list_hosts_out_of_service(plan, number, task.hostvars, most.groups),
        batch_hosts.list_remaining_batches(plan, number),
        most,
    )
    so_far = task.refuse_batch(so_far)
    if not task.args["declined"]:
        return so_far
    return progress.end_progress(so_far, run_messages.ENDED_BY_PERSON.fill(), paused=True)


def end_rollout_batch(task: BatchTask, so_far: progress.Progress) -> dict[str, Any]:
    """End a batch: judge what became of its hosts, and whether the rollout goes on."""
    plan, check, classes = task.plan, task.check, task.classes
    held = progress.map_held_hosts(so_far, classes)
    known = {
        host: host_variables.HostVariables(task.hostvars, host)
        for host in classes
        if host not in held
    }
    words = {host: batch_hosts.get_host_word(variables, check) for host, variables in known.items()}
    came = [host for host, said in words.items() if said in ("yes", "no")]
    looked = came if task.wanted.soak > 0 and not check else ()
    sick = {
        host: why
        for host in looked
        if (why := health.explain_ill_health(batch_hosts.get_second_look(host, plan, known[host])))
    }
    total = sum(len(batch["hosts"]) for batch in plan["batches"])
    ended = progress.Ended(words, classes, task.batch["wave"] == rollout.CANARY, sick)
    so_far = task.refuse_batch(
        progress.update_progress(so_far, ended, total, task.wanted.max_failed)
    )
    warnings = (
        []
        if check
        else rollout_events.note_host_outcomes(
            lambda: claims.end_claims([host for host in came if host not in sick])
        )
    )
    so_far = so_far if check or so_far.ended else batch_gates.ask_gate_check(so_far, task.wanted)
    by_host = {
        host: describe_host_line(host, words[host], sick.get(host, ""), plan, known[host])
        for host in events.sort_outcome_words(words)
    }
    seconds = max(time.time() - so_far.began, 1.0) if so_far.began else 0.0
    limit = task.wanted.max_failed.compute_number(total)
    line = events.summarize_batch(task.number, plan, words, so_far, limit=limit, seconds=seconds)
    console.show([*events.list_hosts(by_host), line])
    so_far = task.writer.write(
        so_far,
        events.GATE,
        {
            **events.build_batch_place(plan, task.number),
            **events.build_gate_event(words, so_far, total),
        },
    )
    so_far = rollout_events.report_rollout_stop(task.writer, task.earlier, so_far)
    return {
        **shape_batch_result(task.args, so_far, {}),
        "warnings": [*warnings, *task.writer.result.get("warnings", ())],
    }


def tell_tried_batches(task: BatchTask, tried: Collection[str]) -> dict[str, Any]:
    """Tell of each batch what the gate would make of it, by what its hosts said in check mode.

    There nothing is restarted, so Ansible had all hosts in one batch. Return the progress at the
    end, and the hosts that the gate would not have started.

    tried: the hosts that Ansible had.
    """
    planned = [host for batch in task.plan["batches"] for host in batch["hosts"]]
    so_far = batch_gates.check_planned_batch(progress.Progress(), planned, tried)
    started: list[str] = []
    for number in range(len(task.plan["batches"])):
        one = dc.replace(task, number=number)
        begun = begin_rollout_batch(one, so_far, list(one.classes))
        so_far = progress.read_progress(begun["progress"])
        if so_far.ended:
            break
        started += [host for host in one.classes if host not in begun["held"]]
        so_far = progress.read_progress(end_rollout_batch(one, so_far)["progress"])
    unstarted = sorted(set(planned) - set(started))
    return {**shape_batch_result({"point": "end"}, so_far, {}), "unstarted": unstarted}


def describe_host_line(
    host: str, said: str, sick: str, plan: Mapping[str, Any], variables: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the parts of the line about one host."""
    result = outcomes.merge_failures(
        batch_hosts.get_converged_result(variables),
        {False: batch_hosts.list_other_steps(variables)},
    )
    drained = batch_hosts.get_step_result(variables, registered.DRAINED)
    why = sick or (
        str(drained.get("why") or drained.get("msg") or "")
        if said in batch_hosts.WAITING.values()
        else fleet_hosts.explain_host_row(result, "")
    )
    shown = "failed" if sick else said
    why = bounds.shorten_text(why, layout.SENTENCE)
    return {
        "class": plan["hosts"][host]["class"],
        "word": shown,
        "seconds": result.get("seconds"),
        "why": why,
    }


def describe_begun_batch(plan: Mapping[str, Any], number: int, found: progress.Progress) -> str:
    """Return the line about a batch that begins, or about the end before it."""
    batch = plan["batches"][number]
    wave = "canaries" if batch["wave"] == rollout.CANARY else f"wave {batch['wave']}"
    if found.ended:
        return f"the rollout {'pauses' if found.paused else 'stops'} before batch {number + 1} of {len(plan['batches'])}: {found.ended}"
    return f"batch {number + 1} of {len(plan['batches'])}, {wave}: {names.show_some_runs(batch['hosts'])}"


def shape_batch_result(
    args: Mapping[str, Any], found: progress.Progress, held: Mapping[str, str]
) -> dict[str, Any]:
    """Return the result of a task at one point of a batch.

    held: host -> why it must not start.
    """
    return {
        "changed": False,
        "point": args["point"],
        "held": dict(held),
        "ended": found.ended,
        "progress": dc.asdict(found),
    }
