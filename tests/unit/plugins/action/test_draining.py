# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is asked of Slurm and Kubernetes, and what is not done where somebody was faster:
orchestrators that a table plays.
"""

from __future__ import annotations

import contextlib
import itertools
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from ansible.errors import AnsibleConnectionFailure
from ansible_collections.gpufleet.nvidia.plugins.action import drain as action_drain
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    arguments,
    batch_hosts,
    draining,
    module_calls,
    orchestrator,
    orchestrator_kubernetes,
    orchestrator_slurm,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster import drain
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster.drain import Standing
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import drain_slurm
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet.report import (
    registered,
)

Module = Callable[[str, Mapping[str, Any]], dict[str, Any]]
ARGS: dict[str, Any] = {
    "rollout": "r7",
    "reason": "",
    "kubeconfig": "",
    "context": "",
    "timeout": 1,
    "interval": 1,
    "on_timeout": "give_back",
}
ARGS |= {"method": "wait", "kubernetes_hold": "cordon"}


def calls(answer: Module) -> module_calls.Calls:
    def execute(
        module_name: str, module_args: dict[str, Any], task_vars: dict[str, Any]
    ) -> dict[str, Any]:
        return answer(module_name, module_args)

    played: Any = types.SimpleNamespace(
        _task=types.SimpleNamespace(check_mode=False), _execute_module=execute
    )
    return module_calls.Calls(played, {})


def scontrol(state: str, reason: str, said: list[Sequence[str]]) -> Module:
    def answer(_name: str, args: Mapping[str, Any]) -> dict[str, Any]:
        said.append(args["argv"][4:])
        return {
            "rc": 0,
            "stdout": f"NodeName=gpu1 Arch=x\n   State={state} X=1\n   Reason={reason} [ann@2026-01-01T00:00:00]\n",
        }

    return answer


@pytest.mark.parametrize("step", ["take_out", "keep"])
def test_slurm_gets_no_mark_on_a_drain_that_is_somebody_elses_by_now(step: str) -> None:
    """With the mark it would pass for this rollout's own, and be ended with it."""
    said: list[Sequence[str]] = []
    slurm = orchestrator_slurm.Slurm(
        calls(scontrol("IDLE+DRAIN", "fan is dead", said)), ARGS, ("gpu1",), "why"
    )
    with pytest.raises(orchestrator.Refused, match="drained by another person or program"):
        slurm.take_out() if step == "take_out" else slurm.keep("why")
    assert not [words for words in said if "update" in words]


def test_slurm_gets_the_reason_on_a_node_of_this_rollout_that_is_down() -> None:
    said: list[Sequence[str]] = []
    mark = drain_slurm.build_slurm_mark(ARGS["rollout"])
    slurm = orchestrator_slurm.Slurm(
        calls(scontrol("DOWN+DRAIN", f"{mark} before", said)), ARGS, ("gpu1",), "why"
    )
    slurm.keep("it was lost")
    assert [words[-1] for words in said if "update" in words] == [f"reason={mark} it was lost"]


def test_no_word_of_a_command_is_expanded_with_the_controllers_variables() -> None:
    seen: list[Mapping[str, Any]] = []

    def answer(_name: str, args: Mapping[str, Any]) -> dict[str, Any]:
        seen.append(args)
        return {"rc": 0}

    calls(answer).run_program(["scontrol", "reason=$TOKEN"], 5)
    assert seen[0]["expand_argument_vars"] is False


def test_a_machine_that_drains_and_is_not_reached_is_a_failure() -> None:
    def answer(_name: str, _args: Mapping[str, Any]) -> dict[str, Any]:
        raise AnsibleConnectionFailure("no route to host")

    with pytest.raises(PlanError, match="cannot be reached .no route to host"):
        calls(answer).run_program(["scontrol"], 5)


NODE: dict[str, Any] = {
    "metadata": {"name": "gpu1", "annotations": {"gpufleet.nvidia/rollout": "r7"}},
    "spec": {"unschedulable": True},
    "status": {"conditions": [{"type": "Ready", "status": "True"}]},
}


POD = {
    "metadata": {"name": "web", "namespace": "team"},
    "spec": {"containers": []},
    "status": {"phase": "Running"},
}
NO_LIST: list[tuple[dict[str, Any], dict[str, Any]]] = [
    # what k8s_info says, and what a drain in check mode does
    ({"resources": [], "api_found": False, "msg": "Failed to find API"}, {}),
    ({}, {}),
    (
        {"resources": [], "api_found": True},
        {"failed": True, "msg": "Failed to list pod from node gpu1 due to: Bad Request"},
    ),
    ({"resources": [{"kind": "Status", "status": "Success"}], "api_found": True}, {}),
    ({"resources": [POD, None], "api_found": True}, {}),
    (
        {"resources": [POD], "api_found": True},
        {
            "failed": True,
            "msg": "Failed to list pod from node gpu1 due to: Invalid value for `items`",
        },
    ),
]


@pytest.mark.parametrize(("answer", "tried"), NO_LIST)
def test_a_list_of_pods_that_the_api_did_not_give_is_no_empty_one(
    answer: dict[str, Any], tried: dict[str, Any]
) -> None:
    def played(name: str, args: Mapping[str, Any]) -> dict[str, Any]:
        if name.endswith("k8s_drain"):
            return tried
        return {"resources": [NODE], "api_found": True} if args.get("kind") == "Node" else answer

    kubernetes = orchestrator_kubernetes.Kubernetes(calls(played), ARGS, ("gpu1",), "why", "")
    with pytest.raises(PlanError, match="cannot list the node's pods"):
        kubernetes.describe_waiting(1)


@pytest.mark.parametrize("step", ["take_out", "give_back", "keep"])
def test_a_node_that_stopped_working_and_is_somebody_elses_is_left_alone(step: str) -> None:
    theirs = {**NODE, "metadata": {"name": "gpu1"}, "status": {}}
    done: list[str] = []

    def played(name: str, _args: Mapping[str, Any]) -> dict[str, Any]:
        done.append(name)
        return {"resources": [theirs], "api_found": True}

    kubernetes = orchestrator_kubernetes.Kubernetes(calls(played), ARGS, ("gpu1",), "why", "")
    with pytest.raises(orchestrator.Refused):
        {
            "take_out": kubernetes.take_out,
            "give_back": kubernetes.give_back,
            "keep": lambda: kubernetes.keep("why"),
        }[step]()
    assert done
    assert all(name.endswith("k8s_info") for name in done), "the API is only asked"


@pytest.mark.parametrize(
    ("method", "hold", "refused"),
    [("evict", "taint", True), ("evict", "cordon", False), ("wait", "taint", False)],
)
def test_nothing_is_evicted_from_a_node_that_an_earlier_run_holds_by_a_taint(
    method: str, hold: str, refused: bool
) -> None:
    """k8s_drain would cordon it, and the mark says that there is no cordon to take back."""
    marks = {"gpufleet.nvidia/rollout": "r7", "gpufleet.nvidia/hold": hold}
    spec = (
        {"unschedulable": True}
        if hold == "cordon"
        else {"taints": [{"key": "gpufleet.nvidia/rollout", "effect": "NoSchedule"}]}
    )
    node = {**NODE, "metadata": {"name": "gpu1", "annotations": marks}, "spec": spec}
    evicted: list[str] = []

    def played(name: str, args: Mapping[str, Any]) -> dict[str, Any]:
        if name.endswith("k8s_drain"):
            evicted.append(name)
            return {}
        return {"resources": [node] if args.get("kind") == "Node" else [], "api_found": True}

    args = {
        **ARGS,
        "method": method,
        "kubernetes_force": False,
        "kubernetes_delete_emptydir_data": False,
    }
    kubernetes = orchestrator_kubernetes.Kubernetes(calls(played), args, ("gpu1",), "why", "")
    with (
        pytest.raises(orchestrator.Refused, match="held by a taint")
        if refused
        else contextlib.nullcontext()
    ):
        kubernetes.describe_waiting(1)
    assert not (refused and evicted)


OUTAGES = [
    # which orchestrator, what its first answer is; whether a drain that has begun waits until it
    # answers again
    ("slurm", {"rc": 124}, True),
    (
        "slurm",
        {
            "rc": 1,
            "stderr": "slurm_load_node error: Unable to contact slurm controller (connect failure)",
        },
        True,
    ),
    (
        "slurm",
        {"rc": 1, "stderr": "slurm_load_node error: Socket timed out on send/recv operation"},
        True,
    ),
    ("slurm", {"rc": 1, "stderr": "slurm_load_node error: Invalid user id"}, False),
    ("slurm", {"rc": 127, "stderr": "timeout: failed to run command 'scontrol'"}, False),
    ("slurm", AnsibleConnectionFailure("no route to host"), True),
    (
        "kubernetes",
        {
            "failed": True,
            "msg": "HTTPSConnectionPool(host='api'): Max retries exceeded with url: /api",
        },
        True,
    ),
    (
        "kubernetes",
        {"failed": True, "msg": "Max retries exceeded (SSLError(CERTIFICATE_VERIFY_FAILED))"},
        False,
    ),
    ("kubernetes", {"failed": True, "msg": "401\nReason: Unauthorized\n"}, False),
]


@pytest.mark.parametrize(("who", "first", "waits"), OUTAGES)
def test_a_drain_waits_where_its_orchestrator_is_out_of_reach_for_a_while(
    who: str, first: Any, waits: bool
) -> None:
    said: list[Sequence[str]] = []
    drained_node = scontrol("IDLE+DRAIN", "gpufleet.nvidia r7: why", said)
    outages = [first]

    def played(name: str, args: Mapping[str, Any]) -> dict[str, Any]:
        if outages:
            answer = outages.pop()
            if isinstance(answer, Exception):
                raise answer
            return dict(answer)
        if who == "slurm":
            return drained_node(name, args)
        return {"resources": [NODE] if args.get("kind") == "Node" else [], "api_found": True}

    one = orchestrator_slurm.Slurm if who == "slurm" else orchestrator_kubernetes.Kubernetes
    more = {} if who == "slurm" else {"boot_id": ""}
    made: Any = one(calls(played), {**ARGS, "timeout": 60, "interval": 0}, ("gpu1",), "why", **more)
    run = action_drain.Run(
        made.args, drain.DrainDecision(True, "why"), {who: made}, False, {who: Standing("held")}, ()
    )
    found = run.drain()
    assert not outages
    assert found["outcome"] == ("drained" if waits else "left_out")


HELD = [
    # how the node stands in Slurm and in Kubernetes, whether the host has to be drained; whose work
    # is waited for
    ("held", "held", True, ["slurm", "kubernetes"]),
    ("held", "in_service", True, ["slurm", "kubernetes"]),
    ("held", "in_service", False, ["slurm"]),  # one of them was put back before the run was killed
    ("in_service", "held", False, ["kubernetes"]),
]


@pytest.mark.parametrize(("slurm", "kubernetes", "needed", "wanted"), HELD)
def test_only_who_holds_the_host_is_waited_for(
    slurm: str, kubernetes: str, needed: bool, wanted: list[str]
) -> None:
    asked: list[str] = []

    class Ended(Played):
        def describe_waiting(self, left: int) -> str:
            asked.append(self.then)
            return ""

    every = {"slurm": Ended("slurm"), "kubernetes": Ended("kubernetes")}
    standings = {"slurm": Standing(slurm), "kubernetes": Standing(kubernetes)}
    found = action_drain.Run(
        ARGS, drain.DrainDecision(needed, "why"), every, False, standings, ()
    ).drain()
    assert found["outcome"] == "drained"
    assert sorted(asked) == sorted(wanted)


class Played:
    """An orchestrator whose work never ends.

    then: how it stands when it is asked again. refuses: what it raises when the host is given back
    or kept.
    """

    def __init__(self, then: str, refuses: Exception | None = None) -> None:
        self.then, self.refuses = then, refuses
        self.given_back = self.kept = False

    def get_standing(self) -> Standing:
        return Standing(self.then, "the node gpu1 is not Ready", "gpu1")

    def take_out(self, *, try_only: bool = False) -> None:
        pass

    def describe_waiting(self, left: int) -> str:
        return "1 pod with GPUs (a/b)"

    def give_back(self, *, try_only: bool = False) -> None:
        if self.refuses:
            raise self.refuses
        self.given_back = True

    def keep(self, why: str, *, try_only: bool = False) -> None:
        if self.refuses:
            raise self.refuses
        self.kept = True


def build_held_run(refusing: Mapping[str, Exception]) -> tuple[action_drain.Run, dict[str, Any]]:
    """Return a task for a host that all three orchestrators hold, and these."""
    every: dict[str, Any] = {
        who: Played("held", refusing.get(who)) for who in ("slurm", "kubernetes", "commands")
    }
    standings = {who: Standing("held") for who in every}
    decision = drain.DrainDecision(True, "why")
    return action_drain.Run(ARGS, decision, every, False, standings, ()), every


REFUSING: list[dict[str, Exception]] = [
    {"slurm": orchestrator.Refused("is theirs")},
    {"kubernetes": drain.OutOfReach("does not answer")},
    {"slurm": orchestrator.Refused("is theirs"), "commands": PlanError("ended with 1")},
]


@pytest.mark.parametrize("refusing", REFUSING)
def test_one_that_refuses_keeps_no_other_from_giving_the_host_back(
    refusing: dict[str, Exception],
) -> None:
    run, every = build_held_run(refusing)
    found = run.give_back()
    assert [who for who, one in every.items() if not one.given_back] == list(refusing)
    assert (found["outcome"], found["failed"], found["changed"]) == ("kept", True, True)
    assert [str(error) in found["msg"] for error in refusing.values()] == [True] * len(refusing)


def test_a_host_that_none_of_them_gives_back_is_not_changed() -> None:
    run, every = build_held_run(
        dict.fromkeys(drain.ORCHESTRATORS, orchestrator.Refused("is theirs"))
    )
    found = run.give_back()
    assert not any(one.given_back for one in every.values())
    assert (found["outcome"], found["failed"], found["changed"]) == ("kept", True, False)


@pytest.mark.parametrize("refusing", REFUSING)
def test_one_that_refuses_keeps_no_other_from_getting_the_reason(
    refusing: dict[str, Exception],
) -> None:
    run, every = build_held_run(refusing)
    with pytest.raises((PlanError, orchestrator.Refused)) as raised:
        run.keep()
    assert [who for who, one in every.items() if not one.kept] == list(refusing)
    assert [str(error) in str(raised.value) for error in refusing.values()] == [True] * len(
        refusing
    )


def drained(one: Played, before: str, seconds: int = 1) -> dict[str, Any]:
    run = action_drain.Run(
        {**ARGS, "timeout": seconds},
        drain.DrainDecision(True, "why"),
        {"kubernetes": one},
        False,
        {"kubernetes": Standing(before)},
        (),
    )
    return run.drain()


def test_a_node_that_an_earlier_run_holds_stays_out_of_service_when_its_work_does_not_end() -> None:
    """That run may have kept it since its change has failed."""
    one = Played("held")
    found = drained(one, "held")
    assert not one.given_back
    assert found["outcome"] == "left_out"
    assert "holds it still" in found["msg"]
    assert "in service again" not in found["msg"]


KEPT = [
    # how the node stands, whether it refuses since this run does not hold it, how keeping it ends
    ("held", False, "kept"),
    ("broken", False, "kept"),
    ("broken", True, "not_needed"),
    ("others", False, "not_needed"),
    ("in_service", False, "not_needed"),
]


@pytest.mark.parametrize(("state", "refuses", "outcome"), KEPT)
def test_a_node_that_is_not_ready_gets_its_reason_as_well(
    state: str, refuses: bool, outcome: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host that was lost in the middle of its change is not Ready, and people look there for why
    it is out of service.
    """
    one, said = Played(state), []

    def keep(_self: Played, why: str, *, try_only: bool = False) -> None:
        if refuses:
            raise orchestrator.Refused("it is somebody else's")
        said.append(why)

    monkeypatch.setattr(Played, "keep", keep)
    args = {**ARGS, "reason": "it was lost"}
    run = action_drain.Run(
        args,
        drain.DrainDecision(True, "why"),
        {"kubernetes": one},
        False,
        {"kubernetes": Standing(state)},
        (),
    )
    assert run.keep()["outcome"] == outcome
    assert said == (["it was lost"] if outcome == "kept" else [])


def test_a_node_that_could_not_be_put_back_is_named() -> None:
    one = Played("broken")
    found = drained(one, "in_service")
    assert "Kubernetes has not put it back into service: the node gpu1 is not Ready" in found["msg"]
    assert "in service again" not in found["msg"]


PUT_BACK = [
    # how the node stands after the drain did not come about, what putting it back raises; whether
    # this rollout may still hold it
    ("in_service", None, False),
    ("held", None, False),
    ("held", orchestrator.Refused("is theirs"), True),
    ("held", drain.OutOfReach("does not answer"), True),
    ("broken", None, True),
    ("others", None, False),
]


@pytest.mark.parametrize("refuses_drain", [False, True], ids=["late", "refused"])
@pytest.mark.parametrize(("state", "refuses", "stays"), PUT_BACK)
def test_a_drain_that_did_not_come_about_has_changed_what_it_could_not_put_back(
    state: str,
    refuses: Exception | None,
    stays: bool,
    refuses_drain: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def take_out(_self: Played, *, try_only: bool = False) -> None:
        raise orchestrator.Refused("is theirs")

    if refuses_drain:
        monkeypatch.setattr(Played, "take_out", take_out)
    found = drained(Played(state, refuses), "in_service", seconds=0)
    assert (found["outcome"], found["failed"], found["changed"]) == ("left_out", True, stays)


SETTLING = [
    # the answers while a restarted node settles; how the attempt to put it back ends
    (["held"], "in_service"),
    (["broken", "held"], "in_service"),
    ([drain.OutOfReach("does not answer"), "held"], "in_service"),
    ([drain.OutOfReach("does not answer"), "broken", "held"], "in_service"),
    (["broken", "broken", "broken", "broken"], "kept"),
]


@pytest.mark.parametrize(("answers", "outcome"), SETTLING)
def test_a_host_is_put_back_once_its_node_has_settled(
    answers: list[str | Exception], outcome: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, waiting = Played("held"), iter(answers)
    clock = itertools.count(step=0.25)

    def answer(_self: Played) -> Standing:
        given = next(waiting)
        if isinstance(given, Exception):
            raise given
        return Standing(given, "the node gpu1 is not Ready", "gpu1")

    monkeypatch.setattr(Played, "get_standing", answer)
    monkeypatch.setattr(action_drain.time, "sleep", lambda _seconds: None)
    monkeypatch.setattr(action_drain.time, "monotonic", lambda: next(clock))
    decision, before = drain.DrainDecision(True, "why"), {"kubernetes": Standing("broken")}
    run = action_drain.Run({**ARGS, "timeout": 2}, decision, {"kubernetes": one}, False, before, ())
    assert run.give_back()["outcome"] == outcome
    assert one.given_back == (outcome == "in_service")


@pytest.mark.parametrize("waits", [True, False])
def test_the_first_question_about_a_host_that_settles_may_be_lost_as_well(waits: bool) -> None:
    one: Any = Played("held")

    def lose_answer() -> Standing:
        raise drain.OutOfReach("does not answer")

    one.get_standing = lose_answer
    every: dict[str, Any] = {"kubernetes": one, "commands": Played("held")}
    if not waits:
        with pytest.raises(drain.OutOfReach):
            draining.ask_for_standings(every, ARGS, needed=True)
        return
    standings, silent = draining.ask_for_standings(every, ARGS, needed=True, waits=True)
    assert {who: standing.state for who, standing in standings.items()} == {
        "kubernetes": "broken",
        "commands": "held",
    }
    assert silent == []


@pytest.mark.parametrize(
    ("check", "drained", "outcome"),
    [(False, "drained", "in_service"), (True, "drained", ""), (False, "left_out", "")],
)
def test_only_a_drained_host_that_is_put_back_waits_for_the_first_answer(
    check: bool, drained: str, outcome: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter([drain.OutOfReach("does not answer"), Standing("held", "", "gpu1")])

    def answer(_self: Played) -> Standing:
        given = next(answers)
        if isinstance(given, Exception):
            raise given
        return given

    monkeypatch.setattr(Played, "get_standing", answer)
    monkeypatch.setattr(action_drain.time, "sleep", lambda _seconds: None)
    monkeypatch.setattr(
        draining, "choose_orchestrators", lambda *_given: {"kubernetes": Played("held")}
    )
    given = {"state": "in_service", "by": ["kubernetes"], "policy": "always", "unknown": "drain"}
    args = {**ARGS, **given, "timeout": 60, "results": "r", "drained": "d", "commands": {}}
    monkeypatch.setattr(
        arguments, "read_task_options", lambda *_given: args | {"driver_changes": False}
    )
    action = object.__new__(action_drain.ActionModule)
    action._task = types.SimpleNamespace(check_mode=check, args={})
    action._connection = action._loader = action._templar = None
    monkeypatch.setattr(action_drain.ActionBase, "run", lambda *_given: {})
    told = {"d": {"outcome": drained, "by": ["kubernetes"]}}
    found = action.run(task_vars=told)
    assert found.get("outcome", "") == outcome, found
    assert bool(found.get("failed")) == (not outcome)


def test_an_api_that_stays_out_of_reach_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(_self: Played) -> Standing:
        raise drain.OutOfReach("does not answer")

    clock = itertools.count(step=0.25)
    monkeypatch.setattr(Played, "get_standing", answer)
    monkeypatch.setattr(action_drain.time, "sleep", lambda _seconds: None)
    monkeypatch.setattr(action_drain.time, "monotonic", lambda: next(clock))
    decision, before = drain.DrainDecision(True, "why"), {"kubernetes": Standing("broken")}
    run = action_drain.Run(ARGS, decision, {"kubernetes": Played("held")}, False, before, ())
    with pytest.raises(drain.OutOfReach):
        run.give_back()


OUT = [
    # what became of the drain and of putting the host back; whether it is out of service
    ({}, {}, False),
    ({"outcome": "drained", "changed": True}, {}, True),
    ({"outcome": "drained", "changed": True}, {"outcome": "in_service"}, False),
    ({"outcome": "drained", "changed": True}, {"outcome": "kept"}, True),
    ({"outcome": "pending", "failed": True}, {}, True),
    ({"outcome": "not_needed"}, {}, False),
    ({"outcome": "left_out", "failed": True}, {}, False),
    ({"outcome": "left_out", "failed": True, "changed": True}, {}, True),
    (
        {"outcome": "left_out", "failed": True, "nodes": {"slurm": {"state": "held"}}},
        {},
        True,
    ),
    ({"outcome": "left_out", "nodes": {"slurm": {"state": "others"}}}, {}, False),
    ({"skipped": True}, {"skipped": True}, False),
]


@pytest.mark.parametrize(("taken", "back", "out"), OUT)
def test_a_host_counts_as_out_of_service_until_it_is_put_back(
    taken: dict[str, Any], back: dict[str, Any], out: bool
) -> None:
    variables = {registered.DRAINED: taken, registered.UNDRAINED: back}
    assert batch_hosts.is_out(variables) is out


@pytest.mark.parametrize(("boot_id", "names"), [("b", ("login", "gpu1")), ("", ("gpu1",))])
def test_a_host_that_does_not_tell_its_boot_has_no_say_in_its_nodes_name(
    boot_id: str, names: tuple[str, ...]
) -> None:
    """Kubernetes would be asked for whatever node it names, with nothing to compare it with."""
    args = {**ARGS, "kubernetes_node": ""}
    played: Any = types.SimpleNamespace()
    found = draining.choose_orchestrators(
        played,
        {"inventory_hostname": "gpu1"},
        args,
        drain.Work("login", boot_id),
        "why",
        ["kubernetes"],
    )
    kubernetes = found["kubernetes"]
    assert isinstance(kubernetes, orchestrator_kubernetes.Kubernetes)
    assert kubernetes.names == names
