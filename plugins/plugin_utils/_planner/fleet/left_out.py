# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the hosts that a rollout leaves out, since they were broken or in other hands before it began.

They never count among its failures.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import messages
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet.waves import Amount
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.report import bounds, layout, names


def why(result: Mapping[str, Any]) -> str:
    """Explain why a host cannot be part of a rollout, by the look at it. Return '' if it can."""
    working = (result.get("work") or {}).get("at_work")
    found = broken(result, before=True)
    return found or (messages.AT_WORK.fill(transaction=working) if working else "")


def broken(result: Mapping[str, Any], *, before: bool = False) -> str:
    """Explain why nothing can be done with a host, by the look at it. Return '' if something can.

    before: whether the look was before the rollout.
    """
    if not result or result.get("unreachable"):
        row = messages.UNREACHABLE_BEFORE if before else messages.UNREACHABLE
        return row.fill(detail=detail(result.get("msg")))
    if result.get("failed"):
        return messages.LOOK_FAILED.fill(detail=detail(result.get("msg")))
    if result.get("problem"):
        problem = bounds.shortened(str(result["problem"]), layout.SENTENCE)
        return messages.PROBLEM.fill(problem=problem)
    driver = result.get("driver") or {}
    if driver.get("state") == "broken":
        row = messages.DRIVER_BROKEN_BEFORE if before else messages.DRIVER_BROKEN
        return row.fill(detail=detail(driver.get("evidence")))
    return ""


def detail(text: Any) -> str:
    """Return the first line of a host's message behind a colon, '' for an empty message."""
    said = bounds.shortened(str(text or ""), layout.SENTENCE).strip()
    return f": {said.splitlines()[0].strip()}" if said else ""


def require_few(left_out: Mapping[str, str], total: int, most: Amount) -> None:
    """Raise PlanError if more hosts are left out than may be.

    A percentage is rounded up, so that one host of a small fleet may be broken as well.
    """
    allowed = most.of(total, up=True)
    if len(left_out) <= allowed:
        return
    first = sorted(left_out, key=names.natural)[0]
    raise PlanError(
        messages.TOO_MANY_LEFT_OUT.fill(
            number=len(left_out),
            total=total,
            allowed=allowed,
            most=most.text,
            hosts=names.some(left_out),
            host=first,
            reason=left_out[first],
        )
    )
