# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the variable that cannot be read if a host has no result.

Such a host failed before the first task of a role: Ansible fails it in the task that judges a role's
arguments, or when it opens the connection. That task registers nothing, and its message seldom names the
variable. So the variables of a host without a result are read here, each by itself.

A package of one file, since ansible-test wants a module for every other file below plugins/action.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ansible.errors import AnsibleError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import guard, run_messages
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import outcomes
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.text import names
from jinja2 import Environment, TemplateError, meta

# The variables that Ansible itself needs before any task of a host.
CONNECTION = re.compile(
    r"ansible_(host|port|user|password|connection|timeout|pipelining|python_interpreter|become|become_\w+|ssh_\w+|(ssh|sudo|become)_pass)"
)
SECONDS = 10  # for all hosts without a result; a lookup may ask a server that doesn't answer


def fail_unread_hosts(results: outcomes.Results, hostvars: Mapping[str, Any]) -> outcomes.Results:
    """Return the results. A host without a result has failed if one of its variables cannot be read."""
    until = time.monotonic() + SECONDS
    found = dict(results)
    for host in sorted((host for host, result in results.items() if not result), key=names.build_natural_key):
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
    return next(filter(None, (explain_unreadable_value(name, variables, written) for name in list_asked_variables(written))), "")


def list_asked_variables(written: Mapping[str, Any]) -> Iterable[str]:
    """Return the names of variables that roles and connections read and whose values are not constants."""
    from ansible_collections.gpufleet.nvidia.plugins.action import variables_check  # reads the specs of all roles, which few tables need

    return sorted(
        name for name in written if (name in variables_check.KNOWN or CONNECTION.fullmatch(name)) and not is_constant(written[name])
    )


def is_constant(value: Any) -> bool:
    """Tell whether a value is constant: no template, and nothing to be decrypted."""
    if isinstance(value, str):
        return "{{" not in value and "{%" not in value
    return value is None or isinstance(value, bool | int | float)


def explain_unreadable_value(name: str, variables: Mapping[str, Any], written: Mapping[str, Any]) -> str:
    """Return why one variable cannot be read; '' if it can."""
    try:
        undefined = [text for text in list_text_leaves(variables[name]) if not is_constant(text) and text in leaves_written(written[name])]
    except AnsibleError as error:
        return run_messages.UNREADABLE_VARIABLE.fill(name=name, cause=guard.describe_ansible_error(error))
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
    absent = sorted(name for name in needed if name not in written and name not in ("lookup", "query", "q", "now", "omit", "undef"))
    return f"{absent[0]} is undefined" if absent else f"something in {template} is undefined"
