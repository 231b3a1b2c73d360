# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tables of docs/answers.md, from the table by which answers are judged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.shapes import (
    observer,
    programs,
    rules,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.shapes.rules import (
    Shape,
)
from page_table import table


def queries() -> str:
    """Return the table of the observer's answers: about the host itself, then by the kind of a
    query.
    """
    return shown({"host": observer.HOST, **observer.ROWS})


def others() -> str:
    return shown(programs.ROWS)


def shown(rows: Mapping[str, Shape]) -> str:
    body = [
        [f"`{name}`", f"`{place or '-'}`", rule]
        for name, shape in rows.items()
        for place, rule in lines(shape, "")
    ]
    return table(["answer", "place", "what it is"], dict.fromkeys(map(tuple, body)))


def lines(shape: Shape, place: str) -> Iterator[tuple[str, str]]:
    """Yield each place of a shape that holds a value, with its rule."""
    inner = list(below(shape, place))
    if not inner:
        yield place, shape.rule
    for there, part in inner:
        yield from lines(part, there)


def below(shape: Shape, place: str) -> Iterator[tuple[str, Shape]]:
    """Yield the parts of a shape, each with its place."""
    match shape:
        case rules.TableShape():
            yield from ((f"{place}.{key}".lstrip("."), part) for key, part in shape.fields.items())
        case rules.RowShape():
            yield from ((f"{place}[{at}]", part) for at, part in enumerate(shape.parts))
        case rules.Items():
            yield f"{place}[]", shape.each
        case rules.Keyed() | rules.Named():
            yield f"{place}.*".lstrip("."), shape.each
        case rules.Maybe() if list(below(shape.inner, place)):
            yield from below(shape.inner, place)
        case rules.When():
            yield from ((place, part) for part in shape.shapes.values())
        case rules.Has():
            yield from ((place, part) for part in (shape.then, shape.other))
