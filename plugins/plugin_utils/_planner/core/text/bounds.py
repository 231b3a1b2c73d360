# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Limit how much of one host's result a table or a report takes. A host may fill its own row, and
no more.

A result is cut before anything is laid out, so all later steps work on a bounded value. An honest
result is a tenth of these bounds.
"""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import messages
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    end_with_code,
)

TEXT = 4096  # characters of one text
CHARACTERS = 1 << 18  # of all texts of a result
VALUES = 20_000  # of a result
DEEPEST = 50  # levels
# The parts that a host's row needs, in the order in which they get room. All other parts come after
# them.
FIRST = (
    "row",
    "differences",
    "would_restart",
    "restarted",
    "leftovers",
    "advice",
    "checks",
    "journal",
    "decision",
)


def build_cut_note() -> str:
    """Return the advice of a result that was cut. It ends with its code."""
    return end_with_code(messages.RESULT_CUT.fill(values=VALUES, characters=CHARACTERS))


@dc.dataclass
class Room:
    """The room that is left for the values of one result."""

    characters: int = CHARACTERS
    values: int = VALUES
    cut: bool = False

    @property
    def none(self) -> bool:
        return self.values <= 0 or self.characters <= 0

    def take_text(self, text: str) -> str:
        """Take a text, or as much of it as there is room for."""
        most = max(0, min(TEXT, self.characters))
        self.characters -= min(len(text), most)
        return shorten_text(text, most)

    def take_value(self, value: Any, depth: int = 0) -> Any:
        """Take a value, or as much of it as there is room for. The room bounds the number of steps
        for any value.
        """
        self.values -= 1
        if isinstance(value, str):
            self.cut = self.cut or len(value) > self.characters
            return self.take_text(value)
        if not isinstance(value, Mapping | list | tuple):
            return value
        if depth > DEEPEST:
            self.cut = True
            return None
        if isinstance(value, Mapping):
            return self.take_table(value, depth)
        taken = []
        for one in value:
            if self.none:
                self.cut = True
                break
            taken.append(self.take_value(one, depth + 1))
        return taken

    def take_table(self, table: Mapping[Any, Any], depth: int) -> dict[str, Any]:
        """Take a table with its keys, or as much of it as there is room for."""
        taken: dict[str, Any] = {}
        for key, one in table.items():
            if self.none:
                self.cut = True
                break
            taken[self.take_text(str(key))] = self.take_value(one, depth + 1)
        return taken


def shorten_text(text: str, most: int) -> str:
    """Return a text, or its beginning and the number of characters left out."""
    return text if len(text) <= most else f"{text[:most]}... ({len(text) - most} more characters)"


def limit_result(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return one host's result within the bounds: first what tells how it went, then what its row
    shows, then the rest.

    A table or a list gets half of the room that is left, so that every later key has room as well.
    """
    room = Room()
    single = {
        key: room.take_value(value)
        for key, value in result.items()
        if not isinstance(value, Mapping | list | tuple)
    }
    order = [*(key for key in FIRST if key in result), *(key for key in result if key not in FIRST)]
    limited = {
        **single,
        **{key: _limit_half(room, result[key]) for key in order if key not in single},
    }
    if not room.cut:
        return limited
    said = limited.get("advice")
    return {
        **limited,
        "advice": [*(said if isinstance(said, list) else ()), build_cut_note()],
    }


def _limit_half(room: Room, value: Any) -> Any:
    half = Room(room.characters // 2, room.values // 2)
    before = dc.replace(half)
    part = half.take_value(value)
    room.characters -= before.characters - half.characters
    room.values -= before.values - half.values
    room.cut = room.cut or half.cut
    return part
