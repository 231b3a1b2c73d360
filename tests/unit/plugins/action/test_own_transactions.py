# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What comes first is carried out in transactions of its own: the repository, then packages, then
the rest as it is planned then.
"""

from __future__ import annotations

import dataclasses as dc
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.utils.display import Display
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    base,
    guard,
    stages,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller.messages import (
    STILL_MISSING,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Difference,
    Plan,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)

from tests.unit import answered

# ---------------------------------------------------------------- what comes first, in transactions
# of its own

KEY, FILE = (
    {"path": "/etc/key", "op": "write", "content": "k"},
    {"path": "/etc/own", "op": "write", "content": "o"},
)
SOURCE = Plan(
    differences=(Difference("file", "/etc/key", "", None, "k", ""),),
    changes=(KEY,),
    validate=({"argv": ["read"]},),
)
INSTALL = Plan(
    differences=(Difference("package", "tool", "version", None, "1", ""),),
    commands=({"argv": ["install", "tool"]},),
)
REST = Plan(
    differences=(Difference("file", "/etc/own", "mode", None, "cdi", ""),),
    changes=(FILE,),
    validate=({"argv": ["judge"]},),
)
FOUND = dc.replace(
    REST,
    differences=(Difference("file", "/etc/own", "mode", "auto", "cdi", ""),),
    changes=({**FILE, "op": "edit"},),
)
DONE = {"changed": True}
BROKEN = {"error": {"phase": "command", "message": "no such package", "next": "Look"}}


class Host:
    """A host that answers looks, and transactions as it is told; the plan depends on whether the
    package is there.
    """

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        *answers: dict[str, Any],
        first: tuple[Plan, ...] = (SOURCE, INSTALL),
    ) -> None:
        self.answers, self.first = list(answers), first
        self.sent: list[dict[str, Any]] = []
        self.installed = False
        monkeypatch.setattr(base.transport, "run_host_program", self.exchange)

    def exchange(
        self, _action: Any, program: str, request: dict[str, Any], *_more: Any
    ) -> dict[str, Any]:
        if program == "observe":
            return answered.look(request, originals=answered.journal())
        self.sent.append(request)
        answer = (
            self.answers.pop(0)
            if self.answers
            else {"changed": True, "journal": f"/journal/{len(self.sent)}"}
        )
        self.installed = self.installed or (
            bool(request["commands_before"]) and not request["check"] and not answer.get("error")
        )
        return answer

    def plan(self, _policy: Policy, _seen: Observation) -> base.Outcome:
        return base.Outcome(
            FOUND if self.installed else dc.replace(REST, first=self.first), {"row": {}}
        )

    def converge(self, *, check: bool = False) -> dict[str, Any]:
        action: Any = SimpleNamespace(_task=SimpleNamespace(check_mode=check, diff=False))

        def asks(_policy: Policy) -> list[dict[str, Any]]:
            return [answered.ORIGINALS]

        return base.converge_host(action, {}, Policy(), asks, self.plan, reason="test", way="auto")

    @property
    def parts(self) -> list[str]:
        """What was sent: commands, and what is done to which file."""
        sent = (
            [c["argv"][0] for c in r["commands_before"]]
            + [f"{c['op']} {c['path']}" for c in r["changes"]]
            for r in self.sent
        )
        return [" ".join(words) for words in sent]


def test_what_comes_first_is_carried_out_by_itself_and_the_rest_is_planned_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host = Host(monkeypatch)
    result = host.converge()
    assert host.parts == ["write /etc/key", "install", "edit /etc/own"]
    assert result["actions"] == ["write /etc/key", "install tool", "edit /etc/own"]
    assert (result["changed"], result["journal"]) == (True, "/journal/3")


def test_check_mode_tells_the_same_differences_and_tries_what_can_be_tried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    check = Host(monkeypatch)
    would = check.converge(check=True)
    assert check.parts == ["write /etc/key", "install write /etc/own"]
    assert {r["check"] for r in check.sent} == {True}
    done = Host(monkeypatch).converge()
    assert (would["differences"], would["changed"]) == (done["differences"], done["changed"])
    assert [d["before"] for d in would["differences"]] == [None, None, None]


UNREAD = dc.replace(REST, validate=())  # as on a host with Podman alone, or with Docker 20.10
# what is planned -> what check mode tries
TRIED: dict[str, tuple[Plan, list[str]]] = {
    "a file that a program reads": (REST, ["write /etc/own"]),
    "a file that no program reads": (UNREAD, ["write /etc/own"]),
    "such a file behind packages": (
        dc.replace(UNREAD, first=(INSTALL,)),
        ["install write /etc/own"],
    ),
    "packages alone": (INSTALL, []),
    "nothing": (Plan(), []),
}


@pytest.mark.parametrize("name", TRIED)
def test_check_mode_tries_every_place_that_a_run_writes_to(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The host refuses places that others may write to, or that are read-only, before anything is
    done: check mode must not announce a change there.
    """
    planned, tried = TRIED[name]
    host = Host(monkeypatch)
    monkeypatch.setattr(host, "plan", lambda _policy, _seen: base.Outcome(planned))
    host.converge(check=True)
    assert host.parts == tried
    assert all(request["check"] for request in host.sent)


@pytest.mark.parametrize(
    ("answers", "parts", "changed", "says"),
    [
        ((BROKEN,), ["write /etc/key"], False, "no such package"),
        (
            (DONE, BROKEN),
            ["write /etc/key", "install"],
            True,
            "What was done before stays in place: write /etc/key",
        ),
        (
            (DONE, DONE, BROKEN),
            ["write /etc/key", "install", "edit /etc/own"],
            True,
            "stays in place: write /etc/key; install tool",
        ),
    ],
)
def test_a_part_that_fails_ends_the_run_and_what_was_done_before_it_is_named(
    monkeypatch: pytest.MonkeyPatch,
    answers: tuple[dict[str, Any], ...],
    parts: list[str],
    changed: bool,
    says: str,
) -> None:
    host = Host(monkeypatch, *answers)
    result = host.converge()
    assert host.parts == parts
    assert (result["failed"], result["changed"]) == (True, changed)
    assert says in result["msg"]


def test_a_plan_that_is_refused_behind_a_part_says_what_was_done_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A failed task that says `changed: false` is taken for one that has left its host alone."""
    host = Host(monkeypatch)
    plan = host.plan

    def refuse(policy: Policy, seen: Observation) -> base.Outcome:
        if host.installed:
            raise PlanError(STILL_MISSING.fill(paths="tool"), where="/etc/own", line=3)
        return plan(policy, seen)

    monkeypatch.setattr(host, "plan", refuse)
    with pytest.raises(PlanError) as caught:
        host.converge()
    result = guard.build_guarded_failure(caught.value)
    assert (result["failed"], result["changed"]) == (True, True)
    assert result["actions"] == ["write /etc/key", "install tool"]
    assert result["journal"] == "/journal/2"
    assert (result["error"]["code"], result["error"]["line"]) == (STILL_MISSING.code, 3)
    assert "What was done before stays in place: write /etc/key; install tool" in result["msg"]


def test_of_many_things_that_were_done_before_the_message_names_a_few(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An archive writes a dozen files."""
    monkeypatch.setattr(stages, "EARLIER_SHOWN", 1)
    said = Host(monkeypatch, DONE, DONE, BROKEN).converge()
    assert said["msg"].endswith(
        f"What was done before stays in place: write /etc/key; and 1 more [{said['error']['code']}]"
    )
    assert said["msg"].count("[") == 1
    assert said["actions"] == ["write /etc/key", "install tool", "edit /etc/own"]


@pytest.mark.parametrize(("verbosity", "kept"), [(0, set()), (1, {"differences", "planned"})])
def test_the_plan_of_a_host_that_failed_is_shown_with_v(
    verbosity: int, kept: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ansible prints the whole result of a failed task. Of one that did not fail it prints nothing,
    and others read it.
    """
    monkeypatch.setattr(Display(), "verbosity", verbosity)
    failed, done = (
        Host(monkeypatch, BROKEN).converge(),
        Host(monkeypatch, DONE, DONE, DONE).converge(),
    )
    assert set(base.BULK) & set(failed) == kept
    assert {"msg", "evidence", "actions"} <= set(failed)
    assert {"differences", "planned"} <= set(done)


def test_a_host_that_moved_on_is_planned_again_once(monkeypatch: pytest.MonkeyPatch) -> None:
    moved = {"conflict": [{"path": "/etc/key"}]}
    host = Host(monkeypatch, moved)
    assert not host.converge().get("failed")
    assert host.parts == ["write /etc/key", "write /etc/key", "install", "edit /etc/own"]
    late = Host(monkeypatch, {"changed": True}, {"changed": True}, moved)
    assert not late.converge().get("failed")
    assert late.parts == ["write /etc/key", "install", "edit /etc/own", "edit /etc/own"]


def test_an_installation_that_installs_nothing_does_not_go_round_in_circles(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host = Host(monkeypatch, first=(SOURCE,))
    with pytest.raises(PlanError, match=r"/etc/key.*\[host.still-missing\]$"):
        host.converge()
    assert host.parts == ["write /etc/key"]
