# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Look at a host and report what would be decided and changed."""

from __future__ import annotations

import dataclasses as dc
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    arguments,
    base,
    transport,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    JOURNAL_DIR,
    Plan,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import (
    host_plan,
    host_report,
    seen_host,
    work,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.adoption import (
    gpu_operator,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import (
    kept_driver,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.health import (
    kernel_log,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.platform import (
    host_platform,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import (
    repository,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.results import journal
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.sharing import gpu_users

SPEC = arguments.derive_argument_spec("host_info")


def plan_host_info(
    policy: Policy, obs: Observation, refusal: PlanError | None = None
) -> base.Outcome:
    """Look at a host and plan.

    If its plan is refused, the host is still looked at: the refusal is part of the result.
    refusal: that of the host, which has judged the files of the plan.
    """
    host = seen_host.see(policy, obs)
    facts = seen_host.read_host_facts(policy, obs, host, transport.probe_source("nvml"))
    try:
        plan, problem = host_plan.plan_host(policy, facts, transport.map_resident_sources()), ""
        if refusal:
            raise refusal
        known = host_plan.report_known_bad(policy, facts, plan)
    except PlanError as error:
        plan, problem = (
            plan_without_source(policy, obs, host)
            if isinstance(error, repository.NoSource)
            else Plan(),
            str(error),
        )
        known = host_plan.report_known_bad(policy, facts, None, error)
    kept = facts.earlier.journal_if_asked
    entries = list(kept.get("journal") or ())
    shown = {
        "journal": entries,
        "history": [journal.describe_journal_entry(entry) for entry in entries],
    }
    runs = work.report_work(
        policy, work.read_work_facts(obs), plan.whole, kubelet=host.kubelet.present
    )
    sharing = gpu_users.report_gpu_users(policy, facts.sharing, host.driver)
    toolkit = gpu_operator.report_operator(policy, facts.foreign.operator, host.instances)
    more = {
        **shown,
        "work": runs,
        "problem": problem,
        "known_bad": known,
        "sharing": sharing,
        "operator_toolkit": toolkit,
    }
    unjudged = kept_driver.advise_on_change(facts.driver_change.value)
    plan = dc.replace(plan, advice=(*plan.advice, *unjudged)) if unjudged else plan
    return base.Outcome(plan, {**host_report.report_host(policy, facts, plan), **more})


def plan_without_source(policy: Policy, obs: Observation, seen: seen_host.SeenHost) -> Plan:
    """Return what else would change on a host whose packages are out of reach, so that a first look
    shows it.
    """
    offline = dc.replace(policy, toolkit_repository="", bundle_file="")
    try:
        facts = seen_host.read_host_facts(offline, obs, seen, transport.probe_source("nvml"))
        return host_plan.plan_host(offline, facts, transport.map_resident_sources())
    except PlanError:
        return Plan()


def list_host_info_questions(policy: Policy) -> list[queries.Question]:
    """List the questions for the plan and for a drain, and for the journal as people read it."""
    return [
        *seen_host.list_host_questions(policy),
        *work.list_work_questions(policy),
        *gpu_users.list_gpu_user_questions(policy),
        queries.ask_for_originals(JOURNAL_DIR, listing=True),
        *([ask_for_kernel_log()] if policy.root == "/" else []),
        *host_platform.list_questions(policy),
    ]


def ask_for_kernel_log() -> queries.Question:
    """Ask for the lines about GPUs in the kernel log, which a tree does not have."""
    path = arguments.get_imitated_places().get("kernel_log") or kernel_log.KERNEL_LOG
    return kernel_log.log_question(path)


class ActionModule(ActionBase):
    leaves_nothing = True  # not even the compiled form of the programs that look
    _supports_check_mode = True
    _supports_async = False

    @base.guard_action
    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        return base.run_info(
            self,
            task_vars,
            spec=SPEC,
            questions=list_host_info_questions,
            planner=plan_host_info,
            refuse=plan_host_info,
        )
