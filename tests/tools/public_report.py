# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Play public reports (tests/fixtures/public_reports), also with the collection of another
checkout, and print what is wrong.

public_report.py [--checkout DIR] [--show] DIR...      DIR: of a report, or one above several
"""

from __future__ import annotations

import argparse
import importlib
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def places(given: list[Path]) -> Iterator[Path]:
    for path in given:
        yield from sorted(found.parent.resolve() for found in path.rglob("report.yml"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--checkout", type=Path, default=ROOT, help="whose collection is played")
    parser.add_argument("--show", action="store_true", help="print each result")
    parser.add_argument("reports", type=Path, nargs="+")
    args = parser.parse_args()
    for entry in (ROOT, args.checkout.resolve() / ".cache/collections"):
        sys.path.insert(0, str(entry))
    public_reports, player = (
        importlib.import_module(f"tests.unit.{name}")
        for name in ("public_reports", "report_player")
    )

    wrong = 0
    for place in places(args.reports):
        with tempfile.TemporaryDirectory() as folder:
            try:
                report = public_reports.read(place)
                found = player.play(
                    report, Path(folder, "host"), print if args.show else lambda _text: None
                )
            except public_reports.Malformed as error:
                found = [str(error)]
        wrong += bool(found)
        print(
            f"{'WRONG' if found else 'right'} {place.parent.name}/{place.name}",
            *found,
            sep="\n    ",
        )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
