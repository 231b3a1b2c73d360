# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NVIDIA's own runtime configuration, and nothing else."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.gpufleet.nvidia.plugins.action import base
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils import host, originals, toolkit
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils.model import Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils.observation import Observation

SPEC = base.argument_spec("toolkit_config")


class ActionModule(ActionBase):
    _supports_check_mode = True
    _supports_async = False

    @base.shown
    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        args = base.arguments(self, SPEC)

        def planner(policy: Policy, obs: Observation) -> base.Outcome:
            if policy.state == "absent":
                return base.Outcome(originals.taken_back(obs, (toolkit.PATH,), lambda: toolkit.plan_absent(policy, obs)))
            runtimes = tuple(args["low_level_runtimes"]) or host.low_level_runtimes(policy, obs)
            keys = toolkit.wanted(args["mode"], args["isolation"], tuple(args["annotation_prefixes"]), runtimes, ())
            return base.Outcome(toolkit.plan_keys(obs, toolkit.PATH, keys))

        wanted = base.policy(args, single=True)
        way = str(args["transport"])

        def questions(policy: Policy) -> list[dict[str, Any]]:
            return [*toolkit.questions(policy), *host.low_level_questions(), *host.originals()]

        return base.converge(self, task_vars or {}, wanted, questions, planner, reason="gpufleet.nvidia.toolkit_config", way=way)
