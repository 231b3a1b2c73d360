# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Wall times as ratios of one run: against ping, and against the plain playbook that most people
write.
"""

from __future__ import annotations

import dataclasses as dc
from statistics import median

from tests.bench.stage import GIVE_BACK, OURS, SAVE, Stage, Timed, changed, converged

ROUNDS = 5
FIRST_ROUNDS = 3  # every round restarts all engines
MANY = 40  # light hosts: further names of hosts that are up, since the controller is measured
TASKS = 10  # in one play, so the start of ansible-playbook does not hide what a task takes


@dc.dataclass(frozen=True)
class Ratio:
    what: str
    aim: float | None  # None: stated, no aim
    ours: float
    theirs: float
    unit: str

    @property
    def value(self) -> float:
        return self.ours / self.theirs

    @property
    def aimed(self) -> str:
        return "" if self.aim is None else f"{self.aim:g}"


def against_ping(stage: Stage) -> list[Ratio]:
    """Converged hosts, rounds interleaved so that what else the machine does falls on both.

    The controller's time is without the start of ansible-playbook, which is the same for both and
    would hide the difference.
    """
    changed(stage.host(), stage.hosts)
    found = [
        *_rounds(stage, f"{TASKS} tasks in a play", len(stage.hosts), TASKS, 0.55),
        *_rounds(stage.named(MANY), f"{MANY} hosts, one task", MANY, 1, None),
    ]
    stage.host({**OURS, "state": "absent"})
    return found


def _rounds(stage: Stage, what: str, hosts: int, tasks: int, aim: float | None) -> list[Ratio]:
    ours, theirs, nothing = [], [], []
    for _round in range(ROUNDS):
        theirs.append(stage.task("ansible.builtin.ping", {}, tasks))
        ours.append(converged(stage.host(times=tasks)))
        nothing.append(stage.task("ansible.builtin.meta", {}, 0))
    start = median(t.spent.seconds for t in nothing)

    def of_host(runs: list[Timed]) -> float:
        return 1000 * (median(t.spent.seconds for t in runs) - start) / (hosts * tasks)

    name = f"`host`, converged, to `ansible.builtin.ping`, {what}"
    return [
        Ratio(name, aim, median(t.seconds for t in ours), median(t.seconds for t in theirs), "s"),
        Ratio(
            f"{name}: controller's processor time for a host and task",
            1.0,
            of_host(ours),
            of_host(theirs),
            "ms",
        ),
        Ratio(
            f"{name}: controller's memory",
            None,
            median(t.spent.mib for t in ours),
            median(t.spent.mib for t in theirs),
            "MiB",
        ),
    ]


def against_plain(stage: Stage) -> Ratio:
    """The first convergence; the packages are there on both sides, since apt takes the same time
    for everyone.
    """
    stage.on_all(SAVE)
    ours, theirs = [], []
    for _round in range(FIRST_ROUNDS):
        theirs.append(changed(stage.play("../tests/bench/naive"), stage.hosts).seconds)
        stage.on_all(GIVE_BACK)
        ours.append(changed(stage.host(), stage.hosts).seconds)
        stage.host({**OURS, "state": "absent"})
    return Ratio(
        "`host`, first convergence, to a plain playbook with nvidia-ctk",
        0.3,
        median(ours),
        median(theirs),
        "s",
    )
