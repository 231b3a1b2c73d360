# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read from the results of hosts how far a rollout has come, and what became of each host."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    host_variables,
    run_messages,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import (
    health,
    progress,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet.report import (
    registered,
)

# How a failed task says that its host gave no answer in time: ansible-core's message for a time
# limit, up to 2.17 the only sign of one, then its actions `reboot` and `wait_for_connection`
# (plugins/action/) for a host that doesn't come back.
NO_ANSWER = (
    "failed to execute in the expected time frame",
    "Timed out waiting for last boot time check",
    "timed out waiting for ping module test",
)
# A host that could not be taken out of service was not changed. That is not a failure of the
# rollout.
WAITING = {"left_out": "left out", "pending": "pending"}


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
    """Tell whether this rollout has taken the host out of service, and it is not back.

    A drain that did not come about leaves the host out if an earlier run of the rollout holds it,
    or if it could not be put back.
    """
    drained, undrained = (
        get_step_result(variables, name) for name in (registered.DRAINED, registered.UNDRAINED)
    )
    nodes = (drained.get("nodes") or {}).values()
    stays = drained.get("changed") or any(node.get("state") == "held" for node in nodes)
    taken = drained.get("outcome") in ("drained", "pending", *(("left_out",) if stays else ()))
    return taken and undrained.get("outcome") not in ("in_service", "not_needed")


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


def get_early_failure(variables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the failure that ended the host's batch early; {} if there is none.

    A host that took longer than allowed, or has not come back from a reboot, counts as lost, since
    it is not known what it does.
    """
    failure = registered.read_kept_failure(variables)
    said = str(failure.get("msg") or "")
    late = failure.get("timedout") or any(words in said for words in NO_ANSWER)
    return {**failure, "unreachable": True} if late else failure


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
