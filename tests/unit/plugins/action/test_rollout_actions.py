# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The gate and the report as tasks: what goes wrong beside the hosts is a warning, and what ends a
rollout is told once.
"""

from __future__ import annotations

import errno
import types
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.action import playbook_step
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import claims
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet.report import (
    registered,
)

BEGUN: dict[str, Any] = {"point": "begin", "progress": {}, "ended": "", "held": {}}
CHANGED = {registered.ROLLOUT_STEP: BEGUN, registered.CONVERGED: {"changed": True}}


def plan(*batches: Iterable[str]) -> dict[str, Any]:
    about = {
        "class": "a",
        "state": "do",
        "why": "",
        "domain": "",
        "change": "c",
        "gpus": 0,
        "running": [],
    }
    return {
        "batches": [{"wave": number, "hosts": list(hosts)} for number, hosts in enumerate(batches)],
        "hosts": {host: about for hosts in batches for host in hosts},
    }


def played(step: str, hosts: dict[str, dict[str, Any]], here: str, **args: Any) -> dict[str, Any]:
    action = playbook_step.ActionModule.__new__(playbook_step.ActionModule)
    action._task = types.SimpleNamespace(
        args={"step": step, **args}, check_mode=False, diff=False, async_val=0
    )
    action._connection = types.SimpleNamespace(_shell=types.SimpleNamespace(tmpdir=None))
    found: dict[str, Any] = action.run(task_vars={"inventory_hostname": here, "hostvars": hosts})
    return found


BOOKKEEPING = [
    PlanError(
        "this directory cannot be used",
        where="/home/x/.ansible/gpufleet/rollouts",
        why="No space left on device",
    ),
    OSError(errno.ESTALE, "Stale file handle"),
]


@pytest.mark.parametrize("error", BOOKKEEPING)
def test_bookkeeping_that_fails_is_a_warning_and_the_rollout_has_its_gate_and_its_report(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_hosts: Any) -> None:
        raise error

    monkeypatch.setattr(claims, "end_claims", fails)
    monkeypatch.setattr(claims, "give_up", fails)
    hosts = {"gpu1": CHANGED}
    gate = played("rollout_batch", hosts, "gpu1", point="end", settings={}, plan=plan(["gpu1"]))
    assert (gate["progress"]["done"], gate["ended"], len(gate["warnings"])) == (1, "", 1)
    report = played(
        "rollout_report",
        {"gpu1": {**CHANGED, registered.ROLLOUT_STEP: gate}},
        "gpu1",
        settings={},
        plan=plan(["gpu1"]),
    )
    assert (report["status"], report["totals"]["changed"], len(report["warnings"])) == (
        "done",
        1,
        1,
    )
    assert str(error) in gate["warnings"][0]
    assert str(error) in report["warnings"][0]


def test_the_report_gives_hosts_up_when_all_has_been_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr(
        claims,
        "give_up",
        lambda _hosts: told.extend((tmp_path / "events").read_text().splitlines()),
    )
    played(
        "rollout_report",
        {"gpu1": CHANGED},
        "gpu1",
        settings={"events": str(tmp_path / "events")},
        plan=plan(["gpu1"]),
    )
    assert ['"event": "end"' in line for line in told] == [True]


UNTRIED = {"untried": {"a": "its canary gpu1 could not be taken out of service"}}
ENDS = [
    # what the gate knows in the end, what became of the first host; how the rollout ended, and
    # whether that is a failure
    ({}, {"changed": True}, "done", False),
    ({}, {"failed": True, "msg": "no"}, "failed", True),
    (UNTRIED, {"changed": True}, "paused", False),
    (UNTRIED, {"failed": True, "msg": "no"}, "failed", True),
    ({**UNTRIED, "stopped": {"b": "its canary gpu3 failed"}}, {"changed": True}, "stopped", False),
    ({"ended": "the window is closed", "paused": True}, {"changed": True}, "paused", False),
    ({"ended": "1 of 2 hosts failed"}, {"changed": True}, "stopped", True),
]


@pytest.mark.parametrize(("known", "became", "status", "wrong"), ENDS)
def test_how_a_rollout_ends(
    known: dict[str, Any],
    became: dict[str, Any],
    status: str,
    wrong: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(claims, "give_up", lambda _hosts: None)
    step = {**BEGUN, "point": "end", "progress": known}
    hosts = {"gpu1": {registered.ROLLOUT_STEP: step, registered.CONVERGED: became}, "gpu2": {}}
    found = played("rollout_report", hosts, "gpu1", settings={}, plan=plan(["gpu1"], ["gpu2"]))
    assert (found["status"], bool(found["problem"])) == (status, wrong)
    why = "class a has not been tried: its canary gpu1 could not be taken out of service"
    assert (f"the rollout is paused: {why}" in found["lines"]) is (
        known == UNTRIED and status == "paused"
    )


STOPS = [
    # the results that the first batch has left when the second one begins; why it does not, and
    # whether that is told as an event
    ({"gpu1": {**CHANGED, registered.ROLLOUT_STEP: {**BEGUN, "point": "end"}}}, "", False),
    ({"gpu1": CHANGED}, "the result of batch 1 of the rollout is not known", True),
    ({"gpu1": {}}, "the result of batch 1 of the rollout is not known", True),
    # told at its end
    (
        {
            "gpu1": {
                registered.ROLLOUT_STEP: {
                    **BEGUN,
                    "point": "end",
                    "progress": {"ended": "1 failed"},
                }
            }
        },
        "1 failed",
        False,
    ),
]


@pytest.mark.parametrize(("hosts", "why", "told"), STOPS)
def test_a_rollout_that_stops_tells_it_once(
    hosts: dict[str, Any], why: str, told: bool, tmp_path: Path
) -> None:
    (tmp_path / "events").touch()
    settings = {"events": str(tmp_path / "events")}
    step = played(
        "rollout_batch",
        {**hosts, "gpu2": {}},
        "gpu2",
        point="begin",
        settings=settings,
        plan=plan(["gpu1"], ["gpu2"]),
    )
    assert step["ended"].startswith(why)
    assert bool(step["ended"]) is bool(why)
    assert ('"event": "stop"' in (tmp_path / "events").read_text()) is told


def drained(outcome: str, back: str = "", **more: Any) -> dict[str, Any]:
    step = {
        registered.ROLLOUT_STEP: {**BEGUN, "point": "end"},
        registered.DRAINED: {"outcome": outcome},
    }
    return {**step, **({registered.UNDRAINED: {"outcome": back}} if back else {}), **more}


OUT = [
    # what became of the first host; whether it is out of service when the next batch begins
    (drained("not_needed"), False),
    (drained("drained", "in_service"), False),
    (drained("drained", "kept"), True),  # it does not work
    (drained("drained", **{registered.FAILURE: {"kept": {"failed": True}}}), True),
    (drained("pending"), True),  # gpufleet_drain_on_timeout: keep
    (drained("left_out"), False),  # given back
    ({**drained("drained"), registered.UNDRAINED: {"skipped": True}}, True),
    ({**drained("drained"), registered.UNDRAINED: {"unreachable": True}}, True),
]


@pytest.mark.parametrize(("first", "out"), OUT)
def test_a_host_that_stays_out_of_service_takes_the_room_of_the_next(
    first: dict[str, Any], out: bool
) -> None:
    limited = {
        **plan(["gpu1"], ["gpu2"]),
        "limits": {
            "allowed": {"partition p": 1},
            "groups": {h: ["partition p"] for h in ("gpu1", "gpu2")},
        },
    }
    step = played(
        "rollout_batch",
        {"gpu1": first, "gpu2": {}},
        "gpu2",
        point="begin",
        settings={},
        plan=limited,
    )
    assert ("gpu2" in step["held"], step["progress"]["paused"]) == (out, out)
    assert ("gpu1 is still out of service" in step["ended"]) is out


def test_a_person_who_says_no_ends_the_rollout_as_paused() -> None:
    """Before the batch has begun for anybody: with another result than a failure of all its hosts,
    after which no report comes.
    """
    hosts = {
        "gpu1": {registered.ROLLOUT_STEP: {"point": "end", "progress": {"done": 1}}},
        "gpu2": {},
    }
    batches = plan(["gpu1"], ["gpu2"])
    ready = played("rollout_batch", hosts, "gpu2", point="ready", settings={}, plan=batches)
    assert (ready["ended"], ready["progress"]["done"]) == ("", 1)
    begun = played(
        "rollout_batch", hosts, "gpu2", point="begin", declined=True, settings={}, plan=batches
    )
    assert begun["ended"].startswith(
        "a person has ended it before this batch (gpufleet_rollout_pause)"
    )
    assert (begun["progress"]["paused"], set(begun["held"])) == (True, {"gpu2"})
