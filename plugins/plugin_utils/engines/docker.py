# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Docker Engine: seen and named, as a reader of CDI specs; its own configuration is left alone."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils import ask, versions
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils.model import CDI_DIRS, Cdi, Decision, Evidence, Instance, Plan, Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils.observation import Observation

SOCKET = "/var/run/docker.sock"
CONFIG = "/etc/docker/daemon.json"
UNIT = "docker.service"
PACKAGES = ("docker-ce", "docker.io", "moby-engine")
# CDI is there behind features.cdi from 25.0, and on unless features.cdi is false from 28.2 (engines.md 3).
CDI_SINCE = (25, 0)
CDI_ON_SINCE = (28, 2)


def questions(policy: Policy) -> list[ask.Question]:
    asked = [ask.which(["dockerd"]), ask.package(list(PACKAGES)), ask.file(CONFIG)]
    if policy.root != "/":
        return asked
    return [*asked, ask.processes(["dockerd"]), ask.units([UNIT]), ask.http(SOCKET, "/info")]


def find(policy: Policy, obs: Observation) -> tuple[Instance, ...]:
    daemon = process(obs) if policy.root == "/" else {}
    binary = str(daemon.get("exe") or obs.raw(ask.which(["dockerd"]))["found"].get("dockerd") or "")
    packaged = next((v for v in (obs.package(name) for name in PACKAGES) if v), "")
    if not (binary or packaged):
        return ()
    info = said(obs) if daemon else {}
    version = str(info.get("ServerVersion") or "") or packaged
    if not version and policy.root == "/":
        version = versions.banner(obs.command([binary, "--version"]).stdout)
    found = Instance(
        engine="docker",
        version=plain(version),
        binary=binary or "/usr/bin/dockerd",
        socket=SOCKET,
        config_path=CONFIG,
        unit=UNIT,
        owner="package",
        running=bool(daemon),
        cdi=cdi(plain(version), info, switch(obs)),
        invocation_id=obs.unit(UNIT).get("InvocationID", ""),
        default_handler=str(info.get("DefaultRuntime") or ""),
        handlers={name: str((table or {}).get("path") or "") for name, table in (info.get("Runtimes") or {}).items()},
        cri=False,
        running_containers=int(info.get("ContainersRunning") or 0),
    )
    return (Instance(**{**vars(found), "refusal": refusal(found)}),)


def process(obs: Observation) -> Mapping[str, Any]:
    return next((p for p in obs.processes() if posixpath.basename(str(p.get("exe") or (p.get("argv") or [""])[0])) == "dockerd"), {})


def said(obs: Observation) -> Mapping[str, Any]:
    """The daemon's own word, {} when it gives none."""
    answer = obs.raw(ask.http(SOCKET, "/info"))
    try:
        info = json.loads(answer.get("body") or "{}") if answer.get("status") == 200 else {}
    except ValueError:
        info = {}
    return info if isinstance(info, Mapping) else {}


def switch(obs: Observation) -> bool | None:
    """features.cdi in daemon.json; None when it is not set or the file cannot be read."""
    try:
        config = json.loads(obs.file(CONFIG).content or "{}")
    except ValueError:
        return None
    features = config.get("features") if isinstance(config, Mapping) else None
    value = features.get("cdi") if isinstance(features, Mapping) else None
    return value if isinstance(value, bool) else None


def plain(version: str) -> str:
    """`5:28.5.2-1~debian` and `26.1.5+dfsg1` as Docker's own number."""
    parsed = versions.parse(version)
    return ".".join(str(n) for n in parsed.release) if parsed else version


def cdi(version: str, info: Mapping[str, Any], on: bool | None) -> Cdi:
    """By the daemon's list of directories, which is empty when CDI is off; else by version and switch."""
    parsed = versions.parse(version)
    series = parsed.series if parsed else (0, 0)
    able = series >= CDI_SINCE
    if "CDISpecDirs" in info:
        dirs = tuple(info["CDISpecDirs"] or ())
        return Cdi(
            able, bool(dirs), dirs, versions.max_cdi("docker", version), Evidence("dump", f"/info of Docker {version} lists {list(dirs)}")
        )
    enabled = able and (on if on is not None else series >= CDI_ON_SINCE)
    text = f"Docker {version}" + ("" if on is None else f", features.cdi is {str(on).lower()}")
    return Cdi(able, enabled, CDI_DIRS if enabled else (), versions.max_cdi("docker", version), Evidence("version", text))


def refusal(found: Instance) -> str:
    if found.cdi.enabled:
        use = "CDI is on, so `docker run --device nvidia.com/gpu=all` works with the host's CDI spec as it is"
    elif found.cdi.able:
        use = (
            'set {"features": {"cdi": true}} in '
            + CONFIG
            + " and restart it, then `docker run --device nvidia.com/gpu=all` works with the CDI spec"
        )
    else:
        use = "this release knows no CDI: `nvidia-ctk runtime configure --runtime=docker` adds the NVIDIA runtime to it"
    return f"Docker Engine {found.version} is left as it is, its configuration comes with a later release of this collection; {use}"


def plan(policy: Policy, obs: Observation, instance: Instance, decision: Decision) -> Plan:
    return Plan(advice=(instance.refusal,))


def plan_absent(policy: Policy, obs: Observation, instance: Instance) -> Plan:
    return Plan()
