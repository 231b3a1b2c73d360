# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Converge the toolkit's packages, and add their repository if none of the host's has them.

No engine is looked at.
"""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import arguments, base
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import installation

SPEC = arguments.derive_argument_spec("toolkit_packages")


def plan_toolkit_packages(policy: Policy, obs: Observation) -> base.Outcome:
    """Plan the toolkit's base package."""
    return base.Outcome(
        installation.plan_base_package(policy, installation.read_installation_facts(policy, obs))
    )


class ActionModule(ActionBase):
    _supports_check_mode = True
    _supports_async = False

    @base.guard_action
    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        return base.run(
            self,
            task_vars,
            module="toolkit_packages",
            spec=SPEC,
            questions=installation.list_installation_questions,
            planner=plan_toolkit_packages,
            single=True,
        )
