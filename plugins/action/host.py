# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Converge a whole host: the decision, then the sum of the resources as one transaction."""

from __future__ import annotations

import functools
import time
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    arguments,
    base,
    transport,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import approved
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet.report import (
    registered,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import (
    host_plan,
    host_report,
    seen_host,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.health import (
    host_health,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import metrics
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.verification import (
    handed_on,
)

SPEC = arguments.derive_argument_spec("host")
# Build the parts that are the same for all hosts once for a run, before Ansible makes a process for
# each host's task: the lists of what may leave a host, their search trees, and the programs that a
# plan may bring.
seen_host.list_host_questions(Policy())
transport.probe_source("nvml")
transport.map_resident_sources()


def plan_host_module(policy: Policy, obs: Observation, done: bool = True) -> base.Outcome:
    """Plan a whole host, and return the plan with the facts for its result.

    done: whether the result tells what was done, and not only what is planned.
    """
    host = seen_host.see(policy, obs)
    facts = seen_host.read_host_facts(policy, obs, host, transport.probe_source("nvml"))
    plan = host_plan.plan_host(policy, facts, transport.map_resident_sources())
    shown = {
        **host_report.report_host_facts(host, plan, policy.state, done=done),
        **host_report.report_compared_values(facts),
        "known_bad": host_plan.report_known_bad(policy, facts, plan),
    }
    after = metrics.plan_metrics_after_rollback(policy, facts.metrics)
    return base.Outcome(
        plan,
        {
            **shown,
            "verification": None
            if plan.acts
            else plan_verification_offer(policy, obs, host, facts),
        },
        after,
    )


def plan_verification_offer(
    policy: Policy, obs: Observation, seen: seen_host.SeenHost, facts: seen_host.HostFacts
) -> dict[str, Any] | None:
    """Return the verification for the module host_verify; None if there is none to offer.

    Without it, host_verify looks again.
    """
    evidence_file = arguments.get_imitated_places().get("evidence_file", "")
    host = (seen.record, seen.instances, seen.driver)
    return handed_on.offer_verification(
        policy,
        lambda: handed_on.plan_verification(
            policy,
            handed_on.read_verification_facts(policy, obs),
            *host,
            evidence_file=evidence_file,
            health=host_health.report_health(policy, facts.health, seen.driver),
        ),
    )


class ActionModule(ActionBase):
    _supports_check_mode = True
    _supports_async = False

    @base.guard_action
    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        began = time.monotonic()
        variables = task_vars or {}
        of_run = functools.partial(plan_host_module, done=not self._task.check_mode)
        result = base.run(
            self,
            task_vars,
            module="host",
            spec=SPEC,
            questions=seen_host.list_host_questions,
            planner=of_run,
            single=False,
            parse_approval=functools.partial(
                approved.parse_approval_in_rollout,
                variables.get(registered.ROLLOUT_PLAN) or {},
                str(variables.get("inventory_hostname")),
            ),
        )
        in_rollout = registered.ROLLOUT_STEP in variables
        return (
            {**result, "seconds": round(time.monotonic() - began, 1)}
            if in_rollout and not self._task.check_mode
            else result
        )
