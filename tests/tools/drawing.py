# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Boxes, arrows and words of an SVG picture. The same values give the same bytes."""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Iterable, Sequence
from html import escape

PLAIN = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"
MONOSPACE = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
# The widest that an average character of these fonts is, in parts of the size.
WIDTHS = {PLAIN: 0.56, MONOSPACE: 0.602}
INK, QUIET, LINE = "#1f2328", "#57606a", "#8c959f"
FILLS = {
    "question": ("#fff8c5", "#bf8700"),
    "good": ("#dafbe1", "#1a7f37"),
    "bad": ("#ffebe9", "#cf222e"),
    "plain": ("#f6f8fa", "#8c959f"),
    "ours": ("#ddf4ff", "#0969da"),
}


@dc.dataclass(frozen=True)
class Box:
    """A rectangle with lines of words in it."""

    left: int
    top: int
    width: int
    height: int

    @property
    def middle(self) -> int:
        return self.left + self.width // 2

    @property
    def right(self) -> int:
        return self.left + self.width

    @property
    def bottom(self) -> int:
        return self.top + self.height

    @property
    def center(self) -> int:
        return self.top + self.height // 2


class TooWide(Exception):
    """Words that do not fit into their box."""


def draw_text(
    left: int,
    top: int,
    words: str,
    *,
    size: int = 13,
    fill: str = INK,
    font: str = PLAIN,
    anchor: str = "start",
    weight: str = "normal",
) -> str:
    return (
        f'<text x="{left}" y="{top}" font-family="{font}" font-size="{size}" fill="{fill}"'
        f' text-anchor="{anchor}" font-weight="{weight}" xml:space="preserve">{escape(words)}</text>'
    )


def draw_box(box: Box, lines: Sequence[str], kind: str = "plain", *, size: int = 13) -> str:
    """Return a box with its lines in the middle, the first one in bold.

    Raise TooWide if a line is wider than the box.
    """
    fill, stroke = FILLS[kind]
    room = box.width - 12
    for line in lines:
        if len(line) * size * WIDTHS[PLAIN] > room:
            raise TooWide(f"{line!r} needs {len(line) * size * WIDTHS[PLAIN]:.0f} of {room}")
    step = size + 5
    first = box.center - (len(lines) - 1) * step // 2 + size // 3
    words = "".join(
        draw_text(
            box.middle,
            first + number * step,
            line,
            size=size,
            anchor="middle",
            weight="normal" if number else "bold",
            fill=QUIET if number else INK,
        )
        for number, line in enumerate(lines)
    )
    return (
        f'<rect x="{box.left}" y="{box.top}" width="{box.width}" height="{box.height}" rx="6"'
        f' fill="{fill}" stroke="{stroke}"/>{words}'
    )


def draw_arrow(points: Sequence[tuple[int, int]], label: str = "", *, dashed: bool = False) -> str:
    """Return a line through points with a head at its end, and a label beside its first part."""
    path = " ".join(f"{'M' if not number else 'L'}{x} {y}" for number, (x, y) in enumerate(points))
    style = ' stroke-dasharray="5 4"' if dashed else ""
    (x, y), (following_x, following_y) = points[:2]
    words = ""
    if label:
        beside = x == following_x
        words = draw_text(
            x + 6 if beside else (x + following_x) // 2,
            (y + following_y) // 2 + 4 if beside else y - 6,
            label,
            size=12,
            fill=QUIET,
            anchor="start" if beside else "middle",
        )
    return f'<path d="{path}" fill="none" stroke="{LINE}"{style} marker-end="url(#head)"/>{words}'


def draw_picture(width: int, height: int, title: str, parts: Iterable[str]) -> str:
    """Return a whole picture on white, which is readable on a dark page as well."""
    head = (
        '<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7"'
        f' markerHeight="7" orient="auto"><path d="M0 0L10 5L0 10z" fill="{LINE}"/></marker></defs>'
    )
    names = 'xmlns="http://www.w3.org/2000/svg" role="img"'
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    lines = [
        f"<svg {names} {size}>",
        f"<title>{escape(title)}</title>",
        head,
        f'<rect width="{width}" height="{height}" rx="8" fill="#ffffff"/>',
        *parts,
        "</svg>",
    ]
    return "\n".join(lines) + "\n"
