# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the options that the roles of this collection leave to their variables.

Ansible compiles each template of a task in each process, also that of an unset variable.
The 45 templates of a role took a third of the time of a whole `ping`, so its task has none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible.errors import AnsibleError
from ansible.plugins.action import ActionBase
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    arguments,
    omitted_options,
    unreadable_variables,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet.variables import (
    find_variable,
)


def read_role_options(
    action: ActionBase, spec: Mapping[str, Any], task_vars: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the options that are set by variables, if the task leaves them to these.

    Raise PlanError for a variable that cannot be read.
    """
    if not omitted_options.are_options_in_variables(action):
        return {}
    own = arguments.find_action_name(action)
    rendered = unreadable_variables.Rendered(task_vars, action._templar.template)
    names = {option: find_variable(own, option) for option in spec}
    return {
        option: value
        for option, name in names.items()
        if name in task_vars
        for value in list_values(name, rendered, task_vars)
    }


def list_values(name: str, rendered: Mapping[str, Any], task_vars: Mapping[str, Any]) -> list[Any]:
    """Return the value of a variable as a list, which is empty if a user's template yields `omit`."""
    if arguments.is_constant(task_vars[name]):
        return [task_vars[name]]
    said = unreadable_variables.explain_unreadable_value(name, rendered, task_vars)
    if said:
        raise PlanError(said)
    try:
        value = rendered[name]
    except AnsibleError:  # the value is omitted: any other error has a message above
        return []
    # ansible-core before 2.19 renders `omit` as a text of its own.
    omitted = isinstance(value, str) and value == task_vars.get("omit")
    return [] if omitted else [value]
