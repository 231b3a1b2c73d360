# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Photograph the report of a fleet as docs/ shows it: python tests/tools/report_picture.py writes
docs/report.png (Debian's Chromium).
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
for entry in (ROOT, ROOT / ".cache" / "collections"):
    sys.path.insert(0, str(entry))

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet.page import document

from tests.integration import browser
from tests.unit import reports

WIDTH, HEIGHT = 1280, 1240


def main() -> None:
    with browser.running() as chromium, tempfile.TemporaryDirectory() as place:
        path = Path(place) / "report.html"
        path.write_text(
            reports.build_page(
                document.build_report(
                    reports.many(), document.About("site", "2026-02-01T09:15:00Z")
                )
            ),
            encoding="utf-8",
        )
        chromium.open(path, WIDTH)
        chromium.photograph(ROOT / "docs/report.png", HEIGHT)


if __name__ == "__main__":
    main()
