# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What came from a host is shown escaped: no sign of it ends a line, moves the cursor, hides text
or turns its direction.
"""

from __future__ import annotations

import unicodedata
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.text import escape
from hypothesis import given
from hypothesis import strategies as st

CASES = [
    (
        '/etc/containerd/config.toml:3: "x" is not valid',
        '/etc/containerd/config.toml:3: "x" is not valid',
    ),
    ("Münster, 東京, ½", "Münster, 東京, ½"),
    ("a\n\nPLAY RECAP ****\nc17 : ok=3", r"a\n\nPLAY RECAP ****\nc17 : ok=3"),
    ("\x1b[8mconcealed\x1b]0;title\x07", r"\x1b[8mconcealed\x1b]0;title\x07"),
    ("one\rtwo\tthree\bfour\x00", r"one\rtwo\tthree\x08four\x00"),
    ("\x9b31m in one byte, \x85", r"\x9b31m in one byte, \x85"),
    ("line\u2028and\u2029paragraph", r"line\u2028and\u2029paragraph"),
    ("\u202egnp.exe\u2066\u200b\ufeff", r"\u202egnp.exe\u2066\u200b\ufeff"),
    ("no\udcffUTF-8 \ud800", r"no\xffUTF-8 \ud800"),
    ("tag \U000e0041", r"tag \U000e0041"),
]


@pytest.mark.parametrize(("text", "shown"), CASES)
def test_a_line(text: str, shown: str) -> None:
    assert escape.escape_line(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a = 1\n\tb = 2\n", "a = 1\n\tb = 2\n"),
        ("a = 1\r\nb = 2\r\n", "a = 1\r\nb = 2\r\n"),
        ("a\rb\n\x1b[1m", "a\\rb\n\\x1b[1m"),
        ("a\u2028b\r", "a\\u2028b\\r"),
    ],
)
def test_a_text_keeps_its_lines(text: str, shown: str) -> None:
    assert escape.escape_lines(text) == shown


def odd(text: str) -> list[str]:
    return [
        sign
        for sign in text
        if unicodedata.category(sign) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
    ]


anything = st.text(st.characters(), max_size=40)
values = st.recursive(
    st.none() | st.booleans() | anything,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(anything, inner, max_size=3),
)


def strings(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [s for k, v in value.items() for s in (*strings(k), *strings(v))]
    if isinstance(value, list):
        return [s for v in value for s in strings(v)]
    return [value] if isinstance(value, str) else []


@given(anything)
def test_no_sign_of_a_line_is_anything_but_seen(text: str) -> None:
    assert odd(escape.escape_line(text)) == []
    assert len(escape.escape_line(text).splitlines()) <= 1
    assert escape.escape_line(escape.escape_line(text)) == escape.escape_line(text)


@given(anything)
def test_a_text_has_the_lines_that_it_had_and_no_others(text: str) -> None:
    shown = escape.escape_lines(text)
    assert set(odd(shown)) <= {"\n", "\t", "\r"}
    assert shown.count("\n") == text.count("\n")
    assert "\r" not in shown.replace("\r\n", "\n")


@given(
    st.dictionaries(
        anything | st.sampled_from(["msg", "advice", "differences", "warnings", "decision"]),
        values,
        max_size=4,
    )
)
def test_nothing_in_a_result_is_anything_but_seen(told: dict[str, Any]) -> None:
    told.pop("diff", None)
    told.pop("evidence", None)
    assert [s for s in strings(escape.escape_result(told)) if odd(s)] == []


def test_a_diff_keeps_the_lines_of_its_texts_and_not_of_its_paths() -> None:
    path = "/etc/x\nPLAY RECAP"
    diff = {"before_header": path, "after_header": path, "before": "a\nb\x1b\n", "after": "a\n"}
    told = {"diff": [diff], "evidence": {"log": "a\nb\x07"}}
    shown = r"/etc/x\nPLAY RECAP"
    assert escape.escape_result(told) == {
        "diff": [
            {"before_header": shown, "after_header": shown, "before": "a\nb\\x1b\n", "after": "a\n"}
        ],
        "evidence": {"log": "a\nb\\x07"},
    }
