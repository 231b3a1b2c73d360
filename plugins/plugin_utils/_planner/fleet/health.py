# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge a host by a second look after its change: whether it is as desired, serves, and has its
GPUs.
"""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.text import (
    names,
    sentences,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import (
    change,
    left_out,
    messages,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet.sink import (
    COMMAND_SECONDS,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.health import (
    findings,
    kernel_log,
    xids,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.health import (
    messages as health_messages,
)

# timeout(1) of the host ends the command, so that it is not the task that is ended
LIMIT = (
    "timeout",
    "-k",
    "10",
    str(COMMAND_SECONDS),
)
SHOWN = 3  # findings that a sentence names
ENDED_LATE = 124  # its exit status


@dc.dataclass(frozen=True)
class Second:
    """The findings of the second look at a host.

    look: the look itself. changed: whether this run changed the host. gpus: the number it had
    before. running: the keys of the engines that were configured and ran before the change. before,
    after: the host's GPU health before its change and now. command: the result of the user's own
    check, {} if there is none.
    """

    look: Mapping[str, Any]
    gpus: int = 0
    changed: bool = False
    running: tuple[str, ...] = ()
    before: Mapping[str, Any] = dc.field(default_factory=dict)
    after: Mapping[str, Any] = dc.field(default_factory=dict)
    command: Mapping[str, Any] = dc.field(default_factory=dict)


def explain_ill_health(second: Second) -> str:
    """Explain what is wrong with a host that was changed a while ago, '' if nothing is."""
    for judge in (
        build_rollback_judge(second.changed),
        left_out.explain_broken_host,
        explain_not_desired,
        build_running_judge(second.running),
        build_gpu_judge(second.gpus),
    ):
        judged = judge(second.look)
        if judged:
            return judged
    return explain_sick_gpus(second) or explain_refused_check(second.command)


def build_rollback_judge(changed: bool) -> Any:
    """Build the judge of a change that was rolled back since.

    If this run has changed the host, its newest transaction is that change: no other run begins one
    meanwhile.
    """

    def judge(look: Mapping[str, Any]) -> str:
        newest: Mapping[str, Any] = next(iter(look.get("journal") or ()), {}) if changed else {}
        if newest.get("state") != "rolled_back":
            return ""
        by, detail = newest.get("by") or "the host", left_out.get_message_detail(newest.get("why"))
        return messages.ROLLED_BACK_SINCE.fill(by=by, detail=detail)

    return judge


def explain_not_desired(look: Mapping[str, Any]) -> str:
    """Return the first difference of a host that was converged; '' if it has none."""
    if not look.get("differences"):
        return ""
    return messages.DIFFERS_AGAIN.fill(place=change.get_difference_place(look["differences"][0]))


def build_running_judge(before: tuple[str, ...]) -> Any:
    """Build the judge of engines that ran before the change and do not run now.

    An engine that did not run before, or has no daemon, gives no reason.
    """

    def judge(look: Mapping[str, Any]) -> str:
        instances = {str(i.get("key")): i for i in look.get("instances") or ()}
        stopped = sorted(
            {
                name_engine_instance(key, instances.get(key) or {})
                for key in before
                if not (instances.get(key) or {}).get("running")
            }
        )
        # A directory tree has no boot id, and nothing runs there.
        if not stopped or not (look.get("work") or {}).get("boot_id"):
            return ""
        return messages.ENGINE_STOPPED.fill(engines=", ".join(stopped))

    return judge


def name_engine_instance(key: str, instance: Mapping[str, Any]) -> str:
    """Return the unit of an engine, or the engine's name."""
    return str(instance.get("unit") or instance.get("engine") or key.partition(":")[0])


def build_gpu_judge(before: int) -> Any:
    """Return a function that tells, of a look, whether GPUs are missing.

    before: their number before the change.
    """

    def judge(look: Mapping[str, Any]) -> str:
        now = len((look.get("driver") or {}).get("gpus") or ())
        return messages.FEWER_GPUS.fill(before=before, now=now) if now < before else ""

    return judge


def explain_sick_gpus(second: Second) -> str:
    """Explain which lines about sick GPUs are new since the change, '' if none are.

    Errors that leave a GPU as healthy as before are only shown (notes).
    """
    if second.after.get("unreachable"):
        return messages.HEALTH_UNREACHABLE.fill(
            detail=left_out.get_message_detail(second.after.get("msg"))
        )
    new, _unknown = kernel_log.list_lines_since(*get_log_pair(second))
    accepted, told = list_accepted(second), health_messages.LOG_TELLS.code
    sick = [
        line
        for line in kernel_log.list_sick_lines(new)
        if not findings.is_accepted(accepted, told, str(line["pci"]))
    ]
    if not sick:
        return explain_new_findings(second)
    return messages.GPU_ERRORS.fill(
        errors=kernel_log.describe_lines(sick),
        page=xids.CATALOGUE,
        step=findings.STEP_SENTENCES[kernel_log.choose_step(sick)].fill(),
    )


def list_accepted(second: Second) -> list[str]:
    """List the findings that the owner of the host accepts, as the look has them."""
    return [str(entry) for entry in (second.look.get("health") or {}).get("accepted") or ()]


def explain_new_findings(second: Second) -> str:
    """Explain what NVML says of the GPUs now that it did not say before the change, '' for nothing.

    Without an answer of before, a state is not blamed on the change.
    """
    accepted = list_accepted(second)
    new = [
        entry
        for entry in list_new_findings(second)
        if entry.get("stops")
        and not findings.is_accepted(accepted, str(entry.get("code")), str(entry.get("gpu")))
    ]
    if not new:
        return ""
    said = names.show_few_texts(findings.name_findings(new), SHOWN, "; ")
    return messages.GPU_STATE.fill(found=said, step=str(new[0].get("next") or ""))


def list_new_findings(second: Second) -> list[Mapping[str, Any]]:
    """List the findings of NVML that only the later answer has."""
    before, after = (dict(health.get("nvml") or {}) for health in (second.before, second.after))
    if not before.get("known"):
        return []
    old = {(entry.get("code"), entry.get("gpu")) for entry in before.get("findings") or ()}
    return [
        entry
        for entry in after.get("findings") or ()
        if (entry.get("code"), entry.get("gpu")) not in old
    ]


def explain_refused_check(command: Mapping[str, Any]) -> str:
    """Explain why the user's own check does not let the host pass, '' if it does."""
    if not command or command.get("skipped"):
        return ""
    if command.get("unreachable"):
        return messages.COMMAND_UNREACHABLE.fill(
            detail=left_out.get_message_detail(command.get("msg"))
        )
    if command.get("rc") == 0:
        return ""
    last = sentences.get_last_line(
        str(command.get("stderr") or ""), str(command.get("stdout") or "")
    )
    if "rc" not in command or command["rc"] is None:
        return messages.COMMAND_NOT_RUN.fill(detail=left_out.get_message_detail(command.get("msg")))
    if command["rc"] == ENDED_LATE:
        return messages.COMMAND_LATE.fill(seconds=COMMAND_SECONDS)
    detail = f": {last}" if last else ""
    return messages.COMMAND_ENDED.fill(status=command["rc"], detail=detail)


def get_check_command(command: Sequence[str]) -> list[str]:
    """Return the words with which the user's own check is run, [] if there is none."""
    return [*LIMIT, *command] if command else []


def list_health_notes(second: Second) -> list[str]:
    """List what a person should know of a host that passed: errors of applications, and what is not
    known.
    """
    if not (second.look.get("work") or {}).get("boot_id"):
        return []
    new, unknown = kernel_log.list_lines_since(*get_log_pair(second))
    notes: list[str] = [messages.XIDS_UNKNOWN.fill(cause=unknown)] if unknown else []
    waiting = [entry for entry in list_new_findings(second) if not entry.get("stops")]
    notes += [messages.GPU_STATE_NOTE.fill(found=text) for text in findings.name_findings(waiting)]
    harmless = kernel_log.list_harmless_lines(new)
    if harmless:
        notes.append(messages.APPLICATION_FAILED.fill(errors=kernel_log.describe_lines(harmless)))
    return notes


def list_diagnosis_notes(result: Mapping[str, Any]) -> list[str]:
    """List the note of a diagnosis that could not be made. A diagnosis that found a fault fails its
    own task.
    """
    diagnosis = result.get("diagnosis") or {}
    known = not diagnosis or diagnosis.get("known")
    return [] if known else [messages.NOT_DIAGNOSED.fill(cause=diagnosis.get("why"))]


def get_log_pair(second: Second) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return the kernel logs of before and after a change."""
    before, after = (
        dict(health.get("kernel_log") or {}) for health in (second.before, second.after)
    )
    return before, after
