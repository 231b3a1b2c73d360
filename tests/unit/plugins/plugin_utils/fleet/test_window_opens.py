# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When a closed window opens, in the words of its own zone."""

from __future__ import annotations

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import window

MO, WE, FR, SA, SU = 0, 2, 4, 5, 6
NIGHTS = "Mo-Fr 20:00-04:00 Europe/Berlin"
CASES = [
    # windows, the day and the time there, when it opens
    (NIGHTS, (MO, "12:00"), "Mo 20:00 Europe/Berlin"),
    (NIGHTS, (FR, "19:59"), "Fr 20:00 Europe/Berlin"),
    (NIGHTS, (SA, "04:00"), "Mo 20:00 Europe/Berlin"),
    (NIGHTS, (SU, "23:59"), "Mo 20:00 Europe/Berlin"),
    ("02:00-03:00", (WE, "03:00"), "Th 02:00 UTC"),
    ("02:00-03:00", (WE, "01:00"), "We 02:00 UTC"),
    ("We 02:00-03:00", (WE, "03:00"), "We 02:00 UTC"),  # in a week
    ("Sa 10:00-12:00; We 08:00-09:30", (MO, "12:00"), "We 08:00 UTC"),
]


@pytest.mark.parametrize(("text", "now", "opens"), CASES)
def test_a_closed_window_opens_then(text: str, now: tuple[int, str], opens: str) -> None:
    windows = window.parse_windows("w", text)
    hours, minutes = now[1].split(":")
    clock = {w.zone: (now[0], int(hours) * 60 + int(minutes)) for w in windows}
    assert not window.is_open(windows, clock)
    assert window.opens(windows, clock) == opens
