# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Escape a host's text for a terminal. Its paths, arguments, names and log lines may be an
attacker's choice.

Each character that is not printable is written as its escape. These are control characters
(colours, titles, concealed text), line ends that would forge a line of output, signs that turn the
direction of writing, and bytes that are not text. It is applied to whole results when they leave an
action.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

_ODD = re.compile(r"[^\x20-\x7e]")
ODD_KEYS = ("diff", "evidence", "ansible_stats")  # of a result
_NO_TEMPLATE = str.maketrans("{}", "()")
DEEPEST = 100  # levels of a value; Ansible walks each result by recursion
ELIDED = "..."
Text = Callable[[str], str]
_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def escape_line(text: str) -> str:
    """Escape a text for one line: no sign in it ends the line, moves in it, or is invisible."""
    return text if text.isprintable() else _ODD.sub(_escape_match, text)


def escape_lines(text: str) -> str:
    """Escape a text, and keep its line ends of either kind and its tabs."""
    if text.isprintable():
        return text
    rows = text.split("\n")
    ends = ["\r" if row.endswith("\r") and n + 1 < len(rows) else "" for n, row in enumerate(rows)]
    shown = (
        "\t".join(escape_line(cell) for cell in row.removesuffix(end).split("\t"))
        for row, end in zip(rows, ends, strict=True)
    )
    return "\n".join(row + end for row, end in zip(shown, ends, strict=True))


def _escape_match(found: re.Match[str]) -> str:
    sign = found.group()
    if sign.isprintable():
        return sign
    code = ord(sign)
    if 0xDC80 <= code <= 0xDCFF:  # a byte that is not UTF-8
        return f"\\x{code - 0xDC00:02x}"
    return _NAMED.get(sign) or (
        f"\\x{code:02x}"
        if code < 0x100
        else f"\\u{code:04x}"
        if code < 0x10000
        else f"\\U{code:08x}"
    )


def escape_result(shaped: Mapping[str, Any]) -> dict[str, Any]:
    """Escape a whole result of an action, keys and values, at any depth.

    Line ends stay in the texts of --diff and in the evidence.
    """
    return {
        escape_line(_convert_key(key)): _escape_texts(value, str(key))
        if key in ODD_KEYS
        else escape_every_string(value, escape_line)
        for key, value in shaped.items()
    }


def _escape_texts(value: Any, key: str) -> Any:
    if key == "ansible_stats":
        return escape_templates(value)
    if key == "evidence" or not isinstance(value, list):
        return escape_every_string(value, escape_lines)
    several = ("before", "after", "prepared")
    return [
        {
            escape_line(_convert_key(k)): escape_every_string(
                v, escape_lines if k in several else escape_line
            )
            for k, v in entry.items()
        }
        for entry in value
    ]


def replace_braces(text: str) -> str:
    """Replace braces by parentheses.

    With braces, text that a run passes to the next one as a variable, by AWX or on the command
    line, is a template.
    """
    return text.translate(_NO_TEMPLATE)


def escape_templates(value: Any) -> Any:
    """Escape a value so that its keys and texts contain no template.

    Use it for the statistics of a run, and for what a filter returns to the template that calls it.
    """

    def escaped(text: str) -> str:
        return replace_braces(escape_line(text))

    return escape_every_string(value, escaped, escaped)


def escape_every_string(
    value: Any, escaped: Text, of_key: Text = escape_line, depth: int = 0
) -> Any:
    """Return a value of JSON's own types with each string in it escaped by `escaped`, and each key
    by `of_key`.

    An instance of a subclass becomes one of the type itself: Ansible marks texts as templates, or
    as none, by classes of its own.
    """
    if isinstance(value, str):
        return escaped(str.__str__(value))
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, float):
        return float.__float__(value) if math.isfinite(value) else str(float.__float__(value))
    if depth > DEEPEST:
        return ELIDED
    if isinstance(value, Mapping):
        return {
            of_key(_convert_key(name)): escape_every_string(of, escaped, of_key, depth + 1)
            for name, of in value.items()
        }
    if isinstance(value, list | tuple | set | frozenset):
        return [escape_every_string(one, escaped, of_key, depth + 1) for one in value]
    return f"<{type(value).__name__}>"


def _convert_key(name: Any) -> str:
    """Return a key in the form that JSON has for it."""
    if isinstance(name, str):
        return str.__str__(name)
    return (
        json.dumps(name)
        if name is None or isinstance(name, bool | int | float)
        else f"<{type(name).__name__}>"
    )
