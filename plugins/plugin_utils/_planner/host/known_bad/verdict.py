# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Apply the table to a host: a plan that would change it is refused, or gets a sentence of advice,
depending on `known_bad`.

A host on which nothing is to be changed is never refused: it works as well as it did, and a run
that fails there would repair nothing. This collection's record of a host does not count as a
change: an upgrade of an engine by the host itself leads to another record alone.
"""

from __future__ import annotations

import dataclasses as dc
import posixpath
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
    Sentence,
    end_with_code,
    join_texts,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Plan,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import (
    decision_file,
    earlier_runs,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.known_bad import (
    messages,
    planned_host,
    rules,
    table,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.known_bad.rules import (
    JudgedRows,
    KnownBadRow,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import metrics


class Stopped(PlanError):
    """The refusal of a plan. judged: the table's verdict on that plan."""

    def __init__(
        self,
        judged: JudgedRows,
        what: str,
        *,
        where: str = "",
        why: str = "",
        next: str = "",
        line: int | None = None,
    ) -> None:
        super().__init__(what, where=where, why=why, next=next, line=line)
        self.judged = judged


def judge_known_bad(look: planned_host.KnownBadLook) -> JudgedRows:
    if look.policy.known_bad == "ignore" or look.policy.state == "absent" or look.record.skipped:
        return JudgedRows()
    return rules.judge_rows(table.ROWS, planned_host.views(look))


def list_stopping_rows(policy: Policy, judged: JudgedRows) -> list[KnownBadRow]:
    return [row for row in judged.found if row.stops] if policy.known_bad == "stop" else []


def add_known_bad_advice(policy: Policy, judged: JudgedRows, plan: Plan) -> Plan:
    """Add the table's sentences to a plan. Raise PlanError if a row stops it."""
    stops = list_stopping_rows(policy, judged)
    if stops and has_changes(plan):
        raise build_known_bad_refusal(judged, stops)
    return dc.replace(
        plan, advice=(*plan.advice, *map(describe_row, judged.found), *describe_open_rows(judged))
    )


def has_changes(plan: Plan) -> bool:
    return dc.replace(
        plan, changes=tuple(change for change in plan.changes if not is_record(change))
    ).acts


def is_record(change: Mapping[str, Any]) -> bool:
    path = str(change["path"])
    return (
        path in (decision_file.DECISION_PATH, earlier_runs.FACT_PATH)
        or posixpath.basename(path) == metrics.NAME
    )


def build_known_bad_refusal(judged: JudgedRows, stops: Sequence[KnownBadRow]) -> Stopped:
    what = "; ".join(f"{row.what} ({row.links[0]}) [{row.code}]" for row in stops)
    ways = ". ".join(dict.fromkeys(row.way for row in stops))
    return Stopped(judged, messages.STOPS.fill(rows=what, ways=ways))


def explain_refused_plan(policy: Policy, judged: JudgedRows, error: PlanError) -> PlanError:
    """Return the error of a refused plan, with the rows of the table that explain it."""
    stops = list_stopping_rows(policy, judged)
    known = "; ".join(
        end_with_code(fill_row(messages.EXPLAINS, row, what=row.what, link=row.links[0]))
        for row in stops
    )
    why = "; ".join(filter(None, [error.why, known]))
    return (
        Stopped(judged, error.message, where=error.where, why=why, next=error.next, line=error.line)
        if stops
        else error
    )


def describe_row(row: KnownBadRow) -> Message:
    return fill_row(messages.TOLD, row, what=row.what, way=row.way, link=row.links[0])


def fill_row(sentence: Sentence, row: KnownBadRow, **values: str) -> Message:
    """Return a sentence about a row, with the row's own code."""
    filled = sentence.fill(**values)
    return Message(filled.what, row.code, filled.values)


def describe_open_rows(judged: JudgedRows) -> tuple[str, ...]:
    """Return one sentence for all rows that could not be judged. Empty if there are none."""
    if not judged.open:
        return ()
    lacking = join_texts(
        " and ", dict.fromkeys(word for _row, words in judged.open for word in words)
    )
    # The number of rows is left out, since it would be the only difference between hosts:
    # `known_bad` of the result has it.
    return (messages.NOT_JUDGED.fill(lacking=lacking),)


def convert_rows(judged: JudgedRows) -> list[dict[str, Any]]:
    """Return the rows as a result reports them. applies: null if that is unknown."""
    rows = [(row, True, ()) for row in judged.found]
    unclear = [(row, None, words) for row, words in judged.open]
    return [
        {
            "id": row.id,
            "applies": applies,
            "stops": row.stops,
            "what": row.what,
            "way": row.way,
            "links": list(row.links),
            "unknown": [*words],
        }
        for row, applies, words in (*rows, *unclear)
    ]
