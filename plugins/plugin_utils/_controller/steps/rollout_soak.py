# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the user's own check on a host by ansible.builtin.command.

If the host is lost during the check, no ansible-core renders the result.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import arguments

# The parts of a command's result. The host returns it, and could add facts, hosts of the inventory
# or statistics.
PARTS = (
    "changed",
    "cmd",
    "delta",
    "end",
    "exception",
    "failed",
    "msg",
    "rc",
    "skipped",
    "start",
    "stderr",
    "stdout",
    "unreachable",
)


def run_soak_command(action: ActionBase, task_vars: dict[str, Any]) -> dict[str, Any]:
    """Run the command on the host, and return the parts of ansible.builtin.command's result."""
    action._task.args = arguments.read_step_options(action, "rollout_soak")
    command = action._shared_loader_obj.action_loader.get(
        "ansible.legacy.command",
        task=action._task,
        connection=action._connection,
        play_context=action._play_context,
        loader=action._loader,
        templar=action._templar,
        shared_loader_obj=action._shared_loader_obj,
    )
    result: Mapping[str, Any] = command.run(task_vars=task_vars)
    return {name: result[name] for name in PARTS if name in result}
