# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rows whose aim is missed, each with the value that it may have.

A bound is the median of a run plus 10 %, and the bench fails above it. A feature may raise one in a
commit that names it. A row that reaches its aim leaves this table.
"""

from __future__ import annotations

from collections.abc import Mapping

# Row of docs/bench.md -> the largest value, in the unit of the row.
BOUNDS: Mapping[str, float] = {}


def list_exceeded(rows: Mapping[str, float]) -> list[str]:
    """Return a sentence for each row whose value is above its bound."""
    return [
        f"{name}: {value:.4g}, with a bound of {BOUNDS[name]:g}"
        for name, value in rows.items()
        if value > BOUNDS.get(name, float("inf"))
    ]


def show_bound(name: str) -> str:
    """Return the bound of a row as the tables have it, '' for none."""
    return f"{BOUNDS[name]:g}" if name in BOUNDS else ""
