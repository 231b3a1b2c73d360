# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read a CDI spec in the form that our generator and nvidia-ctk write, without a YAML parser.

A YAML parser takes longer than the rest of a plan. A spec is read only if it can be read in one
way: block style, one value a line, the specification's keys in their own case, and whole numbers
where numbers belong. Text is in quotes without an escape, or cannot be taken for a number or for a
word of YAML's. All else is for yaml.py and schema.py, whose document this one equals.
"""

from __future__ import annotations

import re
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.engine_view.schema import (
    RANGES,
    SHAPES,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.engine_view.yaml import (
    WORDS,
)

# Text, in which a colon ends a key only before a blank or the end of the line; a version; a number;
# text in quotes.
_TEXT = r"(?:-{0,2}[A-Za-z_]|\.{0,2}/)(?:[A-Za-z0-9_./=,:@+%-]*[A-Za-z0-9_./=,@+%-])?"
_VALUE = rf'{_TEXT}|[0-9]+\.[0-9]+\.[0-9]+|0|[1-9][0-9]{{0,9}}|"[A-Za-z0-9 _./=,:@+%-]*"'
HEAD = re.compile(r"(?:#[ -~]*\n)*(?:---\n)?")
LINE = re.compile(rf"^( *)(- )?(?:([A-Za-z]+):(?: ({_VALUE}))?|({_VALUE}))\n", re.MULTILINE)

# shape -> field -> what it holds, and whether a list of that
FIELDS = {
    shape: {
        field: (kind.removeprefix("[]").removeprefix("*"), kind.startswith("[]"))
        for field, kind in fields.items()
    }
    for shape, fields in SHAPES.items()
}

# indentation, whether an item begins, a key, its value, an item without a key
Line = tuple[str, str, str, str, str]


class _Other(Exception):
    """An error: the text has another form."""


def read_plain_spec(text: str) -> dict[str, Any] | None:
    """Return the document that schema.fit_spec_document makes of this text; None if the text has
    another form.
    """
    head = HEAD.match(text)
    begin = head.end() if head else 0
    lines: list[Line] = LINE.findall(text, begin)
    if len(lines) != text.count("\n", begin) or not text.endswith("\n"):
        return None
    try:
        document, end = _read_mapping(lines, 0, 0, "spec")
    except _Other:
        return None
    return document if document and end == len(lines) else None


def _read_mapping(
    lines: list[Line], at: int, column: int, shape: str
) -> tuple[dict[str, Any], int]:
    fields, count = FIELDS[shape], len(lines)
    mapping: dict[str, Any] = {}
    while at < count:
        indent, item, key, value, _text = lines[at]
        if len(indent) != column or item:
            break
        if key in mapping or key not in fields:
            raise _Other
        kind, many = fields[key]
        at += 1
        if value and not many:
            mapping[key] = _read_scalar(value, kind)
        elif value or at == count:
            raise _Other
        elif many:
            mapping[key], at = _read_list(lines, at, column, kind)
        else:
            mapping[key], at = _read_below(lines, at, column, kind)
    return mapping, at


def _read_below(lines: list[Line], at: int, column: int, kind: str) -> tuple[dict[str, Any], int]:
    inner = len(lines[at][0])
    if inner <= column or kind not in FIELDS:
        raise _Other
    mapping, end = _read_mapping(lines, at, inner, kind)
    if end == at:
        raise _Other
    return mapping, end


def _read_list(lines: list[Line], at: int, column: int, kind: str) -> tuple[list[Any], int]:
    """Read a list, and return it with the line that follows. column: of the key, which a list may
    share.
    """
    inner, count = len(lines[at][0]), len(lines)
    items: list[Any] = []
    if inner < column or not lines[at][1]:
        raise _Other
    while at < count:
        indent, item, key, value, text = lines[at]
        if len(indent) != inner or not item:
            break
        if key and kind not in FIELDS:
            raise _Other
        if key:  # the rest of the line is the first of a mapping
            lines[at] = (indent + "  ", "", key, value, text)
            entry, at = _read_mapping(lines, at, inner + 2, kind)
            items.append(entry)
        else:
            items.append(_read_scalar(text, kind))
            at += 1
    return items, at


def _read_scalar(value: str, kind: str) -> str | int:
    if kind == "string":
        if value[0] == '"':
            return value[1:-1]
        if value in WORDS or value.isdecimal():
            raise _Other
        return value
    if kind not in RANGES or not value.isdecimal() or int(value) > RANGES[kind][1]:
        raise _Other
    return int(value)
