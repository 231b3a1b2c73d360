# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A reading of TOML texts by tomlkit, order and comments included: a second opinion on every edit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import tomlkit
from tomlkit import container, items

Path = tuple[str, ...]
# what it is, the key or table that it belongs to, and how it is written
Fact = tuple[str, Path, str]


def data(text: str) -> dict[str, Any]:
    """Return the values alone."""
    found: dict[str, Any] = tomlkit.parse(text).unwrap()
    return found


def facts(text: str) -> list[Fact]:
    """Return everything but blanks, in the order of the text.

    These are headers, values as they are written, and comments with the table that they stand in.
    """
    return list(_of(tomlkit.parse(text), ()))


def headers(found: list[Fact]) -> list[Path]:
    return [path for what, path, _words in found if what == "table"]


def without(found: list[Fact], *ours: Path) -> list[Fact]:
    """Return the facts about everyone else's keys. Comments stay wherever they stand, in our table
    too.
    """
    kept = [
        fact
        for fact in found
        if fact[0] == "comment" or not any(fact[1][: len(path)] == path for path in ours)
    ]
    return [(what, () if what == "comment" else path, words) for what, path, words in kept]


def _of(body: container.Container, above: Path) -> Iterator[Fact]:
    for key, item in body.body:
        if isinstance(item, items.Comment):
            yield "comment", above, item.trivia.comment
        elif key is not None and not isinstance(item, items.Null):
            yield from _of_key((*above, key.key), item)


def _of_key(path: Path, item: Any) -> Iterator[Fact]:
    if isinstance(item, items.AoT):
        for table in item.body:
            yield "element", path, ""
            yield from _of_table(path, table)
    elif isinstance(item, items.Table):
        yield from _of_table(path, item)
    elif isinstance(item, items.InlineTable):
        yield "inline", path, ""
        yield from _of(item.value, path)
        yield from _comment(path, item)
    else:
        yield "value", path, item.as_string()
        yield from _comment(path, item)


def _of_table(path: Path, table: items.Table) -> Iterator[Fact]:
    """Yield the facts of a table, its header included if it has one of its own.

    Only the text shows whether it has one.
    """
    if not table.is_super_table() and table.display_name:
        yield "table", path, table.display_name.strip()
        yield from _comment(path, table)
    yield from _of(table.value, path)


def _comment(path: Path, item: Any) -> Iterator[Fact]:
    if item.trivia.comment:
        yield "comment", path, item.trivia.comment
