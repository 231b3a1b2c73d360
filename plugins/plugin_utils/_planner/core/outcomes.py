# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge the outcome of each host in a run, the most urgent first, and count the totals on which
programs branch.
"""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import outcome_messages
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.text import names

Result = Mapping[str, Any]
Results = Mapping[str, Result]


@dc.dataclass(frozen=True)
class HostOutcome:
    """An outcome of a host, in the words of tables, summaries and statistics."""

    word: str  # in the table
    total: str  # in the summary
    key: str  # in the statistics
    person: bool  # whether someone has to look at the host


# The order of the table: hosts that need a person first, hosts that are as desired last.
OUTCOMES = {
    o.word: o
    for o in (
        HostOutcome("failed", "failed", "failed", True),
        HostOutcome("rolled back", "rolled back", "rolled_back", True),
        HostOutcome("lost", "lost", "lost", True),
        HostOutcome("refused", "refused", "refused", True),
        HostOutcome("not reached", "not reached", "not_reached", True),
        HostOutcome("left out", "left out", "left_out", True),
        HostOutcome("pending", "pending", "pending", False),
        HostOutcome("not managed", "not managed", "not_managed", False),
        HostOutcome("would", "would change", "would_change", False),
        HostOutcome("yes", "changed", "changed", False),
        HostOutcome("no", "unchanged", "unchanged", False),
    )
}
URGENCY = {word: n for n, word in enumerate(OUTCOMES)}
# totals that are never a success
WRONG = (
    "failed",
    "rolled_back",
    "not_verified",
    "lost",
    "not_reached",
)
# an error only for a person who wants the fleet to be converged already
DRIFT = (
    "refused",
    "would_change",
)


def judge_outcome(result: Result, check: bool = False) -> HostOutcome:
    """Return what became of a host."""
    return OUTCOMES[explain_trouble(result) or name_outcome_state(result, check)]


def explain_trouble(result: Result) -> str:
    """Return the word for a host that did not come through; '' if nothing is wrong."""
    if not result:
        return "not reached"
    if result.get("standing"):  # of a rollout: a host that it does not take, or has not come to
        return str(result["standing"])
    if result.get("unreachable"):
        return "lost"
    if result.get("failed"):
        return "rolled back" if result.get("rolled_back") else "failed"
    return "refused" if result.get("problem") else ""


def name_outcome_state(result: Result, check: bool) -> str:
    """Return the word for a host that came through: changed, would change, as it was, or not
    managed.
    """
    if result.get("changed") or result.get("differences"):
        return "would" if check or "would_restart" in result else "yes"
    return "not managed" if (result.get("row") or {}).get("managed") is False else "no"


def merge_failures(result: Result, others: Mapping[bool, Sequence[Result]]) -> Result:
    """Return a host's result with other failures of the same run: a host whose verification failed
    is not a changed host.

    others: the other results, by whether they are looks. The failure of a look counts only if no
    step came after it. If a result lacks the host's row and decision, another one of the same run
    gives them.
    """
    looks, steps = others.get(True, ()), others.get(False, ())
    about = next(
        (
            {k: o[k] for k in ("row", "decision") if k in o}
            for o in (*looks, *steps)
            if o.get("row")
        ),
        {},
    )
    done = bool(result) and not result.get("skipped")
    bad = next(
        (o for o in (*steps, *(() if done else looks)) if o.get("failed") or o.get("unreachable")),
        None,
    )
    if bad is None or explain_trouble(result) not in ("", "not reached"):
        return {**about, **result} if result else result
    failure = {k: bad[k] for k in ("failed", "unreachable", "msg") if k in bad}
    return {**about, **result, **failure}


def count_outcomes(results: Results, check: bool = False) -> dict[str, Any]:
    """Return numbers for programs; `needs_person` has the names of hosts."""
    judged = {host: judge_outcome(result, check) for host, result in results.items()}
    counts = {o.key: 0 for o in OUTCOMES.values()}
    for o in judged.values():
        counts[o.key] += 1
    return {
        "hosts": len(results),
        **counts,
        "needs_person": sorted(host for host, o in judged.items() if o.person),
    }


def summarise_outcomes(counts: Mapping[str, Any]) -> str:
    """Return the counts as a line: `8 hosts: 1 failed, 5 changed, 2 unchanged, 1 needs attention`."""
    counted = (
        ", ".join(f"{counts[o.key]} {o.total}" for o in OUTCOMES.values() if counts[o.key])
        or "nothing to report"
    )
    bad = len(counts["needs_person"])
    return f"{format_host_count(counts['hosts'])}: {counted}, {bad} need{'s' if bad == 1 else ''} attention"


def format_host_count(number: int) -> str:
    """Return a number of hosts, in words: `1 host`, `3 hosts`."""
    return names.count_noun(number, "host")


def explain_failed_run(
    counts: Mapping[str, Any], fail_on_drift: bool = False, max_lost: int = 0
) -> str:
    """Explain why a run must not end with exit status 0, '' if it may.

    max_lost: the number of hosts that may be lost, if not all are.
    """
    allowed = counts.get("lost", 0) <= max_lost and counts.get("lost") != counts["hosts"]
    kinds = [key for key in WRONG if counts.get(key) and not (key == "lost" and allowed)]
    wrong = [f"{counts[key]} {key.replace('_', ' ')}" for key in kinds]
    drifted = (
        [
            f"{counts[o.key]} {o.total}"
            for o in OUTCOMES.values()
            if o.key in DRIFT and counts.get(o.key)
        ]
        if fail_on_drift
        else []
    )
    # If a run fails anyway, each host that needs a person fails, so each of them is counted.
    others = [
        o
        for o in OUTCOMES.values()
        if o.person and o.key not in WRONG and not (fail_on_drift and o.key in DRIFT)
    ]
    wrong += [f"{counts[o.key]} {o.total}" for o in others if counts.get(o.key)] if wrong else []
    bad = counts["needs_person"] if wrong else []
    # The names are of all hosts that need a person. Directly behind one number they would look like
    # the hosts that it counts.
    same = len(wrong) == 1 and not drifted and len(bad) == sum(counts.get(key, 0) for key in WRONG)
    if not wrong and not drifted:
        return ""
    row = outcome_messages.RUN_DRIFTED if drifted else outcome_messages.RUN_FAILED
    hosts, by_outcome = format_host_count(counts["hosts"]), ", ".join([*wrong, *drifted])
    ended = row.fill(hosts=hosts, counts=by_outcome)
    named = outcome_messages.RUN_OF_HOSTS if same else outcome_messages.RUN_TO_LOOK_AT
    return named.fill(ended=ended, hosts=names.show_some_runs(bad)) if bad else ended


def list_failures(results: Results, check: bool, fail_on_drift: bool) -> dict[str, str]:
    """Return the hosts of a run that is not a success, each with its outcome and the cause, for
    Ansible to show them as failed.
    """
    judged = {host: judge_outcome(result, check) for host, result in results.items()}
    wanted = [host for host, o in judged.items() if o.person or (fail_on_drift and o.key in DRIFT)]
    causes = {
        host: str(results[host].get("msg") or results[host].get("problem") or "") for host in wanted
    }
    return {
        host: f"{judged[host].total}{f': {causes[host]}' if causes[host] else ''}"
        for host in sorted(wanted, key=names.build_natural_key)
    }


def count_refused_hosts(results: Results) -> dict[str, int]:
    """Count the hosts that a plan refuses to touch."""
    return {"refused": sum(explain_trouble(result) == "refused" for result in results.values())}


def count_reached_hosts(results: Results) -> dict[str, Any]:
    """Return the totals of a run that changes nothing: the numbers of hosts without an answer."""
    troubles = {host: explain_trouble(result) for host, result in results.items()}
    counts = {
        key: sum(word == key.replace("_", " ") for word in troubles.values())
        for key in ("failed", "lost", "not_reached")
    }
    return {
        "hosts": len(results),
        **counts,
        "needs_person": sorted(h for h, word in troubles.items() if word and word != "refused"),
    }
