# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Daemons of containerd as a look finds them, what they say of themselves, and the instances."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Instance,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    detect as containerd_detect,
)

from tests.unit import builders

SOCKET = "/run/containerd/containerd.sock"
CONFIG = "/etc/containerd/config.toml"
UNIT = {"containerd.service": {"InvocationID": "abc", "MainPID": "7", "KillMode": "process"}}
ROOT = 'version = 2\n[plugins."io.containerd.grpc.v1.cri".cni]\nbin_dir = "/usr/lib/cni"\n'


def run_daemon(
    *args: str,
    pid: int = 7,
    exe: str = "/usr/bin/containerd",
    unit: str | None = "containerd.service",
) -> dict[str, Any]:
    """Return a process of containerd."""
    return {"pid": pid, "exe": exe, "argv": [exe, *args], "cgroup": "", "unit": unit}


def answer_cri(
    version: str, config: dict[str, Any] | None = None, socket: str = SOCKET
) -> dict[str, Any]:
    """Return what CRI says of a daemon with this version and configuration."""
    config = (
        config
        if config is not None
        else {"containerd": {"defaultRuntimeName": "runc", "runtimes": {"runc": {"options": {}}}}}
    )
    return {
        f"Version:{socket}": {"runtime_name": "containerd", "runtime_version": version},
        f"Status:{socket}": {
            "runtime": {"RuntimeReady": True},
            "conditions": [],
            "handlers": [],
            "info": {"config": config},
        },
    }


def find_instances(policy: Policy | None = None, **seen: Any) -> tuple[Instance, ...]:
    """Return the instances of a host.

    seen: what a look has found, in place of the package's file and unit or beside them.
    """
    seen.setdefault("files", {CONFIG: ROOT})
    seen.setdefault("units", UNIT)
    return containerd_detect.find_instances(
        policy or Policy(), containerd_detect.read_facts(policy or Policy(), builders.obs(**seen))
    )
