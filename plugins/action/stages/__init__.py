# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stages of a plan: what comes first is carried out in transactions of its own, and is part of the one result."""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.utils.display import Display
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.model import Plan, merge
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.report import diff as diff_
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.report import names
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.report import results as differences_

EARLIER_SHOWN = 4  # parts that a message names of what was done before the one that failed; `actions` has all


@dc.dataclass(frozen=True)
class Done:
    """What was carried out in transactions of their own, each with its answer, before the host was looked at again."""

    plans: tuple[Plan, ...] = ()
    answers: tuple[Mapping[str, Any], ...] = ()


def of(plan: Plan, check: bool) -> list[Plan]:
    """What to send now. Check mode does nothing first, so what follows cannot be planned better there: all is tried as it is planned."""
    if not check:
        return list(plan.first) or ([plan] if plan.acts else [])
    tried = [part for part in plan.first if part.validate]
    rest = merge([*(part for part in plan.first if not part.validate), dc.replace(plan, first=())])
    return [part for part in (*tried, rest) if part.validate]


def in_turn(plans: list[Plan], send: Callable[[Plan], dict[str, Any]]) -> tuple[Done, dict[str, Any]]:
    """Carry out one after the other until one fails: what was done, and the last answer."""
    done = Done()
    answer: dict[str, Any] = {}
    for plan in plans:
        answer = send(plan)
        if differences_.trouble(answer):
            break
        done = Done((*done.plans, plan), (*done.answers, answer))
    return done, answer


def settled(plan: Plan) -> None:
    """After what comes first nothing may be left to come first, or the run would go round in a circle."""
    if plan.first:
        missing = ", ".join(d.path for part in plan.first for d in part.differences)
        raise AnsibleActionFail(
            f"packages that had to come first were installed but are still missing: {missing}. Check the host's package manager"
        )


def with_earlier(last: dict[str, Any], whole: Plan, done: Done, restart: str) -> dict[str, Any]:
    """A result with what was done before the host was looked at again. What differs is reported as before all that, as in check mode."""
    if not done.plans:
        return last
    earlier = merge(list(done.plans))
    before = [action for plan in done.plans for action in differences_.actions(plan, restart)]
    journal = next((a["journal"] for a in reversed(done.answers) if a.get("journal")), None)
    shaped = {
        **last,
        "changed": True,
        "differences": [dc.asdict(d) for d in whole.differences],
        "actions": [*before, *last["actions"]],
        "journal": last["journal"] or journal,
        "advice": list(dict.fromkeys([*earlier.advice, *last["advice"]])),
    }
    if "diff" in last:
        shaped["diff"] = [*diffs(earlier), *last["diff"]]
    if last.get("failed"):
        shaped["msg"] = f"{last['msg']}. What was done before stays in place: {names.few(before, EARLIER_SHOWN, '; ')}"
    return shaped


def diffs(plan: Plan) -> list[dict[str, str]]:
    return diff_.for_ansible(plan.diffs, verbose=Display().verbosity > 0)
