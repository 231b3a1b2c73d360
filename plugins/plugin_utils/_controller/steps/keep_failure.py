# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep the message of a failed task for the variable that the task registers, and render nothing of
it.

Ansible has the failure in the variable `ansible_failed_result`. ansible-core before 2.19 doesn't
protect it if the task's action raised AnsibleActionFail (executor/task_executor.py returns the
error's own result), and a template that reads it renders what a host has said. An action gets the
variables as they are, and the result that it returns is protected.

It sets no fact: a fact cache would keep that for later runs, and with `inject_facts_as_vars: false`
no task would find it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import arguments

FAILED = "ansible_failed_result"


def keep_failure(action: ActionBase, task_vars: dict[str, Any]) -> dict[str, Any]:
    """Return the message of the failed task, and the failure as a failed task's result has it."""
    args = arguments.read_step_options(action, "keep_failure")
    failed = read_mapping(task_vars, FAILED)
    message = str(failed.get("msg") or args["otherwise"])
    earlier = read_mapping(task_vars, args["variable"]).get("msg") if args["joined_by"] else None
    whole = f"{earlier}{args['joined_by']}{message}" if earlier else message
    kept = {"failed": True, "timedout": dict(read_mapping(failed, "timedout")), "msg": whole}
    return {"changed": False, "msg": whole, "kept": kept}


def read_mapping(values: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return the mapping of that name, {} if there is none."""
    value = values.get(name)
    return value if isinstance(value, Mapping) else {}
