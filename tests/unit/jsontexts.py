# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""JSON texts as people and programs write them.

The same value comes in one line, in many, with tabs, with Windows' line ends, with odd blanks.
"""

from __future__ import annotations

import dataclasses as dc
import json
from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

BYTE_ORDER_MARK = "\ufeff"


class Raw(str):
    """A token that is written as it is: numbers in forms that no serialiser writes."""


@dc.dataclass(frozen=True)
class Style:
    newline: str  # '' = everything in one line
    indent: str
    colon: str
    comma_first: bool
    ascii: bool
    mark: bool
    around: tuple[str, str]  # before and behind the object
    ragged: bool  # blanks at unexpected places


styles = st.builds(
    Style,
    newline=st.sampled_from(["\n", "\n", "\r\n", ""]),
    indent=st.sampled_from(["  ", "    ", "\t", " "]),
    colon=st.sampled_from([": ", ":", " : ", ":\t"]),
    comma_first=st.sampled_from([False, False, False, True]),
    ascii=st.booleans(),
    mark=st.sampled_from([False, False, False, True]),
    around=st.sampled_from([("", "\n"), ("", ""), ("\n\n", "\n\n"), ("  ", " \r\n")]),
    ragged=st.sampled_from([False, False, True]),
)


def written(value: Any, style: Style) -> str:
    before, behind = style.around
    return (BYTE_ORDER_MARK if style.mark else "") + before + _value(value, style, 0) + behind


def _value(value: Any, style: Style, depth: int) -> str:
    if isinstance(value, Raw):
        return str(value)
    if isinstance(value, Mapping):
        members = [
            json.dumps(k, ensure_ascii=style.ascii) + style.colon + _value(v, style, depth + 1)
            for k, v in value.items()
        ]
        return _listed("{}", members, style, depth)
    if isinstance(value, list):
        return _listed("[]", [_value(v, style, depth + 1) for v in value], style, depth)
    return json.dumps(value, ensure_ascii=style.ascii)


def _listed(signs: str, parts: list[str], style: Style, depth: int) -> str:
    opened, closed = signs
    if not parts:
        return opened + (" " if style.ragged else "") + closed
    if not style.newline:
        return (
            opened
            + ("  " if style.ragged else "")
            + (" , " if style.ragged else ", ").join(parts)
            + closed
        )
    end = style.newline + style.indent * (depth + 1)
    lines = (
        f"{end}, " if style.comma_first else f",{style.newline if style.ragged else ''}{end}"
    ).join(parts)
    return f"{opened}{end}{lines}{style.newline}{style.indent * depth}{closed}"


numbers = st.sampled_from(
    [Raw(n) for n in ("12345678901234567890", "1.0", "1e3", "-0", "0.10", "1E+2", "5")]
)
words = st.text(st.characters(codec="utf-8", exclude_characters="\x7f"), max_size=8)
scalars = st.one_of(st.none(), st.booleans(), numbers, words)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(words, values, max_size=5)
