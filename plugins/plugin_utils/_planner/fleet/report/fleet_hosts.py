# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build the table that ends plan, site and rollback: the hosts, their differences, and notes for
people.
"""

from __future__ import annotations

import dataclasses as dc
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import outcomes
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.text import (
    layout,
    names,
    sentences,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet.report import (
    fleet_diffs,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.results import (
    groups,
    leftovers,
)

WIDTH = 120
ADVICE_SHOWN = 40  # sentences of one host
# at the end of a sentence, which a reason of the table does not have
CODE = re.compile(r" \[[a-z0-9.-]+\]$")
FOLDED_FROM = 3  # so many hosts with equal lines share one

Cells = Callable[[str, outcomes.Result], Sequence[str]]


@dc.dataclass(frozen=True)
class FleetView:
    """The way to show a fleet.

    details: whether each distinct change is shown. reasons: whether with why it is made. check: whether
    the results are of check mode. cells: the user's own columns, instead of those
    below.
    """

    width: int = WIDTH
    details: bool = False
    check: bool = False
    titles: tuple[str, ...] = ()
    cells: Cells | None = None
    reasons: bool = True


def list_fleet_lines(results: outcomes.Results, view: FleetView) -> list[str]:
    """Lay out a fleet: the result first, then hosts that need a person, the hosts, their
    differences, and notes.
    """
    counts = outcomes.count_outcomes(results, view.check)
    bad = counts["needs_person"]
    person = (
        layout.lay_out_paragraph(
            f"to be looked at: {names.show_some_runs(bad, groups.HOSTS_SHOWN)}", view.width, 0
        )
        if bad
        else []
    )
    below = [
        *(
            groups.list_group_lines(results, view.width, view.check, view.reasons)
            if view.details
            else ()
        ),
        *fleet_diffs.list_changes(results, view.width),
        *leftovers.list_leftover_lines(results, view.width, view.check, view.details),
        *list_fleet_notes(results, view.width),
    ]
    return [
        outcomes.summarise_outcomes(counts),
        *person,
        "",
        *list_host_lines(results, view),
        *below,
    ]


def list_host_lines(results: outcomes.Results, view: FleetView) -> list[str]:
    """Build one line for each host, or for each group of hosts with the same line; the most urgent
    first, then by name.

    A column of the table's own with one value on all hosts leaves the table. A line below it has
    the value.
    """
    cells = view.cells or (
        lambda host, result: list(build_host_columns(host, result, view.check).values())[1:]
    )
    titles = view.titles or tuple(build_host_columns("", {}, view.check))[1:]
    order = sorted(
        results,
        key=lambda h: (
            outcomes.URGENCY[outcomes.judge_outcome(results[h], view.check).word],
            names.build_natural_key(h),
        ),
    )
    rows = fold_equal_rows([(host, tuple(cells(host, results[host]))) for host in order])
    constant = {} if view.cells else find_constant_cells(rows)
    shown = [
        row[:1] + tuple(cell for at, cell in enumerate(row[1:]) if at not in constant)
        for row in rows
    ]
    kept = [title.upper() for at, title in enumerate(titles) if at not in constant]
    same = ", ".join(f"{titles[at]} {cell}" for at, cell in constant.items() if cell != "-")
    below = layout.lay_out_paragraph(f"on all hosts: {same}", view.width, 0) if same else []
    return [*layout.lay_out_table(["HOST", *kept], shown, view.width), *below]


def find_constant_cells(rows: Sequence[tuple[str, ...]]) -> dict[int, str]:
    """Return the cells that all rows share, by the number of their column without the host's. The
    last one, a sentence, stays.
    """
    if len(rows) < 2:
        return {}
    return {
        at: rows[0][at + 1]
        for at in range(len(rows[0]) - 2)
        if len({row[at + 1] for row in rows}) == 1
    }


def fold_equal_rows(rows: Sequence[tuple[str, tuple[str, ...]]]) -> list[tuple[str, ...]]:
    """Merge the lines of hosts with equal cells, from three hosts on. The last cell, a sentence,
    may differ in a host's own words.
    """
    alike: dict[tuple[str, ...], list[tuple[str, str]]] = {}
    for host, row in rows:
        alike.setdefault((*row[:-1], sentences.get_sentence_key(row[-1], host)), []).append(
            (host, row[-1])
        )
    folded: list[tuple[str, ...]] = []
    for key, same in alike.items():
        if len(same) < FOLDED_FROM:
            folded += [(host, *key[:-1], sentence) for host, sentence in same]
        else:
            folded.append(
                (
                    name_hosts([h for h, _s in same]),
                    *key[:-1],
                    sentences.merge_sentences(s for _h, s in same),
                )
            )
    return folded


def name_hosts(hosts: Sequence[str]) -> str:
    """Return hosts in short form, with their number if there are several."""
    return f"{names.show_some_runs(hosts)} ({len(hosts)})" if len(hosts) > 1 else hosts[0]


def build_host_columns(host: str, result: outcomes.Result, check: bool = False) -> dict[str, str]:
    """Return the table's own columns of one host, by title."""
    row: Mapping[str, Any] = result.get("row") or {}
    return {
        "host": host,
        "engine": str(row.get("engine") or "?"),
        "gpus": str(row.get("gpus") or "?"),
        "injection": str(row.get("injection") or "-"),
        "changed": outcomes.judge_outcome(result, check).word,
        "restarted": ", ".join(u.removesuffix(".service") for u in list_row_restarts(result, row))
        or "-",
        "why": explain_host_row(result, str(row.get("why") or "")),
    }


def list_row_restarts(result: outcomes.Result, row: Mapping[str, Any]) -> list[str]:
    """Return the units that a host's run has restarted, or would restart."""
    if "restarted" in result or "would_restart" in result:
        return groups.list_group_units(result)
    return [str(row["restarted"])] if row.get("restarted") not in (None, "", "-") else []


def explain_host_row(result: outcomes.Result, otherwise: str) -> str:
    """Return why a host is in trouble, else the other text."""
    trouble = outcomes.explain_trouble(result)
    if trouble == "not reached":
        return "no result: the host failed or was lost before this step, or its wave did not start"
    if trouble == "refused":
        return str(result["problem"])
    # ansible-core 2.19 and newer begin each such message with its own words.
    return (
        (str(result.get("msg") or "").removeprefix("Task failed: ") or otherwise)
        if trouble
        else otherwise
    )


def show_first_sentences(advice: Sequence[object]) -> list[object]:
    """Return the first sentences of a host, and one with the number of the others."""
    rest = len(advice) - ADVICE_SHOWN
    return [
        *advice[:ADVICE_SHOWN],
        *(
            [f"{names.count_noun(rest, 'more sentence')} in the result of this host"]
            if rest > 0
            else []
        ),
    ]


def list_fleet_notes(results: outcomes.Results, width: int) -> list[str]:
    """List what people should know or do, each sentence once with its hosts.

    Sentences that the table has already are left out.
    """
    notes: dict[str, list[tuple[str, str]]] = {}
    for host, result in sorted(results.items(), key=lambda item: names.build_natural_key(item[0])):
        reasons = layout.flatten_text((result.get("row") or {}).get("why") or "")
        for sentence in (
            layout.flatten_text(a) for a in show_first_sentences(result.get("advice") or ())
        ):
            if CODE.sub("", sentence) not in reasons:
                notes.setdefault(sentences.get_sentence_key(sentence, host), []).append(
                    (host, sentence)
                )
    texts = [
        f"{names.show_some_runs((h for h, _s in same), groups.HOSTS_SHOWN)}: {sentences.merge_sentences(s for _h, s in same)}"
        for same in notes.values()
    ]
    return (
        ["", *(line for text in texts for line in layout.lay_out_paragraph(text, width, 0))]
        if texts
        else []
    )
