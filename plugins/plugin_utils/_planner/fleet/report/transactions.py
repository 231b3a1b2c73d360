# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Show the journals of the fleet as one table: time, reason, state, files, and who rolled back."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import outcomes
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.text import (
    layout,
    names,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet.report import (
    fleet_hosts,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.results import journal

HEAD = ("HOST", "TIME", "REASON", "STATE", "DONE")
EVERYTHING_BACK = "gpufleet.nvidia.host (state: absent)"
STATES = {"committed": "in force", "probation": "watched"}


def list_journal_lines(results: outcomes.Results, view: fleet_hosts.FleetView) -> list[str]:
    """Return the table of transactions, and the restarts that are left to people."""
    order = sorted(results, key=names.build_natural_key)
    rows = [row for host in order for row in list_host_transactions(host, results[host])]
    below = [text for host in order for text in build_pending_row(host, results[host], view.width)]
    return [*layout.lay_out_table(HEAD, rows, view.width), *below]


def count_transactions(results: outcomes.Results, _check: bool = False) -> dict[str, Any]:
    """Count the hosts whose journal could be read, and the hosts that could not be reached."""
    return outcomes.count_reached_hosts(results)


def list_host_transactions(host: str, result: outcomes.Result) -> list[list[str]]:
    """Return the rows of one host, at least one."""
    trouble = outcomes.explain_trouble(result)
    if trouble not in ("", "refused"):
        return [[host, "-", "-", trouble, fleet_hosts.explain_host_row(result, "")]]
    return build_transaction_rows(host, result) or [[host, "-", "-", "no transaction", "-"]]


def build_transaction_rows(host: str, result: outcomes.Result) -> list[list[str]]:
    """Build a row for each transaction, the newest first."""
    entries = list(result.get("journal") or ())
    newest = next((n for n, e in enumerate(entries) if takes_back_all(e)), len(entries))
    return [build_transaction_row(host, e, n > newest) for n, e in enumerate(entries)]


def takes_back_all(entry: journal.Entry) -> bool:
    """Tell whether a transaction has taken everything back on its host."""
    return (
        str(entry.get("reason")).partition("; ")[0] == EVERYTHING_BACK
        and entry.get("state") in STATES
    )


def build_transaction_row(host: str, record: journal.Entry, taken_back: bool) -> list[str]:
    """Build one row.

    taken_back: whether a later transaction gave the whole host back, so that nothing of this one is
    in force.
    """
    state = str(record.get("state"))
    back = state == "rolled_back"
    stands = (
        "taken back since"
        if taken_back and state in STATES
        else STATES.get(state, f"not finished ({state})")
    )
    return [
        host,
        str(record.get("time") or "unknown"),
        str(record.get("reason") or "-"),
        f"rolled back {journal.describe_author(record)}" if back else stands,
        f"{journal.describe_transaction(record)}; because: {journal.describe_rollback_reason(record)}"
        if back
        else journal.describe_transaction(record),
    ]


def build_pending_row(host: str, result: outcomes.Result, width: int) -> list[str]:
    """Return the lines about a host's restarts that are left to people."""
    pending = [
        f"{host}: {journal.describe_pending_restarts(entry)}"
        for entry in result.get("pending") or ()
    ]
    return (
        ["", *(line for text in pending for line in layout.lay_out_paragraph(text, width, 0))]
        if pending
        else []
    )
