# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Results of a fleet as runs leave them, of every kind that a report tells apart."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.action import fleet_report
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet.page import html

CONFIG = "/etc/containerd/config.toml"
SPEC = "/var/run/cdi/nvidia.yaml"
WHY = "containerd 1.7.24 resolves CDI devices itself; its switch is off and is turned on"
DIFFERENCES = [
    {"what": "file", "path": CONFIG, "key": "plugins.cri.enable_cdi", "before": False, "after": True, "why": "the switch is off"},
    {"what": "package", "path": "nvidia-container-toolkit-base", "key": "version", "before": None, "after": "1.17.8-1",
     "why": "the NVIDIA runtime and its tools; CDI needs nothing else"},
]  # fmt: skip
ENTRY = {
    "id": "a", "time": "2026-01-31T16:58:44Z", "reason": "gpufleet.nvidia.host", "state": "committed", "files": [CONFIG], "removed": [],
    "ran": [], "units": ["containerd.service"],
}  # fmt: skip
UNDONE = {
    **ENTRY,
    "time": "2026-02-01T09:12:03Z",
    "state": "rolled_back",
    "by": "the timer",
    "why": "containerd.service does not serve",
}
HEALTH = {
    "kind": "cri",
    "socket": "/run/containerd/containerd.sock",
    "ok": False,
    "seconds": 90.2,
    "evidence": "connection refused",
}
LOG = {
    "kind": "log",
    "name": "containerd.service",
    "ok": False,
    "evidence": "journalctl --unit=containerd.service --since=@1",
    "failed": True,
}


def looked(
    engine: str = "containerd 1.7.24",
    driver: str = "550.163.01",
    toolkit: str = "1.17.8-1",
    **more: Any,
) -> dict[str, Any]:
    """Return the result of a host that is as desired."""
    row = {
        "engine": engine,
        "gpus": f"8 x H100 80GB HBM3, {driver}",
        "injection": "native-cdi",
        "why": WHY,
        "restarted": "-",
    }
    facts = {
        "row": row,
        "versions": {"driver": driver, "toolkit": toolkit},
        "journal": [ENTRY],
        "drift": [],
        "pending": [],
        "freshness": [],
    }
    return {"changed": False, "differences": [], "restarted": [], "advice": [], **facts, **more}


def changed(**more: Any) -> dict[str, Any]:
    return looked(
        **{"changed": True, "differences": DIFFERENCES, "restarted": ["containerd.service"], **more}
    )


def fleet() -> dict[str, dict[str, Any]]:
    """Return one host of each kind that a report tells apart."""
    reasons = [{"what": "nodes", "why": "records /dev/nvidia-uvm as 511:0, but it is 510:0 now"}]
    return {
        "as-desired": looked(),
        "changed": changed(),
        "would": looked(differences=DIFFERENCES, would_restart=["containerd.service"]),
        "rolled-back": looked(failed=True, rolled_back=True, msg="health: containerd does not serve", evidence={"health": [HEALTH, LOG]},
                              journal=[UNDONE, ENTRY]),
        "failed": looked(failed=True, msg="apt-get ended with 100",
                         evidence={"commands": [{"argv": ["apt-get", "install"], "rc": 100, "causes": []}]}),
        "refused": looked(problem="/etc/containerd/config.toml, line 3: this is no TOML"),
        "lost": {"unreachable": True, "msg": "Failed to connect to the host via ssh: connection timed out"},
        "not-reached": {},
        "left-out": {"standing": "left out", "msg": "its GPU driver was broken before the rollout began"},
        "pending": {"standing": "pending", "msg": "its batch did not start"},
        "drifted": looked(drift=[{"path": CONFIG, "state": "changed since"}], advice=["Somebody edits this file"]),
        "stale": looked(freshness=[{"path": SPEC, "state": "stale", "reasons": reasons}]),
        "restart": looked(pending=[{"unit": "crio.service", "since": "2026-01-31T16:58:44Z", "reason": "gpufleet.nvidia.host"}]),
        "undone": looked(journal=[UNDONE, ENTRY]),
        "other-engine": looked("CRI-O 1.34.2", "570.86.15", "1.18.0-1"),
    }  # fmt: skip


def many(number: int = 1000) -> dict[str, dict[str, Any]]:
    """Return a fleet as one is on a bad day: most hosts are as desired, some of each other kind."""
    kinds = fleet()
    rare = [
        name
        for name in kinds
        if name not in ("as-desired", "changed", "other-engine", "would", "pending", "not-reached")
    ]
    found: dict[str, dict[str, Any]] = {}
    for n in range(1, number + 1):
        kind = (
            rare[n // 61 % len(rare)]
            if n % 61 == 0
            else "other-engine"
            if n > 0.92 * number
            else "changed"
            if n <= 0.24 * number
            else "as-desired"
        )
        found[f"gpu{n:04d}"] = kinds[kind]
    return found


def build_page(report: dict[str, Any]) -> str:
    """Return the page of a report, as the action writes it."""
    return html.render_page(fleet_report.read_template(), report)
