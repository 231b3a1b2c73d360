# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plan files of CRI-O and read what was written."""

from __future__ import annotations

import dataclasses as dc
import tomllib
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Instance,
    Kubelet,
    Leftover,
    Plan,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import decide
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.crio import (
    detect as crio_detect,
)

from tests.unit.builders import obs

SOCKET = "/var/run/crio/crio.sock"
DIRECTORY = "/etc/crio/crio.conf.d"
OURS = f"{DIRECTORY}/90-gpufleet.conf"
PACKAGED = """\
[crio.runtime]
default_runtime = "crun"

[crio.runtime.runtimes.crun]
runtime_path = "/usr/libexec/crio/crun"
runtime_root = "/run/crun"
monitor_path = "/usr/libexec/crio/conmon"
monitor_cgroup = "system.slice"
allowed_annotations = [
    "io.containers.trace-syscall",
]

[crio.runtime.runtimes.runc]
runtime_path = "/usr/libexec/crio/runc"
monitor_path = "/usr/libexec/crio/conmon"
"""
CRUN = {
    "RuntimePath": "/usr/libexec/crio/crun", "RuntimeType": "", "RuntimeRoot": "/run/crun", "MonitorPath": "/usr/libexec/crio/conmon",
    "MonitorCgroup": "system.slice", "AllowedAnnotations": ["io.containers.trace-syscall"], "PrivilegedWithoutHostDevices": False,
}  # fmt: skip
NVIDIA = {**CRUN, "RuntimePath": "/usr/bin/nvidia-container-runtime", "RuntimeType": "oci"}
PROCESS = {"pid": 7, "exe": "/usr/bin/crio", "argv": ["/usr/bin/crio"], "unit": "crio.service"}


def status(**runtimes: Any) -> dict[str, Any]:
    config = {
        "DefaultRuntime": "crun",
        "Runtimes": {"crun": CRUN, **runtimes},
        "HooksDir": [],
        "CDISpecDirs": ["/etc/cdi", "/var/run/cdi"],
    }
    return {
        "info": {"config": {"sandboxImage": "pause", "crio": config}},
        "handlers": ["", "crun", *runtimes],
    }


def host(
    files: dict[str, Any] | None = None,
    said: dict[str, Any] | None = None,
    pods: Any = None,
    **more: Any,
) -> Any:
    answers = {
        f"Status:{SOCKET}": said or status(),
        f"Version:{SOCKET}": {"runtime_name": "cri-o", "runtime_version": "1.34.2"},
    }
    if pods is not None:
        answers[f"ListPodSandbox:nvidia:{SOCKET}"] = pods
    base = {
        f"{DIRECTORY}/10-crio.conf": PACKAGED,
        "/usr/bin/crio": "",
        "/usr/bin/nvidia-container-runtime": "",
    }
    units = {"crio.service": {"ActiveState": "active", "InvocationID": "abc"}}
    return obs(
        **{
            "files": {**base, **(files or {})},
            "cri": answers,
            "processes": [PROCESS],
            "units": units,
            **more,
        }
    )


def planned(policy: Policy, seen: Any, **decision: Any) -> Plan:
    facts = crio_detect.read_facts(policy, seen)
    instance = crio_detect.find_instances(policy, facts)[0]
    record = decide.decide_one(policy, instance, Kubelet())
    return crio_detect.plan_instance(policy, facts, instance, dc.replace(record, **decision))


def taken_back(seen: Any, instance: Instance | None = None) -> Plan:
    """Plan state: absent. instance: the one that the look finds if None."""
    found = (
        instance or crio_detect.find_instances(Policy(), crio_detect.read_facts(Policy(), seen))[0]
    )
    policy = Policy(state="absent")
    return crio_detect.plan_absent(policy, crio_detect.read_facts(policy, seen), found)


def left_alone(policy: Policy, seen: Any, instance: Instance) -> tuple[Leftover, ...]:
    """List what others left in the configuration of an instance that is left alone."""
    facts = crio_detect.read_facts(policy, seen)
    return crio_detect.list_left_alone_leftovers(policy, facts, instance)


def written(plan: Plan) -> dict[str, Any]:
    (change,) = plan.changes
    assert (change["path"], change["op"]) == (OURS, "write")
    data: dict[str, Any] = tomllib.loads(change["content"])["crio"]["runtime"]
    return data
