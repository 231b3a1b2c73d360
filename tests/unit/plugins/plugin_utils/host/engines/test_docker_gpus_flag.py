# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A daemon that is older than NVIDIA's programs is restarted, since `--gpus` would not work."""

from __future__ import annotations

import dataclasses as dc
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.docker import (
    gpus_flag,
)

from tests.unit.coded import get_codes
from tests.unit.docker_hosts import DIRS, OURS, UNIT, acts, planned, running

NOW, ACTIVE = 10_000.0, 100.0  # seconds since 1970; of the daemon
BEFORE, AFTER = NOW - ACTIVE - 1, NOW - ACTIVE + 1


@dc.dataclass(frozen=True)
class Case:
    """A daemon, the times of NVIDIA's programs, and what is done."""

    does: list[str]
    hook: float | None = None
    cdi_hook: float | None = AFTER
    version: str = "29.8.1"
    active: float | None = ACTIVE
    more: dict[str, Any] = dc.field(default_factory=dict)
    pending: str = ""  # the unit whose restart was left to a person
    left: bool = False  # whether it is left this time
    policy: Policy = Policy(packages="ignore")


RESTART, RELOAD = [f"restart {UNIT}"], [f"reload {UNIT}"]
CASES = {
    "the program is newer": Case(RESTART),
    "both are newer": Case(RESTART, hook=AFTER),
    "the program is older": Case(RELOAD, cdi_hook=BEFORE),
    "one of them was found": Case(RELOAD, hook=BEFORE),
    "no program is there": Case(RELOAD, cdi_hook=None),
    "the run brings the program": Case(RESTART, cdi_hook=None, policy=Policy()),
    "the run brings an older toolkit without it": Case(
        RELOAD, cdi_hook=None, policy=Policy(toolkit_version="1.16.2")
    ),
    "the run brings another release of it": Case(
        RELOAD, cdi_hook=BEFORE, policy=Policy(toolkit_version="1.18.0")
    ),
    "the run brings what this Docker does not look for": Case(
        RELOAD, cdi_hook=None, version="29.1.3", policy=Policy()
    ),
    "the run brings the hook of the legacy mode": Case(
        RESTART, cdi_hook=None, version="29.1.3", policy=Policy(injection="legacy")
    ),
    "the run brings it, and containers would end": Case(
        RELOAD, cdi_hook=None, more={"containers": 2}, left=True, policy=Policy()
    ),
    "a Docker that does not look for it": Case(RELOAD, version="29.1.3"),
    "an older Docker and its program": Case(RESTART, hook=AFTER, cdi_hook=None, version="29.1.3"),
    "the daemon's age is not known": Case(RELOAD, active=None),
    "the clock was set back": Case(RELOAD, cdi_hook=NOW + 1),
    "the clock was set back since a restart was left": Case(
        [], cdi_hook=NOW + 1, more={"Runtimes": OURS}, pending=UNIT
    ),
    "it was set up before": Case([], more={"Runtimes": OURS}),
    "containers would end": Case(RELOAD, more={"containers": 2}, left=True),
    "its restart is left since the first run": Case(
        [], more={"Runtimes": OURS, "containers": 2}, pending=UNIT, left=True
    ),
    "its containers have ended since": Case(RESTART, more={"Runtimes": OURS}, pending=UNIT),
    "the restart of another is left": Case([], more={"Runtimes": OURS}, pending="other.service"),
    "it was left and the program was found": Case(
        [], cdi_hook=BEFORE, more={"Runtimes": OURS}, pending=UNIT
    ),
}


def look(case: Case) -> Any:
    files = {
        path: {"content": "", "ctime": time}
        for path, time in ((gpus_flag.HOOK, case.hook), (gpus_flag.CDI_HOOK, case.cdi_hook))
        if time is not None
    }
    # systemd's clock is that of the boot, which was 1000 seconds ago
    since = (
        {}
        if case.active is None
        else {"ActiveEnterTimestampMonotonic": str(int((1000 - case.active) * 1e6))}
    )
    text = '{"runtimes": {"nvidia": {"path": "/usr/bin/nvidia-container-runtime"}}}'
    there = text if "Runtimes" in case.more else None
    more = {"CDISpecDirs": DIRS, **case.more}
    seen = running(case.version, there, files=files, units=since, **more)
    for answer in seen.answers.values():
        if "units" in answer:
            answer["monotonic"] = 1000.0
    if case.pending:
        seen.answers["originals"]["pending"] = [{"unit": case.pending}]
    return dc.replace(seen, host={**seen.host, "epoch": NOW})


@pytest.mark.parametrize("name", CASES)
def test_a_daemon_that_found_no_program_is_restarted(name: str) -> None:
    case = CASES[name]
    plan = planned(case.policy, look(case))
    assert acts(plan) == case.does
    assert plan.pending == ((UNIT,) if case.left else ())
    assert ("docker.restart-left" in get_codes(plan.advice)) is case.left
