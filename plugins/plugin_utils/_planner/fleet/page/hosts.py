# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build the report's entry of one host: plain values from its result, in the words of the table and
of the journal.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import causes, outcomes
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import change
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet.report import (
    fleet_hosts,
    transactions,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.results import (
    groups,
    journal,
)

HISTORY = 20  # transactions of one host, the newest first
Host = dict[str, Any]
TEXTS = ("outcome", "why", "engine", "gpus", "driver", "toolkit", "injection", "class", "change")
# Lists of texts (), or of tables whose keys are given here.
LISTS: Mapping[str, tuple[str, ...]] = {
    "restarted": (),
    "evidence": (),
    "notes": (),
    "drift": ("path", "state"),
    "stale": ("path", "why"),
    "pending": ("unit", "since", "reason"),
    "history": ("time", "reason", "state", "done"),
}


def build_report_host(name: str, result: outcomes.Result, check: bool, hardware: str = "") -> Host:
    """Build the entry of a host. hardware: its class in a rollout, '' elsewhere."""
    cells = fleet_hosts.build_host_columns(name, result, check)
    versions = result.get("versions") or {}
    return {
        "outcome": outcomes.judge_outcome(result, check).key,
        **{key: cells[key] for key in ("why", "engine", "gpus", "injection")},
        "driver": str(versions.get("driver") or ""),
        "toolkit": str(versions.get("toolkit") or ""),
        "class": hardware,
        "change": "" if outcomes.explain_trouble(result) else change.digest_change(result, name),
        "restarted": groups.list_group_units(result),
        "evidence": list_report_evidence(result.get("evidence") or {}),
        "notes": [str(sentence) for sentence in result.get("advice") or ()],
        "drift": [
            {"path": str(d.get("path")), "state": str(d.get("state"))}
            for d in result.get("drift") or ()
        ],
        "stale": list_stale_specs(result),
        "pending": list_report_pending(result, check),
        "history": list_report_history(name, result),
    }


def list_stale_specs(result: outcomes.Result) -> list[dict[str, str]]:
    """List the CDI specs that were out of date at the look and that the run has not written again."""
    stale = [v for v in result.get("freshness") or () if v.get("state") == "stale"]
    corrected = (
        {str(d.get("path")) for d in result.get("differences") or ()}
        if is_corrected(result)
        else set()
    )
    left = [v for v in stale if str(v.get("path")) not in corrected]
    return [
        {
            "path": str(v.get("path")),
            "why": "; ".join(str(r.get("why")) for r in v.get("reasons") or ()),
        }
        for v in left
    ]


def is_corrected(result: outcomes.Result) -> bool:
    """Tell whether this very run has corrected what differed."""
    return (
        bool(result.get("changed"))
        and "would_restart" not in result
        and not outcomes.explain_trouble(result)
    )


def list_report_pending(result: outcomes.Result, check: bool) -> list[dict[str, str]]:
    """List the units whose restart is left to a person, by earlier runs and by this one."""
    done = set() if check else set(result.get("restarted") or ())
    left = [p for p in result.get("pending") or () if p.get("unit") not in done]
    units = {
        str(p.get("unit")): {key: str(p.get(key) or "") for key in LISTS["pending"]} for p in left
    }
    for unit in [] if check or not result.get("changed") else list_restarts_of_run(result):
        units.setdefault(
            unit, {"unit": unit, "since": "", "reason": "this run left the restart to you"}
        )
    return list(units.values())


def list_restarts_of_run(result: outcomes.Result) -> list[str]:
    """List the units that the change wants to restart and that were not restarted."""
    asked = str((result.get("row") or {}).get("restarted") or "-")
    units = (
        [unit if "." in unit else f"{unit}.service" for unit in asked.split(", ")]
        if asked != "-"
        else []
    )
    return [unit for unit in units if unit not in (result.get("restarted") or ())]


def list_report_history(name: str, result: outcomes.Result) -> list[dict[str, str]]:
    """Return the newest transactions of the journal, [] if the result has none.

    Only a look has the journal: a run that changes hosts returns just the name of its own entry.
    """
    if not isinstance(result.get("journal"), list) or not result["journal"]:
        return []
    rows = transactions.build_transaction_rows(name, result)[:HISTORY]
    return [dict(zip(LISTS["history"], row[1:], strict=True)) for row in rows]


def list_report_evidence(seen: Mapping[str, Any]) -> list[str]:
    """List what the host saw when a change failed, a line each."""
    refused = [v for v in seen.get("validation") or () if v.get("findings")]
    return [
        *(
            f"{format_report_command(v)} refused the staged files: {'; '.join(map(str, v['findings']))}{get_known_cause(v)}"
            for v in refused
        ),
        *(
            f"{format_report_command(c)} ended with {c.get('rc')}{get_known_cause(c)}"
            for c in seen.get("commands") or ()
        ),
        *(format_checked(h) for h in seen.get("health") or () if h.get("kind") != "log"),
        *(
            journal.describe_unit_failure(str(h.get("name")), h)
            for h in seen.get("health") or ()
            if h.get("kind") == "log" and h.get("failed")
        ),
    ]


def format_report_command(entry: Mapping[str, Any]) -> str:
    """Return the command line of a program that was run."""
    return " ".join(str(word) for word in entry.get("argv") or ("a command",))


def get_known_cause(entry: Mapping[str, Any]) -> str:
    """Return the known causes of a failure in brackets; '' if none is known."""
    words = causes.describe_causes(entry.get("causes") or ())
    return f" ({words})" if words else ""


def format_checked(check: Mapping[str, Any]) -> str:
    """Return a check of the transaction with its evidence, in words. Times are in seconds."""
    place = check.get("name") or check.get("unit") or check.get("socket") or ""
    waited = (
        f", after {check['seconds']:.0f} s" if isinstance(check.get("seconds"), int | float) else ""
    )
    return f"{check.get('kind')} {place}: {check.get('evidence') or 'no answer'}{waited}"
