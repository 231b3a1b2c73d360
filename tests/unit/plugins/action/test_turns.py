# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Servers of one cluster take turns, and one that does not come through ends the turns of the
others in its run.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import base, claims, turns
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Difference,
    Plan,
    Policy,
    Restart,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import work

from tests.unit import answered

WELL: dict[str, Any] = {"changed": True}
BROKEN: dict[str, Any] = {
    "changed": False,
    "error": {"phase": "health", "message": "k3s.service does not serve"},
}
REFUSED = "precheck: this server is not changed, since s1, another server of its cluster, did not come through in this run"


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    found = tmp_path / "rollouts"
    monkeypatch.setattr(claims, "get_claims_directory", lambda: found)
    return found


NEEDED: dict[str, tuple[Policy, tuple[Restart, ...], bool]] = {
    "a server": (Policy(), (Restart("k3s.service"),), True),
    "a server of RKE2 among others": (
        Policy(),
        (Restart("docker.service"), Restart("rke2-server.service")),
        True,
    ),
    "an agent": (Policy(), (Restart("k3s-agent.service"),), False),
    "a plain containerd": (Policy(), (Restart("containerd.service"),), False),
    "a server whose restart is left to a person": (
        Policy(restart="never"),
        (Restart("k3s.service"),),
        False,
    ),
    "a controller of k0s, which takes the change up by itself": (
        Policy(restart="never"),
        (Restart("k0scontroller.service", "wait"),),
        True,
    ),
    "a tree": (Policy(root="/srv/tree"), (Restart("k3s.service"),), False),
    "nothing to restart": (Policy(), (), False),
}


@pytest.mark.parametrize(("wanted", "restarts", "needed"), NEEDED.values(), ids=NEEDED)
def test_who_waits_for_a_turn(wanted: Policy, restarts: tuple[Restart, ...], needed: bool) -> None:
    assert turns.needs_turn(wanted, Plan(restarts=restarts)) is needed


def held(place: Path) -> list[bool]:
    """Whether each lock is held by somebody."""
    found = []
    for path in sorted(place.glob("servers-*.lock")):
        with path.open("r+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                found.append(False)
            except BlockingIOError:
                found.append(True)
    return found


def test_no_other_server_of_the_cluster_is_changed_meanwhile(place: Path) -> None:
    seen: list[list[bool]] = []

    def other() -> dict[str, Any]:
        seen.append(held(place))
        return WELL

    def first() -> dict[str, Any]:
        seen.append(held(place))
        return turns.take_turn("edge", "e1", other)  # of another cluster: it does not wait

    assert turns.take_turn("one", "s1", first) == WELL
    assert seen == [[True], [True, True]]
    assert held(place) == [False, False]
    assert list(place.glob("*.begun")) == []


def never() -> dict[str, Any]:
    raise AssertionError("changed all the same")


def lost() -> dict[str, Any]:
    raise ConnectionError("the way to it broke")


def failing() -> None:
    assert turns.take_turn("one", "s1", lambda: BROKEN) == BROKEN


def losing() -> None:
    with pytest.raises(ConnectionError, match="the way to it broke"):
        turns.take_turn("one", "s1", lost)


@pytest.mark.parametrize("first", [failing, losing])
def test_after_one_that_did_not_come_through_the_others_stay_as_they_are(
    first: Callable[[], None],
) -> None:
    first()
    refused = turns.take_turn("one", "s2", never)
    assert refused["error"]["message"] in REFUSED
    assert refused["error"]["next"] == "Look at s1, and run again once the cluster's API is well"
    assert turns.take_turn("two", "t1", lambda: WELL) == WELL, "another cluster goes on"
    assert turns.take_turn("one", "s1", lambda: WELL) == WELL, "its own next attempt"
    assert turns.take_turn("one", "s2", lambda: WELL) == WELL, "after which the others go on"


def test_one_whose_files_another_program_has_changed_meanwhile_ends_nobodys_turn() -> None:
    """It was not changed, and what is planned again may be nothing."""
    conflict = {"changed": False, "conflict": [{"path": "/etc/x", "expected": "a", "found": "b"}]}
    assert turns.take_turn("one", "s1", lambda: conflict) == conflict
    assert turns.take_turn("one", "s2", lambda: WELL) == WELL


def test_a_note_that_cannot_be_read_is_not_one_that_nobody_has_left(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another server may be in trouble: no further one is changed."""
    turns.take_turn("c1", "s1", lambda: BROKEN)
    read, begun = Path.read_text, next(iter(place.glob("*.begun")))

    def deny(path: Path, *args: Any, **more: Any) -> str:
        if path == begun:
            raise PermissionError(13, "Permission denied", str(path))
        return read(path, *args, **more)

    monkeypatch.setattr(Path, "read_text", deny)
    with pytest.raises(PlanError) as refused:
        turns.take_turn("c1", "s2", lambda: pytest.fail("it is changed"))
    assert refused.value.code == "file.run-directory"


def test_a_turn_that_cannot_be_noted_is_not_begun(place: Path) -> None:
    turns.take_turn("one", "s1", lambda: BROKEN)
    (file,) = place.glob("*.begun")
    file.unlink()
    file.mkdir()
    with pytest.raises(PlanError, match="this directory cannot be used") as refused:
        turns.take_turn("one", "s2", never)
    assert refused.value.where == str(place)


OTHER_RUNS = {
    "an earlier run": lambda found: json.dumps(
        {**found, "process": {**found["process"], "started": "1"}}
    ),
    "a file that is cut off": lambda found: json.dumps(found)[:20],
    "a file that says something else": lambda _found: "[]",
}


@pytest.mark.parametrize("said", OTHER_RUNS.values(), ids=OTHER_RUNS)
def test_what_another_run_has_left_ends_nobodys_turn(
    said: Callable[[dict[str, Any]], str], place: Path
) -> None:
    turns.take_turn("one", "s1", lambda: BROKEN)
    (file,) = place.glob("*.begun")
    file.write_text(said(json.loads(file.read_text())))
    assert turns.take_turn("one", "s2", lambda: WELL) == WELL


class Servers:
    """Hosts whose plan restarts k3s, on which the first transaction fails."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        cas: dict[str, str],
        unfinished: dict[str, dict[str, Any]] | None = None,
    ) -> None:
        self.cas, self.sent, self.unfinished = cas, list[str](), unfinished or {}
        self.asked: list[str] = []
        monkeypatch.setattr(base.transport, "run_host_program", self.exchange)

    def exchange(
        self,
        _action: Any,
        program: str,
        request: dict[str, Any],
        task_vars: dict[str, Any],
        *_more: Any,
    ) -> dict[str, Any]:
        host = task_vars["inventory_hostname"]
        if program == "observe":
            self.asked.append(host)
            left = [self.unfinished[host]] if host in self.unfinished else []
            certificates = {"path": None, "sha256": self.cas.get(host)}
            return answered.look(
                request, originals=answered.journal(unfinished=left), certificates=certificates
            )
        self.sent.append(host)
        return BROKEN if len(self.sent) == 1 else WELL

    def converge(
        self, host: str, restart: Literal["auto", "never"] = "auto", **variables: Any
    ) -> str:
        action: Any = SimpleNamespace(
            _task=SimpleNamespace(check_mode=False, diff=False),
            _templar=SimpleNamespace(template=lambda value: value),
        )
        plan = Plan(
            differences=(Difference("file", "/x", "", None, "y", "z"),),
            restarts=(Restart("k3s.service"),),
        )
        questions = [answered.ORIGINALS]
        task_vars = {"inventory_hostname": host, **variables}
        done = base.converge_host(
            action,
            task_vars,
            Policy(restart=restart),
            lambda _p: questions,
            lambda _p, _s: base.Outcome(plan),
            reason="test",
            way="auto",
        )
        return str(done.get("msg") or "")


CLUSTERS: dict[str, tuple[dict[str, str], dict[str, Any], list[str]]] = {
    # the CAs of three servers, what the inventory says, and which of them are changed after the
    # first one failed
    "one cluster by its CA": (dict.fromkeys(("s1", "s2", "s3"), "a" * 64), {}, ["s1"]),
    "a cluster each": ({"s1": "a" * 64, "s2": "b" * 64, "s3": "c" * 64}, {}, ["s1", "s2", "s3"]),
    "one by the inventory": ({}, {"gpufleet_cluster": "prod"}, ["s1"]),
    "no CA that can be read": ({}, {}, ["s1"]),
}


@pytest.mark.parametrize(("cas", "variables", "changed"), CLUSTERS.values(), ids=CLUSTERS)
def test_a_task_changes_no_further_server_of_a_cluster_of_which_one_failed(
    cas: dict[str, str],
    variables: dict[str, Any],
    changed: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    servers = Servers(monkeypatch, cas)
    said = {host: servers.converge(host, **variables) for host in ("s1", "s2", "s3")}
    assert servers.sent == changed
    assert {host for host, text in said.items() if text.startswith(REFUSED)} == {
        "s1",
        "s2",
        "s3",
    } - set(changed)
    looks = 1 if variables else 2  # one more where the inventory names no cluster
    assert servers.asked == [host for host in said for _look in range(looks)]
    assert work.CLUSTER["id"]


def left(*units: str, at_work: bool = False) -> dict[str, Any]:
    return {"id": "a1", "state": "applied", "units": list(units), "at_work": at_work}


# What a killed run has left on s2, gpufleet_restart, and whether s2 is changed in a run in which s1
# did not come through.
INTERRUPTED: dict[str, tuple[dict[str, Any], Literal["auto", "never"], bool]] = {
    "it restarts the server": (left("k3s.service"), "auto", False),
    "it restarts the server, whatever is left to a person now": (
        left("k3s.service"),
        "never",
        False,
    ),
    "it restarts another unit": (left("docker.service"), "auto", True),
    "it restarts none": (left(), "auto", True),
    "somebody is at work on it": (left("k3s.service", at_work=True), "auto", False),
}


@pytest.mark.parametrize("case", INTERRUPTED)
def test_what_was_cut_short_on_a_server_is_taken_back_in_its_turn(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    unfinished, restart, changed = INTERRUPTED[case]
    servers = Servers(monkeypatch, {}, {"s2": unfinished})
    servers.converge("s1", gpufleet_cluster="prod")
    with contextlib.suppress(PlanError):
        servers.converge("s2", restart, gpufleet_cluster="prod")
    assert servers.sent == ["s1", *(["s2"] if changed else [])]
