# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tables of docs/known-bad.md: combinations of releases that are known to go wrong."""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.known_bad import (
    table as known_bad_table,
)
from page_table import name_link, table


def build_known_bad_table(stops: bool) -> str:
    """Return one row for each known-bad combination. A link is named by the end of its address."""
    rows = [
        [
            f"`{row.id}`",
            "; ".join(c.text for c in row.when),
            row.what,
            row.way,
            ", ".join(f"[{name_link(link)}]({link})" for link in row.links),
        ]
        for row in known_bad_table.ROWS
        if row.stops == stops
    ]
    return table(
        ["row", "where all of this is so", "what goes wrong", "the workaround", "upstream"], rows
    )
