# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Records of hosts for tests of single resources: one engine, one injection, as the decision makes
them.
"""

from __future__ import annotations

import dataclasses as dc
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Cdi,
    Driver,
    Evidence,
    HostDecision,
    Instance,
    Kubelet,
    Policy,
    SeenGpu,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import decide

ONE_GPU = Driver("ok", "580.95.05", (SeenGpu(0, 0, "0000:17:00.0", "GPU-0"),), "one GPU in procfs")


def instance(engine: str = "containerd", version: str = "2.3.7", **more: Any) -> Instance:
    able = not (engine == "containerd" and version.startswith("1.6"))
    cdi = Cdi(
        able=able,
        enabled=able,
        dirs=("/etc/cdi", "/var/run/cdi") if able else (),
        max_version="1.0.0" if able else "",
        evidence=Evidence("cri-status", "test"),
    )
    socket = "/var/run/crio/crio.sock" if engine == "crio" else "/run/containerd/containerd.sock"
    config = "/etc/crio/crio.conf" if engine == "crio" else "/etc/containerd/config.toml"
    known = Instance(
        engine,
        version,
        f"/usr/bin/{engine}",
        socket,
        config,
        f"{engine}.service",
        "package",
        True,
        cdi,
    )
    return dc.replace(
        known,
        **{
            "default_handler": "runc",
            "handlers": {"runc": "/usr/sbin/runc"},
            "low_level": "runc",
            **more,
        },
    )


def record(
    policy: Policy | None = None, *instances: Instance, driver: Driver = ONE_GPU, **more: Any
) -> HostDecision:
    made = decide.decide_host(policy or Policy(), instances or (instance(),), driver, Kubelet())
    return dc.replace(made, **more)
