# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Carry out the stages of a plan: the first ones in transactions of their own, all of them in one
result.
"""

from __future__ import annotations

import contextlib
import dataclasses as dc
import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from ansible.utils.display import Display
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    messages,
    run_messages,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
    end_with_code,
    get_code,
    get_values,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Plan,
    Policy,
    merge_plans,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.text import names
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import approved, bound
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.results import (
    diff,
    results,
)

EARLIER_SHOWN = 4  # parts before the failed one that a message names; `actions` has all


@dc.dataclass(frozen=True)
class PlannedOutcome:
    """A planner's answer to the action: the plan, and the facts that the result reports in
    addition.
    """

    plan: Plan
    facts: Mapping[str, Any] = dc.field(default_factory=dict)
    rolled_back: Plan = Plan()  # carried out by itself if the plan was rolled back


class Converging(Protocol):
    """The parts of a task (base.Task) that the stages need."""

    @property
    def check(self) -> bool:
        """Tell whether the task runs in check mode."""

    @property
    def wanted(self) -> Policy:
        """Return what the options ask for."""

    @property
    def host(self) -> str:
        """Return the host's name in the inventory."""

    @property
    def approval(self) -> approved.Approval:
        """Return the change that was approved."""

    def look(self, so_far: Observation | None = None) -> Observation:
        """Look at the host again."""

    def plan(self, seen: Observation) -> tuple[Observation, PlannedOutcome]:
        """Plan by what was seen, and return it with the outcome."""

    def list_planned(self, seen: Observation, plan: Plan) -> bound.Planned:
        """Return what a plan does and shows, as an approval binds it."""


@dc.dataclass(frozen=True)
class Done:
    """The plans that were carried out in transactions of their own, with their answers, before the
    host was looked at again.
    """

    plans: tuple[Plan, ...] = ()
    answers: tuple[Mapping[str, Any], ...] = ()


@dc.dataclass(frozen=True)
class Applied:
    """The end of a plan.

    whole, planned: as before anything was done.
    answer: of the last transaction.
    """

    seen: Observation
    outcome: PlannedOutcome
    whole: Plan
    done: Done
    answer: Mapping[str, Any]
    planned: bound.Planned


Send = Callable[[Observation, PlannedOutcome, Plan], dict[str, Any]]


def apply_stages(
    task: Converging, obs: Observation, outcome: PlannedOutcome, send: Send
) -> Applied:
    """Carry out a plan, stage by stage.

    Send only transactions that are part of what was approved (fleet/approved.py).
    """
    whole, done = outcome.plan.whole, Done()
    planned = task.list_planned(obs, outcome.plan)
    answer = task.approval.refuse_unapproved(planned, task.host)
    for attempt in (1, 2) if not answer else ():
        more, answer = apply_plans_in_turn(
            list_stages(outcome.plan, task.check), functools.partial(send, obs, outcome)
        )
        if outcome.plan.first and not task.check:
            done = Done((*done.plans, *more.plans), (*done.answers, *more.answers))
            if not results.describe_answer_trouble(answer):
                with tell_what_stays(done, task.wanted.restart):
                    obs, outcome = task.plan(task.look(keep_lasting_answers(obs)))
                    require_settled_plan(outcome.plan)
                answer = refuse_unpredicted_plan(task, obs, outcome, planned) or (
                    send(obs, outcome, outcome.plan) if outcome.plan.acts else {}
                )
        if not answer.get("conflict") or attempt == 2:
            break
        with tell_what_stays(done, task.wanted.restart):
            obs, outcome = task.plan(task.look())
        if not done.plans:
            whole, planned = outcome.plan.whole, task.list_planned(obs, outcome.plan)
        answer = (
            refuse_unpredicted_plan(task, obs, outcome, planned)
            if done.plans
            else task.approval.refuse_unapproved(planned, task.host)
        )
        if answer:
            break
    return Applied(obs, outcome, whole, done, answer, planned)


@contextlib.contextmanager
def tell_what_stays(done: Done, restart: str) -> Iterator[None]:
    """Add to an error of planning what was carried out before, which stays in place."""
    try:
        yield
    except PlanError as error:
        if not done.plans:
            raise
        before = list_done_actions(done, restart)
        said = run_messages.EARLIER_STAYS.fill(problem=error.what, done=show_done_actions(before))
        row = Message(said.what, error.code, error.values, why=error.why, next=error.next)
        told = PlanError(row, where=error.where, line=error.line)
        told.kept = {
            **error.kept,
            "changed": True,
            "actions": before,
            "journal": get_last_journal(done),
        }
        raise told from error


def list_done_actions(done: Done, restart: str) -> list[str]:
    return [action for plan in done.plans for action in results.list_actions(plan, restart)]


def show_done_actions(actions: list[str]) -> str:
    return names.show_few_texts(actions, EARLIER_SHOWN, "; ")


def get_last_journal(done: Done) -> str | None:
    """Return the journal's entry of the last transaction that has one."""
    return next((a["journal"] for a in reversed(done.answers) if a.get("journal")), None)


def refuse_unpredicted_plan(
    task: Converging, seen: Observation, outcome: PlannedOutcome, planned: bound.Planned
) -> dict[str, Any]:
    """Refuse what is planned after the first stage unless it is part of what was planned before; {}
    otherwise.
    """
    return (
        task.approval.refuse_unpredicted(task.list_planned(seen, outcome.plan), planned)
        if task.approval.binds
        else {}
    )


def keep_lasting_answers(seen: Observation) -> Observation:
    """Return the answers that no package changes and that cost a look of their own.

    These are what the driver's library reported, and what the controller fetched.
    """
    return Observation(
        seen.host,
        {
            qid: answer
            for qid, answer in seen.answers.items()
            if qid.startswith(("probe:", "fetch:"))
        },
    )


def list_stages(plan: Plan, check: bool) -> list[Plan]:
    """Return the plans to send now.

    Check mode does not carry out the first stage, so a new plan would not be better. Everything is
    tried as it is planned, also where no program reads it: the host judges the places of the files.
    """
    if not check:
        return list(plan.first) or ([plan] if plan.acts else [])
    tried = [part for part in plan.first if part.validate]
    rest = merge_plans(
        [*(part for part in plan.first if not part.validate), dc.replace(plan, first=())]
    )
    return [part for part in (*tried, rest) if part.validate or part.changes]


def apply_plans_in_turn(
    plans: list[Plan], send: Callable[[Plan], dict[str, Any]]
) -> tuple[Done, dict[str, Any]]:
    """Carry out plans one after the other until one fails. Return what was done, and the last
    answer.
    """
    done = Done()
    answer: dict[str, Any] = {}
    for plan in plans:
        answer = send(plan)
        if results.describe_answer_trouble(answer):
            break
        done = Done((*done.plans, plan), (*done.answers, answer))
    return done, answer


def require_settled_plan(plan: Plan) -> None:
    """Fail if the plan still has a first stage after the first stage was carried out.

    The run would repeat forever.
    """
    if plan.first:
        missing = ", ".join(d.path for part in plan.first for d in part.differences)
        raise PlanError(messages.STILL_MISSING.fill(paths=missing))


def add_earlier_stages(
    last: dict[str, Any], whole: Plan, done: Done, restart: str
) -> dict[str, Any]:
    """Return a result with what was done before the host was looked at again.

    The differences are those before all changes, as in check mode.
    """
    if not done.plans:
        return last
    # each of another look, so no merged plan
    said = [text for plan in done.plans for text in plan.advice]
    earlier = Plan(diffs=tuple(one for plan in done.plans for one in plan.diffs))
    before = list_done_actions(done, restart)
    shaped = {
        **last,
        "changed": True,
        "differences": results.describe_differences(whole.differences),
        "actions": [*before, *last["actions"]],
        "journal": last["journal"] or get_last_journal(done),
        "advice": list(dict.fromkeys([*said, *last["advice"]])),
    }
    if "diff" in last:
        shaped["diff"] = [*diffs(earlier), *last["diff"]]
    if last.get("failed"):
        shaped["msg"] = add_what_stays(last["msg"], before)
    return shaped


def add_what_stays(told: str, before: list[str]) -> str:
    """Return a message with what was done before, which stays in place. Its code stays its end."""
    problem = getattr(told, "values", {}).get("text", told)
    said = run_messages.EARLIER_STAYS.fill(problem=problem, done=show_done_actions(before))
    return end_with_code(Message(said.what, get_code(problem), get_values(problem)))


def diffs(plan: Plan) -> list[dict[str, str]]:
    """Return the differences of a plan, as Ansible prints them with --diff."""
    return diff.convert_diffs_for_ansible(plan.diffs, verbose=Display().verbosity > 0)
