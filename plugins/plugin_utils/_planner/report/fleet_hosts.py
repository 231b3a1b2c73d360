# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build the table that ends plan, site and rollback: the hosts, their differences, and notes for people."""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.report import groups, layout, leftovers, names, outcomes, sentences

WIDTH = 120
ADVICE_SHOWN = 40  # sentences of one host
ONE_BY_ONE = 24  # more hosts than this, and those with equal lines share one

Cells = Callable[[str, outcomes.Result], Sequence[str]]


@dc.dataclass(frozen=True)
class View:
    """The way to show a fleet.

    check: whether the results are of check mode. cells: the user's own columns, instead of those below.
    """

    width: int = WIDTH
    details: bool = False
    check: bool = False
    titles: tuple[str, ...] = ()
    cells: Cells | None = None


def lines(results: outcomes.Results, view: View) -> list[str]:
    counts = outcomes.totals(results, view.check)
    bad = counts["needs_person"]
    named = names.some(bad, groups.HOSTS_SHOWN)
    person = layout.hang(f"{outcomes.plural(len(bad))} need{'s' if len(bad) == 1 else ''} your attention: {named}", view.width, 0)
    below = [
        *(groups.lines(results, view.width, view.check) if view.details else ()),
        *leftovers.lines(results, view.width, view.check, view.details),
        *notes(results, view.width),
    ]
    return [*hosts(results, view), "", outcomes.summary(counts), *(person if bad else ()), *below]


def hosts(results: outcomes.Results, view: View) -> list[str]:
    """Build one line for each host, or for each group of hosts with the same line; the most urgent first, then by name."""
    cells = view.cells or (lambda host, result: list(columns(host, result, view.check).values())[1:])
    titles = view.titles or tuple(columns("", {}, view.check))[1:]
    order = sorted(results, key=lambda h: (outcomes.URGENCY[outcomes.outcome(results[h], view.check).word], names.natural(h)))
    rows = [(host, tuple(cells(host, results[host]))) for host in order]
    found = [(host, *row) for host, row in rows] if len(rows) <= ONE_BY_ONE else shared(rows)
    return layout.table(["HOST", *(t.upper() for t in titles)], found, view.width)


def shared(rows: Sequence[tuple[str, tuple[str, ...]]]) -> list[tuple[str, ...]]:
    """Merge the lines of hosts with equal cells. The last cell, a sentence, may differ in a host's own words."""
    found: dict[tuple[str, ...], list[tuple[str, str]]] = {}
    for host, row in rows:
        found.setdefault((*row[:-1], sentences.key(row[-1], host)), []).append((host, row[-1]))
    return [(called([h for h, _s in same]), *key[:-1], sentences.common(s for _h, s in same)) for key, same in found.items()]


def called(hosts: Sequence[str]) -> str:
    return f"{names.some(hosts)} ({len(hosts)})" if len(hosts) > 1 else hosts[0]


def columns(host: str, result: outcomes.Result, check: bool = False) -> dict[str, str]:
    """Return the table's own columns of one host, by title."""
    row: Mapping[str, Any] = result.get("row") or {}
    return {
        "host": host,
        "engine": str(row.get("engine") or "?"),
        "gpus": str(row.get("gpus") or "?"),
        "injection": str(row.get("injection") or "-"),
        "changed": outcomes.outcome(result, check).word,
        "restarted": ", ".join(u.removesuffix(".service") for u in restarts(result, row)) or "-",
        "why": why(result, str(row.get("why") or "")),
    }


def restarts(result: outcomes.Result, row: Mapping[str, Any]) -> list[str]:
    if "restarted" in result or "would_restart" in result:
        return groups.units(result)
    return [str(row["restarted"])] if row.get("restarted") not in (None, "", "-") else []


def why(result: outcomes.Result, otherwise: str) -> str:
    trouble = outcomes.trouble(result)
    if trouble == "not reached":
        return "no result: the host failed or was lost before this step, or its wave did not start"
    if trouble == "refused":
        return str(result["problem"])
    # ansible-core 2.19 and newer begin each such message with its own words.
    return (str(result.get("msg") or "").removeprefix("Task failed: ") or otherwise) if trouble else otherwise


def shown(advice: Sequence[object]) -> list[object]:
    """Return the first sentences of a host, and one with the number of the others."""
    rest = len(advice) - ADVICE_SHOWN
    return [*advice[:ADVICE_SHOWN], *([f"{names.counted(rest, 'more sentence')} in the result of this host"] if rest > 0 else [])]


def notes(results: outcomes.Results, width: int) -> list[str]:
    """List what people should know or do, each sentence once with its hosts.

    Sentences that the table has already are left out.
    """
    found: dict[str, list[tuple[str, str]]] = {}
    for host, result in sorted(results.items(), key=lambda item: names.natural(item[0])):
        reasons = layout.flat((result.get("row") or {}).get("why") or "")
        for sentence in (layout.flat(a) for a in shown(result.get("advice") or ())):
            if sentence not in reasons:
                found.setdefault(sentences.key(sentence, host), []).append((host, sentence))
    texts = [f"{names.some((h for h, _s in same), groups.HOSTS_SHOWN)}: {sentences.common(s for _h, s in same)}" for same in found.values()]
    return ["", *(line for text in texts for line in layout.hang(text, width, 0))] if texts else []
