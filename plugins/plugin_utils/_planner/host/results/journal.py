# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Report what happened on a host before this run, from its journal.

These are transactions that were taken back or cut short, and restarts that were left to a person.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import causes
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.text import names
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.earlier_runs import (
    EarlierRuns,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.results import messages

Entry = Mapping[str, Any]

# The part that took a transaction back, in the words of the host -> the words for people.
BY = {
    "the executor": "by the host itself",
    "systemd": "by the host itself",
    "its caller": "by the host itself",
    "its probation": "by the host itself, which continued to monitor it",
    "the timer": "by the host's timer",
    "the next boot": "at the next boot",
    "the next transaction": "by the next run",
}
# The hint in which systemctl names commands whose output is shown here anyway.
HINT = re.compile(r'\s*See "systemctl status [^"]*" and "journalctl [^"]*" for details\.')
# ends the reason of what is written once a transaction was rolled back
AFTER_ROLLBACK = "after a rollback"
# States of a transaction that has made its change, and is only monitored or tidied up.
MADE = ("probation", "committed")
COMMAND_WIDTH = 300  # a package manager's with all that it installs


def list_unacknowledged(earlier: EarlierRuns) -> tuple[str, ...]:
    """List the ids of transactions that were taken back and have not been reported yet."""
    return tuple(str(entry["id"]) for entry in earlier.journal_if_asked.get("outcomes") or ())


def list_stray_directories(earlier: EarlierRuns) -> tuple[str, ...]:
    """List the directories that a transaction has left next to files, if its journal was removed."""
    return tuple(str(path) for path in earlier.journal_if_asked.get("strays") or ())


def cut_short(earlier: EarlierRuns) -> bool:
    """Tell whether a transaction is neither running nor over. It has to be ended before anything is
    planned.
    """
    return any(
        not entry.get("at_work") for entry in earlier.journal_if_asked.get("unfinished") or ()
    )


def cut_short_units(earlier: EarlierRuns) -> tuple[str, ...]:
    """List the units that are restarted again when such a transaction is taken back."""
    ended = (
        entry
        for entry in earlier.journal_if_asked.get("unfinished") or ()
        if not entry.get("at_work")
    )
    return tuple(dict.fromkeys(str(unit) for entry in ended for unit in entry.get("units") or ()))


def name_running_transaction(earlier: EarlierRuns) -> str:
    """Name the transaction that is changing the host right now, '' if there is none.

    A transaction that is only being monitored changes nothing, nor does one that stands and whose
    leftovers are being removed.
    """
    running = (
        e
        for e in earlier.journal_if_asked.get("unfinished") or ()
        if e.get("at_work") and e.get("state") not in MADE
    )
    return next(map(name_transaction, running), "")


def advise_on_journal(earlier: EarlierRuns) -> tuple[str, ...]:
    entries = earlier.journal_if_asked
    return (
        *(describe_rollback(entry) for entry in entries.get("outcomes") or ()),
        *(
            describe_unfinished_transaction(entry)
            for entry in entries.get("unfinished") or ()
            if entry.get("state") not in MADE
        ),
        *(describe_pending_restarts(entry) for entry in entries.get("pending") or ()),
        *(
            messages.JOURNAL_DAMAGED.fill(problem=entry.get("why"))
            for entry in entries.get("damaged") or ()
        ),
        *(messages.STRAY.fill(path=path) for path in list_stray_directories(earlier)),
    )


def convert_journal_time(time: str) -> int:
    """Convert a time of the journal to seconds since 1970, 0 for any other text."""
    try:
        return int(datetime.datetime.fromisoformat(time.replace("Z", "+00:00")).timestamp())
    except ValueError:
        return 0


def name_transaction(entry: Entry) -> str:
    return f"the transaction of {entry.get('time') or 'an unknown time'} ({entry.get('reason') or 'no reason given'})"


def describe_rollback(entry: Entry) -> Message:
    words = "".join(f"; {sentence}" for sentence in list_unit_failures(entry.get("logs") or {}))
    trouble = f"; {entry['trouble']} while it was being rolled back" if entry.get("trouble") else ""
    left = (
        f"; {', '.join(entry['foreign'])}: changed by someone else in the meantime, so left as found"
        if entry.get("foreign")
        else ""
    )
    back = [path for path in entry.get("files") or () if path not in (entry.get("foreign") or ())]
    files = f". Restored: {', '.join(back)}" if back and not trouble else ""
    details = f"{describe_rollback_reason(entry)}{words}{trouble}{left}{files}"
    return messages.TRANSACTION_TAKEN_BACK.fill(
        transaction=name_transaction(entry), by=describe_author(entry), details=details
    )


def describe_author(entry: Entry) -> str:
    return BY.get(str(entry.get("by") or "the executor"), f"by {entry.get('by')}")


def describe_rollback_reason(entry: Entry) -> str:
    return strip_sentence(str(entry.get("why") or "unknown")).rstrip(".")


def strip_sentence(sentence: str) -> str:
    return HINT.sub("", sentence)


def list_unit_failures(logs: Mapping[str, Entry]) -> list[str]:
    """List why each unit failed, by the known causes in its log, with the command that shows the
    log.

    A unit that did not fail has no entry. A unit's own words stay on the host: engines quote values
    of their configuration.
    """
    return [
        describe_unit_failure(unit, log)
        for unit, log in sorted(logs.items())
        if isinstance(log, Mapping) and log.get("failed")
    ]


def describe_unit_failure(unit: str, log: Entry) -> str:
    known = causes.describe_causes(log.get("causes") or ())
    return f"{unit} failed{': ' + known if known else ''} (`{log.get('evidence')}` on the host shows what it said)"


def shorten_command(command: str) -> str:
    return command if len(command) <= COMMAND_WIDTH else command[: COMMAND_WIDTH - 3] + "..."


def describe_transaction(entry: Entry) -> str:
    """Describe what one transaction did."""
    removed = list(entry.get("removed") or ())
    written = [path for path in entry.get("files") or () if path not in removed]
    did = [
        *(f"ran {shorten_command(command)}" for command in entry.get("ran") or ()),
        *([f"wrote {', '.join(written)}"] if written else []),
        *([f"removed {', '.join(removed)}"] if removed else []),
        *list_acted_units(entry),
    ]
    return "; ".join(did) or "nothing"


# The actions of a transaction on units. Docker is reloaded if that is enough, and a manager
# restarts its engine by itself.
ACTED = {"restart": "restarted", "reload": "reloaded", "start": "started", "wait": "waited for"}


def list_acted_units(entry: Entry) -> list[str]:
    """List each kind of action with its units. A unit without a known action counts as restarted."""
    units, actions = list(entry.get("units") or ()), list(entry.get("actions") or ())
    acted_units: dict[str, list[str]] = {}
    for unit, action in zip(units, [*actions, *[""] * len(units)], strict=False):
        acted_units.setdefault(ACTED.get(str(action), ACTED["restart"]), []).append(unit)
    return [f"{verb} {', '.join(its)}" for verb, its in acted_units.items()]


def describe_journal_entry(entry: Entry) -> str:
    """Describe one transaction of the journal in a line for people."""
    ends = {
        "committed": "stands",
        "rolled_back": f"rolled back {describe_author(entry)} because: {describe_rollback_reason(entry)}",
        "probation": "the engine serves; the transaction is still being monitored",
    }
    end = ends.get(str(entry.get("state")), f"not finished (state {entry.get('state')})")
    return f"{entry.get('time') or 'unknown time'} {entry.get('reason') or 'no reason given'}: {describe_transaction(entry)}: {end}"


def describe_unfinished_transaction(entry: Entry) -> Message:
    return messages.TRANSACTION_UNFINISHED.fill(
        transaction=name_transaction(entry), state=entry.get("state")
    )


def describe_pending_restarts(entry: Entry) -> Message:
    return messages.PENDING.fill(
        unit=entry.get("unit"), since=entry.get("since"), reason=entry.get("reason")
    )


def list_recovered_transactions(answer: Entry) -> tuple[str, ...]:
    """List the earlier transactions that this one had to end first."""
    return tuple(
        messages.RECOVERED.fill(
            transaction=name_transaction(entry), problem=entry.get("why") or "unknown"
        )
        for entry in answer.get("recovered") or ()
    )


def report_cleared_journal(answer: Entry) -> tuple[str, ...]:
    """Report that the journal's directory was cleared while the transaction was running. Return ()
    if it was not.
    """
    if not answer.get("rewritten"):
        return ()
    return (messages.REWRITTEN.fill(),)


def report_ended_containers(answer: Entry) -> tuple[str, ...]:
    """Report the containers that ended with the restart. Return () if there are none."""
    lost = (answer.get("containers") or {}).get("lost") or []
    units = ", ".join(answer.get("restarted") or ())
    row = messages.CONTAINER_ENDED if len(lost) == 1 else messages.CONTAINERS_ENDED
    containers = names.count_noun(len(lost), "container")
    return (
        (row.fill(containers=containers, units=units, processes=", ".join(lost)),) if lost else ()
    )
