# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read and write the plan of a rollout as a file that people review and approve, and compare it
with what hosts plan now.

plan-file.schema.json describes the file.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.text import names
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import (
    change,
    messages,
    rollout,
)

SCHEMA = 2
APPROVED, FILE = "gpufleet_rollout_approved", "gpufleet_rollout_plan_file"


def build_plan_document(
    planned: rollout.Rollout, results: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """Build the plan file: each change once, with its hosts, and an entry for each host.

    An entry has the host's class, its change, and the number of containers that a restart would
    end.
    """
    by_change: dict[str, list[str]] = {}
    for host in planned.hosts.values():
        if host.change:
            by_change.setdefault(host.change, []).append(host.name)
    return {
        "schema": SCHEMA,
        "changes": {
            d: {**planned.changes[d], "hosts": sorted(hosts, key=names.build_natural_key)}
            for d, hosts in sorted(by_change.items())
        },
        "hosts": {
            name: build_plan_entry(planned.hosts[name], results.get(name) or {})
            for name in sorted(planned.hosts, key=names.build_natural_key)
        },
        "totals": {
            "hosts": len(planned.hosts),
            **{state.replace(" ", "_"): 0 for state in STATES},
            **count_planned_hosts(planned),
        },
    }


STATES = (rollout.DO, rollout.DONE, rollout.LEFT_OUT)


def count_planned_hosts(planned: rollout.Rollout) -> dict[str, int]:
    """Count the hosts of a plan by their state."""
    return {
        state.replace(" ", "_"): n
        for state, n in Counter(h.state for h in planned.hosts.values()).items()
    }


def build_plan_entry(host: rollout.RolloutHost, result: Mapping[str, Any]) -> dict[str, Any]:
    """Return a host as the file of a plan has it."""
    ends = (result.get("work") or {}).get("ends") or ()
    entry = {"class": host.hardware, "change": host.change, "containers": len(ends)}
    return {**entry, "left_out": host.why} if host.why else entry


def require_plan(data: Any, where: str) -> Mapping[str, Any]:
    """Return the data of a plan file. Raise PlanError, with what it is instead, for anything else."""
    if (
        not isinstance(data, dict)
        or not isinstance(data.get("hosts"), dict)
        or not isinstance(data.get("changes"), dict)
    ):
        raise PlanError(messages.NO_PLAN.fill(), where=where)
    if data.get("schema") != SCHEMA:
        other = messages.OTHER_SCHEMA.fill(schema=data.get("schema"), known=SCHEMA)
        raise PlanError(other, where=where)
    odd = next(
        itertools.chain(
            find_odd_changes(data["changes"]), find_odd_hosts(data["hosts"], data["changes"])
        ),
        "",
    )
    if odd:
        raise PlanError(messages.CHANGED_PLAN.fill(odd=odd), where=where)
    return data


def find_odd_hosts(hosts: Mapping[str, Any], changes: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence for each host whose change the file doesn't show, or shows for other hosts
    alone.

    changes: the file's, each under its own digest. A digest by itself doesn't show what it
    approves.
    """
    shown = {
        digest: row["hosts"] if isinstance(row.get("hosts"), list) else ()
        for digest, row in changes.items()
    }
    named = {
        digest: {host for host in several if isinstance(host, str)}
        for digest, several in shown.items()
    }
    for host, entry in hosts.items():
        digest = entry.get("change") if isinstance(entry, dict) else None
        if not isinstance(digest, str):
            yield messages.PLAN_HOST_CHANGELESS.fill(host=host)
        elif digest and host not in named.get(digest, ()):
            yield messages.PLAN_CHANGE_NOT_SHOWN.fill(host=host)


def find_odd_changes(changes: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence for each change whose digest is that of another one.

    People approve what they read. So a change shown under another digest would get that digest
    approved.
    """
    for digest, row in changes.items():
        parts = {
            key: row.get(key) if isinstance(row, dict) else None
            for key in ("bound", "differences", "restarts")
        }
        if (
            not all(isinstance(part, list) for part in parts.values())
            or change.digest_of(parts) != digest
        ):
            yield messages.PLAN_DIGEST_DIFFERS.fill(change=digest)


def require_inventory(approved: Mapping[str, Any], hosts: Sequence[str], where: str) -> None:
    """Raise PlanError if the plan has none of this run's hosts, since it then is of another
    inventory.

    Some hosts may be new since the plan.
    """
    if hosts and not set(hosts) & set(approved["hosts"]):
        own = names.show_some_runs(hosts)
        if not approved["hosts"]:
            raise PlanError(messages.PLAN_WITHOUT_HOSTS.fill(own=own), where=where)
        others = names.show_some_runs(approved["hosts"])
        raise PlanError(messages.OTHER_INVENTORY.fill(hosts=others, own=own), where=where)


def map_moved_hosts(
    approved: Mapping[str, Any], results: Mapping[str, Mapping[str, Any]]
) -> dict[str, str]:
    """Map each host that plans something else than what was approved to the reason why it is left
    out.

    A host that has nothing to do needs no approval.
    """
    hosts: dict[str, str] = {}
    for host, result in results.items():
        digest = change.digest_change(result, host)
        known = approved["hosts"].get(host)
        if not digest or (known and known.get("change") == digest):
            continue
        if not known:
            hosts[host] = messages.NOT_IN_PLAN.fill()
            continue
        before = approved["changes"].get(known.get("change")) or {}
        sentences = change.list_moved_changes(before, change.build_shared_change(result, host))
        few = names.show_few_texts(sentences, 3, "; ")
        hosts[host] = messages.PLANS_OTHERWISE.fill(changes=few)
    return hosts
