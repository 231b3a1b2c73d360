# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Converge the CDI spec of a host, and nothing else, and report whether the specs on it are still
true.
"""

from __future__ import annotations

import functools
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    arguments,
    base,
    transport,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Plan,
    Policy,
    merge_plans,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import (
    earlier_runs,
    originals,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.adoption import (
    cdi_refresh,
    other_writers,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi import (
    files,
    made_specs,
    resource,
    spec_facts,
    spec_verdicts,
    staleness,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import (
    driver_state,
    gpus,
)

SPEC = arguments.derive_argument_spec("cdi_spec")


def list_cdi_spec_questions(policy: Policy) -> list[dict[str, Any]]:
    """List what a host is asked before its CDI spec is planned."""
    return [
        *gpus.list_questions(policy),
        *other_writers.list_questions(policy),
        *resource.list_questions(policy),
    ]


def plan_cdi_spec(policy: Policy, obs: Observation, cap: str) -> base.Outcome:
    """Plan the CDI specs of a host, or their removal.

    cap: the newest version of CDI that the spec may have; '' for what the engines read.
    """
    shared = files.has_refresh_kind(policy)
    if policy.state == "absent":
        paths = (
            *resource.own_paths(policy),
            *resource.list_taken_over_specs(policy, files.read_spec_file_facts(obs)),
        )
        return base.Outcome(
            originals.complete_resource_removal(
                earlier_runs.read_earlier_runs(obs),
                paths,
                lambda: plan_cdi_spec_removal(policy, obs),
            ),
            report_made_specs(made_specs.NOTHING_MADE),
        )
    # A kind that nvidia-cdi-refresh does not write has no other owner, and its units may go on.
    owner = (
        cdi_refresh.choose_cdi_owner(policy, cdi_refresh.read_refresh_facts(obs), cap)[0]
        if shared
        else "collection"
    )
    record, driver = resource.record_of_options(owner, cap), driver_state.read_driver(policy, obs)
    facts = spec_facts.read_spec_facts(policy, obs, record, driver, transport.probe_source("nvml"))
    plan, made = resource.plan_specs_and_outcome(policy, facts, record, driver)
    watch = resource.plan_spec_watch(
        policy, facts, record, (plan, made), transport.map_resident_sources()["cdi_guard"]
    )
    verdicts = staleness.convert_verdicts(spec_verdicts.judge_specs(policy, facts))
    others = (
        [other_writers.plan_other_writers(policy, other_writers.read_writer_facts(obs), record)]
        if shared
        else []
    )
    return base.Outcome(
        merge_plans([plan, watch, *others]), {**report_made_specs(made), "freshness": verdicts}
    )


def plan_cdi_spec_removal(policy: Policy, obs: Observation) -> Plan:
    """Plan the removal of our CDI specs, and of what we have changed of nvidia-cdi-refresh."""
    return merge_plans(
        [
            resource.plan_absent(policy, spec_facts.read_spec_removal_facts(obs)),
            *(
                [cdi_refresh.plan_absent(policy, cdi_refresh.read_refresh_facts(obs))]
                if files.has_refresh_kind(policy)
                else []
            ),
        ]
    )


def report_made_specs(made: made_specs.Made) -> dict[str, Any]:
    """Return what specs were made of, as the result has it."""
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

    @base.guard_action
    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        cap = arguments.read_task_options(self, SPEC)["cdi_version"]
        plan = functools.partial(plan_cdi_spec, cap=cap)
        return base.run(
            self,
            task_vars,
            module="cdi_spec",
            spec=SPEC,
            questions=list_cdi_spec_questions,
            planner=plan,
            single=True,
        )
