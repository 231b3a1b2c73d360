# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the variable that cannot be read if no action has answered for a host.

Ansible fails such a host when it renders the options of a task, judges the arguments of a role, or
opens the connection. Its message seldom names the variable. So the variables of the host are read
here, each by itself.

A variable with an undefined value has another effect: `gpufleet_root | default(omit)` leaves the
option out, and the task would go on with the module's default. `read_variables_first` fails that
task.
"""

from __future__ import annotations

import functools
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from ansible.errors import AnsibleError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    arguments,
    fact_variables,
    guard,
    run_messages,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import outcomes
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.text import names
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet.variables import (
    find_variable,
)
from jinja2 import Environment, TemplateError, meta

# The variables that Ansible itself needs before any task of a host.
CONNECTION = re.compile(
    r"ansible_(host|port|user|password|connection|timeout|pipelining|python_interpreter|become|become_\w+|ssh_\w+|(ssh|sudo|become)_pass)"
)
SECONDS = 10  # for all hosts without an answer; a lookup may ask a server that doesn't answer
# The keys of a failed result that show that an action, or a limit of time, has failed the host.
ANSWERS = frozenset({"error", "evidence", "row", "timedout"})
# The error since ansible-core 2.19 for a user's own template that yields `omit`.
OMITTED = "AnsibleValueOmittedError"
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
    rendered = Rendered(written, action._templar.template)
    said = next(
        filter(None, (explain_unreadable_value(name, rendered, written) for name in templates)),
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
    own = type(action).__module__.rpartition(".")[2]
    return own in arguments.BY_VARIABLES and arguments.is_role_task(action._task)


class Rendered(Mapping[str, Any]):
    """Variables that are rendered when they are first read."""

    def __init__(self, written: Mapping[str, Any], render: Callable[[Any], Any]) -> None:
        self._written, self._render = written, render
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            self._made[name] = self._render(self._written[name])
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._written)

    def __len__(self) -> int:
        return len(self._written)


def is_without_answer(result: outcomes.Result) -> bool:
    """Tell whether no action has answered for a host: it has no result, or one that Ansible has
    failed.
    """
    return not result or bool(result.get("failed") and not ANSWERS & result.keys())


def fail_unread_hosts(results: outcomes.Results, hostvars: Mapping[str, Any]) -> outcomes.Results:
    """Return the results. A host without an answer has failed if one of its variables cannot be
    read.
    """
    until = time.monotonic() + SECONDS
    found = dict(results)
    unanswered = (host for host, result in results.items() if is_without_answer(result))
    for host in sorted(unanswered, key=names.build_natural_key):
        if time.monotonic() > until:
            break
        said = explain_unread_variable(hostvars[host], get_raw_variables(hostvars, host))
        if said:
            found[host] = {"failed": True, "msg": said}
    return found


def get_raw_variables(hostvars: Mapping[str, Any], host: str) -> Mapping[str, Any]:
    """Return the variables of a host as they are written, before any template in them is rendered."""
    read = getattr(hostvars, "raw_get", hostvars.__getitem__)
    found = read(host)
    return found if isinstance(found, Mapping) else {}


def explain_unread_variable(variables: Mapping[str, Any], written: Mapping[str, Any]) -> str:
    """Return the variable that cannot be read, and Ansible's message; '' if all can be read."""
    return next(
        filter(
            None,
            (
                explain_unreadable_value(name, variables, written)
                for name in list_asked_variables(written)
            ),
        ),
        "",
    )


def list_asked_variables(written: Mapping[str, Any]) -> Iterable[str]:
    """Return the names of variables that roles and connections read and whose values are not
    constants.
    """
    # reads the specs of all roles, which few tables need
    from ansible_collections.gpufleet.nvidia.plugins.action import (
        variables_check,
    )

    return sorted(
        name
        for name in written
        if (name in variables_check.KNOWN or CONNECTION.fullmatch(name))
        and not arguments.is_constant(written[name])
    )


def explain_unreadable_value(
    name: str, variables: Mapping[str, Any], written: Mapping[str, Any]
) -> str:
    """Return why one variable cannot be read; '' if it can."""
    try:
        undefined = [
            text
            for text in list_text_leaves(variables[name])
            if not arguments.is_constant(text) and text in leaves_written(written[name])
        ]
    except AnsibleError as error:
        if type(error).__name__ == OMITTED:
            return ""
        return run_messages.UNREADABLE_VARIABLE.fill(
            name=name, cause=guard.describe_ansible_error(error)
        )
    except TemplateError as error:
        return run_messages.UNREADABLE_VARIABLE.fill(name=name, cause=str(error))
    # ansible-core before 2.19 gives a template back as it is if something in it is undefined.
    if not undefined:
        return ""
    cause = name_missing_value(undefined[0], written)
    return run_messages.UNREADABLE_VARIABLE.fill(name=name, cause=cause)


def list_text_leaves(value: Any) -> Iterator[str]:
    """Yield the texts of a value. Reading a text decrypts it, or fails."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for one in value:
            yield from list_text_leaves(one)
    elif value is not None and not isinstance(value, bool | int | float):
        yield str(value)


def leaves_written(value: Any) -> set[str]:
    """Return the texts of a value as they are written. Encrypted texts are left out."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return {text for one in value for text in leaves_written(one)}
    return {str(value)} if isinstance(value, str) else set()


def name_missing_value(template: str, written: Mapping[str, Any]) -> str:
    """Name what a user's template needs and the host doesn't have."""
    try:
        needed = meta.find_undeclared_variables(Environment(autoescape=True).parse(template))
    except TemplateError as error:
        return f"it is no template ({error})"
    absent = sorted(
        name
        for name in needed
        if name not in written and name not in ("lookup", "query", "q", "now", "omit", "undef")
    )
    return f"{absent[0]} is undefined" if absent else f"something in {template} is undefined"
