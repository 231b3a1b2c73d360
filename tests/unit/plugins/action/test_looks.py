# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Looks at a host: one after the other, as long as a plan asks something new."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import observe
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    base,
    host_look,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    NeedMore,
    PlanError,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Plan,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections import (
    file_places,
)

from tests.unit.builders import obs
from tests.unit.planned_tasks import make_task


def test_a_sentence_stands_once_whatever_ansible_chains() -> None:
    """ansible-core 2.19 prints the causes of an error behind it: with two of them, the same
    sentence stood there three times.
    """

    def planner(_policy: Policy, _obs: Observation) -> Any:
        try:
            raise ValueError("line 3")
        except ValueError as error:
            raise PlanError("not valid", where="/etc/x", why="line 3") from error

    with pytest.raises(PlanError) as caught:
        host_look.plan_from(obs(), make_task({}), {}, Policy(), planner, "auto")
    assert (caught.value.__cause__, caught.value.__suppress_context__) == (None, True)
    assert str(caught.value).count("not valid") == 1


def test_a_root_that_is_not_there_is_named_and_not_taken_for_an_empty_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        base.transport,
        "run_host_program",
        lambda _action, _program, request, *_more: observe.run(request),
    )
    there, gone = tmp_path / "there", tmp_path / "gone"
    there.mkdir()

    def look(root: Path) -> Observation:
        return host_look.look_at_host(
            make_task({}),
            {},
            Policy(root=str(root)),
            [queries.ask_for_originals("/var/lib/gpufleet")],
            "auto",
        )

    assert look(there).host["root"] is True
    with pytest.raises(PlanError, match=rf"^{gone}: .*\[host.no-root-directory\]$"):
        look(gone)


def chain_questions(length: int) -> Any:
    """Return a planner that asks so many questions, each after the answer to the one before."""

    def planner(_policy: Policy, seen: Observation) -> base.Outcome:
        for n in range(length):
            if f"file:/{n}" not in seen.answers:
                raise NeedMore([queries.ask_for_file(f"/{n}", file_places.WHOLE)])
        return base.Outcome(Plan(), {"looks": length})

    return planner


def answer_looks(monkeypatch: pytest.MonkeyPatch, *, deaf: bool = False) -> list[str]:
    """Answer each question, or none, and return the questions so far."""
    asked: list[str] = []

    def look(
        _action: Any,
        _vars: Any,
        _policy: Any,
        questions: list[dict[str, Any]],
        _way: str,
        so_far: Observation,
    ) -> Observation:
        asked.extend(q["id"] for q in questions)
        return (
            so_far
            if deaf
            else so_far.add_answers({"answers": {q["id"]: {"exists": False} for q in questions}})
        )

    monkeypatch.setattr(host_look, "look_at_host", look)
    return asked


def test_a_plan_that_always_asks_something_new_gets_its_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = answer_looks(monkeypatch)
    _seen, outcome = host_look.plan_from(
        Observation({}, {}), make_task({}), {}, Policy(), chain_questions(40), "auto"
    )
    assert (outcome.facts["looks"], len(asked)) == (40, 40)


def test_a_plan_that_asks_the_same_again_is_a_fault_and_ends_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = answer_looks(monkeypatch, deaf=True)
    with pytest.raises(PlanError, match=r"\[host.repeated-queries\]$"):
        host_look.plan_from(
            Observation({}, {}), make_task({}), {}, Policy(), chain_questions(3), "auto"
        )
    assert asked == ["file:/0"]


def test_a_host_that_always_leads_to_more_is_given_up_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answer_looks(monkeypatch)
    with pytest.raises(
        PlanError,
        match=r"^100 .*file.*gpufleet_config_path .*\[host.too-many-looks\]$",
    ):
        host_look.plan_from(
            Observation({}, {}), make_task({}), {}, Policy(), chain_questions(1000), "auto"
        )
