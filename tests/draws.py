# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How much a test draws at random, and whether each run draws the same. Python 3.6, with the host
side's tests.

GPUFLEET_DRAW    few: a tenth of the examples, the same in each run, so that a change that breaks
nothing never fails (the default)
                 full: all examples, the same in each run (`make nightly`)
                 new: all examples, others in each run (`make newest`, `make soak`, the public nightly run); what these find becomes
                 an example of its test
GPUFLEET_EXAMPLES=10000 draws so many everywhere.
"""

import os

WAYS = ("few", "full", "new")
WAY = os.environ.get("GPUFLEET_DRAW") or "few"
FEWEST = 5  # examples; fewer than these miss the strategies' own corner cases
PART = 10
USUAL = 100  # examples of a test that asks for no number

if WAY not in WAYS:
    raise SystemExit(f"GPUFLEET_DRAW is {WAY!r}, but it may be: {', '.join(WAYS)}")


def count_examples(full):
    """Return how many examples a test draws in this run, if it draws `full` in a full run."""
    asked = int(os.environ.get("GPUFLEET_EXAMPLES") or 0)
    if asked:
        return asked
    return full if WAY != "few" else min(full, max(FEWEST, full // PART))


def draws_new_examples():
    """Tell whether each run draws other examples."""
    return WAY == "new"
