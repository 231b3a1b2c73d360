# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Show the user's own columns: paths into a host's result.

Plain names with dots need no library; the rest of JMESPath does.
"""

from __future__ import annotations

import dataclasses as dc
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import outcomes
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet.report import (
    fleet_hosts,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.results import messages

PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")

Search = Callable[[Any], Any]
Compile = Callable[[str], Search]


@dc.dataclass(frozen=True)
class Column:
    """A column that the user has added to the table."""

    title: str
    path: str


def is_plain_path(path: str) -> bool:
    """Tell whether a path is only words with dots, which needs no JMESPath."""
    return PLAIN.fullmatch(path) is not None


def apply_columns(
    view: fleet_hosts.FleetView, wanted: Sequence[Column], compiled: Compile | None
) -> fleet_hosts.FleetView:
    """Return the view with these columns instead of its own.

    A path may name the parts of the result, and the table's own cells as `table`.
    """
    if not wanted:
        return view
    searches = [search(c, compiled) for c in wanted]
    by_library = not all(is_plain_path(c.path) for c in wanted)

    def cells(host: str, result: outcomes.Result) -> list[str]:
        value = {**result, "table": fleet_hosts.build_host_columns(host, result, view.check)}
        # which knows JSON's types only, and no subclasses of them, as Ansible has for strings
        if by_library:
            value = json.loads(json.dumps(value, default=str))
        return [format_cell(find(value)) for find in searches]

    return dc.replace(view, titles=tuple(c.title for c in wanted), cells=cells)


def search(column: Column, compiled: Compile | None) -> Search:
    """Return a function that finds the value of a column in a result.

    compiled: JMESPath's compiler. Raise PlanError if it is needed and missing.
    """
    if is_plain_path(column.path):
        return lambda value: get_value_by_steps(value, column.path.split("."))
    if compiled is None:
        raise PlanError(messages.NO_JMESPATH.fill(path=repr(column.path)))
    return compiled(column.path)


def get_value_by_steps(value: Any, names: Sequence[str]) -> Any:
    """Return the value under these keys, one below the other; None if there is none."""
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def format_cell(value: Any) -> str:
    """Return a value as the text of a cell."""
    if value is None:
        return "-"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
