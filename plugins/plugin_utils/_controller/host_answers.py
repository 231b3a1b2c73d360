# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the answers of programs on hosts: packed, within limits, and in their shapes.

A host under another's control may answer anything.
"""

from __future__ import annotations

import base64
import itertools
import json
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import messages
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    read_error_message,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.shapes import (
    edge,
    rules,
)

T = TypeVar("T")
LONGEST = 1 << 27  # bytes of an answer: eight times what a look may hold
MOST_VALUES = 1 << 20  # of an answer: each takes some hundred bytes here, even a short one
# nested lists and tables of an answer: its own few, and those of a configuration that an engine
# reports
DEEPEST = 64
# Strings of JSON without escapes, closed or not. They are found in one pass, whatever a host has
# sent.
_STRINGS = re.compile(rb'"[^"]*"?')
_BRACKETS = re.compile(rb"[\[\]{}]")


def pack(value: Any) -> str:
    """Write a value as compressed JSON: short on the wire, and no readable file contents in a debug
    log.
    """
    return base64.b64encode(zlib.compress(json.dumps(value).encode("utf-8"))).decode("ascii")


def unpack_answer(text: str) -> Any:
    """Read what a host has packed. Fail if it exceeds the limits.

    A host under another's control could answer with gigabytes of nothing in a megabyte.
    """
    stream = zlib.decompressobj()
    try:
        data = stream.decompress(base64.b64decode(text), LONGEST)
        if stream.unconsumed_tail:
            raise PlanError(messages.ANSWER_TOO_LARGE.fill(limit=LONGEST >> 20))
        if len(data) > MOST_VALUES and _count_values(data) > MOST_VALUES:
            raise PlanError(messages.ANSWER_TOO_MANY_VALUES.fill(limit=MOST_VALUES))
        if not stream.eof:
            raise ValueError("cut short")
        if data.count(b"[") + data.count(b"{") > DEEPEST and _count_depth(data) > DEEPEST:
            raise PlanError(messages.ANSWER_TOO_DEEP.fill(limit=DEEPEST))
        return json.loads(data.decode("utf-8"), parse_constant=_refuse_non_number)
    except (ValueError, zlib.error, RecursionError):
        raise PlanError(messages.NO_ANSWER.fill()) from None


def _refuse_non_number(word: str) -> None:
    """Refuse NaN and Infinity: Python's json accepts them, but they are not JSON."""
    raise ValueError(word)


def _strip_strings(data: bytes) -> bytes:
    """Return a text of JSON without its strings."""
    return _STRINGS.sub(b"", data.replace(b"\\\\", b"").replace(b'\\"', b""))


def _count_depth(data: bytes) -> int:
    """Return the depth of nested lists and tables in a text of JSON."""
    return max(
        itertools.accumulate(
            (1 if sign in b"[{" else -1 for sign in _BRACKETS.findall(_strip_strings(data))),
            initial=0,
        )
    )


def _count_values(data: bytes) -> int:
    """Return an upper bound of the number of values in a text of JSON. No value is made for it."""
    bare = _strip_strings(data)
    # Unmatched closing brackets count as well: each is a step of `_count_depth`.
    return bare.count(b",") + max(
        bare.count(b"[") + bare.count(b"{"), bare.count(b"]") + bare.count(b"}")
    )


def read_program_answer(text: str) -> dict[str, Any]:
    """Return the answer of a program. Fail unless it is a table."""
    answer = unpack_answer(text)
    if not isinstance(answer, dict):
        raise PlanError(messages.NO_ANSWER.fill())
    return answer


def judge_answer(read: Callable[[], T]) -> T:
    """Read an answer in its shape.

    An answer of another shape is a failure of its host. The message contains the broken rule, and
    no word of the answer.
    """
    try:
        return read()
    except rules.BrokenShape as broken:
        raise PlanError(messages.ANSWER_SHAPE.fill(broken=read_error_message(broken))) from None


def name_answers(answer: Any, asked: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the answer to a look, with each query's answer by its id.

    asked: the queries as they were sent.
    """
    return judge_answer(lambda: edge.read_look_answers(answer, asked))
