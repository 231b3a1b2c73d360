# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lay out tables of text for a terminal: columns and wrapped cells.

A long sentence goes below its row if it has no room beside it.
"""

from __future__ import annotations

from collections.abc import Sequence

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.text import (
    bounds,
    escape,
)

GAP = 2
NARROWEST = 8  # of a column that is made narrower so that the table fits
NAME = 24  # a first column wider than this is wrapped where room is short
# less than this next to the other columns, and the last one goes below its row
MIN_LAST_COLUMN = 40
INDENT = 4
MARKS = "./-"  # a long word is broken after one of these
# Characters of one cell and of one sentence. Further ones are only counted. So these limits bound
# the lines of a host.
CELL, SENTENCE = 200, 2000

Row = Sequence[str]


def flatten_text(value: object, most: int = SENTENCE) -> str:
    """Return one line without control characters, cut before all else.

    So text from a host never moves a cursor, ends a line or takes the room of others.
    """
    return escape.escape_line(" ".join(bounds.shorten_text(str(value), most).split()))


def wrap(text: str, width: int) -> list[str]:
    """Break a text into lines of at most this width, and at least one.

    A word longer than a line is broken, so nothing is cut off.
    """
    width = max(width, NARROWEST)
    lines = [""]
    for word in flatten_text(text).split(" "):
        if lines[-1] and len(lines[-1]) + 1 + len(word) > width:
            lines.append("")
        last = f"{lines[-1]} {word}" if lines[-1] else word
        lines[-1:] = split_word(last, width)
    return lines


def split_word(word: str, width: int) -> list[str]:
    """Break a word into parts that fit, each after a mark of a key, path or version in the second
    half of the line.

    So names stay whole. Without a mark, a part is as long as the line.
    """
    parts, at = [], 0
    while len(word) - at > width:
        marked = max(word.rfind(mark, at + width // 2, at + width) for mark in MARKS)
        end = marked + 1 if marked >= 0 else at + width
        parts.append(word[at:end])
        at = end
    return [*parts, word[at:]]


def lay_out_paragraph(text: str, width: int, indent: int, more: int = 2) -> list[str]:
    """Lay out one entry as a paragraph, its further lines indented a little more."""
    first, rest = " " * indent, " " * (indent + more)
    return [
        (rest if n else first) + line for n, line in enumerate(wrap(text, width - indent - more))
    ]


def lay_out_table(head: Row, rows: Sequence[Row], width: int) -> list[str]:
    """Lay out head and rows in columns.

    The last column is the sentence that explains the row; it gets the room that is left.
    """
    most = [SENTENCE, *[CELL] * (len(head) - 2), SENTENCE]
    cells = [
        [flatten_text(cell, limit) for cell, limit in zip(row, most, strict=False)]
        for row in (head, *rows)
    ]
    natural = [max(len(row[i]) for row in cells) for i in range(len(head))]
    last = width - sum(natural[:-1]) - GAP * (len(head) - 1)
    if last >= min(natural[-1], MIN_LAST_COLUMN):
        return [line for row in cells for line in lay_out_row(row, [*natural[:-1], last])]
    widths = narrow_columns(natural[:-1], width)
    lines = lay_out_row(cells[0][:-1], widths)
    for row in cells[1:]:
        lines += [
            *lay_out_row(row[:-1], widths),
            *(" " * INDENT + line for line in wrap(row[-1], width - INDENT) if line),
        ]
    return lines


def narrow_columns(widths: Sequence[int], width: int) -> list[int]:
    """Narrow the widest columns until all fit, or until none can shrink. The first one, a name,
    keeps more.

    All columns that are wider than one level shrink to it. The first of them lose one more
    character each while the sum is still too large.
    """
    first, others = min(widths[0], NAME), widths[1:]
    room = width - first - GAP * len(others)
    if sum(others) <= room:
        return [first, *others]
    low, high = NARROWEST, max(others, default=NARROWEST)
    while low < high:
        middle = (low + high) // 2
        low, high = (
            (low, middle) if sum(min(one, middle) for one in others) >= room else (middle + 1, high)
        )
    narrowed = [min(one, low) for one in others]
    over = sum(narrowed) - room if low > NARROWEST else 0
    for at, one in enumerate(narrowed):
        if over > 0 and one == low:
            narrowed[at] -= 1
            over -= 1
    return [first, *narrowed]


def lay_out_row(row: Row, widths: Sequence[int]) -> list[str]:
    """Lay out one row, in as many lines as its longest cell takes."""
    parts = [
        wrap(cell, width) if len(cell) > width else [cell]
        for cell, width in zip(row, widths, strict=True)
    ]
    height = max(len(part) for part in parts)
    filled = [[*part, *[""] * (height - len(part))] for part in parts]
    return [
        "".join(part[n].ljust(w + GAP) for part, w in zip(filled, widths, strict=True)).rstrip()
        for n in range(height)
    ]
