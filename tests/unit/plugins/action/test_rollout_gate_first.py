# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The check outside is asked before the first batch of a run: a run that it has stopped is not gone
on with while it is not well.
"""

from __future__ import annotations

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    batch_gates,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import (
    progress,
    settings,
)

WELL, ILL = ["/bin/true"], ["/bin/false"]
CASES = [
    # the check, the number of the batch, how the rollout has ended already; why it ends
    ([], 0, "", ""),
    (WELL, 0, "", ""),
    (
        ILL,
        0,
        "",
        "gpufleet_rollout_gate_check is not well: /bin/false ended with 1 [action.gate-check-ill]",
    ),
    (ILL, 1, "", ""),  # the batch before has asked at its end
    (ILL, 0, "the window is closed", "the window is closed"),
]


@pytest.mark.parametrize(("check", "number", "ended", "why"), CASES)
def test_the_first_batch_does_not_begin_while_the_check_is_not_well(
    check: list[str], number: int, ended: str, why: str
) -> None:
    wanted = settings.build_rollout_settings({"gate_check": check, "gate_retries": 0})
    assert (
        batch_gates.ask_gate_before_first(progress.Progress(ended=ended), wanted, number).ended
        == why
    )
