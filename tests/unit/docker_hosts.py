# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts with a Docker daemon, for tests of what is planned for it."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.projection import selection
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Handler,
    Instance,
    Kubelet,
    Plan,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections import (
    output_places,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import decide
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.docker import (
    config as docker_config,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.docker import (
    detect as docker_detect,
)

from tests.unit.builders import obs

CONFIG, UNIT = docker_config.CONFIG, docker_config.UNIT
BINARY = Handler.binary
ELSEWHERE = "/opt/nvidia/bin/nvidia-container-runtime"
PROCESS = {
    "pid": 3,
    "ticks": 77,
    "exe": "/usr/sbin/dockerd",
    "argv": ["dockerd", "-H", "fd://"],
    "unit": UNIT,
}
INFO, LIST = f"http:{docker_config.SOCKET}/info", f"http:{docker_config.SOCKET}/containers/json"
RUNC = {"runc": {"path": "runc"}}
OURS = {**RUNC, "nvidia": {"path": BINARY}}
DIRS = ["/etc/cdi", "/var/run/cdi"]
ENTRY = {"nvidia": {"path": BINARY}}
CONTAINERS = [{"Id": "a" * 64, "Names": ["/web"]}, {"Id": "b" * 64, "Names": ["/db"]}]


def told(said: Any, path: str) -> dict[str, Any]:
    """Return an answer of the daemon as it leaves the host."""
    return {"status": 200, "value": selection.select(said, output_places.HTTP[path])}


def running(version: str = "26.1.5+dfsg1", text: str | None = None, **more: Any) -> Any:
    """Return an observation of a host with a daemon.

    containers: how many run. argv, files, originals, answers: as in builders.obs. The rest is what
    /info contains.
    """
    answers, files, originals, argv, units = (
        more.pop(k, None) or {} for k in ("answers", "files", "originals", "argv", "units")
    )
    count = more.pop("containers", 0)
    said = {
        "ServerVersion": version,
        "DefaultRuntime": "runc",
        "Runtimes": RUNC,
        "CDISpecDirs": [],
        "ContainersRunning": count,
        **more,
    }
    if version < "25":
        del said["CDISpecDirs"]
    names = {LIST: told(CONTAINERS, "/containers/json")} if count else {}
    return obs(
        files={
            BINARY: "",
            ELSEWHERE: "",
            "/usr/sbin/dockerd": "",
            **({} if text is None else {CONFIG: text}),
            **files,
        },
        processes=[
            {
                **PROCESS,
                "argv": selection.select_arguments(["dockerd", *argv], docker_config.READ_FLAGS),
            }
        ],
        units={UNIT: {"ActiveState": "active", "InvocationID": "abc", **units}},
        answers={INFO: told(said, "/info"), **names, **answers},
        originals=originals,
    )


def planned(policy: Policy, seen: Any) -> Plan:
    (instance,) = docker_detect.find_instances(policy, docker_detect.read_facts(policy, seen))
    return docker_detect.plan_instance(
        policy,
        docker_detect.read_facts(policy, seen),
        instance,
        decide.decide_one(policy, instance, Kubelet()),
    )


def absent(seen: Any, instance: Instance | None = None, **options: Any) -> Plan:
    """Plan state: absent. instance: the one that the look finds if None."""
    policy = Policy(state="absent", **options)
    found = (
        instance or docker_detect.find_instances(policy, docker_detect.read_facts(policy, seen))[0]
    )
    return docker_detect.plan_absent(policy, docker_detect.read_facts(policy, seen), found)


def acts(plan: Plan) -> list[str]:
    return [f"{r.action} {r.unit}" for r in plan.restarts]
