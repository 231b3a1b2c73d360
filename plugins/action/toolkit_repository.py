# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Converge the toolkit's package repository and its key."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    archives,
    arguments,
    base,
    run_messages,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Plan,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import (
    repository,
)

SPEC = arguments.derive_argument_spec("toolkit_repository")


class ActionModule(ActionBase):
    _supports_check_mode = True
    _supports_async = False

    @base.guard_action
    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        args = arguments.read_task_options(self, SPEC)
        archive = args.pop("bundle_file") or ""

        def plan(policy: Policy, obs: Observation) -> base.Outcome:
            if archive and policy.state == "present":
                archives.require_file(archive)
                note = run_messages.PACKAGES_FROM_ARCHIVE.fill(archive=archive)
                return base.Outcome(Plan(advice=(note,)))
            return base.Outcome(
                repository.plan_repository_files(
                    repository.read_repository_facts(obs),
                    url=args["url"],
                    key=args["key"],
                    expected=args["key_fingerprint"],
                    state=policy.state,
                )
            )

        return base.converge_host(
            self,
            task_vars or {},
            arguments.build_policy(args, single=True),
            lambda policy: (
                []
                if archive and policy.state == "present"
                else repository.list_repository_questions(url=args["url"] or "")
            ),
            plan,
            reason="gpufleet.nvidia.toolkit_repository",
            way=args["transport"],
        )
