# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Converge the CDI spec of a host, and nothing else, and report whether the specs on it are still true."""

from __future__ import annotations

import functools
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.gpufleet.nvidia.plugins.action import arguments, base, transport
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner import originals
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.adoption import cdi_refresh, other_writers
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cdi import files, resource, staleness
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.driver import gpus
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.model import Plan, Policy, merge
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.observation import Observation

SPEC = arguments.spec("cdi_spec")


def questions(policy: Policy) -> list[dict[str, Any]]:
    return [*gpus.questions(policy), *other_writers.questions(policy), *resource.questions(policy)]


def planner(policy: Policy, obs: Observation, cap: str) -> base.Outcome:
    shared = files.shared_kind(policy)
    if policy.state == "absent":
        paths = (*resource.own_paths(policy), *resource.taken_over(policy, obs))
        return base.Outcome(originals.taken_back(obs, paths, lambda: absent(policy, obs)), facts(resource.NOTHING_MADE))
    # A kind that nvidia-cdi-refresh does not write has no other owner, and its units may go on.
    owner = cdi_refresh.cdi_owner(policy, obs, cap)[0] if shared else "collection"
    record, driver = resource.record_of_options(owner, cap), gpus.parse(policy, obs)
    plan, made = resource.outcome(policy, obs, record, driver, transport.probe_source("nvml"))
    watch = resource.watched(policy, obs, record, (plan, made), transport.resident_sources()["cdi_guard"])
    verdicts = staleness.plain(resource.verdicts(policy, obs, record, driver))
    others = [other_writers.plan(policy, obs, record)] if shared else []
    return base.Outcome(merge([plan, watch, *others]), {**facts(made), "freshness": verdicts})


def absent(policy: Policy, obs: Observation) -> Plan:
    return merge([resource.plan_absent(policy, obs), *([cdi_refresh.plan_absent(policy, obs)] if files.shared_kind(policy) else [])])


def facts(made: resource.Made) -> dict[str, Any]:
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
        cap = arguments.of_task(self, SPEC)["cdi_version"]
        plan = functools.partial(planner, cap=cap)
        return base.run(self, task_vars, module="cdi_spec", spec=SPEC, questions=questions, planner=plan, single=True)
