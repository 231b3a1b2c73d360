# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Show one table of the fleet for people, and return its totals for programs."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    arguments,
    base,
    console,
    gathered,
    messages,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import outcomes
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import waves
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet.report import (
    columns,
    fleet_hosts,
    specs,
    transactions,
    verification,
)

SPEC = arguments.derive_argument_spec("fleet_table")
Lines = Callable[[outcomes.Results, fleet_hosts.FleetView], list[str]]
Totals = Callable[[outcomes.Results, bool], dict[str, Any]]
VIEWS: Mapping[str, tuple[Lines, Totals]] = {
    "hosts": (fleet_hosts.list_fleet_lines, outcomes.count_outcomes),
    "verification": (verification.list_verification_lines, verification.count_verifications),
    "journal": (transactions.list_journal_lines, transactions.count_transactions),
    "cdi": (specs.list_refresh_lines, specs.count_refreshed_specs),
    "reached": (
        lambda _results, _view: [],
        lambda results, _check: {
            **outcomes.count_reached_hosts(results),
            **outcomes.count_refused_hosts(results),
        },
    ),
}


class ActionModule(ActionBase):
    _supports_check_mode = True
    _supports_async = False
    _requires_connection = False

    @base.guard_action
    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        args = arguments.read_task_options(self, SPEC)
        check = bool(self._task.check_mode)
        results = gathered.gather_results(task_vars or {}, args)
        laid_out, count = VIEWS[args["view"]]
        lines, counts = laid_out(results, choose_fleet_view(args, check)), count(results, check)
        lost = waves.parse_amount("gpufleet_max_lost", args["max_lost"]).compute_number(
            len(results), up=True
        )
        problem = outcomes.explain_failed_run(counts, args["fail_on_drift"], lost)
        lines += console.write_end(
            problem, console.find_following(args["playbook"], counts, check) if lines else ""
        )
        console.show(["", *lines, ""] if lines else [])
        failures = outcomes.list_failures(results, check, args["fail_on_drift"]) if problem else {}
        report = {
            "changed": False,
            "lines": lines,
            "totals": counts,
            "problem": problem,
            "failures": failures,
        }
        # The value that set_stats returns, so AWX can branch on it and other callbacks can show it.
        return {
            **report,
            "ansible_stats": {
                "data": {"gpufleet_totals": counts},
                "per_host": False,
                "aggregate": False,
            },
        }


def choose_fleet_view(args: Mapping[str, Any], check: bool) -> fleet_hosts.FleetView:
    """Return how the table is laid out: its width in characters, its own columns, and details.

    Raise PlanError for a column that cannot be read.
    """
    wanted = tuple(columns.Column(c["title"], c["path"]) for c in args["columns"])
    own = fleet_hosts.FleetView(
        args["width"] or console.get_terminal_width(), args["details"], check
    )
    return columns.apply_columns(own, wanted, get_column_searcher(wanted))


def get_column_searcher(wanted: tuple[columns.Column, ...]) -> columns.Compile | None:
    """Return JMESPath's compiler; None if all columns are plain names with dots, or if jmespath is
    not installed.
    """
    if all(columns.is_plain_path(c.path) for c in wanted):
        return None
    try:
        library = importlib.import_module("jmespath")
    except ImportError:
        return None

    def compiled(path: str) -> columns.Search:
        try:
            expression = library.compile(path)
        except library.exceptions.JMESPathError as error:
            cause = str(error).splitlines()[0]
            message = messages.COLUMN_PATH.fill(path=path, cause=cause)
            raise PlanError(message) from None

        def found(value: Any) -> Any:
            try:
                return expression.search(value)
            except library.exceptions.JMESPathError as error:
                cause = str(error).splitlines()[0]
                message = messages.COLUMN_VALUE.fill(path=path, cause=cause)
                raise PlanError(message) from None

        return found

    return compiled
