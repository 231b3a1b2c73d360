# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Merge the user's own values of a chart into the rendered ones: they add to these, and contradict
none.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster import chart_messages
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError

VARIABLE = "gpufleet_kubernetes_values"


def get_nested_value(values: Mapping[str, Any], path: str) -> Any:
    """Return the value at a path of keys with dots; None if there is none."""
    value: Any = values
    for part in path.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def join_value(values: Mapping[str, Any], path: str) -> Any:
    """Return a value; a list as the charts hand it on, joined by commas."""
    value = get_nested_value(values, path)
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else value


def require_as_rendered(
    says: Mapping[str, str], rendered: Mapping[str, Any], given: Mapping[str, Any]
) -> None:
    """Raise PlanError if the user's values contradict a value that a variable sets.

    says: path of a value -> the variable that sets it. The hosts were judged by that variable, and
    another value in the chart would count without that judgement.
    """
    for path, variable in says.items():
        theirs, wanted = get_nested_value(given, path), get_nested_value(rendered, path)
        if wanted is not None and theirs not in (None, wanted):
            given_ = {"path": path, "theirs": theirs, "variable": variable, "wanted": wanted}
            raise PlanError(chart_messages.VALUE_OF_VARIABLE.fill(**given_))


def require_not_set(
    path: str, known: Collection[str], variable: str, given: Mapping[str, Any]
) -> None:
    """Raise PlanError if the user's values set a name in a container's environment that has a
    variable of its own.

    known: the names that the variable is for.
    """
    entries = get_nested_value(given, path)
    names = (
        [str(entry.get("name")) for entry in entries if isinstance(entry, Mapping)]
        if isinstance(entries, list)
        else []
    )
    wrong = next((name for name in names if name in known), "")
    if wrong:
        row = chart_messages.ENVIRONMENT_OF_VARIABLE
        raise PlanError(row.fill(name=wrong, path=path, variable=variable))


def merge_own_values(values: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Merge the user's values into the rendered ones, table by table.

    A list, which is an environment here, gets the user's entries in addition.
    """
    both = dict(values)
    for key, value in given.items():
        known = both.get(key)
        if isinstance(known, Mapping) and isinstance(value, Mapping):
            both[key] = merge_own_values(known, value)
        else:
            both[key] = (
                [*known, *value] if isinstance(known, list) and isinstance(value, list) else value
            )
    return both
