# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find and plan the one containerd of a host that was seen."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Decision,
    Instance,
    Plan,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    detect,
)


def find_containerd(seen: Observation, policy: Policy | None = None) -> Instance:
    wanted = policy or Policy()
    (containerd,) = detect.find_instances(wanted, detect.read_facts(wanted, seen))
    return containerd


def plan_containerd(seen: Observation, decision: Decision, **options: Any) -> Plan:
    """Plan it. options: of the policy."""
    policy = Policy(**options)
    return detect.plan_instance(
        policy, detect.read_facts(policy, seen), find_containerd(seen, policy), decision
    )
