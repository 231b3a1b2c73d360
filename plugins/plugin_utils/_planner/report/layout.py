# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tables of text that fit a terminal: columns, wrapped cells, and the long sentence below its row where there is no room next to it."""

from __future__ import annotations

from collections.abc import Sequence

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.report import escape

GAP = 2
NARROWEST = 8  # of a column that is made narrower so that the table fits
NAME = 24  # a first column wider than this is wrapped where room is short
MIN_LAST_COLUMN = 40  # less than this next to the other columns, and the last one goes below its row
INDENT = 4
MARKS = "./-"  # a long word is broken after one of these

Row = Sequence[str]


def flat(value: object) -> str:
    """One line without control characters: what comes from a host never moves a cursor nor ends a line."""
    return escape.line(" ".join(str(value).split()))


def wrap(text: str, width: int) -> list[str]:
    """Lines of at most this width, never none. A word that is longer than a line is broken, so nothing is cut off."""
    width = max(width, NARROWEST)
    found = [""]
    for word in flat(text).split(" "):
        if found[-1] and len(found[-1]) + 1 + len(word) > width:
            found.append("")
        last = f"{found[-1]} {word}" if found[-1] else word
        found[-1:] = pieces(last, width)
    return found


def pieces(word: str, width: int) -> list[str]:
    """A word in parts that fit, broken after a mark of a key, path or version in the second half of the line: names stay whole."""
    found, at = [], 0
    while len(word) - at > width:
        marked = max(word.rfind(mark, at + width // 2, at + width) for mark in MARKS)
        end = marked + 1 if marked >= 0 else at + width
        found.append(word[at:end])
        at = end
    return [*found, word[at:]]


def hang(text: str, width: int, indent: int, more: int = 2) -> list[str]:
    """One entry as a paragraph, its further lines indented a little more."""
    first, rest = " " * indent, " " * (indent + more)
    return [(rest if n else first) + line for n, line in enumerate(wrap(text, width - indent - more))]


def table(head: Row, rows: Sequence[Row], width: int) -> list[str]:
    """Head and rows in columns. The last column is the sentence that explains the row; it gets the room that is left."""
    cells = [[flat(c) for c in head], *([flat(c) for c in row] for row in rows)]
    natural = [max(len(row[i]) for row in cells) for i in range(len(head))]
    last = width - sum(natural[:-1]) - GAP * (len(head) - 1)
    if last >= min(natural[-1], MIN_LAST_COLUMN):
        return [line for row in cells for line in lines(row, [*natural[:-1], last])]
    widths = shrunk(natural[:-1], width)
    found = lines(cells[0][:-1], widths)
    for row in cells[1:]:
        found += [*lines(row[:-1], widths), *(" " * INDENT + line for line in wrap(row[-1], width - INDENT) if line)]
    return found


def shrunk(widths: Sequence[int], width: int) -> list[int]:
    """The widest columns become narrower until all fit, or until none can. The first one, a name, keeps more."""
    found = [min(widths[0], NAME), *widths[1:]]
    over = sum(found) + GAP * (len(found) - 1) - width
    while over > 0 and max(found[1:], default=0) > NARROWEST:
        at = found.index(max(found[1:]), 1)
        found[at] -= 1
        over -= 1
    return found


def lines(row: Row, widths: Sequence[int]) -> list[str]:
    """One row as as many lines as its longest cell takes."""
    parts = [wrap(cell, width) if len(cell) > width else [cell] for cell, width in zip(row, widths, strict=True)]
    height = max(len(part) for part in parts)
    filled = [[*part, *[""] * (height - len(part))] for part in parts]
    return ["".join(part[n].ljust(w + GAP) for part, w in zip(filled, widths, strict=True)).rstrip() for n in range(height)]
