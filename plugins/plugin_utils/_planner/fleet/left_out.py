# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the hosts that a rollout leaves out, since they were broken or in other hands before it
began.

They never count among its failures.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    end_with_code,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.text import (
    bounds,
    layout,
    names,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import messages
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet.waves import Amount
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import (
    kept_driver,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.health import findings

SHOWN = 2  # findings that a sentence names


def explain_left_out(result: Mapping[str, Any], *, changes: bool = False) -> str:
    """Explain why a host cannot be part of a rollout, by the look at it. Return '' if it can.

    changes: whether the user's own tasks change drivers. Then a host that an earlier run left in the
    middle of such a change is taken again, whatever state its driver is in.
    """
    working = (result.get("work") or {}).get("at_work")
    if changes and is_change_unjudged(result):
        broken = explain_unknown_host(result, before=True)
    else:
        broken = explain_broken_host(result, before=True) or explain_sick_host(result)
    return broken or (messages.AT_WORK.fill(transaction=working) if working else "")


def explain_broken_host(result: Mapping[str, Any], *, before: bool = False) -> str:
    """Explain why nothing can be done with a host, by the look at it. Return '' if something can.

    before: whether the look was before the rollout.
    """
    unknown = explain_unknown_host(result, before=before)
    if unknown:
        return unknown
    if result.get("problem"):
        problem = bounds.shorten_text(str(result["problem"]), layout.SENTENCE)
        return messages.PROBLEM.fill(problem=problem)
    driver = result.get("driver") or {}
    if driver.get("state") == "broken":
        row = messages.DRIVER_BROKEN_BEFORE if before else messages.DRIVER_BROKEN
        return row.fill(detail=get_message_detail(driver.get("evidence")))
    return ""


def explain_unknown_host(result: Mapping[str, Any], *, before: bool = False) -> str:
    """Explain why the state of a host is not known. Return '' if it is.

    before: whether the look was before the rollout.
    """
    if not result or result.get("unreachable"):
        row = messages.UNREACHABLE_BEFORE if before else messages.UNREACHABLE
        return row.fill(detail=get_message_detail(result.get("msg")))
    if result.get("failed"):
        return messages.LOOK_FAILED.fill(detail=get_message_detail(result.get("msg")))
    return ""


def is_change_unjudged(result: Mapping[str, Any]) -> bool:
    """Tell whether an earlier run has begun to change the driver of a host, and none has judged it
    since.
    """
    return (result.get("driver_change") or {}).get("state") == kept_driver.CHANGING


def explain_sick_host(result: Mapping[str, Any]) -> str:
    """Explain which GPUs of a host were sick before the rollout began. Return '' if none was."""
    sick = findings.list_sick_findings(result.get("health") or {})
    if not sick:
        return ""
    said = names.show_few_texts(findings.name_findings(sick), SHOWN, "; ")
    step = str(sick[0].get("next") or "")
    return messages.SICK_BEFORE.fill(found=bounds.shorten_text(said, layout.SENTENCE), step=step)


def get_message_detail(text: Any) -> str:
    """Return the first line of a host's message behind a colon, '' for an empty message."""
    said = bounds.shorten_text(str(text or ""), layout.SENTENCE).strip()
    return f": {said.splitlines()[0].strip()}" if said else ""


def explain_too_many_left_out(left_out: Collection[str], total: int, most: Amount) -> str:
    """Explain why the rollout does not begin, with the code: more hosts are left out than may be.
    Return '' if it may.

    A percentage is rounded up, so that one host of a small fleet may be broken as well.
    """
    allowed = most.compute_number(total, up=True)
    if len(left_out) <= allowed:
        return ""
    hosts = names.show_some_runs(left_out)
    message = messages.TOO_MANY_LEFT_OUT.fill(
        number=len(left_out), total=total, allowed=allowed, most=most.text, hosts=hosts
    )
    return end_with_code(message)
