# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the host is asked to change, to end and to note."""

from __future__ import annotations

import dataclasses as dc
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.transaction import request
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    base,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    PlanError,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Plan,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import (
    earlier_runs,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.results import journal

from tests.unit import answered
from tests.unit.builders import obs
from tests.unit.coded import read_all_coded
from tests.unit.planned_tasks import PLAN


def requested(policy: Policy, seen: Observation | None = None, **more: Any) -> dict[str, Any]:
    seen = seen or obs(packages={"containerd": "1.7.24~ds1-6"})
    return base.build_transaction_request(
        PLAN, policy, seen, check=False, reason="test", **{"pending": [], **more}
    )


def test_a_plan_becomes_a_transaction_only_beneath_the_real_root_with_restarts() -> None:
    here, offline, left = (
        requested(Policy(), pending=[]),
        requested(Policy(root="/srv/image")),
        requested(Policy(restart="never")),
    )
    assert [u["name"] for u in here["units"]] == ["a.service"]
    assert (
        offline["units"],
        offline["health"],
        offline["validate"],
        offline["commands_before"],
    ) == ([], [], [], [])
    assert left["units"] == []
    assert (here["alone"], offline["alone"]) == (True, False), (
        "beneath another root nothing runs that could finish by itself"
    )


def test_a_transaction_expects_the_packages_that_were_seen() -> None:
    assert requested(Policy())["expect"]["packages"] == {"containerd": "1.7.24~ds1-6"}
    assert requested(Policy(root="/srv/image"))["expect"]["packages"] == {}


def test_a_transaction_expects_the_programs_that_were_seen() -> None:
    answers = {
        "which:containerd,k3s": {
            "found": {"containerd": "/usr/bin/containerd"},
            "programs": {"/usr/bin/containerd": "1:2:3"},
        },
        "processes:containerd": {"processes": [], "programs": {"/opt/engine/containerd": None}},
    }
    seen = Observation({}, answers)
    assert requested(Policy(), seen)["expect"]["programs"] == {
        "/usr/bin/containerd": "1:2:3",
        "/opt/engine/containerd": None,
    }
    assert requested(Policy(root="/srv/image"), seen)["expect"]["programs"] == {}


def test_what_was_rolled_back_while_nobody_looked_is_told_with_the_next_transaction() -> None:
    seen = obs(
        outcomes=[
            {"id": "a1", "reason": "gpufleet.nvidia.host", "by": "the timer", "why": "it hung"}
        ]
    )
    assert requested(Policy(), seen)["acknowledged"] == ["a1"]
    transaction = "the transaction of an unknown time (gpufleet.nvidia.host)"
    values = {"transaction": transaction, "by": "by the host's timer", "details": "it hung"}
    assert read_all_coded(journal.advise_on_journal(earlier_runs.read_earlier_runs(seen))) == [
        ("journal.taken-back", values)
    ]


@pytest.mark.parametrize(
    ("journal_says", "check", "sent"),
    [
        ({}, False, None),
        ({"outcomes": [{"id": "a1", "why": "it hung"}]}, False, (["a1"], [])),
        ({"outcomes": [{"id": "a1", "why": "it hung"}]}, True, None),
        ({"strays": ["/etc/.gpufleet-x"]}, False, ([], ["/etc/.gpufleet-x"])),
    ],
    ids=[
        "nothing to tell",
        "a rollback",
        "in check mode nothing is noted",
        "what lies beside a file",
    ],
)
def test_a_run_without_changes_notes_on_the_host_what_it_has_told_and_runs_no_transaction(
    monkeypatch: pytest.MonkeyPatch,
    journal_says: dict[str, Any],
    check: bool,
    sent: tuple[list[str], list[str]] | None,
) -> None:
    """Else the next run would tell it again."""
    asked: list[tuple[str, dict[str, Any]]] = []

    def exchange(
        _action: Any, program: str, request: dict[str, Any], *_more: Any
    ) -> dict[str, Any]:
        asked.append((program, request))
        return (
            answered.look(request, originals=answered.journal(**journal_says))
            if program == "observe"
            else {}
        )

    monkeypatch.setattr(base.transport, "run_host_program", exchange)
    action: Any = SimpleNamespace(_task=SimpleNamespace(check_mode=check, diff=False))
    answer = base.converge_host(
        action,
        {},
        Policy(),
        lambda _p: [answered.ORIGINALS],
        lambda _p, _s: base.Outcome(Plan()),
        reason="test",
        way="auto",
    )
    assert len(answer.get("warnings", [])) == len(journal_says)
    expected = {"schema": 1, "root": "/", "journal_dir": "/var/lib/gpufleet"}
    noted = [("acknowledge", {**expected, "ids": sent[0], "strays": sent[1]})] if sent else []
    assert asked[1:] == noted


def test_the_node_knows_every_key_of_a_request_and_asks_for_no_other() -> None:
    """`environment` is the transport's: the names that the task's `environment:` sets."""
    assert set(requested(Policy())) == request.KEYS - {"environment"}
    request.require_valid_request(requested(Policy()))


def test_a_transaction_that_was_cut_short_is_ended_before_anything_is_planned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What it left may look just like the desired state: the plan would be empty, and the host
    would take it all back later.
    """
    left = {"id": "a1", "state": "swapped", "reason": "gpufleet.nvidia.host", "at_work": False}
    sent: list[tuple[str, dict[str, Any]]] = []

    def exchange(
        _action: Any, program: str, request: dict[str, Any], *_more: Any
    ) -> dict[str, Any]:
        sent.append((program, request))
        if program == "transaction":
            return {
                "recovered": [
                    {
                        "id": "a1",
                        "reason": "gpufleet.nvidia.host",
                        "outcome": "rolled_back",
                        "why": "the executor died",
                    }
                ]
            }
        unfinished = [left] if len(sent) == 1 else []
        return answered.look(request, originals=answered.journal(unfinished=unfinished))

    monkeypatch.setattr(base.transport, "run_host_program", exchange)
    action: Any = SimpleNamespace(_task=SimpleNamespace(check_mode=False, diff=False))

    def told(_policy: Policy) -> list[dict[str, Any]]:
        return [answered.ORIGINALS]

    def nothing(_policy: Policy, _seen: Observation) -> base.Outcome:
        return base.Outcome(Plan())

    answer = base.converge_host(
        action, {"inventory_hostname": "gpu1"}, Policy(), told, nothing, reason="test", way="auto"
    )
    assert [(program, request.get("changes")) for program, request in sent] == [
        ("observe", None),
        ("transaction", []),
        ("observe", None),
    ]
    assert "the executor died" in answer["advice"][0]
    assert answer["advice"][0].endswith("[journal.recovered]")
    assert answer["warnings"] == [f"gpu1: {answer['advice'][0]}"], (
        "seen by those, too, who print no results"
    )
    sent.clear()
    error = {
        "phase": "recover",
        "message": "/var/lib/gpufleet/journal/a1: its entry cannot be read",
        "next": "Mend it",
    }
    monkeypatch.setattr(
        base.transport,
        "run_host_program",
        lambda *given: {"error": error} if given[1] == "transaction" else exchange(*given),
    )
    with pytest.raises(
        PlanError, match=r"its entry cannot be read. Mend it.*\[host.unfinished-transaction\]$"
    ):
        base.converge_host(action, {}, Policy(), told, nothing, reason="test", way="auto")
    monkeypatch.setattr(base.transport, "run_host_program", exchange)
    sent.clear()
    left.update(at_work=True)
    base.converge_host(action, {}, Policy(), told, nothing, reason="test", way="auto")
    assert [program for program, _request in sent] == ["observe"], (
        "who is still at work is left to it"
    )


def test_units_whose_restart_is_left_to_the_user_are_remembered_on_the_host(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By the plan that is sent: a plan with the restart may be refused, and is not made."""
    sent: list[dict[str, Any]] = []

    def exchange(
        _action: Any, program: str, request: dict[str, Any], *_more: Any
    ) -> dict[str, Any]:
        if program == "transaction":
            sent.append(request)
            return {}
        return answered.look(request)

    def planner(policy: Policy, _seen: Observation) -> base.Outcome:
        if policy.restart != "never":
            raise PlanError("a restart would kill every container")
        return base.Outcome(dc.replace(PLAN, pending=("docker.service",)))

    monkeypatch.setattr(base.transport, "run_host_program", exchange)
    action: Any = SimpleNamespace(_task=SimpleNamespace(check_mode=False, diff=False))
    never = Policy(restart="never")
    base.converge_host(action, {}, never, lambda _policy: [], planner, reason="test", way="auto")
    assert [request["pending"] for request in sent] == [["docker.service", "a.service"]]
    assert [unit for request in sent for unit in request["units"]] == []
