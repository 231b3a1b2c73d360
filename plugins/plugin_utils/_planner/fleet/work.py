# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What runs on a host, as far as a drain needs to know: who gives it work, and which work a change would end."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.model import Plan, Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.observation import Observation

SLURM_UNIT = "slurmd.service"


def questions(policy: Policy) -> list[queries.Question]:
    """Nothing runs in a directory tree."""
    return [queries.units([SLURM_UNIT])] if policy.root == "/" else []


def told(policy: Policy, obs: Observation, plan: Plan, *, kubelet: bool) -> dict[str, Any]:
    here = policy.root == "/"
    slurm = here and obs.unit(SLURM_UNIT).get("ActiveState") in ("active", "activating", "reloading")
    return {
        "hostname": str(obs.host.get("hostname") or "") if here else "",
        "boot_id": str(obs.host.get("boot_id") or "") if here else "",
        "orchestrators": [name for name, runs in (("slurm", slurm), ("kubernetes", here and kubelet)) if runs],
        "ends": list(plan.ends),
        "gpu_processes": [],
    }
