# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers of hosts, held against their shapes before anything reads them. Broken names the kind of
the query, never its ID.

An ID may be made of what an earlier answer contained, and so quote the host. Answers to no query,
and keys that no shape names, are dropped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.shapes import (
    common,
    messages,
    observer,
    programs,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.shapes.rules import (
    AskedQuery,
    BrokenShape,
    Shape,
    TableShape,
    TreeShape,
    is_exactly,
)

_ERROR = TableShape({"error": common.ERROR})
_UNKNOWN = TableShape({"value": TreeShape()})  # of a probe that is none of this collection's


def name_shape_row(question: AskedQuery) -> str:
    """Return the name of the row for a query."""
    kind = str(question.get("kind"))
    if kind == "probe":
        return f"probe {str(question['id']).partition(':')[2]}"
    if kind == "cri":
        return f"cri {question['method']}{' count' if question.get('count') else ''}"
    return (
        "http configuration"
        if kind == "http" and isinstance(question.get("keep"), Mapping)
        else kind
    )


def read_query_answer(question: AskedQuery, given: Any) -> dict[str, Any]:
    """Return one answer of the observer in its shape.

    An error is an answer to every query. Raise BrokenShape for another shape.
    """
    name = name_shape_row(question)
    shape: Shape = observer.ROWS.get(name, _UNKNOWN)
    if is_exactly(given, dict) and "error" in given and name != "file":
        shape = _ERROR
    try:
        answer: dict[str, Any] = shape.read(given, question)
    except BrokenShape as broken:
        raise broken.place_below(name) from None
    return answer


def read_look_answers(given: Any, asked: Sequence[AskedQuery]) -> dict[str, Any]:
    """Return the answer to a look, each query's by its ID. asked: the queries as they were sent, in
    their order.
    """
    try:
        whole = TableShape({"schema": programs.SCHEMA, "host": observer.HOST}).read(given, {})
        answers = given.get("answers")
        if not is_exactly(answers, dict):
            raise BrokenShape(messages.NOT_OF_SHAPE.fill(shape="a table"), ("answers",))
    except BrokenShape as broken:
        raise broken.place_below("observe") from None
    named = {}
    for at, question in enumerate(asked):
        if str(at) not in answers:
            if "where" in question:  # not every host answers it
                continue
            raise BrokenShape(messages.KEY_MISSING.fill(), (name_shape_row(question),))
        named[str(question["id"])] = read_query_answer(question, answers[str(at)])
    return {**whole, "answers": named}


def read_program_result(name: str, request: AskedQuery, given: Any) -> dict[str, Any]:
    """Return the answer of a program other than the observer. request: as it was sent."""
    try:
        result: dict[str, Any] = programs.ROWS[name].read(given, request)
    except BrokenShape as broken:
        raise broken.place_below(name) from None
    return result
