# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fleet as one: a policy that wants one engine everywhere, and the budget of lost hosts that a rollout may have."""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import waves
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.model import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.report import names


@dc.dataclass(frozen=True)
class GateDecision:
    """Whether the next wave may start. `allowed` is the number of hosts that may be lost in all."""

    ok: bool
    allowed: int
    lost: int
    total: int

    @property
    def sentence(self) -> str:
        return f"{self.lost} of {self.total} hosts failed or were lost, but at most {self.allowed} may fail"


def gate(lost: int, total: int, max_failed: int | str) -> GateDecision:
    """Counted over all waves so far. A percentage is rounded down: 10% of 15 hosts is one host."""
    allowed = waves.amount("max_failed", max_failed).of(total)
    return GateDecision(lost <= allowed, allowed, lost, total)


def engines_by_host(results: Mapping[str, Mapping[str, Any]]) -> dict[str, list[str]]:
    """Engine -> hosts on which it was decided for."""
    found: dict[str, list[str]] = {}
    for host, result in sorted(results.items()):
        decision = result.get("decision") or {}
        for engine in sorted({str(d.get("engine")) for d in decision.get("decisions") or decision.get("engines") or ()}):
            found.setdefault(engine, []).append(host)
    return found


def mixed(results: Mapping[str, Mapping[str, Any]]) -> str:
    """The sentence that names the hosts by engine, '' where all hosts have the same one."""
    found = engines_by_host(results)
    if len(found) < 2:
        return ""
    parts = [f"{engine} on {names.some(hosts)}" for engine, hosts in sorted(found.items())]
    return f"mixed container engines: {'; '.join(parts)}"


def require_policy(fleet_policy: str, results: Mapping[str, Mapping[str, Any]]) -> None:
    """`uniform` wants one engine in the whole play, as NVIDIA's GPU Operator does (gpu-operator#1285); `per_host` wants nothing."""
    sentence = mixed(results) if fleet_policy == "uniform" else ""
    if sentence:
        step = "Set gpufleet_fleet_policy to per_host, or take one engine's hosts out of the play"
        raise PlanError(sentence, why="gpufleet_fleet_policy is uniform: one engine for all hosts", next=step)
