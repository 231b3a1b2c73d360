# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build the messages of a running rollout: lines for people, and events for chat and for silences
of alerts.

Each event is one JSON line.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import outcomes
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.text import (
    layout,
    names,
    sentences,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import rollout
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet.progress import (
    Progress,
)

SCHEMA = 1
START, BATCH, GATE, STOP, END = "start", "batch", "gate", "stop", "end"
SETTING = "gpufleet_rollout_events"


def build_event_line(event: str, at: str, change_ref: str, **values: Any) -> str:
    """Return an event as one line of JSON.

    at: the time in UTC. change_ref: the ticket, '' for none.
    """
    return json.dumps(
        {"schema": SCHEMA, "event": event, "time": at, "change_ref": change_ref, **values},
        ensure_ascii=False,
    )


def build_start_event(plan: Mapping[str, Any]) -> dict[str, Any]:
    """Build the values of the event `start`: the numbers of hosts and batches. plan: the result of
    rollout_plan.
    """
    counts = Counter(get_planned_kind(host) for host in plan["hosts"].values())
    return {
        "hosts": len(plan["hosts"]),
        **{key: counts[key] for key in KINDS},
        "batches": len(plan["batches"]),
    }


KINDS = ("to_change", "again", "done", "left_out")


def get_planned_kind(host: Mapping[str, Any]) -> str:
    """Return what the plan has for a host, one of KINDS.

    `again` is a host that is as desired, and is verified again or put back into service.
    """
    state = str(host["state"])
    return {rollout.DONE: "done", rollout.LEFT_OUT: "left_out"}.get(state) or (
        "to_change" if host["change"] or host.get("moves") else "again"
    )


def build_batch_place(plan: Mapping[str, Any], number: int) -> dict[str, Any]:
    """Build the values that tell which batch it is. With its hosts, alerts of just these can be
    silenced.
    """
    batch = plan["batches"][number]
    return {
        "batch": number + 1,
        "of": len(plan["batches"]),
        "wave": batch["wave"],
        "hosts": list(batch["hosts"]),
    }


def build_gate_event(words: Mapping[str, str], found: Progress, total: int) -> dict[str, Any]:
    """Return what the gate knows after a batch.

    words: host -> outcome. total: the number of hosts to change.
    """
    counts = Counter(outcomes.OUTCOMES[word].key for word in words.values())
    return {
        "results": dict(counts),
        "bad": dict(found.bad),
        "done": found.done,
        "total": total,
        "ended": found.ended,
    }


FOLDED_FROM = 3  # so many hosts of one class with the same outcome share a line


def list_hosts(by_host: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Build the lines of a batch's hosts. Equal outcomes of a class share a line from three hosts
    on.

    by_host: the parts of each host's line, the most urgent first.
    """
    alike: dict[tuple[str, ...], list[str]] = {}
    for host, about in by_host.items():
        alike.setdefault(
            (
                about["class"],
                about["word"],
                sentences.get_sentence_key(str(about.get("why") or ""), host),
            ),
            [],
        ).append(host)
    lines = []
    for hosts in alike.values():
        parts = [[host] for host in hosts] if len(hosts) < FOLDED_FROM else [hosts]
        lines += [describe_hosts(part, by_host) for part in parts]
    return lines


def describe_hosts(hosts: Sequence[str], by_host: Mapping[str, Mapping[str, Any]]) -> str:
    """Build the line of hosts with one outcome: their class, their names, the outcome, the seconds
    of their change, the reason.
    """
    first = by_host[hosts[0]]
    seconds = sorted(
        round(by_host[h]["seconds"])
        for h in hosts
        if isinstance(by_host[h].get("seconds"), int | float)
    )
    span = (
        ""
        if not seconds
        else f", {seconds[0]} s"
        if seconds[0] == seconds[-1]
        else f", {seconds[0]} to {seconds[-1]} s"
    )
    said = sentences.merge_sentences(
        layout.flatten_text(by_host[h].get("why") or "") for h in hosts
    )
    named = f"{names.show_some_runs(hosts)} ({len(hosts)})" if len(hosts) > 1 else hosts[0]
    return f"  {first['class']}  {named}  {outcomes.OUTCOMES[first['word']].total}{span}{f': {said}' if said else ''}"


def summarize_batch(
    number: int,
    plan: Mapping[str, Any],
    words: Mapping[str, str],
    found: Progress,
    *,
    limit: int,
    seconds: float,
) -> str:
    """Build the line that ends a batch.

    limit: the number of hosts that may fail. seconds: the time since the first batch began, 0 if
    that is not measured.
    """
    # If the second look did not let a changed host pass, the host has failed. It is counted once.
    counts = Counter("failed" if host in found.unhealthy else word for host, word in words.items())
    here = (
        ", ".join(
            f"{counts[word]} {one.total}" for word, one in outcomes.OUTCOMES.items() if counts[word]
        )
        or "no host started"
    )
    total = sum(len(batch["hosts"]) for batch in plan["batches"])
    bad = f"{len(found.bad)} of at most {limit} failed{f': {names.show_some_runs(found.bad)}' if found.bad else ''}"
    left = seconds / found.done * (total - found.done) if found.done else 0
    clock = f"; {write_clock(seconds)} so far" if seconds else ""
    clock += f", about {write_clock(left)} left" if clock and left else ""
    return f"batch {number + 1} of {len(plan['batches'])} ended: {here}; {found.done} of {total} hosts so far, {bad}{clock}"


def write_clock(seconds: float) -> str:
    """Return a duration as 0:07, 12:30 or 3:12:30."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def sort_outcome_words(words: Mapping[str, str]) -> Sequence[str]:
    """Return the hosts of a batch, the most urgent outcome first."""
    return sorted(
        words, key=lambda host: (outcomes.URGENCY[words[host]], names.build_natural_key(host))
    )
