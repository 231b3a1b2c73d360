# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How many tasks each host takes before a rollout begins: each one costs the controller a process,
whatever it does.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.unit.playbooks.bare import play
from tests.unit.playbooks.rollouts import CLOSED, fleet

COMMANDS = {"gpufleet_drain_commands": {"before": ["/bin/true"], "after": ["/bin/true"]}}
COSTS = [
    # settings of gpu2, results of a task for each host: the look; who drains is asked in a task of
    # its own
    ({}, {"gpu2": 1, "gpu3": 1}),
    (COMMANDS, {"gpu2": 2, "gpu3": 1}),
    ({**COMMANDS, "gpufleet_drain": "never"}, {"gpu2": 1, "gpu3": 1}),
]


@pytest.mark.parametrize(("settings", "tasks"), COSTS)
def test_a_host_takes_no_task_for_a_drain_that_nobody_would_do(
    settings: dict[str, Any], tasks: dict[str, int], tmp_path: Path
) -> None:
    status, words = play(
        tmp_path,
        fleet(tmp_path, gpu2=settings),
        "rollout",
        "--limit",
        "gpu1:gpu2:gpu3",
        gpufleet_rollout_window=CLOSED,
    )
    assert status == 0, words
    before = words[: words.index("PLAY [Plan the rollout]")]
    # Tasks that run once speak for the first host.
    assert (
        Counter(re.findall(r"^(?:ok|changed|skipping|included): \[(gpu[23])", before, re.MULTILINE))
        == tasks
    ), words
