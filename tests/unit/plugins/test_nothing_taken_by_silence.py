# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every converged host x every single fault, by the same policy: the host is refused or stays, and
nothing that works is taken away.
"""

from __future__ import annotations

import dataclasses as dc
import functools
import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.action import host as action_host
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import host_look
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
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import (
    lowering,
    seen_host,
)

from tests.night import leave_unless
from tests.unit import faults, running_host
from tests.unit.running_host import Host, HostProcess
from tests.unit.running_hosts import ENGINES, PROGRAMS, SOCKETS, Spec, build

USUAL: Mapping[str, Any] = {"no_gpu": "prepare", "packages": "ignore"}
HOSTS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    # a host -> its engine, what that says besides, and the options of the policy
    "containerd": ("containerd", {}, {}),
    "containerd, no kubelet": ("containerd, GPU", {}, {}),
    "containerd, a default handler": ("containerd", {}, {"set_as_default": "enabled"}),
    "containerd, legacy": ("containerd", {}, {"injection": "legacy"}),
    "containerd, watched": ("containerd", {}, {"cdi_refresh": "watch"}),
    "CRI-O": ("crio", {}, {}),
    "CRI-O, a hook": ("crio", {}, {"cdi": "disabled"}),
    "Docker 20.10": ("docker", {"ServerVersion": "20.10.24"}, {}),
    "Docker 28": ("docker", {"CDISpecDirs": ["/etc/cdi", "/var/run/cdi"]}, {}),
}


@pytest.fixture(scope="module")
def process() -> Iterator[HostProcess]:
    yield from running_host.start_process()


@dc.dataclass
class Converged:
    """A host that is as its policy asks, and what a look at it says."""

    host: Host
    policy: Policy
    seen: Observation

    def plan(self, fault: faults.Fault) -> Plan:
        """What is planned where a fault has struck. Raises PlanError where the host is refused."""
        answers = {qid: fault(qid, answer) for qid, answer in self.seen.answers.items()}
        for _look in range(9):
            try:
                return action_host.plan_host_module(
                    self.policy, Observation(self.seen.host, answers)
                ).plan
            except NeedMore as more:
                answers |= {
                    qid: fault(qid, answer) for qid, answer in self.asked(more.questions).items()
                }
        raise AssertionError("it asks again and again")

    def outcome(self, fault: faults.Fault) -> tuple[Plan, str]:
        """What is planned, and why the host is refused, '' where it is not."""
        try:
            return self.plan(fault), ""
        except PlanError as error:
            return Plan(), str(error)

    def asked(self, questions: list[queries.Question]) -> dict[str, faults.Answer]:
        return look(self.host, questions)[1]


def look(
    host: Host, questions: list[queries.Question]
) -> tuple[Mapping[str, Any], dict[str, faults.Answer]]:
    """What the host says of itself, and the answers by their questions' ids."""
    together = [host_look.add_probe_source(q) for q in queries.merge_questions(questions)]
    answer = host.answers.ask(
        host.root,
        "observe",
        {"schema": 1, "root": "/", **queries.pack_questions(together)},
        host.known,
    )
    answers = queries.name_sent_answers(answer["answers"], together)
    queries.note_lists(answers, together)
    return answer["host"], answers


def whole(host: Host, policy: Policy) -> Observation:
    """All that a plan asks of the host."""
    seen = Observation(*look(host, seen_host.list_host_questions(policy)))
    while True:
        try:
            action_host.plan_host_module(policy, seen)
        except NeedMore as more:
            seen = seen.add_answers({"answers": look(host, more.questions)[1]})
        else:
            return seen


@functools.cache
def converged(process: HostProcess, name: str) -> Converged:
    engine, said, options = HOSTS[name]
    spec: Spec = ENGINES[engine].copy()
    spec.devices, spec.said = True, {**spec.said, **said}
    host = build(process, spec, 0o644)
    host.write("/usr/bin/nvidia-container-runtime-hook", "x", 0o755)
    result = host.task("host", **USUAL, **options)
    assert "failed" not in result, result
    policy = Policy(**USUAL, **options)
    return Converged(host, policy, whole(host, policy))


@pytest.fixture(scope="module", autouse=True)
def closing() -> Iterator[None]:
    yield
    converged.cache_clear()


BY_NIGHT = pytest.mark.nightly(
    "by day an engine of each family has each fault; others differ by a row"
)
BY_DAY = ("containerd", "containerd, a default handler", "CRI-O, a hook", "Docker 28")


@pytest.mark.parametrize("name", leave_unless(BY_NIGHT, HOSTS, BY_DAY.__contains__))
def test_no_single_fault_takes_anything_away(process: HostProcess, name: str) -> None:
    host = converged(process, name)
    assert faults.taken(host.plan(lambda _qid, answer: answer)) == []
    bad, counted = {}, {"refused": 0, "planned": 0}
    for said, fault in [
        one for qid, answer in host.seen.answers.items() for one in faults.of(qid, answer)
    ]:
        plan, why = host.outcome(fault)
        counted["refused" if why else "planned"] += 1
        less = [why] if lowering.CODE in why else faults.taken(plan)
        if less:
            bad[said] = less
    assert bad == {}
    assert min(counted.values()) > 20, counted


@pytest.mark.parametrize(
    "state", faults.STATES, ids=lambda state: str(state.get("LoadState", state["ActiveState"]))
)
@pytest.mark.parametrize("name", HOSTS)
def test_a_stopped_engine_is_refused_by_that_cause(
    process: HostProcess, name: str, state: Mapping[str, str]
) -> None:
    host = converged(process, name)
    engine = HOSTS[name][0].partition(",")[0]
    with pytest.raises(PlanError, match="is installed but not running"):
        host.plan(faults.stopped(PROGRAMS[engine], SOCKETS[engine], f"{engine}.service", state))


# ---------------------------------------------------------------- two engines, one of them stopped

CONFIG, FACT = (
    "file:/etc/nvidia-container-runtime/config.toml",
    "file:/etc/ansible/facts.d/gpufleet.fact",
)
ENVVAR = "accept-nvidia-visible-devices-envvar-when-unprivileged"


def beside(qid: str, answer: faults.Answer) -> faults.Answer:
    """A Docker that is installed and stopped."""
    if "docker-ce" in (answer.get("installed") or {}):
        return {**answer, "installed": {**answer["installed"], "docker-ce": "5:28.1.1-1"}}
    if "docker.service" in (answer.get("units") or {}):
        down = {
            "LoadState": "loaded",
            "ActiveState": "inactive",
            "UnitFileState": "disabled",
            "MainPID": "0",
        }
        return {**answer, "units": {**answer["units"], "docker.service": down}}
    return answer


def served(qid: str, answer: faults.Answer) -> faults.Answer:
    """What this collection had written while Docker was one of the engines: the variable counts,
    and the record names Docker.
    """
    if qid == CONFIG:
        return {
            **answer,
            "content": answer["content"].replace(f"{ENVVAR} = false", f"{ENVVAR} = true"),
        }
    if qid == FACT:
        record = json.loads(answer["content"])
        docker = {
            **record["engines"][0],
            "engine": "docker",
            "instance": "docker:/etc/docker/daemon.json",
        }
        return {
            **answer,
            "content": json.dumps({**record, "engines": [*record["engines"], docker]}),
        }
    return answer


def both(qid: str, answer: faults.Answer) -> faults.Answer:
    return beside(qid, served(qid, answer))


def causes(plan: Plan) -> set[str]:
    return {
        str(d.cause)
        for d in plan.differences
        if d.path == CONFIG.partition(":")[2] and d.key == ENVVAR
    }


def test_a_stopped_docker_does_not_stop_the_other_engine(process: HostProcess) -> None:
    plan = converged(process, "containerd, no kubelet").plan(beside)
    assert faults.taken(plan) == []
    assert {c["path"] for c in plan.changes} == {
        "/var/lib/gpufleet/decision.json",
        FACT.partition(":")[2],
    }, "it names Docker as refused"
    said = "Docker is installed but not running (docker.service is inactive and disabled)"
    assert [advice for advice in plan.advice if advice.startswith(said)]


def test_what_a_stopped_docker_needs_stays(process: HostProcess) -> None:
    with pytest.raises(
        PlanError,
        match=r"Docker is installed but not running.*list the other engines in gpufleet_engines",
    ):
        converged(process, "containerd, no kubelet").plan(both)


def test_what_nobody_needs_any_more_goes_by_its_cause(process: HostProcess) -> None:
    host = converged(process, "containerd, no kubelet")
    assert causes(host.plan(served)) == {"uninstalled"}
    others = dc.replace(host, policy=dc.replace(host.policy, engines=("containerd",)))
    assert causes(others.plan(both)) == {"policy"}
