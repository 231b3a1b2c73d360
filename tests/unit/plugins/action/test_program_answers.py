# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an answer of a program may be: how many bytes, values and levels, and of what form."""

from __future__ import annotations

import base64
import json
import zlib

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    host_answers,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError


def packed(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data)).decode("ascii")


def test_an_answer_that_unpacks_to_more_than_a_look_may_hold_is_refused() -> None:
    assert host_answers.unpack_answer(host_answers.pack({"a": "x" * 1000})) == {"a": "x" * 1000}
    with pytest.raises(PlanError, match=r"128 MiB.*\[transport.answer-too-large\]$"):
        host_answers.unpack_answer(
            base64.b64encode(zlib.compress(bytes(host_answers.LONGEST + 1))).decode("ascii")
        )


NO_ANSWERS = {
    "no base64": "*",
    "not compressed": base64.b64encode(b"{}").decode("ascii"),
    "cut short": packed(b"{}")[:8],
    "no JSON": packed(b"{"),
    "no UTF-8": packed(b'"\xff"'),
    "a number that is too long": packed(b"1" * 200_000),
    "a text without an end": packed(b'"' + b'\\"' * host_answers.MOST_VALUES),
    "a list": packed(b"[]"),
    "nothing": packed(b"null"),
}


@pytest.mark.parametrize("case", NO_ANSWERS)
def test_what_is_no_answer_of_a_program_is_one_sentence(case: str) -> None:
    with pytest.raises(PlanError, match=r"\[transport.not-an-answer\]$"):
        host_answers.read_program_answer(NO_ANSWERS[case])


def test_an_answer_that_is_too_deep_for_a_reader_is_refused() -> None:
    with pytest.raises(PlanError, match=r"\[transport.answer-too-deep\]$"):
        host_answers.read_program_answer(packed(b"[" * 200_000))


def test_an_answer_of_more_values_than_memory_has_room_for_is_refused() -> None:
    """Each empty list is two bytes on the wire, before they are compressed, and half a hundred in
    memory.
    """
    text = json.dumps(
        {"file": "[],{}" * host_answers.MOST_VALUES, "quoted": '"[\\', "more": [1, {}]}
    ).encode()
    assert host_answers.read_program_answer(packed(text))["more"] == [1, {}]
    with pytest.raises(PlanError, match=r"1048576 .*\[transport.answer-too-many-values\]$"):
        host_answers.read_program_answer(packed(b"[" + b"[]," * host_answers.MOST_VALUES + b"[]]"))


def test_brackets_that_close_nothing_are_counted_before_they_are_walked() -> None:
    with pytest.raises(PlanError, match=r"1048576 .*\[transport.answer-too-many-values\]$"):
        host_answers.read_program_answer(packed(b"[" * 66 + b"]" * (host_answers.MOST_VALUES + 1)))
