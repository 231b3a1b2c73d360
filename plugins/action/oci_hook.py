# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Converge the OCI prestart hook file, and nothing else."""

from __future__ import annotations

import functools
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import arguments, base
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import (
    earlier_runs,
    originals,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import (
    oci_hook,
)

SPEC = arguments.derive_argument_spec("oci_hook")


def list_hook_module_questions(policy: Policy, path: str) -> list[dict[str, Any]]:
    """List what a host is asked before its OCI hook is planned."""
    return [
        *oci_hook.list_questions(policy),
        queries.ask_for_file(path, oci_hook.KEEP),
        earlier_runs.ORIGINALS,
    ]


def plan_for(policy: Policy, obs: Observation, path: str) -> base.Outcome:
    """Plan the file of the OCI hook at this path, present or absent."""
    facts = oci_hook.read_hook_facts(policy, obs, None)
    if policy.state == "present":
        return base.Outcome(oci_hook.plan_file(policy, facts, path, wanted=True))
    return base.Outcome(
        originals.complete_resource_removal(
            facts.earlier,
            (path,),
            lambda: oci_hook.plan_hook_file_restore(facts, path),
        )
    )


class ActionModule(ActionBase):
    _supports_check_mode = True
    _supports_async = False

    @base.guard_action
    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        args = arguments.read_task_options(self, SPEC)

        wanted = arguments.build_policy(args, single=True)
        way = str(args["transport"])
        questions = functools.partial(list_hook_module_questions, path=args["path"])
        planner = functools.partial(plan_for, path=args["path"])
        return base.converge_host(
            self,
            task_vars or {},
            wanted,
            questions,
            planner,
            reason="gpufleet.nvidia.oci_hook",
            way=way,
        )
