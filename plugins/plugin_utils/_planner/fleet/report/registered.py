# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Name the variables in which the roles leave results, and refuse any other name."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.results import messages

# The roles register these. A host that failed before the task, or was not reached, has none of
# them.
STEPS = (
    "gpufleet_host_result",
    "gpufleet_repository_result",
    "gpufleet_toolkit_result",
    "gpufleet_verify_result",
    "gpufleet_cdi_result",
)
LOOK = "gpufleet_host_info"
RESULTS = (LOOK, *STEPS)
CONVERGED = "gpufleet_host_result"
# Variables of a rollout: the failure that stopped a host in its batch, and how far the rollout had
# come then.
FAILURE = "gpufleet_rollout_failure"
DRAIN_CHECK, DRAINED, UNDRAINED = (
    "gpufleet_drain_check",
    "gpufleet_drain_result",
    "gpufleet_undrain_result",
)
ROLLOUT_SETTINGS, ROLLOUT_PLAN, ROLLOUT_STEP = (
    "gpufleet_rollout_settings",
    "gpufleet_rollout_plan",
    "gpufleet_rollout_step",
)
HEALTH_BEFORE, HEALTH, DIAGNOSIS = (
    "gpufleet_rollout_health_before",
    "gpufleet_rollout_health",
    "gpufleet_rollout_diagnosis",
)
DRIVER_KEPT, DRIVER_JUDGED, DRIVER_SETTLED = (
    "gpufleet_rollout_driver_kept",
    "gpufleet_rollout_driver_judged",
    "gpufleet_rollout_driver_settled",
)
SOAK_COMMAND = "gpufleet_rollout_soak_result"


def read_kept_failure(variables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the failure that ended a host's steps, as the step keep_failure has kept it; {} if
    there is none.
    """
    return dict((variables.get(FAILURE) or {}).get("kept") or {})


def require_known_variable(name: str, defined: Sequence[str]) -> None:
    """Raise PlanError if no host has a result under this name, unless it is one of the roles' own
    names.
    """
    if name in RESULTS or name in defined:
        return
    known = [n for n in RESULTS if n in defined] or list(RESULTS)
    near = difflib.get_close_matches(name, [*known, *defined], n=1, cutoff=0.6)
    if near:
        raise PlanError(messages.UNKNOWN_RESULT_NEAR.fill(name=name, near=near[0]))
    raise PlanError(messages.UNKNOWN_RESULT.fill(name=name, known=", ".join(known)))
