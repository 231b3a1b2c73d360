# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The CDI spec of a host, and nothing else; or what all the specs on it are worth."""

from __future__ import annotations

import functools
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.gpufleet.nvidia.plugins.action import base, transport
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils import gpu, originals, owners
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils.cdi import freshness, spec, validate
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils.model import Plan, Policy, merge
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils.observation import Observation

SPEC = base.argument_spec("cdi_spec")


def questions(policy: Policy) -> list[dict[str, Any]]:
    if policy.state == "validated":
        return validate.questions(policy)
    return [*gpu.questions(policy), *owners.questions(policy), *spec.questions(policy)]


def planner(policy: Policy, obs: Observation, cap: str) -> base.Outcome:
    if policy.state == "validated":
        return base.Outcome(Plan(), validate.report(policy, obs, cap).facts())
    shared = spec.shared_kind(policy)
    if policy.state == "absent":
        paths = (*spec.own_paths(policy), *spec.taken_over(policy, obs))
        return base.Outcome(originals.taken_back(obs, paths, lambda: absent(policy, obs)), facts(spec.NOTHING_MADE))
    # A kind that nvidia-cdi-refresh does not write has no other owner, and its units may go on.
    owner = owners.cdi_owner(policy, obs, cap)[0] if shared else "ours"
    record, driver = spec.told(owner, cap), gpu.parse(policy, obs)
    plan, made = spec.outcome(policy, obs, record, driver, transport.probe_source("nvml"))
    watch = spec.watched(policy, obs, record, (plan, made), transport.resident_sources()["truths"])
    verdicts = freshness.plain(spec.verdicts(policy, obs, record, driver))
    others = [owners.plan(policy, obs, record)] if shared else []
    return base.Outcome(merge([plan, watch, *others]), {**facts(made), "freshness": verdicts})


def absent(policy: Policy, obs: Observation) -> Plan:
    return merge([spec.plan_absent(policy, obs), *([owners.plan_absent(policy, obs)] if spec.shared_kind(policy) else [])])


def facts(made: spec.Made) -> dict[str, Any]:
    of = made.of
    return {
        "devices": list(made.devices),
        "profile": of.profile if of else "",
        "missing": [*made.missing, *(of.missing if of else ())],
        "left_out": list(of.left_out) if of else [],
        "source": made.source,
    }


class ActionModule(ActionBase):
    _supports_check_mode = True
    _supports_async = False

    @base.shown
    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        cap = base.arguments(self, SPEC)["cdi_version"]
        plan = functools.partial(planner, cap=cap)
        return base.run(self, task_vars, module="cdi_spec", spec=SPEC, questions=questions, planner=plan, single=True)
