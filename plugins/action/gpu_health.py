# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Look at a host for signs of its GPUs' health.

These are the driver's errors in the kernel log and, if asked for, NVIDIA's short diagnosis.
"""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    arguments,
    base,
    host_look,
    messages,
    transport,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import gpu_health

SPEC = arguments.derive_argument_spec("gpu_health")
OF_TREE = {"known": False, "why": "a directory tree has no kernel log", "errors": []}


class ActionModule(ActionBase):
    leaves_nothing = True
    _supports_check_mode = True
    _supports_async = False

    @base.shown
    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        args = arguments.read_task_options(self, SPEC)
        if args["root"] != "/":  # nothing runs there
            return {"changed": False, "kernel_log": OF_TREE, "diagnosis": {}}
        path = args.get("kernel_log") or gpu_health.KERNEL_LOG
        asked = [
            gpu_health.log_question(path),
            *([gpu_health.ask_for_diagnosis()] if args["diagnosis"] else []),
        ]
        seen = look_at_gpu_health(self, asked, task_vars or {}, args["transport"])
        found = gpu_health.read_diagnosis(seen) if args["diagnosis"] else {}
        answer = {
            "changed": False,
            "kernel_log": gpu_health.read_xid_errors(seen, path),
            "diagnosis": found,
        }
        if found.get("failed"):
            command, tests = " ".join(gpu_health.DIAGNOSIS), ", ".join(found["failed"])
            error = PlanError(messages.DIAGNOSIS_FAILED.fill(command=command, tests=tests))
            return {
                **answer,
                **arguments.build_option_failure(error),
                "failed": True,
                "msg": str(error),
            }
        return answer


def look_at_gpu_health(
    action: ActionBase, asked: list[queries.Question], task_vars: dict[str, Any], way: str
) -> Observation:
    """Look at the host by one operation.

    Its limit is longer, since a diagnosis may take longer than any other look.
    """
    request = {
        "schema": host_look.SCHEMA,
        "root": "/",
        "limits": {"seconds": gpu_health.DIAGNOSIS_SECONDS + 60},
    }
    sent = [host_look.add_probe_source(q) for q in asked]
    request.update(queries.pack_questions(sent))
    answer = transport.name_answers(
        transport.run_host_program(action, "observe", request, task_vars, way), sent
    )
    if answer["host"]["uid"] != 0:
        raise PlanError(messages.NOT_ROOT_FOR_LOG.fill())
    return Observation({}, {}).add_answers(answer)
