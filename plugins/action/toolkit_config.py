# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Converge NVIDIA's own runtime configuration, and nothing else."""

from __future__ import annotations

import dataclasses as dc
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.gpufleet.nvidia.plugins.action import arguments, base
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner import node, originals, owned_file
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.model import Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.observation import Observation
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.resources import toolkit_config

SPEC = arguments.spec("toolkit_config")


class ActionModule(ActionBase):
    _supports_check_mode = True
    _supports_async = False

    @base.shown
    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        args = arguments.of_task(self, SPEC)

        def planner(policy: Policy, obs: Observation) -> base.Outcome:
            if policy.state == "absent":
                return base.Outcome(originals.taken_back(obs, (toolkit_config.PATH,), lambda: toolkit_config.plan_absent(policy, obs)))
            runtimes = tuple(args["low_level_runtimes"]) or node.low_level_runtimes(policy, obs)
            keys = toolkit_config.wanted(args["mode"], args["isolation"], tuple(args["annotation_prefixes"]), runtimes, ())
            plan = toolkit_config.plan_keys(obs, toolkit_config.PATH, keys)
            return base.Outcome(dc.replace(plan, advice=toolkit_config.advice(policy, obs, (args["mode"],))))

        wanted = arguments.policy(args, single=True)
        way = str(args["transport"])

        def questions(policy: Policy) -> list[dict[str, Any]]:
            return [*toolkit_config.questions(policy, str(args["mode"])), *node.low_level_questions(), owned_file.ORIGINALS]

        return base.converge(self, task_vars or {}, wanted, questions, planner, reason="gpufleet.nvidia.toolkit_config", way=way)
