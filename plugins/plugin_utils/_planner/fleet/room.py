# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the hosts of a batch that have to wait, since others of their group have not come back into
service.

The batches of a plan are within the limits if each host is back when its batch has ended. A host
whose work did not end in time stays out of service, and so does one that failed while it was
drained. With them the next batches would exceed the limit.
"""

from __future__ import annotations

import dataclasses as dc
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import outcomes
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.text import names
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import messages
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet.progress import (
    Progress,
    end_progress,
    map_held_hosts,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet.waves import Limit

SERVERS = "servers"  # the kind of a group that no setting widens


def limits(plan: Mapping[str, Any]) -> Limit:
    """Return the limits of a plan, from the result of rollout_plan."""
    known = plan.get("limits") or {}
    return Limit(known.get("groups") or {}, known.get("allowed") or {})


def begin_batch(
    progress: Progress, out: Sequence[str], rest: Sequence[Mapping[str, str]], most: Limit
) -> Progress:
    """Return the progress with the hosts of the next batch that have to wait.

    It is paused if no host of a later batch could start either. A server that did not come through
    may not serve its cluster's API. So it counts among the servers, drained or not.

    out: the hosts that are out of service.
    rest: each batch that has not ended, the next one first, as host -> class.
    """
    missing = {
        host: list_server_groups(host, most)
        for host in progress.bad
        if host not in out and list_server_groups(host, most)
    }
    out, most = [*out, *missing], dc.replace(most, groups={**most.groups, **missing})
    if not out or progress.ended:
        return progress
    free = [
        [host for host in batch if host not in map_held_hosts(progress, batch)] for batch in rest
    ]
    here = map_waiting_hosts(out, free[0], most)
    full = [
        group
        for group, number in count_groups_out(out, most).items()
        if number >= most.allowed.get(group, number + 1)
    ]
    if here and all(set(full) & set(most.groups.get(host, ())) for hosts in free for host in hosts):
        return end_progress(progress, next(iter(here.values())), paused=True)
    known = {text: list(hosts) for text, hosts in progress.full.items()}
    for host, text in here.items():
        known.setdefault(text, []).append(host)
    return dc.replace(progress, full=known)


def list_server_groups(host: str, most: Limit) -> list[str]:
    """Return the groups of servers that a host is in."""
    return [group for group in most.groups.get(host, ()) if group.startswith(f"{SERVERS} ")]


def map_waiting_hosts(out: Sequence[str], batch: Iterable[str], most: Limit) -> dict[str, str]:
    """Map each host of a batch that finds its groups full to the reason why it waits."""
    counts, waiting = count_groups_out(out, most), {}
    for host in batch:
        groups = most.groups.get(host, ())
        full = next(
            (
                group
                for group in groups
                if group in most.allowed and counts[group] >= most.allowed[group]
            ),
            None,
        )
        if full is None:
            counts.update(groups)
        else:
            waiting[host] = explain_full_room(
                full,
                [name for name in out if full in most.groups.get(name, ())],
                most.allowed[full],
            )
    return waiting


def count_groups_out(out: Iterable[str], most: Limit) -> Counter[str]:
    """Count, for each group, its hosts that are out of service."""
    return Counter(group for host in out for group in most.groups.get(host, ()))


def explain_full_room(group: str, out: Sequence[str], allowed: int) -> str:
    """Return why no further host of a group may be taken out of service.

    out: its hosts that are. allowed: how many may be.
    """
    kind, _blank, name = group.partition(" ")
    if kind == SERVERS:
        row = messages.SERVERS_WAIT if len(out) == 1 else messages.SERVERS_WAIT_FOR_SEVERAL
        return row.fill(hosts=names.show_some_runs(out), group=group)
    row = messages.GROUP_FULL if len(out) == 1 else messages.GROUP_FULL_OF_SEVERAL
    title, most = f"{kind}{name and ' '}{name}", outcomes.format_host_count(allowed)
    return row.fill(hosts=names.show_some_runs(out), group=title, allowed=most)
