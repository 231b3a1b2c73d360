# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Converge NVIDIA's own runtime configuration, and nothing else."""

from __future__ import annotations

import dataclasses as dc
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import arguments, base
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import (
    earlier_runs,
    originals,
    seen_host,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import (
    toolkit_config,
)

SPEC = arguments.derive_argument_spec("toolkit_config")


class ActionModule(ActionBase):
    _supports_check_mode = True
    _supports_async = False

    @base.guard_action
    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        args = arguments.read_task_options(self, SPEC)

        def planner(policy: Policy, obs: Observation) -> base.Outcome:
            facts = toolkit_config.read_toolkit_config_facts(policy, obs)
            if policy.state == "absent":
                return base.Outcome(
                    originals.complete_resource_removal(
                        facts.earlier,
                        (toolkit_config.PATH,),
                        lambda: toolkit_config.plan_absent(policy, facts),
                    )
                )
            runtimes = tuple(args["low_level_runtimes"]) or seen_host.list_host_low_level_runtimes(
                obs
            )
            keys = toolkit_config.build_wanted_toolkit_keys(
                args["mode"], args["isolation"], tuple(args["annotation_prefixes"]), runtimes, ()
            )
            plan = toolkit_config.plan_keys(facts, keys)
            return base.Outcome(
                dc.replace(
                    plan,
                    advice=toolkit_config.advise_on_toolkit_config(facts, (args["mode"],)),
                )
            )

        wanted = arguments.build_policy(args, single=True)
        way = str(args["transport"])

        def questions(policy: Policy) -> list[dict[str, Any]]:
            return [
                *toolkit_config.list_questions(policy, str(args["mode"])),
                *seen_host.list_low_level_questions(),
                earlier_runs.ORIGINALS,
            ]

        return base.converge_host(
            self,
            task_vars or {},
            wanted,
            questions,
            planner,
            reason="gpufleet.nvidia.toolkit_config",
            way=way,
        )
