# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What happened on a host before this run, out of its journal: transactions taken back, cut short, restarts left to somebody."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils import ask
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils.model import JOURNAL_DIR
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils.observation import Observation

Entry = Mapping[str, Any]

# Who took a transaction back, in the node side's words and in those of people.
BY = {
    "the hands": "by the host itself",
    "systemd": "by the host itself",
    "its caller": "by the host itself",
    "its probation": "by the host itself, which went on watching it",
    "the timer": "by the host's timer",
    "the next boot": "at the next boot",
    "the next transaction": "by the next run",
}
# systemd's own lines in the log of a unit, those that tell of a failure, and what a program says when all is well.
SYSTEMD = re.compile(r"\S+\.(service|socket|scope|slice): |(Starting|Started|Stopping|Stopped|Reloading|Reloaded|Failed to start) ")
FAILURE = re.compile(r"\S+\.service: (Main process exited|Control process exited|Failed with result)")
# systemctl's advice to look at what is told here anyway.
HINT = re.compile(r'\s*See "systemctl status [^"]*" and "journalctl [^"]*" for details\.')
COMMAND_WIDTH = 60
CHATTER = re.compile(r"level=\"?(trace|debug|info|warn)|^[IW]\d{4} ")


def journal(obs: Observation) -> Entry:
    """What the journal says, {} where nobody asked."""
    question = ask.originals(JOURNAL_DIR)
    return obs.raw(question) if obs.asked(question) else {}


def untold(obs: Observation) -> tuple[str, ...]:
    """Transactions that were taken back and that nobody has been told of yet."""
    return tuple(str(entry["id"]) for entry in journal(obs).get("outcomes") or ())


def cut_short(obs: Observation) -> bool:
    """Whether there is a transaction that nobody is at work on and that is not over: it has to be ended before anything is planned."""
    return any(not entry.get("at_work") for entry in journal(obs).get("unfinished") or ())


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
    words = "".join(f"; {unit} said: {line}" for unit, line in last_words(entry.get("logs") or {}))
    trouble = f"; {entry['trouble']} while it was taken back" if entry.get("trouble") else ""
    left = f"; {', '.join(entry['foreign'])}: changed by somebody else meanwhile, so left as found" if entry.get("foreign") else ""
    back = [path for path in entry.get("files") or () if path not in (entry.get("foreign") or ())]
    files = f". As before again: {', '.join(back)}" if back and not trouble else ""
    return f"{named(entry)} was rolled back {by(entry)} because: {because(entry)}{words}{trouble}{left}{files}"


def by(entry: Entry) -> str:
    return BY.get(str(entry.get("by") or "the hands"), f"by {entry.get('by')}")


def because(entry: Entry) -> str:
    return plain(str(entry.get("why") or "unknown")).rstrip(".")


def plain(sentence: str) -> str:
    return HINT.sub("", sentence)


def last_words(logs: Mapping[str, str]) -> list[tuple[str, str]]:
    """What each unit said last before it failed; nothing of one that did not fail, or that failed without a word."""
    found = [(unit, telling(text)) for unit, text in sorted(logs.items())]
    return [(unit, line) for unit, line in found if line]


def telling(log: str) -> str:
    """The last line that the unit's own program wrote before systemd says that it failed, unless it is everyday chatter."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    end = next((i for i, line in reversed(list(enumerate(lines))) if FAILURE.match(line)), -1)
    begin = next((i for i in range(end, -1, -1) if lines[i].startswith("Starting ")), 0)
    own = [line for line in lines[begin : max(end, 0)] if not SYSTEMD.match(line)]
    fatal = [line for line in own if re.search(r"level=\"?(fatal|panic)|^(panic|fatal error): ", line)]
    told = fatal[:1] or [line for line in own if not CHATTER.search(line)][-1:]
    return told[0][:300] if told else ""


def cut(command: str) -> str:
    return command if len(command) <= COMMAND_WIDTH else command[: COMMAND_WIDTH - 3] + "..."


def done(entry: Entry) -> str:
    """What one transaction did, in words."""
    removed = list(entry.get("removed") or ())
    written = [path for path in entry.get("files") or () if path not in removed]
    did = [
        *(f"ran {cut(command)}" for command in entry.get("ran") or ()),
        *([f"wrote {', '.join(written)}"] if written else []),
        *([f"removed {', '.join(removed)}"] if removed else []),
        *([f"restarted {', '.join(entry['units'])}"] if entry.get("units") else []),
    ]
    return "; ".join(did) or "nothing"


def history(entry: Entry) -> str:
    """One transaction of the journal as a line for people."""
    ends = {
        "committed": "stands",
        "rolled_back": f"rolled back {by(entry)} because: {because(entry)}",
        "probation": "serves, and is still watched",
    }
    end = ends.get(str(entry.get("state")), f"not over (state {entry.get('state')})")
    return f"{entry.get('time') or 'unknown time'} {entry.get('reason') or 'no reason given'}: {done(entry)}: {end}"


def unfinished(entry: Entry) -> str:
    return f"{named(entry)} is not over (state {entry.get('state')}): it is still at work, or the next transaction takes it back"


def pending(entry: Entry) -> str:
    return (
        f"{entry.get('unit')} runs with the configuration from before {entry.get('since')} ({entry.get('reason')}): "
        "its restart was left to you"
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
