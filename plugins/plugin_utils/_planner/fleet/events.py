# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build the messages of a running rollout: lines for people, and events for chat and for silences of alerts.

Each event is one JSON line.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import rollout
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet.progress import Progress
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.report import layout, names, outcomes

SCHEMA = 1
START, BATCH, GATE, STOP, END = "start", "batch", "gate", "stop", "end"
SETTING = "gpufleet_rollout_events"


def line(event: str, at: str, change_ref: str, **values: Any) -> str:
    return json.dumps({"schema": SCHEMA, "event": event, "time": at, "change_ref": change_ref, **values}, ensure_ascii=False)


def start(plan: Mapping[str, Any]) -> dict[str, Any]:
    """Build the values of the event `start`: the numbers of hosts and batches. plan: the result of rollout_plan."""
    counts = Counter(kind(host) for host in plan["hosts"].values())
    return {"hosts": len(plan["hosts"]), **{key: counts[key] for key in KINDS}, "batches": len(plan["batches"])}


KINDS = ("to_change", "again", "done", "left_out")


def kind(host: Mapping[str, Any]) -> str:
    """Return what the plan has for a host, one of KINDS.

    `again` is a host that is as desired, and is proven again or put back into service.
    """
    state = str(host["state"])
    return {rollout.DONE: "done", rollout.LEFT_OUT: "left_out"}.get(state) or ("to_change" if host["change"] else "again")


def place(plan: Mapping[str, Any], number: int) -> dict[str, Any]:
    """Build the values that tell which batch it is. With its hosts, alerts of just these can be silenced."""
    batch = plan["batches"][number]
    return {"batch": number + 1, "of": len(plan["batches"]), "wave": batch["wave"], "hosts": list(batch["hosts"])}


def gate(words: Mapping[str, str], found: Progress, total: int) -> dict[str, Any]:
    counts = Counter(outcomes.OUTCOMES[word].key for word in words.values())
    return {"results": dict(counts), "bad": dict(found.bad), "done": found.done, "total": total, "ended": found.ended}


def of_host(host: str, about: Mapping[str, Any]) -> str:
    """Build the line of one host: its class, its name, its outcome, the time of its change, the reason."""
    took = f", {about['seconds']:.0f} s" if isinstance(about.get("seconds"), int | float) else ""
    why = f": {layout.flat(about['why'])}" if about.get("why") else ""
    return f"  {about['class']}  {host}  {outcomes.OUTCOMES[about['word']].total}{took}{why}"


def of_batch(number: int, plan: Mapping[str, Any], words: Mapping[str, str], found: Progress) -> str:
    # If the second look did not let a changed host pass, the host has failed. It is counted once.
    counts = Counter("failed" if host in found.unhealthy else word for host, word in words.items())
    here = ", ".join(f"{counts[word]} {one.total}" for word, one in outcomes.OUTCOMES.items() if counts[word]) or "no host started"
    total = sum(len(batch["hosts"]) for batch in plan["batches"])
    bad = f", of which {len(found.bad)} failed, rolled back or lost: {names.some(found.bad)}" if found.bad else ""
    return f"batch {number + 1} of {len(plan['batches'])} ended: {here}; {found.done} of {total} hosts so far{bad}"


def ordered(words: Mapping[str, str]) -> Sequence[str]:
    return sorted(words, key=lambda host: (outcomes.URGENCY[words[host]], names.natural(host)))
