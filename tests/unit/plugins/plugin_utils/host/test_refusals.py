# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Engines that are stopped, silent or not verified: their host is refused by that cause, and
nothing takes their place.
"""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    NeedMore,
    PlanError,
    Refusal,
    RefusalKind,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Instance,
    Plan,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import (
    host_plan,
    refusals,
    seen_host,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    daemons as containerd_daemons,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.crio import (
    detect as crio_detect,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.docker import (
    detect as docker_detect,
)

from tests.unit import crio_plans, docker_hosts, gpus
from tests.unit.builders import obs
from tests.unit.records import instance

DOCKERS_CONTAINERD = {
    "files": {
        "/etc/containerd/config.toml": 'disabled_plugins = ["cri"]\n',
        "/usr/bin/containerd": "",
    },
    "packages": {"containerd.io": "1.7.27-1"},
    "processes": [
        {
            "pid": 4,
            "exe": "/usr/bin/containerd",
            "argv": ["containerd"],
            "unit": "containerd.service",
        }
    ],
    "units": {"containerd.service": {"ActiveState": "active"}},
}
PODMAN = {"files": {"/usr/bin/podman": ""}, "packages": {"podman": "5.4.2-1"}}
DOCKER: dict[str, Any] = {
    "files": {"/usr/bin/dockerd": ""},
    "packages": {"docker-ce": "5:28.1.1-1"},
}
SOCKET_UNIT = {"units": {"docker.socket": {"ActiveState": "active"}}}
K3S = {"files": {"/var/lib/rancher/k3s/agent/etc/containerd/config.toml": "version = 3\n"}}
RKE2 = {"files": {"/var/lib/rancher/rke2/agent/etc/containerd/config.toml": "version = 3\n"}}
K0S = {"files": {"/etc/k0s/containerd.toml": "version = 3\n"}}
MICROK8S = {"files": {"/var/snap/microk8s/current/args/containerd-template.toml": "version = 2\n"}}
CONTAINERD = {"files": {"/etc/containerd/config.toml": "version = 3\n", "/usr/bin/containerd": ""}}
CRIO = {
    "files": {"/usr/bin/crio": "", "/etc/crio/crio.conf": ""},
    "packages": {"cri-o": "1.34.0-1"},
}


def down(unit: str, state: str = "inactive", file: str = "enabled") -> dict[str, Any]:
    return {"units": {unit: {"ActiveState": state, "UnitFileState": file}}}


STOPPED: dict[str, tuple[tuple[dict[str, Any], ...], str]] = {
    # what is on the host -> the engine's title and the state of its unit
    "containerd": ((CONTAINERD, down("containerd.service")), "containerd: containerd.service is inactive"),
    "containerd, failed": ((CONTAINERD, down("containerd.service", "failed")), "containerd: containerd.service is failed"),
    "containerd, masked": (
        (CONTAINERD, down("containerd.service", "inactive", "masked")), "containerd: containerd.service is inactive and masked"
    ),
    "k3s": ((K3S, down("k3s-agent.service")), "k3s's containerd: k3s-agent.service is inactive"),
    "RKE2": ((RKE2, down("rke2-server.service")), "RKE2's containerd: rke2-server.service is inactive"),
    "k0s": ((K0S, down("k0sworker.service")), "k0s's containerd: k0sworker.service is inactive"),
    "MicroK8s": (
        (MICROK8S, down("snap.microk8s.daemon-containerd.service")),
        "MicroK8s's containerd: snap.microk8s.daemon-containerd.service is inactive",
    ),
    "CRI-O": ((CRIO, down("crio.service")), "CRI-O: crio.service is inactive"),
    "CRI-O, masked": ((CRIO, down("crio.service", "inactive", "masked")), "CRI-O: crio.service is inactive and masked"),
    "CRI-O, its unit alone is seen": ((down("crio.service"), {"packages": {"cri-o": "1.34"}}), "CRI-O: crio.service is inactive"),
    "Docker": ((DOCKER, down("docker.service")), "Docker: docker.service is inactive"),
    "Docker, disabled": ((DOCKER, down("docker.service", "inactive", "disabled")), "Docker: docker.service is inactive and disabled"),
    "Docker, its unit alone is seen": ((down("docker.service", "failed"),), "Docker: docker.service is failed"),
    "Docker, its package alone is seen": (({"packages": {"docker-ce": "5:28.1.1-1"}},), "Docker: docker.service is not known to systemd"),
    "Docker with its socket": ((DOCKER, SOCKET_UNIT, down("docker.service")), "Docker: docker.service is inactive"),
    "Docker and its containerd": ((DOCKER, DOCKERS_CONTAINERD, down("docker.service")), "Docker: docker.service is inactive"),
    "Docker, its containerd and Podman": (
        (DOCKER, DOCKERS_CONTAINERD, PODMAN, down("docker.service")), "Docker: docker.service is inactive"
    ),
    "Docker and a stopped containerd": (
        (DOCKER, CONTAINERD, down("containerd.service"), down("docker.service")), "containerd: containerd.service is inactive"
    ),
}  # fmt: skip


def host(*parts: dict[str, Any]) -> Observation:
    """A host with a GPU and what the parts have."""
    whole: dict[str, Any] = {
        "files": gpus.host(1),
        "packages": {},
        "processes": [],
        "units": {},
        "answers": gpus.nvml(1),
    }
    for part in parts:
        for key, more in part.items():
            whole[key] = [*whole[key], *more] if isinstance(more, list) else {**whole[key], **more}
    return obs(**whole)


def plan(*parts: dict[str, Any]) -> Plan:
    """What is planned; what is asked besides gets no answer, as from a program that cannot be run."""
    silence: dict[str, Any] = {}
    for _look in range(9):
        seen = host(*parts, {"answers": silence})
        try:
            found = seen_host.see(Policy(), seen)
            return host_plan.plan_host(
                Policy(), seen_host.read_host_facts(Policy(), seen, found, "")
            )
        except NeedMore as more:
            silence |= {
                q["id"]: {"error": {"kind": "not-found", "message": "no answer"}}
                for q in more.questions
            }
    raise AssertionError("it asks again and again")


@pytest.mark.parametrize("name", STOPPED)
def test_a_host_whose_engine_is_stopped_is_refused_by_that_cause(name: str) -> None:
    """It may be down for maintenance: without its CDI spec, containers would not start when it is
    back.
    """
    parts, said = STOPPED[name]
    with pytest.raises(PlanError) as caught:
        plan(*parts)
    title, _colon, state = said.partition(": ")
    assert caught.value.what == f"{title} is installed but not running ({state})"
    assert caught.value.next


def left(kind: RefusalKind, engine: str = "containerd", **more: Any) -> Instance:
    return instance(
        engine,
        "1.7.24" if engine == "containerd" else "28.1.1",
        refusal=Refusal(f"{engine} {kind}", "Do it", kind),
        **more,
    )


K8S = left("writer")
DOCKERS = left("writer", cri=False)
HOSTS: list[tuple[tuple[Instance, ...], tuple[str, ...], str]] = [
    # the engines of a host, the engines that are asked for, and the engine by which the host is
    # refused
    ((K8S,), ("auto",), ""),
    # Docker beside an engine that someone else configures
    (
        (K8S, left("stopped", "docker", running=False)),
        ("auto",),
        "",
    ),
    ((K8S, left("silent", "docker")), ("auto",), "docker silent"),
    # a containerd that is a part of Docker
    (
        (DOCKERS, left("stopped", "docker", running=False)),
        ("auto",),
        "docker stopped",
    ),
    ((DOCKERS, left("unverified", "docker")), ("auto",), "docker unverified"),
    ((DOCKERS, left("unfit", "docker")), ("auto",), "docker unfit"),
    # the policy does without it
    (
        (DOCKERS, left("stopped", "docker", running=False)),
        ("containerd",),
        "",
    ),
    ((left("unfit"),), ("auto",), "containerd unfit"),
    ((left("unfit"), left("stopped", "docker", running=False)), ("auto",), "docker stopped"),
    # the other engine goes on
    (
        (instance(), left("stopped", "docker", running=False)),
        ("auto",),
        "",
    ),
    ((instance(), left("stopped", "docker", running=False)), ("docker",), "docker stopped"),
    ((left("stopped", running=False), left("unasked", "docker")), ("auto",), "containerd stopped"),
]


@pytest.mark.parametrize(("engines", "asked", "cause"), HOSTS)
def test_only_a_host_that_a_person_can_help_is_refused(
    engines: tuple[Instance, ...], asked: tuple[str, ...], cause: str
) -> None:
    if not cause:
        refusals.require_engine(Policy(engines=asked), engines)
        return
    with pytest.raises(PlanError) as caught:
        refusals.require_engine(Policy(engines=asked), engines)
    assert caught.value.what == cause


def test_the_places_of_one_engine_are_no_other_ones() -> None:
    asked = seen_host.list_host_questions(
        Policy(
            engines=("docker",),
            socket="/run/own.sock",
            config_path="/srv/daemon.json",
            service="own.service",
        )
    )
    assert {q["id"] for q in asked if "own" in q["id"] or "/srv/" in q["id"]} == {
        "file:/srv/daemon.json",
        "units:own.service",
    }
    places = [
        q["id"]
        for q in seen_host.list_host_questions(Policy(engines=("crio",), socket="/run/own.sock"))
        if "own.sock" in q["id"]
    ]
    assert places == ["cri:Status:/run/own.sock", "cri:Version:/run/own.sock"]


@pytest.mark.parametrize("found", [(), (instance(),), (left("stopped"),)])
def test_a_list_of_no_engine_is_refused(found: tuple[Instance, ...]) -> None:
    with pytest.raises(PlanError) as caught:
        refusals.require_engine(Policy(engines=()), found)
    assert caught.value.code == "engines.none-chosen"


FAILED = down("docker.service", "failed")
RELEASE_2 = {"packages": {"containerd": "2.1.4-1"}}
NEXT = {
    # what is on the host -> the code of the refusal
    "a file that is no JSON": ((DOCKER, FAILED, {"files": {docker_hosts.CONFIG: "{ // mine\n}\n"}}), "docker.stopped-by-file"),
    "a file that is JSON": ((DOCKER, FAILED, {"files": {docker_hosts.CONFIG: "{}"}}), "engines.failed"),
    "a file that is no TOML": (
        (CONTAINERD, RELEASE_2, {"files": {"/etc/containerd/config.toml": "version = = 3\n"}}, down("containerd.service", "activating")),
        "containerd.stopped-by-file",
    ),
    "a file that is TOML": ((CONTAINERD, RELEASE_2, down("containerd.service", "failed")), "engines.failed"),
    "a unit that starts again and again": ((CONTAINERD, down("containerd.service", "activating")), "engines.failed"),
    "a unit that nobody has started": ((CONTAINERD, down("containerd.service")), "engines.stopped"),
    "a masked unit that failed": ((CONTAINERD, down("containerd.service", "failed", "masked")), "engines.masked"),
}  # fmt: skip


@pytest.mark.parametrize("name", NEXT)
def test_an_engine_that_does_not_come_up_has_its_likeliest_cause(name: str) -> None:
    parts, code = NEXT[name]
    with pytest.raises(PlanError) as caught:
        plan(*parts)
    assert caught.value.code == code


USUAL = {
    "docker": docker_hosts.CONFIG,
    "crio": "/etc/crio/crio.conf",
    "containerd": "/etc/containerd/config.toml",
}
RUNS = {
    "docker": docker_hosts.running(),
    "crio": crio_plans.host(),
    "containerd": host(DOCKERS_CONTAINERD),
}
FIND = {
    "docker": lambda policy, seen: [
        i.refusal.message
        for i in docker_detect.find_instances(policy, docker_detect.read_facts(policy, seen))
    ],
    "crio": lambda policy, seen: [
        i.refusal.message
        for i in crio_detect.find_instances(policy, crio_detect.read_facts(policy, seen))
    ],
    # before its files are read, for which a real look needs several answers
    "containerd": lambda policy, seen: [
        refusals.refuse_other_file(policy, "containerd", d.instead or d.config).message
        for d in containerd_daemons.read_containerd_daemons(policy, seen)
    ],
}


@pytest.mark.parametrize("engine", FIND)
@pytest.mark.parametrize("named", ["", "its own", "/etc/nowhere/file"])
def test_a_file_that_the_running_engine_does_not_read_is_refused(engine: str, named: str) -> None:
    path = USUAL[engine] if named == "its own" else named
    (said,) = FIND[engine](Policy(single=True, config_path=path), RUNS[engine])
    assert (said.code, said.values.get("file")) == (
        ("engines.other-file", USUAL[engine]) if path not in ("", USUAL[engine]) else ("", None)
    )


# A file that the options name where no containerd runs -> the daemons that are seen, and the file
# that one reads instead.
NAMED: dict[str, tuple[Policy, Observation, list[str]]] = {
    "another engine's": (Policy(config_path="/etc/crio/crio.conf"), host(CRIO), []),
    "a containerd of one's own": (Policy(config_path="/opt/c.toml", engines=("containerd",)), host(CRIO), [""]),
    "a stopped one beside one that runs": (
        Policy(config_path="/opt/c.toml", service="mine.service"), host(DOCKERS_CONTAINERD, down("mine.service")), [""]
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", NAMED)
def test_a_file_is_taken_for_that_of_a_containerd_only_where_there_may_be_one(name: str) -> None:
    policy, seen, instead = NAMED[name]
    assert [d.instead for d in containerd_daemons.read_containerd_daemons(policy, seen)] == instead
