# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Print the test files of the last run, the longest first, with their seconds and tests.

    durations.py [COUNT]

It shows what to make cheaper, or to leave to the night. The seconds are of a clock: a run beside
others has longer ones.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from pathlib import Path
from xml.etree import ElementTree

from parts import LOGS


def count_files(reports: Path) -> tuple[dict[str, float], Counter[str]]:
    """Return seconds and tests by file, from pytest's reports (JUnit's XML) in a folder.

    A case names its module, and its class where it has one, with periods.
    """
    seconds: dict[str, float] = defaultdict(float)
    tests: Counter[str] = Counter()
    for report in sorted(reports.glob("*.xml")):
        for case in ElementTree.parse(report).iter("testcase"):
            names = case.get("classname", "").split(".")
            module = max((n for n, name in enumerate(names) if name.startswith("test_")), default=0)
            path = "/".join(names[: module + 1]) + ".py"
            seconds[path] += float(case.get("time", "0"))
            tests[path] += 1
    return seconds, tests


def main(count: str = "40") -> None:
    seconds, tests = count_files(LOGS)
    for path, spent in sorted(seconds.items(), key=lambda one: -one[1])[: int(count)]:
        print(f"{spent:8.1f} s  {tests[path]:6}  {path}")


if __name__ == "__main__":
    main(*sys.argv[1:])
