# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Look at a host from the controller, as often as the planner asks, and plan by what was seen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    archives,
    host_answers,
    messages,
    online,
    stages,
    transport,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    NeedMore,
    PlanError,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Plan,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)

SCHEMA = 1
# A normal host needs one look. An import, a socket, a probe or the loader's cache may cost one more
# each. A plan that would ask forever ends when it asks nothing new. This bound is for a host whose
# answers always lead to new questions.
LOOKS = 100
# The questions that the controller answers itself.
OF_CONTROLLER: Mapping[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    "fetch": lambda question: online.fetch(question["url"]),
    "archive": lambda question: archives.answer_archive_query(question["file"]),
}
Planner = Callable[[Policy, Observation], stages.PlannedOutcome]
Questions = Callable[[Policy], list[dict[str, Any]]]


def look_at_host(
    action: ActionBase,
    task_vars: dict[str, Any],
    wanted: Policy,
    questions: list[dict[str, Any]],
    way: str,
    so_far: Observation | None = None,
) -> Observation:
    """Ask a host these questions, and return what was seen so far with the answers.

    way: the option `transport`. Raise PlanError if the program on the host does not run as root, or
    the tree is missing.
    """
    unique = queries.merge_questions(questions)
    before = so_far or Observation({}, {})
    own = {q["id"]: OF_CONTROLLER[q["kind"]](q) for q in unique if q.get("kind") in OF_CONTROLLER}
    before = before.add_answers({"answers": own}) if own else before
    asked = [
        add_probe_source(q)
        for q in unique
        if q.get("kind") not in OF_CONTROLLER and not ("where" in q and before.was_asked(q))
    ]
    if not asked:
        return before
    request = {"schema": SCHEMA, "root": wanted.root, **queries.pack_questions(asked)}
    answer = host_answers.name_answers(
        transport.run_host_program(action, "observe", request, task_vars, way), asked
    )
    require_root(wanted, answer["host"])
    if wanted.root == "/" and answer["host"]["uid"] != 0:
        raise PlanError(messages.NOT_ROOT.fill())
    queries.note_lists(answer["answers"], unique)
    return before.add_answers(answer)


def ask_as_root(
    action: ActionBase,
    task_vars: dict[str, Any],
    questions: list[queries.Question],
    way: str,
    *,
    limit: int,
    refusal: Message,
) -> Observation:
    """Ask the host these questions in one operation, and return its answers.

    limit: the seconds that the host may take. Raise PlanError with the refusal if the program there
    does not run as root.
    """
    asked = [add_probe_source(question) for question in questions]
    request = {"schema": SCHEMA, "root": "/", "limits": {"seconds": limit}}
    request.update(queries.pack_questions(asked))
    answer = host_answers.name_answers(
        transport.run_host_program(action, "observe", request, task_vars, way), asked
    )
    if answer["host"]["uid"] != 0:
        raise PlanError(refusal)
    return Observation({}, {}).add_answers(answer)


def require_root(wanted: Policy, host: Mapping[str, Any]) -> None:
    """Fail if the tree does not exist.

    A missing tree would look like an empty one, and its journal cannot be read.
    """
    if host.get("root") is False:
        raise PlanError(messages.NO_ROOT_DIRECTORY.fill(), where=wanted.root)


def add_probe_source(question: dict[str, Any]) -> dict[str, Any]:
    """Return the question with the source of the probe that it names.

    A planner names a probe; its source travels with the question.
    """
    named = question.get("program") if question.get("kind") == "probe" else None
    if named is None:
        return question
    return {
        **{k: v for k, v in question.items() if k != "program"},
        "source": transport.probe_source(named),
    }


def observe_and_plan(
    action: ActionBase,
    task_vars: dict[str, Any],
    wanted: Policy,
    questions: Questions,
    planner: Planner,
    way: str,
) -> tuple[Observation, stages.PlannedOutcome]:
    """Look, then plan; return what was seen, and the outcome."""
    return plan_from(
        look_at_host(action, task_vars, wanted, questions(wanted), way),
        action,
        task_vars,
        wanted,
        planner,
        way,
    )


def learn(
    action: ActionBase,
    task_vars: dict[str, Any],
    wanted: Policy,
    questions: list[dict[str, Any]],
    read: Callable[[Observation], Any],
    way: str,
) -> Any:
    """Look, and return what `read` makes of the observation.

    If the reading asks for more, look at that as well.
    """

    def planner(_policy: Policy, seen: Observation) -> stages.PlannedOutcome:
        return stages.PlannedOutcome(Plan(), {"read": read(seen)})

    return plan_from(
        look_at_host(action, task_vars, wanted, questions, way),
        action,
        task_vars,
        wanted,
        planner,
        way,
    )[1].facts["read"]


def plan_from(
    obs: Observation,
    action: ActionBase,
    task_vars: dict[str, Any],
    wanted: Policy,
    planner: Planner,
    way: str,
) -> tuple[Observation, stages.PlannedOutcome]:
    """Plan; return what was seen, and the outcome.

    If the plan needs an answer that was not asked for, look once more, as long as there is
    something new to ask.
    """
    asked: set[str] = set()
    repeated = ""
    for _round in range(LOOKS):
        try:
            return obs, planner(wanted, obs)
        except NeedMore as need:
            wants = {str(q["id"]) for q in need.questions}
            # an id may quote the host
            repeated = ", ".join(sorted({str(q.get("kind")) for q in need.questions}))
            if wants <= asked:
                raise PlanError(messages.REPEATED_QUERIES.fill(kinds=repeated)) from None
            asked |= wants
            obs = look_at_host(action, task_vars, wanted, need.questions, way, obs)
        except PlanError as error:
            # Raised again: ansible-core 2.19 prints the causes of an error behind it, and they have
            # the same words.
            raise PlanError(error.message, where=error.where, line=error.line) from None
    raise PlanError(messages.TOO_MANY_LOOKS.fill(number=LOOKS, kinds=repeated))
