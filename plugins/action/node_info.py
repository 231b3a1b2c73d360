# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Look at a host and say what would be decided and changed."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.gpufleet.nvidia.plugins.action import base, transport
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils import ask, host, past
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils.model import JOURNAL_DIR, Plan, PlanError, Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils.observation import Observation

SPEC = base.argument_spec("node_info")


def planner(policy: Policy, obs: Observation) -> base.Outcome:
    """A host whose plan is refused is still looked at: the refusal is part of what is told."""
    seen = host.see(policy, obs)
    try:
        plan, problem = host.plan(policy, obs, seen, transport.probe_source("nvml"), transport.resident_sources()), ""
    except PlanError as error:
        plan, problem = Plan(), str(error)
    kept = past.journal(obs)
    entries = list(kept.get("journal") or ())
    told = {"journal": entries, "history": [past.history(entry) for entry in entries], "pending": list(kept.get("pending") or ())}
    return base.Outcome(plan, {**host.info(seen, plan, policy.state), **told, "problem": problem})


def questions(policy: Policy) -> list[ask.Question]:
    """All that is needed for the plan, and the journal as people read it."""
    return [*host.questions(policy), ask.originals(JOURNAL_DIR, listing=True)]


class ActionModule(ActionBase):
    _supports_check_mode = True
    _supports_async = False

    @base.shown
    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        return base.run_info(self, task_vars, spec=SPEC, questions=questions, planner=planner)
