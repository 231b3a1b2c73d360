# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node that is lost in the middle of a hand-over stays in the play, so that it is handed back, or
kept out of service with the reason.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

TASKS = sorted((Path(__file__).parents[2] / "playbooks/tasks").glob("hand_over_to_*.yml"))
ON_CONTROLLER = {"ansible.builtin.fail"}


def of_host(task: dict[str, Any]) -> bool:
    return "delegate_to" not in task and not ON_CONTROLLER & set(task)


def stays(task: dict[str, Any]) -> bool:
    """Whether a host that is lost here stays in the play: without it, Ansible takes the host out of
    the run, past every rescue.
    """
    applied = (task.get("ansible.builtin.include_role") or {}).get("apply") or {}
    return (task.get("ignore_unreachable") or applied.get("ignore_unreachable")) is True


@pytest.mark.parametrize("path", TASKS, ids=lambda path: path.stem)
def test_a_host_that_is_lost_stays_in_the_play_and_the_next_task_sees_it(path: Path) -> None:
    tasks = yaml.safe_load(path.read_text())
    on_host = [number for number, task in enumerate(tasks) if of_host(task)]
    assert len(on_host) >= 2
    assert [tasks[number]["name"] for number in on_host if not stays(tasks[number])] == []
    # A task that judges by itself (failed_when) needs nobody after it.
    alone = [
        n
        for n in on_host
        if "failed_when" not in tasks[n] and (n + 1 == len(tasks) or of_host(tasks[n + 1]))
    ]
    assert [tasks[number]["name"] for number in alone] == []
