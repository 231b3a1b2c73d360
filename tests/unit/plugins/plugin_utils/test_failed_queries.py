# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A query that failed is an error of that query, and never "nothing there": host by host, query by query, error by error."""

from __future__ import annotations

import dataclasses as dc
import itertools
import posixpath
import re
from collections.abc import Mapping
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner import node as host
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.errors import NeedMore, PlanError, QueryFailed
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.model import Plan, Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.observation import Observation
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.projections import file_places

from tests.unit import builders, gpus

ERRORS = {
    "timeout": "the time for the whole observation had run out at this question",
    "too-large": "the answers together exceed 16777216 bytes",
    "denied": "Permission denied",
    "failed": "Input/output error",
    "not-found": "No such file or directory",
}

# ---------------------------------------------------------------- the accessors, one by one

ACCESSES = {
    "file": (queries.file("/etc/a", file_places.WHOLE), lambda obs: obs.text("/etc/a")),
    "stat": (queries.file("/etc/a", content=False), lambda obs: obs.exists("/etc/a")),
    "dir": (queries.directory("/etc/d"), lambda obs: obs.directory("/etc/d")),
    "glob": (queries.glob("/etc/*.toml", file_places.WHOLE), lambda obs: obs.glob("/etc/*.toml")),
    "paths": (queries.paths("driver files", ["/usr/lib/*"]), lambda obs: obs.raw(queries.paths("driver files", ["/usr/lib/*"]))),
    "mentioned": (queries.mentioned("/etc/cdi/*", ("x",)), lambda obs: obs.raw(queries.mentioned("/etc/cdi/*", ("x",)))),
    "tags": (queries.tags("/etc/a", [[]], {}), lambda obs: obs.raw(queries.tags("/etc/a", [[]], {}))),
    "which": (queries.which(["runc"]), lambda obs: obs.raw(queries.which(["runc"])).get("found")),
    "command": (queries.command(["runc", "--version"]), lambda obs: obs.command(["runc", "--version"])),
    "package": (queries.package(["containerd"]), lambda obs: obs.package("containerd")),
    "units": (queries.units(["containerd.service"]), lambda obs: obs.unit("containerd.service")),
    "whether a unit was asked for": (queries.units(["containerd.service"]), lambda obs: obs.unit_asked("containerd.service")),
    "processes": (queries.processes(["containerd"]), lambda obs: obs.processes()),
    "cri": (queries.cri("/run/a.sock"), lambda obs: obs.cri("/run/a.sock")),
    "http": (queries.http("/run/a.sock", "/info"), lambda obs: obs.raw(queries.http("/run/a.sock", "/info"))),
    "probe": (queries.probe("nvml", "", {}), lambda obs: obs.raw(queries.probe("nvml", "", {}))),
    "originals": (queries.originals("/var/lib/gpufleet"), lambda obs: obs.raw(queries.originals("/var/lib/gpufleet")).get("originals")),
}


@pytest.mark.parametrize("kind", ERRORS)
@pytest.mark.parametrize("name", ACCESSES)
def test_an_error_is_no_answer(name: str, kind: str) -> None:
    question, access = ACCESSES[name]
    obs = Observation({}, {question["id"]: {"error": {"kind": kind, "message": ERRORS[kind]}}})
    with pytest.raises(QueryFailed) as caught:
        access(obs)
    assert caught.value.what
    assert (caught.value.why, bool(caught.value.next)) == (ERRORS[kind], True)


@pytest.mark.parametrize(
    ("qid", "message", "sentence"),
    [
        (
            "glob:/etc/containerd/conf.d/*.toml", "/etc/containerd/conf.d: Input/output error",
            "/etc/containerd/conf.d/*.toml: the files of this pattern could not be listed (/etc/containerd/conf.d: Input/output error)",
        ),
        (
            "cri:Status:/run/a.sock", "no answer within 5 s",
            "/run/a.sock: the engine does not answer over CRI (no answer within 5 s)",
        ),
        (
            "processes:containerd", "more than 1024 processes are called containerd",
            "the processes of this host could not be listed (more than 1024 processes are called containerd)",
        ),
    ],
)  # fmt: skip
def test_the_sentence_says_what_where_why_and_what_next(qid: str, message: str, sentence: str) -> None:
    obs = Observation({}, {qid: {"error": {"kind": "failed", "message": message}}})
    with pytest.raises(QueryFailed) as caught:
        obs.raw({"id": qid})
    assert str(caught.value) == f"{sentence}. Correct what the message names, then run again"


# ---------------------------------------------------------------- whole hosts


@dc.dataclass(frozen=True)
class Node:
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
            return {"manager": "dpkg", "installed": {n: self.packages.get(n) for n in q["names"]}, "candidates": {}}
        if kind == "units":
            return {"units": {n: self.units.get(n, {"LoadState": "not-found"}) for n in q["names"]}}
        if kind == "processes":
            return {"processes": [p for p in self.processes if any(re.fullmatch(n, posixpath.basename(p["exe"])) for n in q["names"])]}
        if kind == "cri":
            return self.cri.get(f"{q['method']}:{q['socket']}") or {"error": {"kind": "not-found", "message": "no such socket"}}
        if kind == "http":
            return self.http.get(q["path"]) or {"error": {"kind": "not-found", "message": "no such socket"}}
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
    return {"LoadState": "loaded", "ActiveState": "active", "InvocationID": "abc", "MainPID": str(pid), "KillMode": "process"}


BASE = {
    **gpus.host(),
    "/usr/bin/nvidia-container-runtime": "",
    "/usr/sbin/runc": "",
    "/usr/bin/nvidia-cdi-hook": "",
}
TOOLKIT = ("nvidia-container-toolkit", "nvidia-container-toolkit-base", "libnvidia-container1", "libnvidia-container-tools")
PACKAGES = dict.fromkeys(TOOLKIT, "1.17.8-1")
ROOT1 = 'version = 2\n[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]\nruntime_type = "io.containerd.runc.v2"\n'
ROOT2 = 'version = 3\nimports = ["/etc/containerd/conf.d/*.toml"]\n'
RUNC = {"runc": {"runtimeType": "io.containerd.runc.v2", "options": {}}}


def containerd(version: str, root: str, **config: Any) -> Node:
    socket = "/run/containerd/containerd.sock"
    info = {"containerd": {"defaultRuntimeName": "runc", "runtimes": RUNC}, **config}
    return Node(
        files={**BASE, "/etc/containerd/config.toml": root, "/usr/bin/containerd": ""},
        processes=(process("/usr/bin/containerd", "containerd.service", 7),),
        units={"containerd.service": unit(7)},
        packages={**PACKAGES, "containerd": version},
        cri={
            f"Status:{socket}": {"runtime": {"RuntimeReady": True}, "handlers": [], "info": {"config": info}},
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
    "Runtimes": {"crun": {"RuntimePath": "/usr/libexec/crio/crun", "MonitorPath": "/usr/libexec/crio/conmon"}},
    "HooksDir": [],
    "CDISpecDirs": ["/etc/cdi", "/var/run/cdi"],
}
DOCKER_INFO = {"ServerVersion": "26.1.5", "DefaultRuntime": "runc", "Runtimes": {"runc": {"path": "runc"}}, "CDISpecDirs": []}
NODES = {
    "containerd 1.7": containerd("1.7.24", ROOT1, enableCDI=False, cdiSpecDirs=["/etc/cdi", "/var/run/cdi"]),
    "containerd 2.1": containerd("2.1.4", ROOT2, enableCDI=True, cdiSpecDirs=["/etc/cdi", "/var/run/cdi"]),
    "CRI-O": Node(
        files={**BASE, "/etc/crio/crio.conf.d/10-crio.conf": CRIO_CONFIG, "/usr/bin/crio": "", "/usr/libexec/crio/crun": ""},
        processes=(process("/usr/bin/crio", "crio.service", 8), process("/usr/bin/kubelet", "kubelet.service", 9)),
        units={"crio.service": unit(8)},
        packages={**PACKAGES, "cri-o": "1.34.2"},
        cri={
            f"Status:{CRIO_SOCKET}": {"info": {"config": {"crio": CRIO_FORCE}}, "handlers": ["", "crun"]},
            f"Version:{CRIO_SOCKET}": {"runtime_name": "cri-o", "runtime_version": "1.34.2"},
        },
        http={"/config": {"status": 200, "content": CRIO_CONFIG}},
    ),
    "Docker": Node(
        files={**BASE, "/usr/bin/dockerd": "", "/etc/docker/daemon.json": "{}\n"},
        processes=(process("/usr/bin/dockerd", "docker.service", 10),),
        units={"docker.service": unit(10)},
        packages={**PACKAGES, "docker-ce": "26.1.5"},
        http={"/info": {"status": 200, "value": DOCKER_INFO}, "/containers/json": {"status": 200, "value": []}},
    ),
}


ALL = {"device_nodes": "present", "cdi_refresh": "watch"}
# What the planner can do without, and says why where it does.
DISPENSABLE = {"probe:nvml": "nvidia-smi is asked next, and /proc names the devices in the end"}


@dc.dataclass(frozen=True)
class Came:
    """What became of a host: a plan, or the sentence that refuses it; and every query on the way."""

    plan: Plan | None
    said: str
    asked: tuple[str, ...]


def planned(node: Node | OneBad, broken: str = "", kind: str = "failed", os_id: str = "debian", **options: Any) -> Came:
    policy = Policy(**options)
    seen = Observation({"os_release": {"ID": os_id}, "epoch": 10.0, "kernel": "6.1", "machine": "x86_64"}, {})
    questions = host.questions(policy)
    for _round in range(20):
        error = {"error": {"kind": kind, "message": ERRORS[kind]}}
        seen = seen.with_answers({"answers": {q["id"]: error if q["id"] == broken else node.answer(q) for q in questions}})
        try:
            found = host.see(policy, seen)
            return Came(host.plan(policy, seen, found, "probe", {"device_nodes": "", "cdi_guard": ""}), "", tuple(seen.answers))
        except NeedMore as need:
            questions = need.questions
        except PlanError as error_:
            return Came(None, str(error_), tuple(seen.answers))
    raise AssertionError("it still asks")


@pytest.mark.parametrize(("name", "options"), [*((name, {}) for name in NODES), ("containerd 2.1", ALL)])
def test_no_failed_query_leads_to_another_plan(name: str, options: dict[str, Any]) -> None:
    """Over every query of the look and of what follows it: the very same plan, or none. It may say more: what it could not judge."""
    node = NODES[name]
    good = planned(node, **options)
    assert good.plan is not None, good.said
    assert good.plan.changes
    others = []
    for qid, kind in zip(good.asked, itertools.cycle(ERRORS), strict=False):
        came = planned(node, qid, kind, **options)
        if came.plan is not None and judged(came.plan) != good.plan and qid not in DISPENSABLE:
            others.append((qid, kind))
    assert others == []


def judged(plan: Plan) -> Plan:
    """The plan without the sentence on rows of the table of known-bad combinations that could not be judged, for the query that failed."""
    return dc.replace(plan, advice=tuple(text for text in plan.advice if "docs/known-bad.md could not be judged" not in text))


@dc.dataclass(frozen=True)
class OneBad:
    """The same host, where one of the files that a pattern matches cannot be looked at."""

    node: Any
    path: str

    def answer(self, q: Mapping[str, Any]) -> Any:
        found = self.node.answer(q)
        if q["kind"] != "glob":
            return found
        bad = {"path": self.path, "error": {"kind": "failed", "message": "Input/output error"}}
        return {"files": [bad if f["path"] == self.path else f for f in found["files"]]}


def matched(node: Node, asked: tuple[str, ...]) -> list[str]:
    """The files that the patterns of a look match."""
    found = builders.Answers(node.files, {})
    return sorted({f["path"] for qid in asked if qid.startswith("glob:") for f in found[qid]["files"]})


@pytest.mark.parametrize(("name", "options"), [*((name, {}) for name in NODES), ("containerd 2.1", ALL)])
def test_no_file_that_cannot_be_looked_at_leads_to_another_plan(name: str, options: dict[str, Any]) -> None:
    node = NODES[name]
    good = planned(node, **options)
    paths = matched(node, good.asked)
    assert "/dev/nvidia0" in paths
    came = {path: planned(OneBad(node, path), **options) for path in paths}
    assert [path for path, c in came.items() if c.plan is not None and c.plan != good.plan] == []


DEAD = {"error": {"kind": "timeout", "message": "no answer within 5 s"}}


def with_silent_docker(node: Node) -> Node:
    docker = NODES["Docker"]
    return dc.replace(
        node,
        files={**node.files, **docker.files},
        processes=(*node.processes, *docker.processes),
        units={**node.units, **docker.units},
        http={"/info": DEAD},
    )


def test_an_engine_that_hangs_is_left_alone_and_named_and_the_others_go_on() -> None:
    both, alone = planned(with_silent_docker(NODES["containerd 1.7"])), planned(NODES["containerd 1.7"])
    assert both.plan is not None
    assert alone.plan is not None
    paths = [{c["path"] for c in plan.changes} for plan in (both.plan, alone.plan)]
    assert paths[0] == paths[1]
    assert [a for a in both.plan.advice if a.startswith("Docker runs, but does not answer at /var/run/docker.sock")]


def test_a_second_containerd_that_hangs_is_left_alone_and_named_and_the_first_goes_on() -> None:
    first = NODES["containerd 1.7"]
    config, socket = "/srv/second.toml", "/run/second.sock"
    second = {**process("/usr/bin/containerd", "second.service", 17), "argv": ["containerd", "-c", config, "-a", socket]}
    node = dc.replace(
        first,
        files={**first.files, config: "version = 2\n"},
        processes=(*first.processes, second),
        units={**first.units, "second.service": unit(17)},
        cri={**first.cri, f"Status:{socket}": DEAD, f"Version:{socket}": DEAD},
    )
    both = planned(node)
    assert both.plan is not None, both.said
    assert "/etc/containerd/config.toml" in {c["path"] for c in both.plan.changes}
    assert config not in {c["path"] for c in both.plan.changes}
    assert [a for a in both.plan.advice if a.startswith(f"containerd runs, but its CRI does not answer at {socket} (no answer within 5 s)")]


@pytest.mark.parametrize(
    ("name", "qid", "sentence"),
    [
        ("containerd 1.7", "cri:Status:/run/containerd/containerd.sock", "containerd runs, but its CRI does not answer"),
        ("CRI-O", f"cri:Version:{CRIO_SOCKET}", f"CRI-O runs, but does not answer at {CRIO_SOCKET} (the time for the whole observation"),
        ("Docker", "http:/var/run/docker.sock/info", "Docker runs, but does not answer at /var/run/docker.sock"),
    ],
)
def test_a_host_whose_only_engine_hangs_is_refused(name: str, qid: str, sentence: str) -> None:
    came = planned(NODES[name], qid, "timeout")
    assert came.plan is None
    assert sentence in came.said
