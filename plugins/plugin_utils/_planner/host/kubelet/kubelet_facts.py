# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the facts of a host's kubelet: its process, its files, its pods' control groups."""

from __future__ import annotations

import dataclasses as dc
import re
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import (
    host_paths,
    queries,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.facts import (
    Fact,
    Lookup,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
    ObservedFile,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections import (
    file_places,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import processes
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers import known
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers.manager import (
    Manager,
)

CONFIG = "/var/lib/kubelet/config.yaml"
# Where the others put it whose kubelets name their engine only there: a file that is asked for at
# once costs no look of its own.
OTHER_CONFIGS = (
    "/etc/kubernetes/kubelet-config.yaml",  # Kubespray: roles/kubernetes/node/templates/kubelet.env.v1beta1.j2
    "/etc/kubernetes/kubelet/config.json",  # EKS: nodeadm/internal/kubelet/config.go
    "/etc/default/kubeletconfig.json",  # AKS: AgentBaker
)
KUBEADM_FLAGS = "/var/lib/kubelet/kubeadm-flags.env"
PROGRAMS = ("/usr/bin/kubelet", "/usr/local/bin/kubelet", "/opt/bin/kubelet")
# asked for with the others, so its process can be verified without a further call
UNIT = "kubelet.service"
KUBELET_VERSION = ["kubelet", "--version"]
VERSION = re.compile(r"v(\d{1,9}\.\d{1,9}\.\d{1,9})")
ROOT_DIR = "--root-dir"
VARIABLE = re.compile(r"\$\{?([A-Z_]+)\}?")
READ_FLAGS = {
    "--config": "path", "--config-dir": "path", "--container-runtime-endpoint": "address", "--cgroup-driver": "name",
    "--feature-gates": "features", ROOT_DIR: "path",
}  # fmt: skip
# version 2 of control groups, and version 1's hierarchy of systemd
GROUP_ROOTS = ("/sys/fs/cgroup", "/sys/fs/cgroup/systemd")
# The first two are those of the systemd driver, the others those of cgroupfs.
POD_GROUPS = (
    "kubepods.slice/kubepods-pod*.slice",
    "kubepods.slice/kubepods-*.slice/kubepods-*-pod*.slice",
    "kubepods/pod*",
    "kubepods/*/pod*",
)


@dc.dataclass(frozen=True)
class KubeletFacts:
    """A host's facts about its kubelet.

    process: the verified one that runs, None if none does. version: '' if its program reports none.
    directory: what it was started with as --root-dir, '' if that is not known. pod_groups: the
    control groups that pods have. files, folders: its configuration, by path and by pattern.
    kubeadm_flags: the text of kubeadm's file. answers: what an engine answers that is asked for its
    cgroup driver, with the question, by its socket and process. manager: the manager in whose
    program a kubelet runs now, with its unit. kubernetes_title: the title of a Kubernetes whose
    kubelet is a part of another program, '' for none. unverified: root's processes of that name
    that break a rule. has_unit: systemd knows kubelet.service. has_program: a program of that name
    is in a usual place.
    """

    process: Fact[Mapping[str, Any] | None]
    version: Fact[str]
    directory: Fact[str]
    pod_groups: Fact[tuple[str, ...]]
    files: Lookup[str, ObservedFile]
    folders: Lookup[str, tuple[ObservedFile, ...]]
    kubeadm_flags: Fact[str]
    answers: Lookup[tuple[str, int], tuple[queries.Question, Mapping[str, Any]]]
    manager: Fact[tuple[Manager, str] | None]
    kubernetes_title: Fact[str]
    unverified: Fact[tuple[Mapping[str, Any], ...]]
    has_unit: Fact[bool]
    has_program: Fact[bool]

    @property
    def argv(self) -> list[str]:
        return [str(word) for word in (self.process.value or {}).get("argv") or ()]


def list_kubelet_questions(policy: Policy) -> list[queries.Question]:
    files = [
        *(
            queries.ask_for_file(path, file_places.KUBELET_CONFIG)
            for path in (CONFIG, *OTHER_CONFIGS)
        ),
        queries.ask_for_file(KUBEADM_FLAGS, file_places.KUBEADM_FLAGS),
    ]
    files += [queries.ask_for_file(path, content=False) for path in PROGRAMS]
    if policy.root != "/":
        return files
    return [
        *files,
        *(
            queries.ask_for_file(path, file_places.KUBELET_FLAGS)
            for path in known.list_kubelet_flag_files()
        ),
        queries.ask_for_units([UNIT, *known.list_kubelet_units()]),
        ask_for_kubelet_process(),
        queries.ask_for_command(KUBELET_VERSION, process="kubelet"),
    ]


def ask_for_pod_groups() -> queries.Question:
    return queries.ask_for_populated_groups(
        "control groups of pods",
        [f"{root}/{group}" for root in GROUP_ROOTS for group in POD_GROUPS],
    )


def ask_for_kubelet_process() -> queries.Question:
    return queries.ask_for_processes(["kubelet"], READ_FLAGS)


def list_cgroup_questions() -> list[queries.Question]:
    return [ask_for_pod_groups(), ask_for_kubelet_process()]


def read_kubelet_facts(obs: Observation) -> KubeletFacts:
    return obs.compute_once("kubelet", lambda: _read_kubelet_facts(obs))


def _read_kubelet_facts(obs: Observation) -> KubeletFacts:
    def ask_engine(asked: tuple[str, int]) -> tuple[queries.Question, Mapping[str, Any]]:
        question = queries.ask_for_cri(asked[0], "RuntimeConfig")
        return question, obs.get_socket_answer(question, asked[1])

    return KubeletFacts(
        process=Fact(lambda: _find_kubelet_process(obs)),
        version=Fact(lambda: _read_kubelet_version(obs)),
        directory=Fact(lambda: _read_kubelet_directory(obs)),
        pod_groups=Fact(
            lambda: tuple(
                str(entry["path"])
                for entry in obs.get_answer(ask_for_pod_groups()).get("files") or ()
            )
        ),
        files=Lookup(lambda path: obs.get_file(path, file_places.KUBELET_CONFIG)),
        folders=Lookup(lambda pattern: obs.list_glob_files(pattern, file_places.KUBELET_CONFIG)),
        kubeadm_flags=Fact(lambda: obs.get_text(KUBEADM_FLAGS)),
        answers=Lookup(ask_engine),
        manager=Fact(lambda: known.find_kubelet_manager(obs)),
        kubernetes_title=Fact(lambda: known.get_kubernetes_title(obs)),
        unverified=Fact(lambda: processes.list_unverified_processes(obs, "kubelet")),
        has_unit=Fact(lambda: bool(obs.get_unit(UNIT))),
        has_program=Fact(lambda: any(obs.is_there(path) for path in PROGRAMS)),
    )


def _find_kubelet_process(obs: Observation) -> Mapping[str, Any] | None:
    """Return the process of the kubelet that runs here, provided that it was verified; else None."""
    return next((p for p in obs.processes() if processes.get_program_name(p) == "kubelet"), None)


def _read_kubelet_directory(obs: Observation) -> str:
    """Return the directory that the kubelet has by its own flags, or by those of the manager in
    whose program it runs; '' if it has the usual one, or if none runs.
    """
    process = _find_kubelet_process(obs)
    if process is not None:
        return host_paths.keep_as_opened(processes.flag(process.get("argv") or (), ROOT_DIR))
    within = known.find_kubelet_manager(obs)
    place = within[0].place if within else None
    if place is None:
        return ""
    text = (
        obs.get_text(place.kubelet_flags, file_places.KUBELET_FLAGS) if place.kubelet_flags else ""
    )
    given = processes.flag(text.split(), ROOT_DIR)
    named = VARIABLE.sub(lambda found: place.variables.get(found[1], found[0]), given)
    return host_paths.keep_as_opened(named or place.kubelet_directory)


def _read_kubelet_version(obs: Observation) -> str:
    """Return the kubelet's version; '' if its program does not report one.

    Distributions have their kubelet outside PATH, or in another program. A kubelet without a
    version counts as a current one.
    """
    match = VERSION.search(obs.try_command(KUBELET_VERSION, "kubelet").stdout)
    return match.group(1) if match else ""
