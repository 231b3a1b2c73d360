# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What happened on a host before this run, out of its journal: transactions taken back, cut short, restarts left to somebody."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils import ask
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils.model import JOURNAL_DIR
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils.observation import Observation

Entry = Mapping[str, Any]


def journal(obs: Observation) -> Entry:
    """What the journal says, {} where nobody asked."""
    question = ask.originals(JOURNAL_DIR)
    return obs.raw(question) if obs.asked(question) else {}


def untold(obs: Observation) -> tuple[str, ...]:
    """Transactions that were taken back and that nobody has been told of yet."""
    return tuple(str(entry["id"]) for entry in journal(obs).get("outcomes") or ())


def cut_short(obs: Observation) -> bool:
    """Whether there is a transaction that nobody is at work on and that is not over: it has to be ended before anything is planned."""
    return any(entry.get("state") != "probation" and not entry.get("at_work") for entry in journal(obs).get("unfinished") or ())


def advice(obs: Observation) -> tuple[str, ...]:
    seen = journal(obs)
    return (
        *(taken_back(entry) for entry in seen.get("outcomes") or ()),
        *(unfinished(entry) for entry in seen.get("unfinished") or () if entry.get("state") != "probation"),
        *(pending(entry) for entry in seen.get("pending") or ()),
    )


def named(entry: Entry) -> str:
    return f"the transaction of {entry.get('time') or 'an unknown time'} ({entry.get('reason') or 'no reason given'})"


def taken_back(entry: Entry) -> str:
    trouble = f"; {entry['trouble']} while it was taken back" if entry.get("trouble") else ""
    left = f"; {', '.join(entry['foreign'])}: changed by somebody else meanwhile, so left as found" if entry.get("foreign") else ""
    return f"{named(entry)} was rolled back by {entry.get('by') or 'the host'} because: {entry.get('why') or 'unknown'}{trouble}{left}"


def unfinished(entry: Entry) -> str:
    return f"{named(entry)} is not over (state {entry.get('state')}): it is still at work, or the next transaction takes it back"


def pending(entry: Entry) -> str:
    return (
        f"{entry.get('unit')} runs with the configuration from before {entry.get('since')} ({entry.get('reason')}): "
        "its restart was left to you by restart: never"
    )


def recovered(answer: Entry) -> tuple[str, ...]:
    """Earlier transactions that this one had to bring to an end first."""
    return tuple(
        f"{named(entry)} was not over and was rolled back first, because: {entry.get('why') or 'unknown'}"
        for entry in answer.get("recovered") or ()
    )


def ended(answer: Entry) -> tuple[str, ...]:
    """Containers that did not outlive the restart."""
    lost = (answer.get("containers") or {}).get("lost") or []
    units = ", ".join(answer.get("restarted") or ())
    return (f"{len(lost)} container(s) ended while {units} restarted: first processes {', '.join(lost)}",) if lost else ()
