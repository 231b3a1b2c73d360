# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Begin or end one batch of a rollout, as the rollout's gate."""

from __future__ import annotations

import dataclasses as dc
import datetime
import time
import zoneinfo
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    arguments,
    base,
    claims,
    console,
    host_variables,
    outside,
    run_messages,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import outcomes
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    end_with_code,
)
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
    sink,
    steps_of_batch,
    window,
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
    number = 0 if tried else get_batch_number(plan, variables)
    writer = EventWriter(action, variables, wanted.events if not check else ())
    task = BatchTask(args, plan, wanted, number, variables["hostvars"], check, writer)
    if tried:
        return tell_tried_batches(task, variables.get("ansible_play_batch") or ())
    so_far = get_progress_before_batch(plan, number, variables["hostvars"])
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
    writer: EventWriter

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
        return get_reached_progress(self.plan, self.hostvars, self.number)

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
    so_far = so_far if check else ask_gate_before_first(so_far, wanted, number)
    so_far = so_far if check or so_far.began else dc.replace(so_far, began=time.time())
    console.show(
        [
            *(predict_pauses(wanted, number) if check else ()),
            describe_begun_batch(plan, number, so_far),
        ]
    )
    so_far = dc.replace(so_far, unheard=so_far.unheard or bool(plan.get("unheard")))
    so_far = (
        report_rollout_stop(task.writer, task.earlier, so_far)
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
    so_far = check_planned_batch(so_far, task.classes, batch)
    so_far = limit_to_wave(so_far, task.wanted, task.batch["wave"])
    so_far = so_far if task.check else check_window(so_far, task.wanted)
    most = room.limits(plan)
    so_far = room.begin_batch(
        so_far,
        list_hosts_out_of_service(plan, number, task.hostvars, most.groups),
        list_remaining_batches(plan, number),
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
    words = {host: get_host_word(variables, check) for host, variables in known.items()}
    came = [host for host, said in words.items() if said in ("yes", "no")]
    looked = came if task.wanted.soak > 0 and not check else ()
    sick = {
        host: why
        for host in looked
        if (why := health.explain_ill_health(get_second_look(host, plan, known[host])))
    }
    total = sum(len(batch["hosts"]) for batch in plan["batches"])
    ended = progress.Ended(words, classes, task.batch["wave"] == rollout.CANARY, sick)
    so_far = task.refuse_batch(
        progress.update_progress(so_far, ended, total, task.wanted.max_failed)
    )
    warnings = (
        []
        if check
        else note_host_outcomes(
            lambda: claims.end_claims([host for host in came if host not in sick])
        )
    )
    so_far = so_far if check or so_far.ended else ask_gate_check(so_far, task.wanted)
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
    so_far = report_rollout_stop(task.writer, task.earlier, so_far)
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
    so_far = check_planned_batch(progress.Progress(), planned, tried)
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


class EventWriter:
    """The sink of events of one task. A rollout reports only once that it failed."""

    def __init__(
        self, action: ActionBase, variables: Mapping[str, Any], sink: Sequence[str]
    ) -> None:
        self.sink = sink
        self.reference = base.read_run_reference(action, variables).text if sink else ""
        self.result: dict[str, Any] = {}

    def write(
        self, found: progress.Progress, event: str, values: Mapping[str, Any]
    ) -> progress.Progress:
        """Write one event, and return the progress, which knows whether an event was lost."""
        if not self.sink:
            return found
        at = outside.format_present_time()
        why = outside.emit(self.sink, events.build_event_line(event, at, self.reference, **values))
        if why and not found.unheard:
            self.result = {"warnings": [run_messages.EVENTS_FAILED.fill(cause=why)]}
        return dc.replace(found, unheard=found.unheard or bool(why))


def note_host_outcomes(write: Callable[[], None]) -> list[str]:
    """Record, for a later rollout of this controller, what became of hosts.

    Return warnings if that fails.

    A full disk must not prevent the report.
    """
    try:
        write()
    except (PlanError, OSError) as error:
        return [run_messages.NOT_RECORDED.fill(cause=str(error))]
    return []


def report_rollout_stop(
    writer: EventWriter, earlier: progress.Progress, found: progress.Progress
) -> progress.Progress:
    """Report the stop of a rollout when it happens, and not again for every batch that does not
    start.
    """
    if earlier.ended or not found.ended:
        return found
    return writer.write(found, events.STOP, {"why": found.ended, "paused": found.paused})


def describe_host_line(
    host: str, said: str, sick: str, plan: Mapping[str, Any], variables: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the parts of the line about one host."""
    result = outcomes.merge_failures(
        get_converged_result(variables), {False: list_other_steps(variables)}
    )
    drained = get_step_result(variables, registered.DRAINED)
    why = sick or (
        str(drained.get("why") or drained.get("msg") or "")
        if said in WAITING.values()
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


def get_second_look(
    host: str, plan: Mapping[str, Any], variables: Mapping[str, Any]
) -> health.Second:
    """Return what the second look at a host has found, with what was there before its change."""
    return health.Second(
        look=dict(variables.get(registered.LOOK) or {}),
        gpus=int(plan["hosts"][host]["gpus"]),
        running=tuple(plan["hosts"][host]["running"]),
        changed=bool(get_step_result(variables, registered.CONVERGED).get("changed")),
        before=get_step_result(variables, registered.HEALTH_BEFORE),
        after=get_step_result(variables, registered.HEALTH),
        command=get_step_result(variables, registered.SOAK_COMMAND),
    )


WAIT = 10  # seconds between two questions of one gate


def ask_gate_check(found: progress.Progress, wanted: settings.RolloutSettings) -> progress.Progress:
    """Ask the check of the gate, again and again for a while: an alert may need some time to clear.

    Return the progress, ended if the check still fails.
    """
    why = ""
    for attempt in range(wanted.gate_retries + 1 if wanted.gate_check else 0):
        if attempt:
            # The pause that the setting gate_retries promises: neither an address nor a command
            # tells when its answer changes.
            time.sleep(WAIT)
        why = explain_gate_answer(wanted.gate_check)
        if not why:
            break
    return (
        progress.end_progress(found, run_messages.GATE_CHECK_ILL.fill(cause=why)) if why else found
    )


def ask_gate_before_first(
    found: progress.Progress, wanted: settings.RolloutSettings, number: int
) -> progress.Progress:
    """Ask the check before the first batch of a run too.

    The run before may have stopped because of an answer that is still the same.
    """
    return found if number or found.ended else ask_gate_check(found, wanted)


def explain_gate_answer(check: tuple[str, ...]) -> str:
    """Return why a check does not let the rollout go on; '' if it does.

    Never raise an error: it would end the playbook without its report.
    """
    if check[0].startswith(sink.SCHEMES):
        return outside.send_request(check[0], None, {}, "GET")
    return outside.run(check)


def get_batch_number(plan: Mapping[str, Any], variables: Mapping[str, Any]) -> int:
    """Return the number of the batch that the task's host is in, from 0 on."""
    host = variables["inventory_hostname"]
    return next(n for n, batch in enumerate(plan["batches"]) if host in batch["hosts"])


def get_progress_before_batch(
    plan: Mapping[str, Any], number: int, hostvars: Mapping[str, Any]
) -> progress.Progress:
    """Return how far the rollout had come when the batch began.

    Only the hosts of the batch before have the step of that batch. If none of them has it, the
    progress is ended: a gate that does not know what was lost so far must not let more hosts start.
    It is not an error, since an error for all hosts of a batch ends the playbook without its
    report, which names the lost hosts.
    """
    begun = get_latest_step(plan["batches"][number]["hosts"], hostvars)
    if begun or not number:
        return begun or progress.Progress()
    ended = get_latest_step(plan["batches"][number - 1]["hosts"], hostvars, ("end",))
    if ended is None:
        why = run_messages.BATCH_UNKNOWN.fill(number=number, following=number + 1)
        return progress.end_progress(get_reached_progress(plan, hostvars, number), why)
    return ended


def get_reached_progress(
    plan: Mapping[str, Any], hostvars: Mapping[str, Any], number: int | None = None
) -> progress.Progress:
    """Return the progress of the last batch that began.

    number: the batch at work; no later batch has begun.
    """
    batches = plan["batches"] if number is None else plan["batches"][: number + 1]
    steps = (get_latest_step(batch["hosts"], hostvars) for batch in reversed(batches))
    return next(
        (step for step in steps if step), progress.Progress(ended=str(plan.get("ended") or ""))
    )


def list_remaining_batches(plan: Mapping[str, Any], number: int) -> list[dict[str, str]]:
    """Return the batches that have not ended, each as host -> class."""
    return [
        {host: str(plan["hosts"][host]["class"]) for host in batch["hosts"]}
        for batch in plan["batches"][number:]
    ]


def list_hosts_out_of_service(
    plan: Mapping[str, Any], number: int, hostvars: Mapping[str, Any], grouped: Collection[str]
) -> list[str]:
    """Return the hosts of earlier batches that this rollout holds out of service: with work that
    did not end, failed, or lost.

    grouped: the hosts that a limit counts. Other hosts are not looked at.
    """
    earlier = (host for batch in plan["batches"][:number] for host in batch["hosts"])
    return [
        host
        for host in earlier
        if host in grouped and is_out(host_variables.HostVariables(hostvars, host))
    ]


def is_out(variables: Mapping[str, Any]) -> bool:
    """Tell whether a drain has taken the host out of service, and it is not back."""
    taken, back = (
        get_step_result(variables, name).get("outcome")
        for name in (registered.DRAINED, registered.UNDRAINED)
    )
    return taken in ("drained", "pending") and back not in ("in_service", "not_needed")


def get_latest_step(
    hosts: Sequence[str], hostvars: Mapping[str, Any], points: Sequence[str] = ("end", "begin")
) -> progress.Progress | None:
    """Return the latest step of a batch; None if it has none.

    A host that was lost within the batch has only its beginning.
    """
    latest: dict[str, Mapping[str, Any]] = {}
    for host in hosts:
        step = host_variables.HostVariables(hostvars, host).get(registered.ROLLOUT_STEP) or {}
        # Usually it is the first host's. Ansible takes half a millisecond or more for each value of
        # a host.
        if step.get("point") == points[0]:
            return progress.read_progress(step["progress"])
        latest.setdefault(str(step.get("point") or ""), step)
    return next(
        (progress.read_progress(latest[point]["progress"]) for point in points if point in latest),
        None,
    )


def get_host_word(variables: Mapping[str, Any], check: bool) -> str:
    """Return the word for what became of a host in its batch, a key of outcomes.OUTCOMES."""
    drained = get_step_result(variables, registered.DRAINED)
    if drained.get("failed") and drained.get("outcome") in WAITING:
        return WAITING[drained["outcome"]]
    said = progress.get_outcome_word(
        get_converged_result(variables), list_other_steps(variables), check
    )
    # its batch has started, so something kept its change from having a result
    return "lost" if said == "not reached" else said


def get_converged_result(variables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result of a host's change. A change that took too long counts as lost.

    Only the host itself knows whether such a change goes on or was rolled back.
    """
    result, failure = get_step_result(variables, registered.CONVERGED), get_early_failure(variables)
    return {**result, **failure} if failure.get("unreachable") else result


# How a failed task says that its host gave no answer in time: ansible-core's message for a time
# limit, up to 2.17 the only sign of one, then its actions `reboot` and `wait_for_connection`
# (plugins/action/) for a host that doesn't come back.
NO_ANSWER = (
    "failed to execute in the expected time frame",
    "Timed out waiting for last boot time check",
    "timed out waiting for ping module test",
)


def get_early_failure(variables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the failure that ended the host's batch early; {} if there is none.

    A host that took longer than allowed, or has not come back from a reboot, counts as lost, since
    it is not known what it does.
    """
    failure = registered.read_kept_failure(variables)
    said = str(failure.get("msg") or "")
    late = failure.get("timedout") or any(words in said for words in NO_ANSWER)
    return {**failure, "unreachable": True} if late else failure


# A host that could not be taken out of service was not changed. That is not a failure of the
# rollout.
WAITING = {"left_out": "left out", "pending": "pending"}


def get_step_result(variables: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the result of one step; {} if the step was not taken.

    A skipped task registers a result as well.
    """
    result = dict(variables.get(name) or {})
    return {} if result.get("skipped") else result


def list_other_steps(variables: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the results of the other steps of a host in its batch."""
    return [
        *(get_step_result(variables, name) for name in (*registered.STEPS, registered.DIAGNOSIS)),
        get_early_failure(variables),
    ]


def check_planned_batch(
    found: progress.Progress, planned: Collection[str], batch: Collection[str]
) -> progress.Progress:
    """End the rollout if Ansible's batch has hosts that the plan does not have in it.

    Ansible makes the batches from a pattern. A name that has a meaning in a pattern, such as
    `&gpu1`, gives other batches than the plan's.
    """
    others = [host for host in batch if host not in planned]
    if not others:
        return found
    why = run_messages.NAME_IS_PATTERN.fill(hosts=names.show_some_runs(others))
    return progress.end_progress(found, why)


def limit_to_wave(
    found: progress.Progress, wanted: settings.RolloutSettings, wave: Any
) -> progress.Progress:
    """Return the progress, ended if only canaries are wanted and the batch is none."""
    if wanted.until == "end" or wave == rollout.CANARY:
        return found
    return progress.end_progress(found, run_messages.CANARIES_DONE.fill(), paused=True)


def explain_closed_window(wanted: settings.RolloutSettings) -> str:
    """Return why the windows let no batch start now; '' if one may start."""
    at = {w.zone: datetime.datetime.now(zoneinfo.ZoneInfo(w.zone)) for w in wanted.windows}
    now = {zone: (t.weekday(), t.hour * 60 + t.minute) for zone, t in at.items()}
    if window.is_open(wanted.windows, now):
        return ""
    named = "; ".join(w.text for w in wanted.windows)
    opens = window.opens(wanted.windows, now)
    return run_messages.WINDOW_CLOSED.fill(windows=named, time=opens)


def check_window(found: progress.Progress, wanted: settings.RolloutSettings) -> progress.Progress:
    """Return the progress, ended if no window is open now."""
    why = explain_closed_window(wanted)
    if not why:
        return found
    return progress.end_progress(found, run_messages.WAITS_FOR_WINDOW.fill(closed=why), paused=True)


def predict_pauses(wanted: settings.RolloutSettings, number: int) -> list[str]:
    """Return the lines of check mode before its first batch: a run now would pause there.

    Check mode goes on.
    """
    why = "" if number else explain_closed_window(wanted)
    return [end_with_code(run_messages.WOULD_PAUSE.fill(closed=why))] if why else []


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
