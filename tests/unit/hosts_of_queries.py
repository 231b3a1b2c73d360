# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts whose queries are answered, and fail one at a time."""

from __future__ import annotations

import dataclasses as dc
import posixpath
import re
from collections.abc import Mapping
from typing import Any

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
    host_plan,
    seen_host,
)

from tests.unit import builders, gpus

ERRORS = {
    "timeout": "the time for the whole observation had run out at this question",
    "too-large": "the answers together exceed 16777216 bytes",
    "denied": "Permission denied",
    "failed": "Input/output error",
    "not-found": "No such file or directory",
}


@dc.dataclass(frozen=True)
class QueriedHost:
    """A host that answers whatever it is asked, as the program there does."""

    files: Mapping[str, Any]
    processes: tuple[Mapping[str, Any], ...]
    units: Mapping[str, Mapping[str, str]]
    packages: Mapping[str, str]
    cri: Mapping[str, Any] = dc.field(default_factory=dict)
    http: Mapping[str, Any] = dc.field(default_factory=dict)

    def answer(self, q: Mapping[str, Any]) -> Any:
        kind = q["kind"]
        if kind == "package":
            return {
                "manager": "dpkg",
                "installed": {n: self.packages.get(n) for n in q["names"]},
                "candidates": {},
            }
        if kind == "units":
            return {"units": {n: self.units.get(n, {"LoadState": "not-found"}) for n in q["names"]}}
        if kind == "processes":
            return {
                "processes": [
                    p
                    for p in self.processes
                    if any(re.fullmatch(n, posixpath.basename(p["exe"])) for n in q["names"])
                ]
            }
        if kind == "cri":
            return self.cri.get(f"{q['method']}:{q['socket']}") or {
                "error": {"kind": "not-found", "message": "no such socket"}
            }
        if kind == "http":
            return self.http.get(q["path"]) or {
                "error": {"kind": "not-found", "message": "no such socket"}
            }
        if kind == "probe":
            return gpus.nvml()[q["id"]]
        if kind == "command":
            return {"error": {"kind": "not-found", "message": "No such file or directory"}}
        if kind == "originals":
            return {"originals": {}, "unfinished": [], "outcomes": [], "pending": []}
        return builders.Answers(self.files, {})[q["id"]]


def process(exe: str, unit: str, pid: int) -> dict[str, Any]:
    told = {"pid": pid, "ticks": 100, "verified": True, "start": 1.0}
    return {**told, "exe": exe, "argv": [exe], "unit": unit, "cgroup": f"/system.slice/{unit}"}


def unit(pid: int) -> dict[str, str]:
    return {
        "LoadState": "loaded",
        "ActiveState": "active",
        "InvocationID": "abc",
        "MainPID": str(pid),
        "KillMode": "process",
    }


BASE = {
    **gpus.host(),
    "/usr/bin/nvidia-container-runtime": "",
    "/usr/sbin/runc": "",
    "/usr/bin/nvidia-cdi-hook": "",
}
TOOLKIT = (
    "nvidia-container-toolkit",
    "nvidia-container-toolkit-base",
    "libnvidia-container1",
    "libnvidia-container-tools",
)
PACKAGES = dict.fromkeys(TOOLKIT, "1.17.8-1")
ROOT1 = 'version = 2\n[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]\nruntime_type = "io.containerd.runc.v2"\n'
ROOT2 = 'version = 3\nimports = ["/etc/containerd/conf.d/*.toml"]\n'
RUNC = {"runc": {"runtimeType": "io.containerd.runc.v2", "options": {}}}


def containerd(version: str, root: str, **config: Any) -> QueriedHost:
    socket = "/run/containerd/containerd.sock"
    info = {"containerd": {"defaultRuntimeName": "runc", "runtimes": RUNC}, **config}
    return QueriedHost(
        files={**BASE, "/etc/containerd/config.toml": root, "/usr/bin/containerd": ""},
        processes=(process("/usr/bin/containerd", "containerd.service", 7),),
        units={"containerd.service": unit(7)},
        packages={**PACKAGES, "containerd": version},
        cri={
            f"Status:{socket}": {
                "runtime": {"RuntimeReady": True},
                "handlers": [],
                "info": {"config": info},
            },
            f"Version:{socket}": {"runtime_name": "containerd", "runtime_version": version},
        },
    )


CRIO_SOCKET = "/var/run/crio/crio.sock"
CRIO_CONFIG = (
    '[crio.runtime]\ndefault_runtime = "crun"\n[crio.runtime.runtimes.crun]\nruntime_path = "/usr/libexec/crio/crun"\n'
    'monitor_path = "/usr/libexec/crio/conmon"\n'
)
CRIO_FORCE = {
    "DefaultRuntime": "crun",
    "Runtimes": {
        "crun": {"RuntimePath": "/usr/libexec/crio/crun", "MonitorPath": "/usr/libexec/crio/conmon"}
    },
    "HooksDir": [],
    "CDISpecDirs": ["/etc/cdi", "/var/run/cdi"],
}
DOCKER_INFO = {
    "ServerVersion": "26.1.5",
    "DefaultRuntime": "runc",
    "Runtimes": {"runc": {"path": "runc"}},
    "CDISpecDirs": [],
}
QUERIED_HOSTS = {
    "containerd 1.7": containerd(
        "1.7.24", ROOT1, enableCDI=False, cdiSpecDirs=["/etc/cdi", "/var/run/cdi"]
    ),
    "containerd 2.1": containerd(
        "2.1.4", ROOT2, enableCDI=True, cdiSpecDirs=["/etc/cdi", "/var/run/cdi"]
    ),
    "CRI-O": QueriedHost(
        files={
            **BASE,
            "/etc/crio/crio.conf.d/10-crio.conf": CRIO_CONFIG,
            "/usr/bin/crio": "",
            "/usr/libexec/crio/crun": "",
        },
        processes=(
            process("/usr/bin/crio", "crio.service", 8),
            process("/usr/bin/kubelet", "kubelet.service", 9),
        ),
        units={"crio.service": unit(8)},
        packages={**PACKAGES, "cri-o": "1.34.2"},
        cri={
            f"Status:{CRIO_SOCKET}": {
                "info": {"config": {"crio": CRIO_FORCE}},
                "handlers": ["", "crun"],
            },
            f"Version:{CRIO_SOCKET}": {"runtime_name": "cri-o", "runtime_version": "1.34.2"},
        },
        http={"/config": {"status": 200, "content": CRIO_CONFIG}},
    ),
    "Docker": QueriedHost(
        files={**BASE, "/usr/bin/dockerd": "", "/etc/docker/daemon.json": "{}\n"},
        processes=(process("/usr/bin/dockerd", "docker.service", 10),),
        units={"docker.service": unit(10)},
        packages={**PACKAGES, "docker-ce": "26.1.5"},
        http={
            "/info": {"status": 200, "value": DOCKER_INFO},
            "/containers/json": {"status": 200, "value": []},
        },
    ),
}


@dc.dataclass(frozen=True)
class Came:
    """What became of a host: a plan, or the sentence that refuses it; and every query on the way."""

    plan: Plan | None
    said: str
    asked: tuple[str, ...]


def planned(
    host: QueriedHost | OneBad,
    broken: str = "",
    kind: str = "failed",
    os_id: str = "debian",
    **options: Any,
) -> Came:
    policy = Policy(**options)
    seen = Observation(
        {"os_release": {"ID": os_id}, "epoch": 10.0, "kernel": "6.1", "machine": "x86_64"}, {}
    )
    questions = seen_host.list_host_questions(policy)
    for _round in range(20):
        error = {"error": {"kind": kind, "message": ERRORS[kind]}}
        seen = seen.add_answers(
            {
                "answers": {
                    q["id"]: error if q["id"] == broken else host.answer(q) for q in questions
                }
            }
        )
        try:
            found = seen_host.see(policy, seen)
            return Came(
                host_plan.plan_host(
                    policy,
                    seen_host.read_host_facts(policy, seen, found, "probe"),
                    {"device_nodes": "", "cdi_guard": ""},
                ),
                "",
                tuple(seen.answers),
            )
        except NeedMore as need:
            questions = need.questions
        except PlanError as error_:
            return Came(None, str(error_), tuple(seen.answers))
    raise AssertionError("it still asks")


@dc.dataclass(frozen=True)
class OneBad:
    """The same host, where one of the files that a pattern matches cannot be looked at."""

    host: Any
    path: str

    def answer(self, q: Mapping[str, Any]) -> Any:
        found = self.host.answer(q)
        if q["kind"] != "glob":
            return found
        bad = {"path": self.path, "error": {"kind": "failed", "message": "Input/output error"}}
        return {"files": [bad if f["path"] == self.path else f for f in found["files"]]}
