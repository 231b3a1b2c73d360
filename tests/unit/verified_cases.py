# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts that are verified, the cases that are planned for them, and which nodes a case names."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Driver,
    Instance,
    Policy,
    SeenGpu,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.verification import (
    cases,
)

from tests.unit.records import instance, record

IMAGE = "localhost/probe:lab"
CONTAINERD_16, CONTAINERD_21, CRIO = (
    instance(version="1.6.20"),
    instance(version="2.1.9"),
    instance("crio", "1.34.0"),
)
COMPATIBLE, STRICT = Policy(isolation="compatible"), Policy(isolation="strict")


def build_driver(*minors: int) -> Driver:
    return Driver(
        "ok",
        "580.95.05",
        tuple(SeenGpu(index, minor, "", f"GPU-{minor}") for index, minor in enumerate(minors)),
        "procfs",
    )


def plan_cases(
    policy: Policy, *instances: Instance, gpus: tuple[int, ...] = (0, 1), evidence_file: str = ""
) -> list[dict[str, Any]]:
    host = record(
        policy,
        *instances,
        driver=build_driver(*gpus),
        plugin_strategies=policy.device_plugin_strategy,
    )
    return cases.list_cases(
        host, instances, build_driver(*gpus), image=IMAGE, evidence_file=evidence_file
    )


def list_nodes(case: dict[str, Any], expect: str) -> list[str]:
    """Return the nodes that a case expects to be `allowed`, `refused` or `optional`, each by the end
    of its path: `0` is /dev/nvidia0, and `ctl` is /dev/nvidiactl.
    """
    return [n["path"].removeprefix("/dev/nvidia") for n in case["nodes"] if n["expect"] == expect]
