# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of docs/comparison.md: the bench's figures that compare."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from page_table import table

BENCH = Path(__file__).resolve().parents[2] / "docs/bench.md"
# The bench's rows, by their beginnings, and what is compared.
SPEED = {
    "`host`, converged": "`host`, converged: SSH operations per host",
    "`host`, converged, to `ansible.builtin.ping`": "`host`, converged: time, as a ratio to `ansible.builtin.ping`, 10 tasks in one play",
    "`host`, first convergence, to a plain playbook": "`host`, first convergence: time, as a ratio to the plain playbook",
}


def build_speed_table() -> str:
    """Return the figures of docs/bench.md that compare, as the bench has written them."""
    lines = [line for line in BENCH.read_text().splitlines() if line.startswith("|")]
    return table(["", "figure"], [[title, read_figure(lines, row)] for row, title in SPEED.items()])


def read_figure(lines: Sequence[str], row: str) -> str:
    """Return the first figure of the first row that begins so."""
    for cells in ([cell.strip() for cell in line.strip("|").split("|")] for line in lines):
        if cells[0].startswith(row):
            return cells[1]
    raise SystemExit(
        f"comparison_tables.py: docs/bench.md has no row {row} any more; name another one in SPEED"
    )
