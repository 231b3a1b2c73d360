# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge the settings of a rollout before any host is looked at."""

from __future__ import annotations

import inspect
import os
import stat
import zoneinfo
from collections.abc import Iterable, Mapping
from typing import Any

from ansible.errors import AnsibleError
from ansible.module_utils.parsing.convert_bool import boolean
from ansible.playbook.block import Block
from ansible.playbook.task import Task
from ansible.plugins.action import ActionBase
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    arguments,
    named_paths,
    outside_messages,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    messages as controller_messages,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import (
    json_bounds,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
    read_error_message,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import (
    health,
    messages,
    plan_file,
    settings,
    sink,
    window,
)


def check_rollout_settings(action: ActionBase, task_vars: dict[str, Any]) -> dict[str, Any]:
    """Judge the settings of a rollout, and return them as the other steps take them."""
    # The rollout's playbook always gives this option. The playbook plan gives only the settings
    # that it needs.
    rollout = "max_failed" in action._task.args
    action._task.args = settings.list_given_options(action._task.args)
    require_switch("pause", action._task.args.get("pause", False))
    args = arguments.read_step_options(action, "rollout_settings")
    checked = settings.build_rollout_settings(args)
    require_zones(checked.windows)
    if args["approved"]:
        read_plan(args["approved"])
    if args["plan_file"]:
        named_paths.find_file_to_write(args["plan_file"], plan_file.FILE)
    tasks = list_task_files(settings.parse_task_files(args["tasks"]))
    for name, path in tasks.items():
        if path:
            require_tasks(action._loader, action._task.get_play(), path, name)
    soak = {
        "soak_command": list(checked.soak_command),
        "soak_argv": health.get_check_command(checked.soak_command),
        "soak_limit": sink.COMMAND_SECONDS + 60,
    }
    shaped = {"changed": False, "settings": {**args, "tasks": tasks, **soak}}
    return {
        **shaped,
        "warnings": settings.warn_of_unread_settings(read_run_settings(action, task_vars))
        if rollout
        else [],
    }


def read_run_settings(action: ActionBase, variables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of the run that a rollout does not read, rendered, as far as they are
    set.
    """
    return {
        name: action._templar.template(variables[name])
        for name in (*settings.UNREAD, f"{settings.PREFIX}waves")
        if name in variables
    }


def require_switch(name: str, value: Any) -> None:
    """Raise PlanError unless the value is a boolean.

    Ansible's own check would name the option instead of the variable.
    """
    try:
        boolean(value)
    except TypeError:
        variable = f"{settings.PREFIX}{name}"
        raise PlanError(messages.NO_SWITCH.fill(setting=variable, value=value)) from None


def list_task_files(tasks: Mapping[str, str]) -> dict[str, str]:
    """Return the files of tasks by their whole names; '' for a missing one.

    Raise PlanError if a named file does not exist.
    """
    files = {
        name: str(named_paths.expand_named_path(tasks[name]).absolute()) if tasks.get(name) else ""
        for name in settings.TASKS
    }
    for name, path in files.items():
        if path and not os.path.isfile(path):
            raise PlanError(controller_messages.TASKS_FILE_MISSING.fill(name=name), where=path)
    return files


# Ansible reads these only when it reaches them. Which file it reads may depend on variables at that
# time.
LATER = ("import_tasks", "include_tasks", "import_role", "include_role", "meta", "include")


def require_tasks(loader: Any, play: Any, path: str, name: str) -> None:
    """Raise PlanError for a file of tasks that Ansible would refuse.

    A refusal in a batch would end the run without a report, with hosts out of service.
    """
    trust = (
        {"trusted_as_template": True}
        if "trusted_as_template" in inspect.signature(loader.load_from_file).parameters
        else {}
    )
    try:
        data = loader.load_from_file(path, **trust)
        require_list(loader, Block(play=play), [] if data is None else data)
    except AnsibleError as error:
        said = read_error_message(error)
        cause = said if isinstance(said, Message) else said.splitlines()[0]
        message = controller_messages.NOT_TASKS.fill(name=name, cause=cause)
        raise PlanError(message, where=path) from None


def require_list(loader: Any, parent: Any, tasks: Any) -> None:
    """Raise AnsibleError unless this is a list of tasks that Ansible takes."""
    if not isinstance(tasks, list):
        raise AnsibleError(outside_messages.NO_LIST_OF_TASKS.fill())
    for task in tasks:
        if not isinstance(task, dict):
            raise AnsibleError(outside_messages.NOT_A_TASK.fill(task=str(task)))
        if "block" in task:
            for part in ("block", "rescue", "always"):
                require_list(loader, parent, task.get(part) or [])
        elif not any(str(key).rpartition(".")[2] in LATER for key in task):
            Task.load(dict(task), block=parent, loader=loader)


LARGEST = 256 << 20  # bytes; ten thousand hosts, each with other changes, take less


def read_plan(name: str) -> Mapping[str, Any]:
    """Read an approved plan. Raise PlanError for the first thing that is wrong with it."""
    try:
        data = json_bounds.load_bounded_json(read_approval(name), LARGEST)
    except (
        OSError,
        RuntimeError,
    ) as error:  # RuntimeError: lists in lists without an end
        cause = (error.strerror if isinstance(error, OSError) else str(error)) or ""
        message = controller_messages.PLAN_UNREADABLE.fill(cause=cause)
        raise PlanError(message, where=name) from None
    except ValueError as error:
        message = controller_messages.PLAN_NOT_JSON.fill(cause=str(error))
        raise PlanError(message, where=name) from None
    return plan_file.require_plan(data, name)


def read_approval(name: str) -> bytes:
    """Read the approved file, after judging it. A file that all users may write to proves nothing.

    The owner decides who shares the file with the owner or its group: the approval may belong to
    another account.
    """
    # a pipe would never end
    handle = os.open(
        named_paths.expand_named_path(name), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
    )
    with open(handle, "rb") as opened:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST:
            raise PlanError(controller_messages.PLAN_NOT_A_FILE.fill(), where=name)
        if status.st_mode & stat.S_IWOTH:
            mode = f"{stat.S_IMODE(status.st_mode):04o}"
            raise PlanError(controller_messages.PLAN_WRITABLE.fill(mode=mode), where=name)
        return opened.read()


def require_zones(windows: Iterable[window.Window]) -> None:
    """Raise PlanError for a time zone that the controller's own data does not contain."""
    for one in windows:
        try:
            zoneinfo.ZoneInfo(one.zone)
        except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
            given = {"window": one.text, "zone": one.zone, "example": window.EXAMPLE}
            raise PlanError(messages.NO_SUCH_ZONE.fill(**given)) from None
