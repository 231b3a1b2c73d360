# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a GPU Operator's toolkit works on a host: what shows that it does, what proves that it is
gone, and all that proves neither.
"""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Mapping
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    NeedMore,
    QueryFailed,
    Refusal,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Cdi,
    Evidence,
    Instance,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.adoption import (
    gpu_operator,
    other_writers,
    sandboxes,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.kubelet import (
    kubelet_facts,
)

from tests.unit.builders import obs

TOOLKIT = "/usr/local/nvidia/toolkit"
RUNTIME = f"{TOOLKIT}/nvidia-container-runtime"
THREE = {"nvidia": RUNTIME, "nvidia-cdi": f"{RUNTIME}.cdi", "nvidia-legacy": f"{RUNTIME}.legacy"}
OURS = {"runc": "", "nvidia": "/usr/bin/nvidia-container-runtime"}
SOCKET = "/run/containerd/containerd.sock"
NO_CDI = Cdi(able=False, enabled=False, dirs=(), max_version="", evidence=Evidence("files", ""))


def engine(
    handlers: Mapping[str, str] | None = None, name: str = "containerd", **more: Any
) -> Instance:
    usual: dict[str, Any] = {
        "engine": name, "version": "2.1.4", "binary": f"/usr/bin/{name}", "socket": SOCKET, "config_path": f"/etc/{name}/config",
        "unit": f"{name}.service", "manager": "package", "running": True, "cdi": NO_CDI, "default_handler": "runc", "pid": 7,
        "used_by_kubelet": True,
    }  # fmt: skip
    return Instance(**{**usual, "handlers": THREE if handlers is None else handlers, **more})


KUBELET = {
    "pid": 9,
    "exe": "/usr/bin/kubelet",
    "argv": ["/usr/bin/kubelet"],
    "unit": "kubelet.service",
}
ELSEWHERE = {**KUBELET, "argv": ["/usr/bin/kubelet", "--root-dir=/data/kubelet"]}
TOOLKIT_PROCESS = {"pid": 90, "exe": "/usr/bin/nvidia-toolkit", "unverified": "root directory"}
# a process by that name in a tenant's container
TENANTS_PROCESS = {**TOOLKIT_PROCESS, "unverified": "PID namespace"}
ITS_POD = "pods/0b1e-77/containers/nvidia-container-toolkit-ctr"
NOW, OLD = 4000.25, {"ActiveState": "active", "ActiveEnterTimestampMonotonic": "60000000"}
YOUNG = {"ActiveState": "active", "ActiveEnterTimestampMonotonic": "3500000000"}


def host(
    *, marks: tuple[str, ...] = (TOOLKIT,), processes: tuple[dict[str, Any], ...] = (KUBELET,), unit: Any = "for hours",
    pods: dict[str, Any] | None = None, files: dict[str, Any] | None = None, root: str = "/var/lib/kubelet", handlers: Any = None,
    own_pids: int = 0, now: Any = NOW, **more: Any,
) -> Observation:  # fmt: skip
    handlers = THREE if handlers is None else handlers
    unit = OLD if unit == "for hours" else unit
    there = {**dict.fromkeys(marks, {"content": None, "type": "dir"}), **(files or {})}
    kept = [{"path": p} for p in sorted(there) if p.startswith(f"{root}/pods")]
    said = (
        {"handlers": {}, "named": {sandboxes.OPERATOR: 0}, "peer": 7}
        if pods is None
        else {"peer": 7, **pods}
    )
    answers: dict[str, Any] = {
        q["id"]: {"processes": []}
        for q in gpu_operator.KUBELET_QUESTIONS
        if q["kind"] == "processes"
    }
    answers[queries.ask_for_processes(gpu_operator.PROCESSES)["id"]] = {"processes": []}
    answers[sandboxes.ask_for_sandboxes(engine(handlers))["id"]] = said
    answers[f"paths:pods below {root}"] = {"files": kept}
    uids = ("0b1e-77",)
    asked = sandboxes.ask_for_kept_pods(engine(handlers).socket, uids)
    answers[asked["id"]] = {"own_pids": dict.fromkeys(uids, own_pids), "peer": 7}
    answers[queries.ask_for_command(kubelet_facts.KUBELET_VERSION)["id"]] = {
        "rc": 0,
        "stdout": "Kubernetes v1.34.2\n",
        "stderr": "",
    }
    units = {
        "kubelet.service": unit or {"LoadState": "not-found"},
        **(more.pop("units", None) or {}),
    }
    return obs(
        files=there,
        processes=list(processes),
        units=units,
        monotonic=now,
        **{"answers": answers, **more},
    )


PODS = {"/var/lib/kubelet/pods": {"content": None, "type": "dir"}}
DATA_PODS = {"/data/kubelet/pods": {"content": None, "type": "dir"}}
SNAP = "/var/snap/microk8s/common/var/lib/kubelet"
SNAP_PODS = {f"{SNAP}/pods": {"content": None, "type": "dir"}}
NO_ANSWER = {"error": {"kind": "timeout", "message": "no answer"}}

STATES: list[tuple[str, dict[str, Any], str, str]] = [
    ("its process, in the host's PIDs as its DaemonSet asks for", {"processes": (KUBELET, TOOLKIT_PROCESS)}, "live", "nvidia-toolkit runs"),
    ("its process, and no kubelet to be seen", {"processes": (TOOLKIT_PROCESS,)}, "live", "nvidia-toolkit runs"),
    ("its pod, which waits for the driver", {"pods": {"named": {sandboxes.OPERATOR: 1}}, "files": PODS}, "live", "containerd has a pod"),
    ("after a boot, before the pod is made", {"files": {**PODS, f"/var/lib/kubelet/{ITS_POD}": {"content": None, "type": "dir"}}}, "live",
     "the kubelet keeps a pod"),
    ("the same, below another root directory", {"files": {**DATA_PODS, f"/data/kubelet/{ITS_POD}": ""}, "root": "/data/kubelet",
     "processes": (ELSEWHERE,)}, "live", "the kubelet keeps a pod"),
    ("the same, below MicroK8s' directory", {"files": {**SNAP_PODS, f"{SNAP}/{ITS_POD}": ""}, "root": SNAP, "processes": (), "unit": None,
     "units": {"snap.microk8s.daemon-kubelite.service": OLD}}, "live", "the kubelet keeps a pod"),
    ("a tenant's process by its name", {"processes": (KUBELET, TENANTS_PROCESS), "files": PODS}, "dead", "active for 10 minutes"),
    ("a tenant's container by its name", {"files": {**PODS, f"/var/lib/kubelet/{ITS_POD}": ""}, "own_pids": 1}, "dead",
     "active for 10 minutes"),
    ("a kubelet that has settled, and nothing of it", {"files": PODS}, "dead", "active for 10 minutes"),
    ("the same with what a process has left", {"files": PODS, "marks": (TOOLKIT, gpu_operator.PID_FILE)}, "dead", "active for 10 minutes"),
    ("with what the validator writes whoever installed the toolkit", {"files": {**PODS, other_writers.OPERATOR_MARK: ""}}, "dead",
     "active for 10 minutes"),
    ("no kubelet on this host", {"processes": (), "unit": None}, "dead", "no kubelet is on this host"),
    ("a kubelet that was stopped", {"processes": (), "unit": {"ActiveState": "inactive"}, "files": PODS}, "unknown", "does not run"),
    ("one that is installed, and has no unit", {"processes": (), "unit": None, "files": {"/usr/bin/kubelet": ""}}, "unknown",
     "does not run"),
    ("one that began 8 minutes ago", {"unit": YOUNG, "files": PODS}, "unknown", "less than 10 minutes"),
    ("one whose unit is another", {"unit": {**OLD, "ActiveState": "inactive"}, "files": PODS}, "unknown", "since when kubelet.service"),
    ("one that is unverified", {"processes": ({**KUBELET, "unverified": "unit"},), "files": PODS}, "unknown", "could not be verified"),
    ("an engine that does not answer", {"pods": NO_ANSWER, "files": PODS}, "unknown", "containerd does not list its pods"),
    ("another process answers for it", {"pods": {"named": {}, "peer": 66}, "files": PODS}, "unknown", "containerd does not list its pods"),
    ("no directory of pods where it has to be", {}, "unknown", "/var/lib/kubelet/pods could not be listed"),
    ("no clock", {"now": None, "files": PODS}, "unknown", "since when kubelet.service"),
    ("the kubelet of k3s", {"processes": (), "unit": None, "units": {"k3s.service": {}}}, "unknown", "the kubelet of k3s"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("case", "there", "fate", "why"), STATES, ids=[case for case, *_rest in STATES]
)
def test_what_shows_that_it_works_and_what_proves_that_it_is_gone(
    case: str, there: dict[str, Any], fate: str, why: str
) -> None:
    found = gpu_operator.judge_operator_state(
        Policy(), gpu_operator.read_operator_facts(Policy(), host(**there)), [engine()]
    )
    assert (found.fate, why in found.why) == (fate, True), found


# What is there once the cluster says that it does not come back -> fate, and whether it has cleaned
# up.
HANDED_OVER: dict[str, tuple[dict[str, Any], Instance, str, bool]] = {
    "a kubelet that began 8 minutes ago": ({"unit": YOUNG, "files": PODS}, engine(OURS), "dead", True),
    "its end was cut short": ({"unit": YOUNG, "files": PODS}, engine(), "dead", False),
    "a process of it counts more": ({"unit": YOUNG, "files": PODS, "processes": (KUBELET, TOOLKIT_PROCESS)}, engine(OURS), "live", False),
    "an engine that does not answer": ({"pods": NO_ANSWER, "files": PODS}, engine(OURS), "unknown", False),
}  # fmt: skip


@pytest.mark.parametrize("case", HANDED_OVER)
def test_the_clusters_word_takes_the_place_of_ten_minutes_and_of_nothing_else(case: str) -> None:
    there, instance, fate, cleaned = HANDED_OVER[case]
    found = gpu_operator.report_operator(
        Policy(operator_toolkit="gone"),
        gpu_operator.read_operator_facts(
            Policy(operator_toolkit="gone"), host(handlers=instance.handlers, **there)
        ),
        (instance,),
    )
    assert (found["fate"], found["cleaned"], found["installed"]) == (fate, cleaned, False), found


def test_it_is_installed_where_it_works_and_has_its_handlers() -> None:
    for instance, installed in ((engine(), True), (engine(OURS), False)):
        works = host(handlers=instance.handlers, processes=(KUBELET, TOOLKIT_PROCESS))
        assert (
            gpu_operator.report_operator(
                Policy(), gpu_operator.read_operator_facts(Policy(), works), (instance,)
            )["installed"]
            is installed
        )


def test_without_a_trace_nothing_is_asked() -> None:
    seen = obs(processes=[KUBELET])
    assert (
        gpu_operator.judge_operator_state(
            Policy(), gpu_operator.read_operator_facts(Policy(), seen), [engine(OURS)]
        ).fate
        == "absent"
    )
    assert gpu_operator.refuse_operator_instances(
        Policy(), gpu_operator.read_operator_facts(Policy(), seen), (engine(OURS),)
    ) == (engine(OURS),)


def test_a_trace_costs_one_more_look() -> None:
    seen = obs(files={TOOLKIT: ""}, processes=[KUBELET], units={"kubelet.service": OLD},
               answers={q["id"]: {"processes": []} for q in gpu_operator.KUBELET_QUESTIONS if q["kind"] == "processes"})  # fmt: skip
    with pytest.raises(NeedMore) as more:
        gpu_operator.judge_operator_state(
            Policy(), gpu_operator.read_operator_facts(Policy(), seen), [engine()]
        )
    # its files are known to this host's builder
    assert [q["kind"] for q in more.value.questions] == [
        "processes",
        "cri",
    ]


def test_beneath_another_root_nothing_runs() -> None:
    assert (
        gpu_operator.judge_operator_state(
            Policy(root="/srv/image"),
            gpu_operator.read_operator_facts(Policy(root="/srv/image"), obs(files={TOOLKIT: ""})),
            [engine()],
        ).fate
        == "dead"
    )


LIVE = {"processes": (KUBELET, TOOLKIT_PROCESS)}
UNPROVEN = {"unit": YOUNG, "files": PODS}
SETTLED = {"files": PODS}
LEFT = [
    ("works, its handlers are in force", LIVE, engine(), True),
    ("works, and its handlers are yet to come", LIVE, engine(OURS), True),
    (
        "works, and this engine is not the kubelet's",
        LIVE,
        engine(OURS, used_by_kubelet=False),
        False,
    ),
    ("works for Docker", LIVE, engine(name="docker", used_by_kubelet=False), True),
    ("works, and the kubelet's pods are in Docker", LIVE, engine(OURS, name="docker"), True),
    (
        "works, and Docker is not the kubelet's",
        LIVE,
        engine(OURS, name="docker", used_by_kubelet=False),
        False,
    ),
    ("is not proven to be gone, and ours would change what it wrote", UNPROVEN, engine(), True),
    (
        "is not proven to be gone, and the handler is ours now",
        UNPROVEN,
        engine({**THREE, **OURS}),
        False,
    ),
    ("is gone", SETTLED, engine(), False),
]


@pytest.mark.parametrize(
    ("case", "there", "instance", "left"), LEFT, ids=[case for case, *_rest in LEFT]
)
def test_what_it_configures_is_left_alone_with_the_setting_that_hands_it_over(
    case: str, there: dict[str, Any], instance: Instance, left: bool
) -> None:
    kubelets = engine(name="crio", socket="/run/crio/crio.sock", running=False, pid=0)
    other = () if instance.used_by_kubelet else (kubelets,)
    (found, *_others) = gpu_operator.refuse_operator_instances(
        Policy(),
        gpu_operator.read_operator_facts(Policy(), host(handlers=instance.handlers, **there)),
        (instance, *other),
    )
    assert bool(found.refusal) is left
    if left:
        served = gpu_operator.list_operator_handlers(instance) or instance.engine == "docker"
        live = "operator.runs" if served else "operator.without-nri"
        assert found.refusal.message.code == (live if there is LIVE else "operator.unproven")


@pytest.mark.parametrize(
    ("files", "code"),
    [
        ({}, "operator.without-nri"),
        ({gpu_operator.NRI_SOCKET: {"content": None, "type": "socket"}}, "operator.by-nri"),
    ],
)
def test_a_toolkit_that_works_as_an_nri_plugin_is_told_by_what_is_there(
    files: dict[str, Any], code: str
) -> None:
    """It has no handler in the engine, and needs the engine's socket for plugins."""
    seen = host(handlers=OURS, files=files, **LIVE)
    facts = gpu_operator.read_operator_facts(Policy(), seen)
    (found,) = gpu_operator.refuse_operator_instances(Policy(), facts, (engine(OURS),))
    assert found.refusal.message.code == code
    assert gpu_operator.names_it(found.refusal.message)


def test_an_engine_that_is_left_alone_for_another_reason_keeps_that_reason() -> None:
    refused = dc.replace(engine(), refusal=Refusal("k3s writes this"))
    assert gpu_operator.refuse_operator_instances(
        Policy(), gpu_operator.read_operator_facts(Policy(), host(**LIVE)), (refused,)
    ) == (refused,)


def test_one_that_returns_after_adoption_is_named_with_its_file() -> None:
    path = "/etc/containerd/conf.d/99-nvidia.toml"
    kept = {path: {"existed": True, "sha256_before": "a", "sha256_after": None}}
    there = {**LIVE, "files": {path: "version = 3\n"}, "originals": kept}
    (found,) = gpu_operator.refuse_operator_instances(
        Policy(), gpu_operator.read_operator_facts(Policy(), host(**there)), (engine(),)
    )
    assert (found.refusal.message.code, found.refusal.message.values["path"]) == (
        "operator.runs-again",
        path,
    )
    assert (
        gpu_operator.find_returned_drop_in(
            gpu_operator.read_operator_facts(Policy(), host(**{**there, "files": {}}))
        )
        == ""
    )


FATES = [(LIVE, "/etc/containerd/config", tuple(THREE), "live"), (UNPROVEN, "/etc/containerd/config", tuple(THREE), "live"),
         (SETTLED, TOOLKIT, (), "kept")]  # fmt: skip


@pytest.mark.parametrize(("there", "path", "keys", "fate"), FATES)
def test_what_is_there_of_it_is_a_value_of_the_plan(
    there: dict[str, Any], path: str, keys: tuple[str, ...], fate: str
) -> None:
    seen = host(**there)
    (row,) = gpu_operator.list_operator_leftovers(
        Policy(),
        gpu_operator.read_operator_facts(Policy(), seen),
        gpu_operator.refuse_operator_instances(
            Policy(), gpu_operator.read_operator_facts(Policy(), seen), (engine(),)
        ),
    )
    assert (row.tool, row.path, row.settings, row.fate) == ("gpu-operator", path, keys, fate)
    assert row.next


USED = [
    (
        "stopped pods count as those that run do",
        {"handlers": {"nvidia-cdi": 2, "nvidia": 0, "": 3}},
        {},
        {"nvidia-cdi": 2},
    ),
    (
        "pods that name no handler use the default one",
        {"handlers": {"": 3}},
        {"default_handler": "nvidia"},
        {"nvidia": 3},
    ),
    ("nobody uses any", {"handlers": {"": 0}}, {}, {}),
]


@pytest.mark.parametrize(
    ("case", "pods", "more", "used"), USED, ids=[case for case, *_rest in USED]
)
def test_handlers_that_pods_use_are_known(
    case: str, pods: dict[str, Any], more: dict[str, Any], used: dict[str, int]
) -> None:
    assert (
        sandboxes.count_pods_by_handler(
            sandboxes.read_sandbox_facts(host(pods=pods)), engine(**more), gpu_operator.HANDLERS
        )
        == used
    )


def test_an_engine_that_does_not_tell_its_pods_is_no_engine_without_pods() -> None:
    with pytest.raises(QueryFailed, match="does not answer over CRI"):
        sandboxes.count_pods_by_handler(
            sandboxes.read_sandbox_facts(host(pods=NO_ANSWER)), engine(), gpu_operator.HANDLERS
        )


@pytest.mark.parametrize(
    ("program", "its"),
    [
        (RUNTIME, True), (f"{RUNTIME}.cdi", True), ("/opt/nvidia/toolkit/nvidia-container-runtime", True),
        ("/home/kubernetes/bin/nvidia/toolkit/nvidia-container-runtime.legacy", True), ("/usr/bin/nvidia-container-runtime", False),
        ("nvidia-container-runtime", False), ("/usr/local/nvidia/toolkit/runc", False), ("", False),
    ],
)  # fmt: skip
def test_its_programs_are_known_by_their_place(program: str, its: bool) -> None:
    assert gpu_operator.is_its(program) is its


@pytest.mark.parametrize(
    ("now", "fate"),
    [(659.9, "unknown"), (660.0, "dead")],
    ids=["0.1 s before the bound", "at the bound"],
)
def test_the_bound_is_ten_minutes_of_the_clock_that_systemd_counts_by(
    now: float, fate: str
) -> None:
    """The unit is active since second 60 of that clock, which stands still while a host is
    suspended; the time since boot does not.
    """
    long_since_boot = {"/proc/uptime": "90000.00 1.00\n"}
    assert (
        gpu_operator.judge_operator_state(
            Policy(),
            gpu_operator.read_operator_facts(
                Policy(), host(now=now, files={**PODS, **long_since_boot})
            ),
            [engine()],
        ).fate
        == fate
    )
