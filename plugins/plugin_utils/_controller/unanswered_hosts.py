# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the variable that cannot be read if no action has answered for a host.

Ansible fails such a host when it renders the options of a task, judges the arguments of a role, or
opens the connection. Its message seldom names the variable. So the variables of the host are read
here, each by itself.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    arguments,
    unreadable_variables,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import outcomes
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.text import names

# The variables that Ansible itself needs before any task of a host.
CONNECTION = re.compile(
    r"ansible_(host|port|user|password|connection|timeout|pipelining|python_interpreter|become|become_\w+|ssh_\w+|(ssh|sudo|become)_pass)"
)
SECONDS = 10  # for all hosts without an answer; a lookup may ask a server that doesn't answer
# The keys of a failed result that show that an action, or a limit of time, has failed the host.
ANSWERS = frozenset({"error", "evidence", "row", "timedout"})


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
    failed = dict(results)
    unanswered = (host for host, result in results.items() if is_without_answer(result))
    for host in sorted(unanswered, key=names.build_natural_key):
        if time.monotonic() > until:
            break
        said = explain_unread_variable(
            hostvars[host], unreadable_variables.get_raw_variables(hostvars, host)
        )
        if said:
            failed[host] = {"failed": True, "msg": said}
    return failed


def explain_unread_variable(variables: Mapping[str, Any], written: Mapping[str, Any]) -> str:
    """Return the variable that cannot be read, and Ansible's message; '' if all can be read."""
    return next(
        filter(
            None,
            (
                unreadable_variables.explain_unreadable_value(name, variables, written)
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
