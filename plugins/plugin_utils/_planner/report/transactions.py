# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Show the journals of the fleet as one table: time, reason, state, files, and who rolled back."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.report import fleet_hosts, journal, layout, names, outcomes

HEAD = ("HOST", "TIME", "REASON", "STATE", "DONE")
EVERYTHING_BACK = "gpufleet.nvidia.node (state: absent)"
STATES = {"committed": "in force", "probation": "watched"}


def lines(results: outcomes.Results, view: fleet_hosts.View) -> list[str]:
    order = sorted(results, key=names.natural)
    found = [row for host in order for row in of_host(host, results[host])]
    below = [text for host in order for text in of_pending(host, results[host], view.width)]
    return [*layout.table(HEAD, found, view.width), *below]


def totals(results: outcomes.Results, _check: bool = False) -> dict[str, Any]:
    return outcomes.reached(results)


def of_host(host: str, result: outcomes.Result) -> list[list[str]]:
    trouble = outcomes.trouble(result)
    if trouble not in ("", "refused"):
        return [[host, "-", "-", trouble, fleet_hosts.why(result, "")]]
    return rows(host, result) or [[host, "-", "-", "no transaction", "-"]]


def rows(host: str, result: outcomes.Result) -> list[list[str]]:
    """Build a row for each transaction, the newest first."""
    entries = list(result.get("journal") or ())
    newest = next((n for n, e in enumerate(entries) if takes_back_all(e)), len(entries))
    return [entry(host, e, n > newest) for n, e in enumerate(entries)]


def takes_back_all(entry: journal.Entry) -> bool:
    return str(entry.get("reason")).partition("; ")[0] == EVERYTHING_BACK and entry.get("state") in STATES


def entry(host: str, record: journal.Entry, taken_back: bool) -> list[str]:
    """Build one row.

    taken_back: whether a later transaction gave the whole host back, so that nothing of this one is in force.
    """
    state = str(record.get("state"))
    back = state == "rolled_back"
    stands = "taken back since" if taken_back and state in STATES else STATES.get(state, f"not finished ({state})")
    return [
        host,
        str(record.get("time") or "unknown"),
        str(record.get("reason") or "-"),
        f"rolled back {journal.by(record)}" if back else stands,
        f"{journal.done(record)}; because: {journal.because(record)}" if back else journal.done(record),
    ]


def of_pending(host: str, result: outcomes.Result, width: int) -> list[str]:
    pending = [f"{host}: {journal.pending(entry)}" for entry in result.get("pending") or ()]
    return ["", *(line for text in pending for line in layout.hang(text, width, 0))] if pending else []
