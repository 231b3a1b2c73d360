# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes the sections of docs/reports-from-the-field.md from the reports that the tests play."""

from __future__ import annotations

from page_table import name_link, table

from tests.unit import public_reports


def sections() -> str:
    """Return one section per subject."""
    found = [public_reports.read(place) for place in public_reports.places()]
    parts = []
    for subject, title in public_reports.SUBJECTS.items():
        rows = [[cell(r.condition), cell(r.right), links(r)] for r in found if r.subject == subject]
        if rows:
            parts.append(
                f"\n## {title}\n\n{table(['condition', 'what the collection does', 'reported'], rows)}"
            )
    return "".join(parts) + "\n"


def links(report: public_reports.Report) -> str:
    return ", ".join(f"[{name_link(address)}]({address})" for address in report.addresses)


def cell(text: str) -> str:
    """Return a text of several lines as one cell."""
    return " ".join(text.split()).replace("|", "\\|")
