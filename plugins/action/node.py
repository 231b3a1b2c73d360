# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Converge a whole host: the decision, then the sum of the resources as one transaction."""

from __future__ import annotations

import functools
import time
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.gpufleet.nvidia.plugins.action import arguments, base, transport
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner import node
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import approved
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.model import Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.observation import Observation
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.report import registered
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.resources import metrics
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.verify import handed_on

SPEC = arguments.spec("node")
# Build the parts that are the same for all hosts once for a run, before Ansible makes a process for each
# host's task: the lists of what may leave a host, their search trees, and the programs that a plan may bring.
node.questions(Policy())
transport.probe_source("nvml")
transport.resident_sources()


def planner(policy: Policy, obs: Observation, done: bool = True) -> base.Outcome:
    seen = node.see(policy, obs)
    plan = node.plan(policy, obs, seen, transport.probe_source("nvml"), transport.resident_sources())
    facts = {
        **node.facts(seen, plan, policy.state, done=done),
        **node.compared(seen, obs),
        "known_bad": node.known(policy, obs, seen, plan),
    }
    after = metrics.after_rollback(policy, obs)
    return base.Outcome(plan, {**facts, "proof": None if plan.acts else proof(policy, obs, seen)}, after)


def proof(policy: Policy, obs: Observation, seen: node.Seen) -> dict[str, Any] | None:
    """Return the proof for the module node_check; None if there is none to offer.

    Without it, node_check looks again.
    """
    evidence_file = arguments.imitated().get("evidence_file", "")
    host = (seen.record, seen.instances, seen.driver)
    return handed_on.offer(policy, lambda: handed_on.planned(policy, obs, *host, evidence_file=evidence_file))


class ActionModule(ActionBase):
    _supports_check_mode = True
    _supports_async = False

    @base.shown
    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        began = time.monotonic()
        variables = task_vars or {}
        of_rollout = variables.get(registered.ROLLOUT_PLAN) or {}
        approved.require_same(self._task.args.get(approved.OPTION), of_rollout, str(variables.get("inventory_hostname")))
        of_run = functools.partial(planner, done=not self._task.check_mode)
        result = base.run(self, task_vars, module="node", spec=SPEC, questions=node.questions, planner=of_run, single=False)
        in_rollout = registered.ROLLOUT_STEP in variables
        return {**result, "seconds": round(time.monotonic() - began, 1)} if in_rollout and not self._task.check_mode else result
