# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Look at a host and report what would be decided and changed."""

from __future__ import annotations

import dataclasses as dc
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.gpufleet.nvidia.plugins.action import arguments, base, transport
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner import node, queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.adoption import gpu_operator
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import work
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.model import JOURNAL_DIR, Plan, Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.observation import Observation
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.report import journal
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.resources import repository
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.sharing import gpu_users

SPEC = arguments.spec("node_info")


def planner(policy: Policy, obs: Observation) -> base.Outcome:
    """Look at a host and plan.

    If its plan is refused, the host is still looked at: the refusal is part of the result.
    """
    seen = node.see(policy, obs)
    try:
        plan, problem = node.plan(policy, obs, seen, transport.probe_source("nvml"), transport.resident_sources()), ""
        known = node.known(policy, obs, seen, plan)
    except PlanError as error:
        plan, problem = without_source(policy, obs, seen) if isinstance(error, repository.NoSource) else Plan(), str(error)
        known = node.known(policy, obs, seen, None, error)
    kept = journal.journal(obs)
    entries = list(kept.get("journal") or ())
    shown = {"journal": entries, "history": [journal.history(entry) for entry in entries]}
    runs = work.as_result(policy, obs, plan.whole, kubelet=seen.kubelet.present)
    sharing = gpu_users.as_result(policy, obs, seen.driver)
    toolkit = gpu_operator.as_result(policy, obs, seen.instances)
    more = {**shown, "work": runs, "problem": problem, "known_bad": known, "sharing": sharing, "operator_toolkit": toolkit}
    return base.Outcome(plan, {**node.info(policy, obs, seen, plan), **more})


def without_source(policy: Policy, obs: Observation, seen: node.Seen) -> Plan:
    """Return what else would change on a host whose packages are out of reach, so that a first look shows it."""
    offline = dc.replace(policy, toolkit_repository="", bundle_file="")
    try:
        return node.plan(offline, obs, seen, transport.probe_source("nvml"), transport.resident_sources())
    except PlanError:
        return Plan()


def questions(policy: Policy) -> list[queries.Question]:
    """List the questions for the plan and for a drain, and for the journal as people read it."""
    return [*node.questions(policy), *work.questions(policy), *gpu_users.questions(policy), queries.originals(JOURNAL_DIR, listing=True)]


class ActionModule(ActionBase):
    leaves_nothing = True  # not even the compiled form of the programs that look
    _supports_check_mode = True
    _supports_async = False

    @base.shown
    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        return base.run_info(self, task_vars, spec=SPEC, questions=questions, planner=planner)
