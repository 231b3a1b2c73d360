# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts with a driver that is held: packages, records, and what is planned."""

from __future__ import annotations

import json
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.projection import contents
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Plan,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import (
    driver_packages,
    hold_facts,
    package_locks,
)

from tests.unit.builders import obs

NVIDIA = "cudatools <cudatools@nvidia.com>"


DAY = 86_400


NOW = 20_783 * DAY + 3_600  # 2026-11-26


HOLD = Policy(driver="hold", driver_hold_reason="CUDA 12 until March")


def row(text: str, by: str = NVIDIA, offered: str = "", *, held: bool = False) -> list[Any]:
    return [*text.split(" "), by, held, offered]


DRIVER = [
    row("libnvidia-compute 580.82.07-1"),
    row("nvidia-kernel-open-dkms 580.82.07-1"),
    row("nvidia-fabricmanager 580.82.07-1"),
]


NAMES = ["libnvidia-compute", "nvidia-fabricmanager", "nvidia-kernel-open-dkms"]


RPMS = [
    row("nvidia-driver-cuda-libs 3:580.82.07-1.el9"),
    row("kmod-nvidia-open-dkms 3:580.82.07-1.el9"),
]


def facts(
    like: list[list[Any]],
    files: dict[str, Any] | None = None,
    policy: Policy = HOLD,
    database: str = "dpkg",
    system: str = "debian",
    now: float = NOW,
    originals: dict[str, Any] | None = None,
    **more: list[Any],
) -> hold_facts.HoldingFacts:
    asked = driver_packages.get_package_question(policy)
    given = {
        asked["id"]: {"manager": database, "installed": {}, "like": like, **more},
        "package:of this test": {"manager": database, "installed": {}, "candidates": {}},
    }
    seen = obs(
        files=files or {},
        answers=given,
        originals=originals,
        host={"epoch": now, "os_release": {"ID": system}, "kernel": ""},
    )
    return hold_facts.read_holding_facts(policy, seen)


def record(names: list[str], since: str = "2026-11-01", **more: Any) -> str:
    values = {
        "writer": "gpufleet.nvidia",
        "schema": 1,
        "manager": "apt",
        "reason": HOLD.driver_hold_reason,
        "release": "580.82.07",
        "since": since,
        "packages": names,
        **more,
    }
    return json.dumps(values, indent=1, sort_keys=True) + "\n"


def files_of(plan: Plan) -> dict[str, str]:
    return {change["path"]: change.get("content", change["op"]) for change in plan.changes}


LOCKS4, LOCKS5, LOCKSZ = package_locks.LOCKS


DNF4 = {package_locks.VERSIONLOCK: "[main]\nenabled = 1\n"}


def shown(number: int, text: str) -> dict[str, Any]:
    """Return a file of locks as it arrives."""
    keep = package_locks.LOCK_KEEPS[number]
    told = contents.show_content(text.encode(), keep, package_locks.LOCKS[number])
    return {key: told[key] for key in ("content", "fault")}


ELSEWHERE = {package_locks.VERSIONLOCK: "[main]\nlocklist = /srv/locks\n"}
