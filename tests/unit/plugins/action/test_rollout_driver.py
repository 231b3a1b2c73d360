# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The step around a user's change of a driver: what it asks the host, what it makes of the answer,
and which answers keep a host from the user's tasks or from its return to service.
"""

from __future__ import annotations

import dataclasses as dc
import types
from collections.abc import Mapping
from typing import Any

import pytest
from ansible.errors import AnsibleConnectionFailure
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    base,
    host_look,
    stages,
    transport,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller.steps import (
    rollout_driver,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    get_code,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Plan,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet.report import (
    registered,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import (
    holding_messages,
    kept_driver,
)

from tests.unit.rollout_looks import looked

PACKAGES = ("libcuda1", "nvidia-kernel-dkms")
NEEDS = kept_driver.KeepingNeeds(
    "apt",
    "dpkg",
    PACKAGES,
    ((("apt-mark", "unhold", "libcuda1"), ("apt-mark", "hold", "libcuda1")),),
    (),
    1795726800.0,
)
NONE = kept_driver.KeepingNeeds("apt", "dpkg", (), (), (), 1795726800.0)
ANSWER: dict[str, Any] = {
    "schema": 1, "state": "changing", "again": False, "refused": False, "unread": False,
    "rollout": "", "kept": [], "left": [], "ran": [], "error": None,
}  # fmt: skip
KEPT = {
    "name": "libcuda1",
    "arch": "amd64",
    "version": "535",
    "file": "x.deb",
    "sha256": "0" * 64,
    "size": 1,
}
LEFT = {"name": "nvidia-kernel-dkms", "arch": "amd64", "version": "535", "why": "no-file"}
CHANGE = {"state": "changing", "release": "535.261.03", "gpus": 8, "kept": 1, "driver": "ok"}


class Played:
    """One step on a host that answers as it is told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.needs: Any = NEEDS
        self.answer: dict[str, Any] = dict(ANSWER)
        self.asked: list[dict[str, Any]] = []
        self.check = False
        self.run = "1f"  # as the first point has left it
        monkeypatch.setattr(host_look, "learn", lambda *_args: self.needs)
        monkeypatch.setattr(transport, "run_host_program", self.send)

    def send(self, _action: Any, program: str, request: Any, *_way: Any) -> dict[str, Any]:
        assert program == kept_driver.PROGRAM
        self.asked.append(dict(request))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def play(self, point: str, look: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
        settings = {"keep_packages": more.pop("keeping", "try"), "driver": more.pop("driver", "")}
        return self.play_with({"point": point, "settings": settings, **more}, look)

    def play_with(
        self, options: Mapping[str, Any], look: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        args = {"step": "rollout_driver", **options}
        action: Any = types.SimpleNamespace(
            _task=types.SimpleNamespace(args=args, check_mode=self.check, diff=False, async_val=0)
        )
        variables = {
            "inventory_hostname": "gpu1",
            registered.LOOK: looked() if look is None else look,
            registered.DRIVER_KEPT: {"manager": "apt", "run": self.run},
        }
        return rollout_driver.change_driver(action, variables)


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> Played:
    return Played(monkeypatch)


def get_codes(result: dict[str, Any]) -> list[str]:
    return [str(note).rpartition("[")[2].rstrip("]") for note in result["notes"]]


@pytest.mark.parametrize("point", ["keep", "judge", "settle"])
@pytest.mark.parametrize(("root", "check"), [("/srv/image", False), ("/", True)])
def test_in_a_tree_and_in_check_mode_nothing_runs(
    played: Played, point: str, root: str, check: bool
) -> None:
    played.check = check
    assert played.play(point, root=root)["skips"] is True
    assert played.asked == []


ASKED = [
    # the setting; the packages that the host is asked to keep, whether each is demanded
    ("try", list(PACKAGES), False),
    ("require", list(PACKAGES), True),
    ("never", [], False),
]


@pytest.mark.parametrize(("keeping", "packages", "demand"), ASKED)
def test_the_host_gets_the_demand_and_the_driver_of_now(
    played: Played, keeping: str, packages: list[str], demand: bool
) -> None:
    advice = ["they differ. Do this [keeping.parts-differ]"]
    played.play("keep", looked(advice=advice), keeping=keeping)
    (asked,) = played.asked
    assert (asked["operation"], asked["packages"], asked["demand"]) == ("keep", packages, demand)
    undo = ["apt-mark", "hold", "libcuda1"]
    assert asked["release"] == [{"argv": ["apt-mark", "unhold", "libcuda1"], "undo": undo}]
    noted = {key: asked["record"][key] for key in ("driver", "release", "gpus", "before")}
    assert noted == {
        "driver": "ok", "release": "550.163.01", "gpus": 8, "before": ["keeping.parts-differ"],
    }  # fmt: skip


NOTES = [
    # the answer of the host, its needs, the setting; the codes of the notes
    ({"kept": [KEPT]}, NEEDS, "try", []),
    ({"kept": [KEPT], "left": [LEFT]}, NEEDS, "try", ["kept.no-file"]),
    ({}, NONE, "try", ["kept.none-installed"]),
    ({}, NONE, "never", []),
    ({"kept": [KEPT], "again": True}, NEEDS, "require", ["kept.begun-before"]),
    # the packages of before are gone half way, and the change goes on all the same
    ({"kept": [KEPT], "again": True}, NONE, "require", ["kept.begun-before"]),
    ({"left": [LEFT], "again": True}, NONE, "require", ["kept.no-file", "kept.begun-before"]),
    ({"again": True, "unread": True}, NEEDS, "try", ["kept.record-unread"]),
]


@pytest.mark.parametrize(("answer", "needs", "keeping", "codes"), NOTES)
def test_what_is_not_kept_is_said_without_v(
    played: Played, answer: dict[str, Any], needs: Any, keeping: str, codes: list[str]
) -> None:
    played.answer.update(answer)
    played.needs = needs
    result = played.play("keep", keeping=keeping)
    assert get_codes(result) == codes
    assert [str(w).startswith("gpu1: ") for w in result["warnings"]] == [True] * len(codes)
    assert result["again"] is bool(answer.get("again"))


def test_a_package_that_a_person_holds_is_said_and_demands_nothing(played: Played) -> None:
    played.needs = kept_driver.KeepingNeeds("apt", "dpkg", PACKAGES, (), ("libcuda1",), 0.0)
    played.answer["kept"] = [KEPT, KEPT]
    assert get_codes(played.play("keep", keeping="require")) == ["kept.held-by-a-person"]


def test_what_is_not_released_is_said(played: Played) -> None:
    left = holding_messages.LOCKS_LEFT.fill(path="/x", packages="libcuda1", why="of others")
    played.needs = dc.replace(NEEDS, advice=(left,))
    assert "hold.locks-left" in get_codes(played.play("keep"))


ENDS = [
    # the policy, whether this collection holds packages; the codes of the notes
    ("advise", True, ["kept.hold-ends"]),
    ("hold", True, []),  # the run converges the host after the change
    ("advise", False, []),
]


@pytest.mark.parametrize(("policy", "held", "codes"), ENDS)
def test_a_hold_that_does_not_come_back_is_said(
    played: Played, policy: str, held: bool, codes: list[str]
) -> None:
    played.needs = dc.replace(NEEDS, released=("libcuda1",) if held else ())
    settings = {"keep_packages": "try", "driver": ""}
    result = played.play_with({"point": "keep", "settings": settings, "driver": policy})
    assert get_codes(result) == codes


CUT_OFF = [
    # the policy, whether a run was killed while it released the hold; the codes of the notes
    ("advise", True, ["kept.release-cut-off"]),
    ("ignore", True, ["kept.release-cut-off"]),
    ("hold", True, []),  # the run holds them after the change
    ("advise", False, []),
]


@pytest.mark.parametrize(("policy", "cut_off", "codes"), CUT_OFF)
def test_a_hold_that_an_earlier_run_may_have_released_is_said(
    played: Played, policy: str, cut_off: bool, codes: list[str]
) -> None:
    settings = {"keep_packages": "try", "driver": ""}
    look = looked(driver_change={"state": "preparing", "releasing": cut_off})
    result = played.play_with({"point": "keep", "settings": settings, "driver": policy}, look)
    assert get_codes(result) == codes


REFUSED = [
    # the answer of the host, its needs; the code of the error, the codes in its cause
    ({"refused": True, "left": [LEFT]}, NEEDS, "kept.demanded", ["kept.no-file"]),
    ({"refused": True}, NONE, "kept.demanded", ["kept.none-installed"]),
    ({"refused": True, "again": True, "unread": True}, NONE, "kept.demanded", ["kept.record-unread"]),
    ({"error": {"message": "the disk is full", "next": ""}}, NEEDS, "kept.not-prepared", []),
]  # fmt: skip


@pytest.mark.parametrize(("answer", "needs", "code", "causes"), REFUSED)
def test_a_host_that_refuses_gets_no_task_of_the_user(
    played: Played, answer: dict[str, Any], needs: Any, code: str, causes: list[str]
) -> None:
    played.answer.update(answer)
    played.needs = needs
    with pytest.raises(PlanError) as caught:
        played.play("keep", keeping="require")
    assert caught.value.code == code
    assert all(f"[{cause}]" in str(caught.value) for cause in causes)


UNKNOWN_LOOKS: list[dict[str, Any]] = [
    {}, {"unreachable": True, "msg": "no route"}, {"failed": True, "msg": "no Python"},
]  # fmt: skip


@pytest.mark.parametrize("look", UNKNOWN_LOOKS)
def test_a_host_whose_driver_of_now_is_not_known_is_not_changed(
    played: Played, look: dict[str, Any]
) -> None:
    with pytest.raises(PlanError) as caught:
        played.play("keep", look)
    assert caught.value.code == "kept.unreachable"
    assert played.asked == []


@pytest.mark.parametrize("point", ["keep", "settle"])
def test_a_host_that_is_lost_in_the_step_fails(played: Played, point: str) -> None:
    played.answer = AnsibleConnectionFailure("no route")  # type: ignore[assignment]
    with pytest.raises(PlanError) as caught:
        played.play(point)
    assert caught.value.code == "kept.unreachable"


JUDGED = [
    # the change that is noted, the setting; the code of the error, the codes of the notes
    (CHANGE, "", "", []),
    (CHANGE, "550", "", []),
    (CHANGE, "580", "moved.other-release", []),
    ({**CHANGE, "release": "550.163.01"}, "", "", ["moved.nothing"]),
    ({**CHANGE, "gpus": 9}, "", "moved.fewer-gpus", []),
    ({**CHANGE, "gpus": None}, "", "moved.before-unknown", []),
    # the record that was written before the change is gone
    ({"state": ""}, "", "moved.before-unknown", []),
    ({}, "", "moved.before-unknown", []),
]


@pytest.mark.parametrize(("change", "driver", "code", "notes"), JUDGED)
def test_a_host_is_judged_by_its_own_record(
    played: Played, change: dict[str, Any], driver: str, code: str, notes: list[str]
) -> None:
    look = looked(driver_change=change)
    if not code:
        result = played.play("judge", look, driver=driver)
        assert (result["release"], get_codes(result)) == ("550.163.01", notes)
        return
    with pytest.raises(PlanError) as caught:
        played.play("judge", look, driver=driver)
    assert caught.value.code == code


WAYS = [(1, True), (0, False)]


@pytest.mark.parametrize(("kept", "named"), WAYS)
def test_the_way_back_is_named_if_packages_are_kept(played: Played, kept: int, named: bool) -> None:
    with pytest.raises(PlanError) as caught:
        played.play("judge", looked(driver_change={**CHANGE, "gpus": 9, "kept": kept}))
    assert (kept_driver.WAY_BACK["apt"] in caught.value.next) is named


SETTLED = [
    # the state of the answer, its error; the code of the error
    ("settled", None, ""),
    ("settled", {"message": "the disk is full", "next": ""}, "kept.not-settled"),
    ("", None, "kept.not-settled"),
]


@pytest.mark.parametrize(("state", "error", "code"), SETTLED)
def test_a_host_returns_only_when_its_record_says_that_it_was_judged(
    played: Played, state: str, error: dict[str, Any] | None, code: str
) -> None:
    played.answer.update(state=state, error=error)
    if not code:
        assert played.play("settle")["state"] == "settled"
        assert [asked["operation"] for asked in played.asked] == ["settle"]
        return
    with pytest.raises(PlanError) as caught:
        played.play("settle")
    assert caught.value.code == code


def test_each_run_settles_the_change_that_it_has_prepared(played: Played) -> None:
    runs = []
    for rollout in ("week", "week"):  # of one rollout, on two controllers
        played.asked.clear()
        played.run = played.play("keep", rollout=rollout)["run"]
        played.answer.update(state="settled")
        played.play("settle", rollout=rollout)
        keep, settle = (asked["record"] for asked in played.asked)
        assert (keep["run"], keep["rollout"]) == (settle["run"], settle["rollout"])
        assert (keep["run"], keep["rollout"]) == (played.run, rollout)
        runs.append(played.run)
    assert len(set(runs)) == 2


@pytest.mark.parametrize("state", ["changing", "settled", "preparing"])
def test_a_host_that_another_run_has_taken_up_does_not_return(played: Played, state: str) -> None:
    played.answer.update(state=state, rollout="week")
    with pytest.raises(PlanError) as caught:
        played.play("settle")
    assert caught.value.code == "kept.taken-up"
    assert "week" in str(caught.value)


DROPPED = [
    # the state that the look has found, of the policy, check mode, a failed change; whether the host
    # removes what is kept only if no change waits for its judgement, None if it is not asked
    ("settled", "present", False, False, True),
    # of a run that was killed while it kept packages
    ("preparing", "present", False, False, True),
    ("changing", "present", False, False, None),
    ("", "present", False, False, None),
    ("settled", "present", True, False, None),
    ("settled", "present", False, True, None),
    ("changing", "absent", False, False, False),
    ("preparing", "absent", False, False, False),
]


@pytest.mark.parametrize(("state", "wanted", "check", "failed", "settled"), DROPPED)
def test_the_next_converge_removes_what_no_change_needs(
    played: Played, state: str, wanted: str, check: bool, failed: bool, settled: bool | None
) -> None:
    answer: Mapping[str, Any] = {"error": {"phase": "command", "message": "x"}} if failed else {}
    noted = drop(played, state, wanted, check=check, answer=answer)
    found = [(asked["settled"], asked["releasing"]) for asked in played.asked]
    assert found == ([] if settled is None else [(settled, False)])
    assert noted == []
    played.answer["error"] = {"message": "Operation not permitted", "next": ""}
    told = drop(played, state, wanted, check=check, answer=answer)
    assert told == ([] if settled is None else ["kept.not-removed"])


ENDED = stages.PlannedOutcome(Plan())
NO_DRIVER = holding_messages.NO_DRIVER.fill(evidence="no GPU")
DECIDED = {"decisions": [{"engine": "docker"}], "refused": [["docker", "a reason"]], "skipped": ""}
LEFT_OPEN: list[tuple[str, str, dict[str, Any], str, int, list[str]]] = [
    # the policies, what is decided of the host, what the plan says; whether the host is asked to
    # remove what is kept, the codes of the advice
    ("hold", "present", {}, "", 1, []),
    ("advise", "present", {}, "", 1, []),
    ("hold", "present", DECIDED, "", 1, []),
    # these leave the hold as it is, so that the note has to stay
    ("ignore", "present", DECIDED, "", 0, ["kept.release-cut-off"]),
    ("hold", "present", DECIDED, NO_DRIVER, 0, ["kept.release-cut-off"]),
    ("hold", "present", {"skipped": "no GPU"}, "", 0, ["kept.release-cut-off"]),
    ("advise", "present", {"skipped": "no GPU"}, "", 0, ["kept.release-cut-off"]),
    ("hold", "present", {**DECIDED, "decisions": []}, "", 0, ["kept.release-cut-off"]),
    ("ignore", "absent", DECIDED, "", 1, []),
    ("hold", "absent", {"skipped": "no GPU"}, "", 1, []),
]


@pytest.mark.parametrize(("driver", "wanted", "decided", "says", "asked", "codes"), LEFT_OPEN)
def test_the_note_of_a_hold_that_may_be_gone_stays_until_a_policy_decides(
    played: Played,
    driver: str,
    wanted: str,
    decided: dict[str, Any],
    says: str,
    asked: int,
    codes: list[str],
) -> None:
    plan = Plan(advice=(says,) if says else ())
    facts = {"driver_change": {"state": "preparing", "releasing": True}, "decision": decided}
    told = drop(played, "", wanted, check=False, answer={}, driver=driver, facts=facts, plan=plan)
    assert told == codes
    assert [one["releasing"] for one in played.asked] == [True] * asked


def drop(
    played: Played,
    state: str,
    wanted: str,
    *,
    check: bool,
    answer: Mapping[str, Any],
    driver: str = "advise",
    facts: dict[str, Any] | None = None,
    plan: Plan = ENDED.plan,
) -> list[str]:
    action: Any = types.SimpleNamespace(_task=types.SimpleNamespace(check_mode=check))
    policy = Policy(state=wanted, driver=driver)  # type: ignore[arg-type]
    task = base.Task(action, {}, policy, lambda _policy: [], lambda *_of: ENDED, "", "auto")
    outcome = stages.PlannedOutcome(plan, facts or {"driver_change": {"state": state}})
    return [get_code(note) for note in base.drop_kept_packages(task, outcome, answer)]
