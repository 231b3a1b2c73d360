# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the errors that the driver has written to a host's kernel log."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    arguments,
    base,
    host_look,
    messages,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.health import (
    kernel_log,
    nvml_state,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.health import (
    messages as health_messages,
)

SPEC = arguments.derive_argument_spec("gpu_health_info")
LIMIT_SECONDS = 60


class ActionModule(ActionBase):
    leaves_nothing = True  # not even the compiled form of the programs that look
    _supports_check_mode = True
    _supports_async = False

    @base.guard_action
    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        args = arguments.read_task_options(self, SPEC)
        if args["root"] != "/":  # nothing runs there
            unknown = kernel_log.describe_unknown_log(health_messages.LOG_OF_TREE.fill())
            nothing = nvml_state.describe_unknown_state(health_messages.LOG_OF_TREE.fill(), [])
            state = {"nvml": nothing} if args["nvml"] else {}
            return {"changed": False, "kernel_log": unknown, **state}
        path = args.get("kernel_log") or kernel_log.KERNEL_LOG
        policy = arguments.build_policy(args)
        asked = [nvml_state.ask_for_state(policy, nvml_state.SAMPLES)] if args["nvml"] else []
        obs = host_look.ask_as_root(
            self,
            task_vars or {},
            [kernel_log.log_question(path), *asked],
            args["transport"],
            limit=LIMIT_SECONDS,
            refusal=messages.NOT_ROOT_FOR_LOG.fill(),
        )
        told = {"changed": False, "kernel_log": kernel_log.read_kernel_log(obs, path)}
        return {**told, "nvml": nvml_state.read_state(policy, obs)} if asked else told
