# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Show what became of each host's CDI specs in a refresh, with the reason.

The specs are fresh, stale, written again, or missing.
"""

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

NO_SPEC_YET = "cdi.no-spec-yet"  # the code of the advice on a host without a usable GPU
HEAD = ("HOST", "CDI SPEC", "WHY")
NOT_YET = "nothing to refresh: gpufleet.nvidia.site writes the first spec of this host"
SUMMED = {"none": "without a spec"}
ORDER = (
    "failed",
    "rolled back",
    "lost",
    "not reached",
    "stale",
    "would be written",
    "written",
    "none",
    "fresh",
)


def list_refresh_lines(results: outcomes.Results, view: fleet_hosts.FleetView) -> list[str]:
    """Return the table of CDI specs, a row for each host, and the totals."""
    described = {host: describe_host_specs(result, view.check) for host, result in results.items()}
    order = sorted(
        described, key=lambda h: (ORDER.index(described[h][0]), names.build_natural_key(h))
    )
    rows = [(host, described[host]) for host in order]
    shown = fleet_hosts.fold_equal_rows(rows)
    counts = {word: sum(row[0] == word for row in described.values()) for word in ORDER}
    counted = (
        ", ".join(f"{number} {SUMMED.get(word, word)}" for word, number in counts.items() if number)
        or "nothing to report"
    )
    return [
        *layout.lay_out_table(HEAD, shown, view.width),
        "",
        f"{outcomes.format_host_count(len(results))}: {counted}",
    ]


def count_refreshed_specs(results: outcomes.Results, check: bool = False) -> dict[str, Any]:
    """Count the hosts by what became of their CDI specs."""
    states = {host: describe_host_specs(result, check)[0] for host, result in results.items()}
    counts = {
        word.replace(" ", "_"): sum(word == other for other in states.values()) for word in ORDER
    }
    return {
        "hosts": len(results),
        **counts,
        "needs_person": sorted(h for h, word in states.items() if word in ORDER[:5]),
    }


def describe_host_specs(result: outcomes.Result, check: bool) -> tuple[str, str]:
    """Return the word for a host's CDI specs, and why."""
    trouble = outcomes.explain_trouble(result)
    if trouble:
        return trouble, fleet_hosts.explain_host_row(result, "")
    if result.get("skipped"):
        decision = result.get("decision") or {}
        unread = (
            ""
            if decision.get("cdi_owner", "none") != "none"
            else "nothing on this host reads CDI specs"
        )
        return "none", str(decision.get("skipped") or unread or NOT_YET)
    if result.get("differences"):
        why = "; ".join(dict.fromkeys(str(d.get("why")) for d in result["differences"]))
        return "would be written" if check else "written", why
    verdicts = result.get("freshness") or ()
    stale = [
        f"{v.get('path')}: {r.get('why')}"
        for v in verdicts
        if v.get("state") == "stale"
        for r in v.get("reasons") or ()
    ]
    if stale:
        return "stale", "; ".join(stale)
    if not verdicts:
        advice = (str(a) for a in result.get("advice") or ())
        told = (a for a in advice if a.endswith(f"[{NO_SPEC_YET}]"))
        return "none", next(told, "there is no CDI spec on this host, and none is made for it")
    return "fresh", "; ".join(f"{v.get('path')} {v.get('version') or ''}".strip() for v in verdicts)
