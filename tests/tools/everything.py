# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run everything, and end with pytest's closing line.

The steps of the fast tier run two at a time, since each keeps one core busy; what a step prints is shown when it has ended. Steps go on
after a failure, so that one run shows all that is wrong. The last step is pytest over unit and lab tests together; when an earlier step
failed, one more line below pytest's says so, and the exit status is not zero.
"""

from __future__ import annotations

import concurrent.futures
import subprocess
import sys
import time

from environments import ROOT

# The longest first, so that the two lanes end at about the same time.
STEPS = ("unit-2.16", "sanity", "unit-node", "unit-2.18", "archive", "lint", "types")
ON_THE_LAB = ("molecule",)  # alone: its hosts need the whole machine

Result = tuple[str, bool, float]


def step(name: str) -> Result:
    """Run one target of the Makefile, and print at once what it has printed."""
    start = time.monotonic()
    done = subprocess.run(
        ["make", "--no-print-directory", name], cwd=ROOT, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    print(f"\n=== make {name}\n{done.stdout}", flush=True)
    return name, done.returncode == 0, time.monotonic() - start


def steps() -> list[Result]:
    """Run every step before pytest."""
    with concurrent.futures.ThreadPoolExecutor(2) as lanes:
        fast = list(lanes.map(step, STEPS))
    return [*fast, *map(step, ON_THE_LAB)]


def last() -> bool:
    """Run pytest over the unit tests and, as far as this machine can carry the lab, the tests on real engines."""
    tests = [path for path in ("tests/unit", "tests/integration") if (ROOT / path).is_dir()]
    return subprocess.run([sys.executable, "-m", "pytest", "-q", "--durations=10", *tests], cwd=ROOT, check=False).returncode == 0


def main() -> int:
    """Run all steps and sum up."""
    results = steps()
    print("\n=== steps")
    for name, passed, seconds in results:
        print(f"{name:12} {'passed' if passed else 'FAILED'}  {seconds:.0f} s")
    print("\n=== pytest", flush=True)
    tested = last()
    failed = [result[0] for result in results if not result[1]]
    if failed:
        print(f"FAILED before pytest: {', '.join(failed)} (see above)", flush=True)
    return 0 if tested and not failed else 1


if __name__ == "__main__":
    sys.exit(main())
