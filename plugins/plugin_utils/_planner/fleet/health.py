# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge a host by a second look after its change: whether it is as desired, serves, and has its GPUs."""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import change, gpu_health, left_out, messages
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet.sink import COMMAND_SECONDS
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.report import sentences

LIMIT = ("timeout", "-k", "10", str(COMMAND_SECONDS))  # timeout(1) of the host ends the command, so that it is not the task that is ended
ENDED_LATE = 124  # its exit status


@dc.dataclass(frozen=True)
class Second:
    """The findings of the second look at a host.

    look: the look itself. changed: whether this run changed the host. gpus: the number it had before.
    running: the keys of the engines that were configured and ran before the change.
    before, after: the host's GPU health before its change and now.
    command: the result of the user's own check, {} if there is none.
    """

    look: Mapping[str, Any]
    gpus: int = 0
    changed: bool = False
    running: tuple[str, ...] = ()
    before: Mapping[str, Any] = dc.field(default_factory=dict)
    after: Mapping[str, Any] = dc.field(default_factory=dict)
    command: Mapping[str, Any] = dc.field(default_factory=dict)


def why(second: Second) -> str:
    """Explain what is wrong with a host that was changed a while ago, '' if nothing is."""
    for judge in (rolled_back(second.changed), left_out.broken, not_desired, not_running(second.running), fewer_gpus(second.gpus)):
        found = judge(second.look)
        if found:
            return found
    return sick(second) or refused(second.command)


def rolled_back(changed: bool) -> Any:
    """Build the judge of a change that was rolled back since.

    If this run has changed the host, its newest transaction is that change: no other run begins one meanwhile.
    """

    def judge(look: Mapping[str, Any]) -> str:
        newest: Mapping[str, Any] = next(iter(look.get("journal") or ()), {}) if changed else {}
        if newest.get("state") != "rolled_back":
            return ""
        by, detail = newest.get("by") or "the host", left_out.detail(newest.get("why"))
        return messages.ROLLED_BACK_SINCE.fill(by=by, detail=detail)

    return judge


def not_desired(look: Mapping[str, Any]) -> str:
    if not look.get("differences"):
        return ""
    return messages.DIFFERS_AGAIN.fill(place=change.place(look["differences"][0]))


def not_running(before: tuple[str, ...]) -> Any:
    """Build the judge of engines that ran before the change and do not run now.

    An engine that did not run before, or has no daemon, gives no reason.
    """

    def judge(look: Mapping[str, Any]) -> str:
        seen = {str(i.get("key")): i for i in look.get("instances") or ()}
        stopped = sorted({named(key, seen.get(key) or {}) for key in before if not (seen.get(key) or {}).get("running")})
        # A directory tree has no boot id, and nothing runs there.
        if not stopped or not (look.get("work") or {}).get("boot_id"):
            return ""
        return messages.ENGINE_STOPPED.fill(engines=", ".join(stopped))

    return judge


def named(key: str, instance: Mapping[str, Any]) -> str:
    return str(instance.get("unit") or instance.get("engine") or key.partition(":")[0])


def fewer_gpus(before: int) -> Any:
    def judge(look: Mapping[str, Any]) -> str:
        now = len((look.get("driver") or {}).get("gpus") or ())
        return messages.FEWER_GPUS.fill(before=before, now=now) if now < before else ""

    return judge


def sick(second: Second) -> str:
    """Explain which errors of GPUs are new since the change, '' if none are.

    Errors of applications are only shown (notes).
    """
    if second.after.get("unreachable"):
        return messages.HEALTH_UNREACHABLE.fill(detail=left_out.detail(second.after.get("msg")))
    new, _unknown = gpu_health.since(*logs(second))
    errors = gpu_health.sick(new)
    if not errors:
        return ""
    named = gpu_health.described(errors)
    return messages.GPU_ERRORS.fill(errors=named, page=gpu_health.CATALOGUE)


def refused(command: Mapping[str, Any]) -> str:
    """Explain why the user's own check does not let the host pass, '' if it does."""
    if not command or command.get("skipped"):
        return ""
    if command.get("unreachable"):
        return messages.COMMAND_UNREACHABLE.fill(detail=left_out.detail(command.get("msg")))
    if command.get("rc") == 0:
        return ""
    last = sentences.last_line(str(command.get("stderr") or ""), str(command.get("stdout") or ""))
    if "rc" not in command or command["rc"] is None:
        return messages.COMMAND_NOT_RUN.fill(detail=left_out.detail(command.get("msg")))
    if command["rc"] == ENDED_LATE:
        return messages.COMMAND_LATE.fill(seconds=COMMAND_SECONDS)
    detail = f": {last}" if last else ""
    return messages.COMMAND_ENDED.fill(status=command["rc"], detail=detail)


def argv(command: Sequence[str]) -> list[str]:
    """Return the words with which the user's own check is run, [] if there is none."""
    return [*LIMIT, *command] if command else []


def notes(second: Second) -> list[str]:
    """List what a person should know of a host that passed: errors of applications, and what is not known."""
    if not (second.look.get("work") or {}).get("boot_id"):
        return []
    new, unknown = gpu_health.since(*logs(second))
    found: list[str] = [messages.XIDS_UNKNOWN.fill(cause=unknown)] if unknown else []
    harmless = [e for e in new if int(e["xid"]) in gpu_health.OF_APPLICATIONS]
    if harmless:
        found.append(messages.APPLICATION_FAILED.fill(errors=gpu_health.described(harmless)))
    return found


def diagnosis_notes(result: Mapping[str, Any]) -> list[str]:
    """List the note of a diagnosis that could not be made. A diagnosis that found a fault fails its own task."""
    found = result.get("diagnosis") or {}
    known = not found or found.get("known")
    return [] if known else [messages.NOT_DIAGNOSED.fill(cause=found.get("why"))]


def logs(second: Second) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    before, after = (dict(health.get("kernel_log") or {}) for health in (second.before, second.after))
    return before, after
