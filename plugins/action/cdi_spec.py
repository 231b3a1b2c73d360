# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The CDI spec of a host, and nothing else."""

from __future__ import annotations

import functools
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.gpufleet.nvidia.plugins.action import base, transport
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils import gpu, owners
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils.cdi import freshness, spec
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils.model import Policy, merge
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils.observation import Observation

SPEC = base.argument_spec("cdi_spec")


def questions(policy: Policy) -> list[dict[str, Any]]:
    return [*gpu.questions(policy), *owners.questions(policy), *spec.questions(policy)]


def planner(policy: Policy, obs: Observation, cap: str) -> base.Outcome:
    if policy.state == "absent":
        return base.Outcome(merge([spec.plan_absent(policy, obs), owners.plan_absent(policy, obs)]))
    owner, _reason = owners.cdi_owner(policy, obs, cap)
    record, driver = spec.told(owner, cap), gpu.parse(policy, obs)
    plan = spec.plan(policy, obs, record, driver, transport.probe_source("nvml"))
    verdicts = freshness.plain(spec.verdicts(policy, obs, record, driver))
    return base.Outcome(merge([plan, owners.plan(policy, obs, record)]), {"freshness": verdicts})


class ActionModule(ActionBase):
    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        cap = base.arguments(self, SPEC)["cdi_version"]
        plan = functools.partial(planner, cap=cap)
        return base.run(self, task_vars, module="cdi_spec", spec=SPEC, questions=questions, planner=plan, single=True)
