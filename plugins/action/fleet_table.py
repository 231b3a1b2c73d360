# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Show one table of the fleet for people, and return its totals for programs."""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible import constants, context
from ansible.plugins.action import ActionBase
from ansible.utils.color import stringc
from ansible.utils.display import Display
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    arguments,
    base,
    host_variables,
    messages,
    unread,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import outcomes
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.text import (
    bounds,
    escape,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import waves
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet.report import (
    columns,
    fleet_hosts,
    next_command,
    proof,
    registered,
    specs,
    transactions,
)

SPEC = arguments.derive_argument_spec("fleet_table")
COLUMN = "Name a value by words with dots, as decision.injection, or correct the expression (jmespath.org)"
MACHINES = ("json", "jsonl", "null")  # stdout callbacks whose output a program parses
# Measured when the action is loaded, which is before Ansible forks: its workers have no terminal.
TERMINAL = int(Display().columns) if os.isatty(1) else fleet_hosts.WIDTH
Lines = Callable[[outcomes.Results, fleet_hosts.FleetView], list[str]]
Totals = Callable[[outcomes.Results, bool], dict[str, Any]]
VIEWS: Mapping[str, tuple[Lines, Totals]] = {
    "hosts": (fleet_hosts.list_fleet_lines, outcomes.count_outcomes),
    "proof": (proof.list_proof_lines, proof.count_proofs),
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

    @base.shown
    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        args = arguments.read_task_options(self, SPEC)
        check = bool(self._task.check_mode)
        results = gather_results(task_vars or {}, args)
        laid_out, count = VIEWS[args["view"]]
        lines, counts = laid_out(results, choose_fleet_view(args, check)), count(results, check)
        lost = waves.parse_amount("gpufleet_max_lost", args["max_lost"]).compute_number(
            len(results), up=True
        )
        problem = outcomes.explain_failed_run(counts, args["fail_on_drift"], lost)
        lines += write_end(
            problem, find_following(args["playbook"], counts, check) if lines else ""
        )
        show(["", *lines, ""] if lines else [])
        failures = outcomes.list_failures(results, check, args["fail_on_drift"]) if problem else {}
        report = {
            "changed": False,
            "lines": lines,
            "totals": counts,
            "problem": problem,
            "failures": failures,
        }
        # What set_stats returns, so AWX can branch on it and other callbacks can show it.
        return {
            **report,
            "ansible_stats": {
                "data": {"gpufleet_totals": counts},
                "per_host": False,
                "aggregate": False,
            },
        }


def write_end(problem: str, following: str) -> list[str]:
    """Return the last lines of a run: the reason why it is not a success, and the next command. ''
    leaves either out.
    """
    told = [text for text in (f"not a success: {problem}" if problem else "", following) if text]
    return ["", *told] if told else []


def find_following(playbook: str, counts: Mapping[str, Any], check: bool) -> str:
    """Return the line with the next command, '' for none. AWX starts jobs by templates, so nothing
    is typed there.
    """
    if "needs_person" not in counts or "would_change" not in counts or os.environ.get("JOB_ID"):
        return ""
    return next_command.write_command(
        next_command.choose_next(playbook, counts, check), read_invocation()
    )


def read_invocation() -> next_command.Invocation:
    """Return what this run was given on its command line."""
    given = context.CLIARGS
    inventory, extra = (
        tuple(map(str, given.get(name) or ())) for name in ("inventory", "extra_vars")
    )
    return next_command.Invocation(inventory, extra, str(given.get("subset") or ""))


def gather_results(task_vars: Mapping[str, Any], args: Mapping[str, Any]) -> outcomes.Results:
    """Return each host's result, with what else failed in the same run."""
    hosts = [str(h) for h in task_vars.get("ansible_play_hosts_all") or ()]
    known = {host: host_variables.HostVariables(task_vars["hostvars"], host) for host in hosts}
    found = {host: known[host].get(args["results"]) for host in hosts}
    if hosts and not any(found.values()):
        registered.require_known_variable(
            args["results"], sorted({str(name) for v in known.values() for name in v})
        )
    results = {
        host: outcomes.merge_failures(
            dict(found[host] or {}), list_step_results(known[host], args["also"])
        )
        for host in hosts
    }
    return {
        host: bounds.limit_result(result)
        for host, result in unread.fail_unread_hosts(results, task_vars["hostvars"]).items()
    }


def list_step_results(
    variables: Mapping[str, Any], names: list[str]
) -> dict[bool, list[outcomes.Result]]:
    """Return the results of other steps, by whether they are looks: True -> looks, False -> other
    steps.

    A look counts only if nothing came after it.
    """
    found: dict[bool, list[outcomes.Result]] = {True: [], False: []}
    for name in names:
        found[name == registered.LOOK].append(dict(variables.get(name) or {}))
    return found


def choose_fleet_view(args: Mapping[str, Any], check: bool) -> fleet_hosts.FleetView:
    wanted = tuple(columns.Column(c["title"], c["path"]) for c in args["columns"])
    own = fleet_hosts.FleetView(args["width"] or get_terminal_width(), args["details"], check)
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
            message = messages.COLUMN_PATH.fill(path=path, cause=cause, step=COLUMN)
            raise PlanError(message) from None

        def found(value: Any) -> Any:
            try:
                return expression.search(value)
            except library.exceptions.JMESPathError as error:
                cause = str(error).splitlines()[0]
                message = messages.COLUMN_VALUE.fill(path=path, cause=cause, step=COLUMN)
                raise PlanError(message) from None

        return found

    return compiled


def get_terminal_width() -> int:
    """Return $COLUMNS, otherwise the terminal's width, otherwise a width that fits most logs."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdigit() and int(columns) > 0:
        return int(columns)
    return TERMINAL


def show(lines: Sequence[str]) -> None:
    """Print lines for people.

    A line may contain a host's own words, which results of other collections' tasks do not escape.
    """
    if lines and are_people_shown():
        Display().display(
            "\n".join(
                paint(escape.escape_line(bounds.shorten_text(line, bounds.TEXT))) for line in lines
            )
        )


# A word of the column CHANGED between two columns, or a count of the first line.
WORDS = re.compile(
    rf"(?<=  )({'|'.join(outcomes.OUTCOMES)})(?=  |$)|\b[1-9]\d* ({'|'.join(o.total for o in outcomes.OUTCOMES.values())})(?=,)"
)
COLORS = {True: "COLOR_ERROR", False: "COLOR_CHANGED"}
PLAIN = ("no", "unchanged")


def paint(line: str) -> str:
    """Return a line with its outcomes in Ansible's colors, where Ansible has colors."""

    def painted(found: re.Match[str]) -> str:
        one = next(
            o for o in outcomes.OUTCOMES.values() if found[1] == o.word or found[2] == o.total
        )
        color = "COLOR_OK" if one.word in PLAIN else COLORS[one.person]
        return str(stringc(found[0], getattr(constants, color)))

    return WORDS.sub(painted, line)


def are_people_shown() -> bool:
    """Tell whether lines for people are printed.

    With a callback that writes JSON, stdout belongs to the callback alone. The result contains the
    lines in both cases.
    """
    return str(constants.DEFAULT_STDOUT_CALLBACK).rpartition(".")[2] not in MACHINES
