# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which Docker a host has: running, stopped, in a tree, a snap, beside Kubernetes."""

from __future__ import annotations

import dataclasses as dc
import json
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    NeedMore,
    Refusal,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Handler,
    Kubelet,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import seen_host
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.docker import (
    config as docker_config,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.docker import (
    detect as docker_detect,
)

from tests.unit.builders import obs
from tests.unit.docker_hosts import (
    CONFIG,
    DIRS,
    INFO,
    OURS,
    PROCESS,
    UNIT,
    running,
)


def test_the_file_of_a_flag_is_asked_for_with_the_values_of_the_playbooks_handlers() -> None:
    """Otherwise a value that the playbook has itself would stay hidden, and differ in each run."""
    policy = Policy(handlers=(Handler(options={"runtimeArgs": ["--debug"]}),))
    seen = running(argv=["--config-file", "/etc/other.json"])
    first = Observation(seen.host, dict(seen.answers))
    with pytest.raises(NeedMore) as asked:
        docker_detect.find_instances(policy, docker_detect.read_facts(policy, first))
    assert asked.value.questions == [
        docker_config.ask_for_docker_file("/etc/other.json", policy.handlers)
    ]


@pytest.mark.parametrize(
    ("case", "version", "features", "info", "able", "enabled", "highest"),
    [
        ("Debian 12", "20.10.24+dfsg1", None, {}, False, False, ""),
        (
            "Debian 13, as installed",
            "26.1.5+dfsg1",
            None,
            {"CDISpecDirs": []},
            True,
            False,
            "0.7.0",
        ),
        (
            "Debian 13, switched on",
            "26.1.5+dfsg1",
            {"cdi": True},
            {"CDISpecDirs": DIRS},
            True,
            True,
            "0.7.0",
        ),
        ("28.2 and newer: on", "28.5.2", None, {"CDISpecDirs": DIRS}, True, True, "1.0.0"),
        ("switched off", "29.7.2", {"cdi": False}, {"CDISpecDirs": None}, True, False, "1.1.0"),
    ],
)
def test_running(
    case: str,
    version: str,
    features: Any,
    info: dict[str, Any],
    able: bool,
    enabled: bool,
    highest: str,
) -> None:
    text = None if features is None else json.dumps({"features": features})
    (found,) = docker_detect.find_instances(
        Policy(), docker_detect.read_facts(Policy(), running(version, text, containers=2, **info))
    )
    assert (found.cdi.able, found.cdi.enabled, found.cdi.max_version) == (able, enabled, highest), (
        case
    )
    assert (found.engine, found.cri, found.running) == ("docker", False, True)
    assert (found.version, str(found.refusal), found.unit) == (version.partition("+")[0], "", UNIT)


NEXT_DIRECTORIES: dict[str, tuple[str | None, list[str], tuple[str, ...] | None]] = {
    # name: (daemon.json, flags, the directories for the next start)
    "named": ('{"cdi-spec-dirs": ["/var/cdi/"]}', [], ("/var/cdi",)),
    "named by a flag": ("{}", ["--cdi-spec-dir=/srv/cdi"], ("/srv/cdi",)),
    "not named": ("{}", [], tuple(DIRS)),
    "no file": (None, [], tuple(DIRS)),
    "a broken file": ('{"cdi-spec-dirs": ["/var/cdi"]', [], None),
    "not sent from the host": ('{"cdi-spec-dirs": [1]}', [], None),
}


@pytest.mark.parametrize(
    ("text", "flags", "later"), NEXT_DIRECTORIES.values(), ids=NEXT_DIRECTORIES
)
def test_directories_of_specs_at_the_next_start(
    text: str | None, flags: list[str], later: tuple[str, ...] | None
) -> None:
    (found,) = docker_detect.find_instances(
        Policy(),
        docker_detect.read_facts(
            Policy(), running("28.5.2", text, argv=flags, CDISpecDirs=["/opt/cdi"])
        ),
    )
    assert (found.cdi.dirs, found.cdi.next_dirs) == (("/opt/cdi",), later)


@pytest.mark.parametrize(
    ("version", "text", "enabled"),
    [("28.2.0", "", True), ("25.0.3", '{"features": {"cdi": true}}', True), ("26.1.5", "{", False)],
)
def test_a_tree_by_its_package_and_its_file(version: str, text: str, enabled: bool) -> None:
    seen = obs(files={CONFIG: text}, packages={"docker-ce": f"5:{version}-1~debian.12~bookworm"})
    policy = Policy(root="/srv/tree")
    (found,) = docker_detect.find_instances(policy, docker_detect.read_facts(policy, seen))
    assert (found.version, found.cdi.enabled, str(found.refusal)) == (version, enabled, "")


RUNTIMES = {
    "as its file says": (
        '{"default-runtime": "nvidia", "runtimes": {"nvidia": {"path": "/usr/bin/nvidia-container-runtime"}}}',
        OURS["nvidia"]["path"],
    ),
    "a shim has no program": (
        '{"runtimes": {"nvidia": {"runtimeType": "io.containerd.runsc.v1"}}}',
        "",
    ),
    "no table": ('{"runtimes": {"nvidia": 1}}', None),
    "no file": ("", None),
}


@pytest.mark.parametrize(("text", "program"), RUNTIMES.values(), ids=RUNTIMES)
def test_the_runtimes_of_a_docker_that_does_not_run(text: str, program: str | None) -> None:
    seen = obs(files={CONFIG: text} if text else {}, packages={"docker-ce": "5:28.2.0-1"})
    policy = Policy(root="/srv/tree")
    (found,) = docker_detect.find_instances(policy, docker_detect.read_facts(policy, seen))
    assert found.handlers == ({} if program is None else {"nvidia": program})


def test_stopped_by_its_banner() -> None:
    seen = obs(
        files={"/usr/bin/dockerd": ""},
        commands={"/usr/bin/dockerd --version": "Docker version 28.5.2, build abc\n"},
    )
    (found,) = docker_detect.find_instances(Policy(), docker_detect.read_facts(Policy(), seen))
    assert (found.version, found.running) == ("28.5.2", False)
    assert found.refusal.message.code == "engines.without-unit"


def test_silent() -> None:
    (found,) = docker_detect.find_instances(
        Policy(),
        docker_detect.read_facts(
            Policy(), running(answers={INFO: {"error": {"message": "no answer"}}}, files={})
        ),
    )
    assert (found.refusal.message.code, found.refusal.message.values["socket"]) == (
        "docker.silent",
        "/var/run/docker.sock",
    )


def test_no_docker() -> None:
    assert docker_detect.find_instances(Policy(), docker_detect.read_facts(Policy(), obs())) == ()


def test_docker_desktop() -> None:
    (found,) = docker_detect.find_instances(
        Policy(), docker_detect.read_facts(Policy(), obs(packages={"docker-desktop": "4.45.0"}))
    )
    assert (found.manager, found.running) == ("docker-desktop", False)
    assert found.refusal.message.code == "docker.desktop"


SNAP = {docker_config.SNAP_UNIT: "[Unit]\n"}
TREE = Policy(root="/srv/tree", engine_version="24.0.5", engines=("docker",))
# the policy, the packages -> the manager of what is found ("" = nothing is)
SNAPS: dict[str, tuple[Policy, dict[str, str], str]] = {
    "a tree": (TREE, {}, "snap"),
    "a tree whose engines are searched for": (
        dc.replace(TREE, engines=("auto",), engine_version=""),
        {},
        "snap",
    ),
    "a host on which it does not run": (Policy(engines=("docker",)), {}, "snap"),
    "a host whose engines are searched for": (Policy(), {}, ""),
    "beside a package": (TREE, {"docker-ce": "5:28.5.2-1"}, "package"),
}


@pytest.mark.parametrize(("policy", "installed", "manager"), SNAPS.values(), ids=SNAPS)
def test_a_snap_that_does_not_run(policy: Policy, installed: dict[str, str], manager: str) -> None:
    found = docker_detect.find_instances(
        policy, docker_detect.read_facts(policy, obs(files=SNAP, packages=installed))
    )
    assert [i.manager for i in found] == ([manager] if manager else [])
    assert [i.config_path for i in found if i.manager == "snap" and i.refusal] == (
        [docker_config.SNAP_CONFIG] if manager == "snap" else []
    )


def test_the_hosts_own_daemon_comes_before_a_persons() -> None:
    person = {
        "pid": 9,
        "exe": "/usr/bin/dockerd",
        "argv": ["dockerd"],
        "cgroup": "/user.slice/user-1000.slice/user@1000.service/x",
    }
    assert docker_config.find_docker_process(obs(processes=[person, PROCESS]))["pid"] == 3


@pytest.mark.parametrize(
    ("kubelet", "engines", "left"),
    [
        (True, ("auto",), True),
        (True, ("auto", "docker"), False),
        (False, ("auto",), False),
        (True, ("docker",), False),
    ],
)
def test_beside_kubernetes_it_is_configured_by_name_only(
    kubelet: bool, engines: tuple[str, ...], left: bool
) -> None:
    policy = Policy(engines=engines)
    (found,) = docker_detect.find_instances(policy, docker_detect.read_facts(policy, running()))
    result = seen_host.refuse_without_kubelet(policy, found, Kubelet(kubelet), (found,))
    assert bool(result.refusal) == left
    if left:
        assert result.refusal.message.code == "engines.beside-kubernetes"


@pytest.mark.parametrize(
    ("kind", "replaced"), [("", True), ("stopped", True), ("silent", True), ("writer", False)]
)
def test_beside_kubernetes_only_what_may_still_answer_is_refused_by_that(
    kind: str, replaced: bool
) -> None:
    """A refusal of another kind says more."""
    (found,) = docker_detect.find_instances(Policy(), docker_detect.read_facts(Policy(), running()))
    refusal = Refusal(found.engine, kind=kind) if kind else Refusal()  # type: ignore[arg-type]
    found = dc.replace(found, refusal=refusal)
    result = seen_host.refuse_without_kubelet(Policy(), found, Kubelet(True), (found,))
    assert (result.refusal.kind == "unasked") is replaced


# the socket of the kubelet, and whether its pods are in Docker
SOCKETS = [
    ("unix:///var/run/cri-dockerd.sock", True),
    ("/run/cri-dockerd.sock", True),
    ("unix:///run/k3s/cri-dockerd/cri-dockerd.sock", True),
    ("unix:///run/containerd/containerd.sock", False),
    ("unix:///run/cri-dockerd.sock.d/other.sock", False),
    ("", False),
]


@pytest.mark.parametrize(("endpoint", "used"), SOCKETS)
def test_a_kubelet_that_starts_its_pods_by_cri_dockerd_uses_docker(
    endpoint: str, used: bool
) -> None:
    (found,) = docker_detect.find_instances(Policy(), docker_detect.read_facts(Policy(), running()))
    kubelet = Kubelet(present=True, version="v1.31.4", endpoint=endpoint)
    assert seen_host.is_kubelets_engine(found, kubelet) == used
    other = dc.replace(found, engine="containerd", socket="/run/containerd/containerd.sock")
    assert seen_host.is_kubelets_engine(other, kubelet) == (endpoint.endswith("containerd.sock"))
    seen = dc.replace(found, used_by_kubelet=used)
    assert bool(seen_host.refuse_without_kubelet(Policy(), seen, kubelet, (seen,)).refusal) != used


@pytest.mark.parametrize(
    ("manager", "left"),
    [
        ("k3s", True),
        ("rke2", True),
        ("gpu-operator", True),
        ("package", False),
        ("docker", False),
        ("nvidia-ctk", False),
    ],
)
def test_an_engine_of_kubernetes_is_enough_of_a_sign(manager: str, left: bool) -> None:
    (found,) = docker_detect.find_instances(Policy(), docker_detect.read_facts(Policy(), running()))
    other = dc.replace(found, engine="containerd", manager=manager)
    assert (
        bool(seen_host.refuse_without_kubelet(Policy(), found, Kubelet(), (found, other)).refusal)
        == left
    )
