# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ask and judge the health of GPUs before containers are started on them: by files, the units that
the machine needs, the kernel log, and NVML.
"""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import seen_host
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.health import (
    findings,
    host_health,
    kernel_log,
    messages,
    nvml_state,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.platform import (
    host_platform,
)


def list_health_questions(policy: Policy, log_path: str = "") -> list[queries.Question]:
    """List the questions about health that a verification asks besides those of a look.

    log_path: where the kernel log is, '' for its usual place.
    """
    return [
        kernel_log.log_question(log_path or kernel_log.KERNEL_LOG),
        nvml_state.ask_for_state(policy, 0),
        *host_platform.list_questions(policy),
    ]


@dc.dataclass(frozen=True)
class VerifiedHealthFacts:
    """A host's facts about the health of its GPUs, by all sources.

    state: what NVML says of them, as results have it.
    """

    files: host_health.HealthFacts
    platform: host_platform.PlatformFacts
    state: Mapping[str, Any]


def read_verified_health_facts(policy: Policy, obs: Observation) -> VerifiedHealthFacts:
    """Return the facts by which the health of the GPUs is judged before a verification."""
    return VerifiedHealthFacts(
        host_health.read_health_facts(policy, obs),
        host_platform.read_platform_facts(policy, obs),
        nvml_state.read_state(policy, obs),
    )


def report_verified_health(
    policy: Policy, facts: VerifiedHealthFacts, seen: seen_host.SeenHost
) -> dict[str, Any]:
    """Return the health of the GPUs, as results show it, by all sources."""
    platform = host_platform.judge_platform(facts.platform, seen.driver, seen.kubelet)
    unserved = host_platform.list_platform_findings(platform)
    told = host_health.report_health(policy, facts.files, seen.driver, unserved)
    fewer = nvml_state.judge_number(facts.state, len(seen.driver.gpus))
    known = {key: facts.state[key] for key in ("known", "why", "code")}
    every = [*told["findings"], *facts.state["findings"], *findings.convert_findings(fewer)]
    return {**told, "nvml": known, "findings": every}


def was_health_asked(health: Mapping[str, Any]) -> bool:
    """Tell whether a look asked all sources for this health of a result."""
    log = health.get("log")
    return isinstance(log, Mapping) and log.get("code") != messages.LOG_NOT_READ.code
