# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Converge a whole host: the decision, then the sum of the resources as one transaction."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    arguments,
    base,
    role_variables,
    transport,
    unreadable_variables,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
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
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.platform import (
    host_platform,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import metrics
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.verification import (
    handed_on,
    verified_health,
)

VERIFY_IMAGE = "gpufleet_verify_image"
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
            "verification": None if plan.acts else plan_verification_offer(policy, obs, host),
        },
        after,
    )


def plan_verification_offer(
    policy: Policy, obs: Observation, seen: seen_host.SeenHost
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
            health=verified_health.report_verified_health(
                policy, verified_health.read_verified_health_facts(policy, obs), seen
            ),
        ),
    )


def build_host_questions(*, verified: bool) -> Callable[[Policy], list[queries.Question]]:
    """Build the function that lists the questions of a look.

    verified: containers are started on the host next, so that the kernel log and NVML are asked as
    well. An everyday look starts no program for them.
    """
    log_path = arguments.get_imitated_places().get("kernel_log", "")

    def list_questions(policy: Policy) -> list[queries.Question]:
        more = (
            verified_health.list_health_questions(policy, log_path)
            if verified
            else host_platform.list_questions(policy)
        )
        return [*seen_host.list_host_questions(policy), *more]

    return list_questions


def is_verified_next(action: ActionBase, task_vars: Mapping[str, Any]) -> bool:
    """Tell whether the role `verify` starts containers after this task of the role `host`.

    A variable that cannot be read is refused there.
    """
    if VERIFY_IMAGE not in task_vars or action._task.check_mode:
        return False
    if not arguments.is_role_task(action._task):
        return False
    rendered = unreadable_variables.Rendered(task_vars, action._templar.template)
    try:
        return any(role_variables.list_values(VERIFY_IMAGE, rendered, task_vars))
    except PlanError:
        return False


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
            questions=build_host_questions(verified=is_verified_next(self, variables)),
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
