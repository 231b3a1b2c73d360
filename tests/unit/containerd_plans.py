# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plan files of containerd and apply them to texts."""

from __future__ import annotations

import dataclasses as dc
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Cdi,
    Decision,
    Evidence,
    Instance,
    Plan,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    detect as containerd_detect,
)

from tests.unit import builders

SOCKET = "/run/containerd/containerd.sock"
ROOT = "/etc/containerd/config.toml"
NVIDIA = "/usr/bin/nvidia-container-runtime"
DROP_IN = "/etc/containerd/conf.d/90-gpufleet.toml"
CRI = '"io.containerd.grpc.v1.cri"'
# A root file of 1.x with comments and settings of a person
OLD = f"""# ours since 2019
version = 2
[plugins]
  [plugins.{CRI}]
    sandbox_image = "pause:3.9" # mirror
    [plugins.{CRI}.containerd]
      [plugins.{CRI}.containerd.runtimes.runc]
        runtime_type = "io.containerd.runc.v2"
        [plugins.{CRI}.containerd.runtimes.runc.options]
          SystemdCgroup = true

[debug]
  level = "info"
"""
OPTIONS = {"BinaryName": NVIDIA, "SystemdCgroup": True}
DECISION = Decision(
    instance="", engine="containerd", engine_version="", injection="native-cdi", handler="nvidia", default=False, runtime_mode="cdi",
    annotation_prefixes=("nvidia.cdi.k8s.io/",), device_list_strategy=(), plugin_annotation_prefix="", runtime_class="nvidia",
    enable_cdi=False, max_cdi_version="", hook=False, reasons=())  # fmt: skip


def instance(version: str, **more: Any) -> Instance:
    cdi = Cdi(
        able=True, enabled=True, dirs=(), max_version="0.5.0", evidence=Evidence("version", "")
    )
    one = Instance(
        "containerd",
        version,
        "/usr/bin/containerd",
        SOCKET,
        ROOT,
        "containerd.service",
        "package",
        False,
        cdi,
    )
    return dc.replace(one, invocation_id="abc", **more)


def loaded(default: str = "runc", **runtimes: Any) -> dict[str, Any]:
    """CRI's word of a daemon with these handlers: name -> options. Ours has its annotations."""
    more = {"nvidia": {"ContainerAnnotations": ["nvidia.cdi.k8s.io/*"]}}
    every = {
        n: {"runtimeType": "io.containerd.runc.v2", "options": o, **more.get(n, {})}
        for n, o in runtimes.items()
    }
    config = {"containerd": {"defaultRuntimeName": default, "runtimes": every}}
    return {
        f"Status:{SOCKET}": {
            "runtime": {"RuntimeReady": True},
            "handlers": [],
            "info": {"config": config},
        }
    }


def plan(
    version: str,
    files: dict[str, Any],
    policy: Policy | None = None,
    running: bool = False,
    absent: bool = False,
    **more: Any,
) -> Plan:
    seen = {k: more.pop(k) for k in ("cri", "units", "originals") if k in more}
    obs = builders.obs(files=files, **seen)
    one = instance(version, running=running, handlers=more.pop("handlers", {}))
    if absent:
        return containerd_detect.plan_absent(
            policy or Policy(), containerd_detect.read_facts(policy or Policy(), obs), one
        )
    return containerd_detect.plan_instance(
        policy or Policy(),
        containerd_detect.read_facts(policy or Policy(), obs),
        one,
        dc.replace(DECISION, **more),
    )


def applied(files: dict[str, str], found: Plan) -> dict[str, str]:
    """Return the files after a plan."""
    after = dict(files)
    for change in found.changes:
        if change["op"] == "remove":
            del after[change["path"]]
        elif change["op"] == "write":
            after[change["path"]] = change["content"]
        else:
            lines = after[change["path"]].splitlines(keepends=True)
            for edit in sorted(change["edits"], key=lambda e: e["start"], reverse=True):
                lines[edit["start"] : edit["end"]] = [edit["text"]]
            after[change["path"]] = "".join(lines)
    return after


def write_old() -> dict[str, str]:
    """Return OLD after a run of this collection."""
    return applied({ROOT: OLD}, plan("1.7.24", {ROOT: OLD}))
