# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A rollout that takes none of its hosts fails."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller.steps import (
    rollout_report,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import outcomes
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import progress

OUT: dict[str, Any] = {"standing": "left out", "msg": "its directory is no whole path"}
WAITS: dict[str, Any] = {"standing": "pending", "msg": "not drained within 60 s"}
DONE, SAME, WOULD = {"changed": True}, {"changed": False}, {"differences": [1], "would_restart": []}
UNMANAGED = {"row": {"managed": False}}
PAUSED, GOES_ON = progress.Progress(ended="the window is closed", paused=True), progress.Progress()
UNTRIED = progress.Progress(untried={"L4": "its canary gpu2 was left out"})
RUNS: list[tuple[list[dict[str, Any]], progress.Progress, str]] = [
    # what became of the hosts, how far it has come, what is said
    ([OUT], GOES_ON, "1 of 1 host left out: gpu1 (gpu1: its directory is no whole path)"),
    ([OUT, OUT], GOES_ON, "2 of 2 hosts left out: gpu[1-2] (gpu1: its directory is no whole path)"),
    ([WAITS, OUT], GOES_ON, "1 of 2 hosts left out: gpu2 (gpu2: its directory is no whole path)"),
    (
        [OUT, UNMANAGED],
        GOES_ON,
        "1 of 2 hosts left out: gpu1 (gpu1: its directory is no whole path)",
    ),
    ([OUT, DONE], GOES_ON, ""),
    ([OUT, SAME], GOES_ON, ""),
    ([OUT, WOULD], GOES_ON, ""),
    ([WAITS], GOES_ON, ""),
    ([WAITS, OUT], PAUSED, ""),  # the next run goes on
    ([WAITS, OUT], UNTRIED, ""),
    ([OUT], UNTRIED, "1 of 1 host left out: gpu1 (gpu1: its directory is no whole path)"),
    ([SAME], GOES_ON, ""),
    ([UNMANAGED], GOES_ON, ""),
    ([], GOES_ON, ""),
]


@pytest.mark.parametrize(("became", "found", "said"), RUNS)
def test_a_rollout_that_takes_no_host_fails_and_says_why(
    became: list[dict[str, Any]], found: progress.Progress, said: str
) -> None:
    results = {f"gpu{number}": result for number, result in enumerate(became, 1)}
    problem = rollout_report.explain_nothing_taken(outcomes.count_outcomes(results), results, found)
    assert problem == (f"no host was changed, and none is as desired: {said}" if said else "")
