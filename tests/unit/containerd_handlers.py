# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read handlers from planned files of containerd."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.kubelet.cgroup_driver import (
    InUse,
)

RUNC = "io.containerd.runc.v2"


def entry(
    kind: str = RUNC, program: str = "", systemd: bool | None = None, **more: Any
) -> dict[str, Any]:
    options: dict[str, Any] = {"BinaryName": program} if program else {}
    if systemd is not None:
        options["SystemdCgroup"] = systemd
    return {"runtime_type": kind, "options": {**options, **more.pop("options", {})}, **more}


def cri(default: str = "runc", **runtimes: Any) -> dict[str, Any]:
    return {"containerd": {"default_runtime_name": default, "runtimes": runtimes}}


SHIM = {"ConfigPath": "/opt/kata/configuration.toml"}
KATA = entry(
    "io.containerd.kata.v2", options=SHIM, snapshotter="nydus", pod_annotations=["io.kata*"]
)
SYSTEMD = InUse("systemd", Message("the kubelet uses systemd", "test.kubelet-uses-systemd"))
CGROUPFS = InUse("cgroupfs", Message("the kubelet uses cgroupfs", "test.kubelet-uses-cgroupfs"))
