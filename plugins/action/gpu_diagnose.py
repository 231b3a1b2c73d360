# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run NVIDIA's short diagnosis of a host's GPUs. Fail if one of its tests fails."""

from __future__ import annotations

import functools
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    arguments,
    base,
    host_look,
    messages,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.health import diagnosis

SPEC = arguments.derive_argument_spec("gpu_diagnose")


class ActionModule(ActionBase):
    leaves_nothing = True  # not even the compiled form of the programs that look
    _supports_check_mode = False  # it occupies the GPUs
    _supports_async = False

    @base.guard_action
    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        args = arguments.read_task_options(self, SPEC)
        if args["root"] != "/":  # nothing runs there
            return {"changed": False, "diagnosis": {}}
        ask = functools.partial(
            host_look.ask_as_root,
            self,
            task_vars or {},
            way=args["transport"],
            limit=diagnosis.DIAGNOSIS_SECONDS + 60,
            refusal=messages.NOT_ROOT_FOR_DIAGNOSIS.fill(),
        )
        before = ask(diagnosis.list_server_questions())
        unmade = diagnosis.explain_no_server(before)
        if unmade:
            return {"changed": False, "diagnosis": diagnosis.describe_unmade_diagnosis(unmade)}
        # the question about the server comes after the diagnosis, which took minutes
        obs = ask([diagnosis.ask_for_diagnosis(), *diagnosis.list_server_questions()])
        judged = diagnosis.read_diagnosis(obs, before)
        answer = {"changed": False, "diagnosis": judged}
        if not judged["failed"]:
            return answer
        command, tests = " ".join(diagnosis.DIAGNOSIS), ", ".join(judged["failed"])
        error = PlanError(messages.DIAGNOSIS_FAILED.fill(command=command, tests=tests))
        return {
            **answer,
            **arguments.build_option_failure(error),
            "failed": True,
            "msg": str(error),
        }
