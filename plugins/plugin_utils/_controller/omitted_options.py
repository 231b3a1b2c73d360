# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fail a task that leaves an option out because its variable has an undefined value.

`gpufleet_root | default(omit)` leaves the option out then, and the task would continue with the
module's default.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    arguments,
    fact_variables,
    guard,
    unreadable_variables,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet.variables import (
    find_variable,
)

# Variables that roles and playbooks read with a default beside the task's options.
BESIDE_OPTIONS = {
    "drain": ("gpufleet_drain_delegate",),
    "hand_over": ("gpufleet_kubernetes_delegate",),
    "host_verify": ("gpufleet_root",),
    "kubernetes_objects": ("gpufleet_kubernetes_delegate",),
    "rollout_cluster": ("gpufleet_kubernetes_delegate",),
}


def guard_action(run: guard.Run) -> guard.Run:
    """Wrap the `run()` of an action: it begins only if its variables can be read, and only a result
    leaves it.
    """
    return guard.guard_run(read_variables_first(run))


def read_variables_first(run: guard.Run) -> guard.Run:
    """Wrap the `run()` of an action: it begins only if no fact sets its options, and none was left
    out for an undefined value.
    """

    @functools.wraps(run)
    def begun(*args: Any, **kwargs: Any) -> dict[str, Any]:
        variables = kwargs.get("task_vars") or (args[2] if len(args) > 2 else None)
        if args and variables:
            fact_variables.require_no_fact_variables(args[0], variables)
            require_readable_options(args[0], variables)
        return run(*args, **kwargs)

    return begun


def require_readable_options(action: Any, written: Mapping[str, Any]) -> None:
    """Raise PlanError if the variable of an option that is left out is set, and cannot be read.

    Only tasks of this collection are judged, since they set each option by a variable.
    """
    templates = [
        name
        for name in list_omitted_variables(action)
        if name in written and not arguments.is_constant(written[name])
    ]
    if not templates or not arguments.is_own_task(action._task):
        return
    rendered = unreadable_variables.Rendered(written, action._templar.template)
    said = next(
        filter(
            None,
            (
                unreadable_variables.explain_unreadable_value(name, rendered, written)
                for name in templates
            ),
        ),
        None,
    )
    if said:
        raise PlanError(said)


def list_omitted_variables(action: Any) -> Iterator[str]:
    """Yield the variables of the options that a task doesn't have, although its module knows them."""
    own, spec = arguments.find_spec(action)
    given = action._task.args
    for option in () if are_options_in_variables(action) else spec:
        if option not in given:
            yield find_variable(own, option)
    yield from BESIDE_OPTIONS.get(own, ())


def are_options_in_variables(action: Any) -> bool:
    """Tell whether a task names no option, and its action reads the variables of all of them."""
    own = arguments.find_action_name(action)
    return own in arguments.BY_VARIABLES and arguments.is_role_task(action._task)
