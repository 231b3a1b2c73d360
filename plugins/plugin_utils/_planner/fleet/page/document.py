# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build the report as a document for programs (report.schema.json).

It has one entry for each host, and the conclusions from all of them.
"""

from __future__ import annotations

import dataclasses as dc
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import outcomes
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.text import names
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import change
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet.page import hosts

SCHEMA = 1
SKEW = ("engine", "driver", "toolkit", "injection")
Document = dict[str, Any]
# lists of a host, and their names among the totals
FLAGS = {
    "drift": "drift",
    "stale": "stale",
    "pending": "pending_restart",
}
KEYS = {o.key: o for o in outcomes.OUTCOMES.values()}
URGENCY = {key: n for n, key in enumerate(KEYS)}


@dc.dataclass(frozen=True)
class About:
    """The origin of a report. playbook: its name; status: how a rollout ended; at: when, in UTC."""

    playbook: str
    at: str
    check: bool = False
    status: str = ""
    change_ref: str = ""


def build_report(
    results: outcomes.Results, about: About, classes: Mapping[str, str] | None = None
) -> Document:
    """Build the report of a run from the results of its hosts.

    classes: host -> its hardware class.
    """
    by_name = {
        name: hosts.build_report_host(name, result, about.check, (classes or {}).get(name, ""))
        for name, result in results.items()
    }
    changes: dict[str, dict[str, Any]] = {}
    for name in sorted(by_name, key=names.build_natural_key):
        if by_name[name]["change"] and by_name[name]["change"] not in changes:
            changes[by_name[name]["change"]] = add_reasons(results[name], name)
    return complete_report(by_name, changes, about)


def add_reasons(result: outcomes.Result, host: str) -> dict[str, Any]:
    """Return a change as the plan of a rollout has it, with the reason for each difference."""
    shared = change.build_shared_change(result, host)
    for difference in shared["differences"]:
        difference["why"] = ""
    order = {get_report_place(d): d for d in shared["differences"]}
    for original in (result.get("planned") or result).get("differences") or ():
        own = get_report_place(change.share_difference(original, host))
        if own in order:
            order[own]["why"] = str(change.drop_host_values(str(original.get("why") or ""), host))
    return shared


def get_report_place(difference: Mapping[str, Any]) -> str:
    """Return a text that is equal for differences of the same place."""
    return repr([difference.get(field) for field in change.FIELDS])


def complete_report(
    by_name: Mapping[str, hosts.Host], changes: Mapping[str, Mapping[str, Any]], about: About
) -> Document:
    """Build the document with all that follows from the hosts.

    Everything is counted here, so a run and a report that is put together from several are counted
    alike.
    """
    order = sorted(
        by_name, key=lambda h: (URGENCY[by_name[h]["outcome"]], names.build_natural_key(h))
    )
    sharing: dict[str, list[str]] = {}
    for name in order:
        if by_name[name]["change"]:
            sharing.setdefault(by_name[name]["change"], []).append(name)
    shown = sorted(sharing, key=lambda digest: (-len(sharing[digest]), digest))
    return {
        "schema": SCHEMA,
        "generated": about.at,
        "run": {
            "playbook": about.playbook,
            "check": about.check,
            "status": about.status,
            "change_ref": about.change_ref,
        },
        "totals": count_report_totals(by_name),
        "skew": list_version_skew(by_name),
        "changes": {
            digest: {
                "differences": list(changes[digest]["differences"]),
                "restarts": list(changes[digest]["restarts"]),
                "hosts": sorted(sharing[digest], key=names.build_natural_key),
            }
            for digest in shown
        },
        "hosts": {name: by_name[name] for name in order},
    }


def count_report_totals(by_name: Mapping[str, hosts.Host]) -> dict[str, int]:
    """Count the hosts by the outcomes of the table, and by the flags that a page adds to them."""
    counts = Counter(host["outcome"] for host in by_name.values())
    flags = {
        total: sum(bool(host[key]) for host in by_name.values()) for key, total in FLAGS.items()
    }
    person = sum(KEYS[host["outcome"]].person for host in by_name.values())
    return {
        "hosts": len(by_name),
        "needs_person": person,
        **{key: counts[key] for key in KEYS},
        **flags,
    }


def list_version_skew(by_name: Mapping[str, hosts.Host]) -> list[dict[str, Any]]:
    """List the combinations of versions, the commonest first. A host that was never looked at is in
    none.
    """
    releases: dict[tuple[str, ...], list[str]] = {}
    for name, host in by_name.items():
        if host["engine"] != "?":
            releases.setdefault(tuple(host[key] for key in SKEW), []).append(name)
    rows = sorted(releases.items(), key=lambda item: (-len(item[1]), item[0]))
    return [
        {**dict(zip(SKEW, key, strict=True)), "hosts": sorted(same, key=names.build_natural_key)}
        for key, same in rows
    ]


def list_hosts_needing_person(by_name: Mapping[str, hosts.Host]) -> Sequence[str]:
    """Return the hosts whose outcome needs a person."""
    return [name for name, host in by_name.items() if KEYS[host["outcome"]].person]
