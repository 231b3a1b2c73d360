# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A rollout on real hosts of two classes: a canary whose engine does not live with its change, a
killed controller, a run that goes on.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.conftest import Boot
from tests.integration.trapped_hosts import DROP_IN, TRAP
from tests.tools.killed_at import killed_at
from tests.tools.onlab import Fleet, Run, repository

pytestmark = pytest.mark.lab

# two classes: another release of the engine, and of the system
NEW, OLD = (
    ["new1", "new2"],
    ["old1", "old2"],
)
HOSTS = [*NEW, *OLD]


@pytest.fixture(scope="module")
def fleet(boot: Boot) -> Fleet:
    """Hosts that have the packages already, so all that differs is ours."""
    kinds = {**dict.fromkeys(NEW, "containerd-1.7"), **dict.fromkeys(OLD, "containerd-1.6")}
    up = boot({name: {"kind": kind, "gpus": 1, "driver": "ok"} for name, kind in kinds.items()})
    assert up.play("site", HOSTS, variables=repository()).failed == {}
    return up


@pytest.fixture
def undone(fleet: Fleet) -> Iterator[Fleet]:
    """As before the first rollout; no engine is trapped."""
    assert fleet.play("rollback", HOSTS).failed == {}
    yield fleet
    for host in NEW:
        fleet.shell(host, f"rm -f {DROP_IN}; systemctl daemon-reload")


def rollout(fleet: Fleet, *, at: str = "", **settings: object) -> Run:
    around = killed_at(at) if at else []
    return fleet.play(
        "rollout", HOSTS, variables={"gpufleet_rollout_canaries": 1, **settings}, around=around
    )


def changing(run: Run) -> set[str]:
    """The hosts that the rollout let change."""
    return {host for host, result in run.of("host").items() if result["status"] != "skipped"}


def converged(fleet: Fleet) -> set[str]:
    """The hosts whose containerd has our handler, by its configuration."""
    return {
        host
        for host in HOSTS
        if "nvidia" in fleet.shell(host, "cat /etc/containerd/config.toml 2>/dev/null || true")
    }


def trap(fleet: Fleet) -> None:
    for host in NEW:
        fleet.shell(
            host,
            f'mkdir -p $(dirname {DROP_IN}); printf %s "{TRAP}" >{DROP_IN}; systemctl daemon-reload',
        )


def test_a_canary_that_is_rolled_back_stops_everything(undone: Fleet) -> None:
    trap(undone)
    run = rollout(undone)
    assert run.status == 2, run.words
    assert "1 rolled back" in run.words
    assert len(converged(undone)) <= 1, "at most the other class's canary"
    assert converged(undone) <= set(OLD), "the trapped canary has its old file again"


def test_with_a_budget_it_stops_its_class_and_a_later_run_goes_on(undone: Fleet) -> None:
    trap(undone)
    run = rollout(undone, gpufleet_rollout_max_failed=1)
    assert run.status == 2, run.words
    assert converged(undone) == set(OLD), run.words
    assert len(changing(run) & set(NEW)) == 1, "the canary alone"
    for host in NEW:
        undone.shell(host, f"rm -f {DROP_IN}; systemctl daemon-reload")
    again = rollout(undone)
    assert again.status == 0, again.words
    assert converged(undone) == set(HOSTS)
    assert changing(again) == set(NEW), "hosts that are done take no part in it"


@pytest.mark.parametrize(
    "at", ["TASK [End the batch]", "TASK [gpufleet.nvidia.host : Converge the host]"]
)
def test_a_rollout_whose_controller_is_killed_goes_on(undone: Fleet, at: str) -> None:
    before = {host: undone.starts(host, "containerd.service") for host in HOSTS}
    killed = rollout(undone, at=at)
    assert killed.status != 0
    assert at in killed.words
    run = rollout(undone)
    assert run.status == 0, run.words
    assert converged(undone) == set(HOSTS)
    assert {
        host: undone.starts(host, "containerd.service") - before[host] for host in HOSTS
    } == dict.fromkeys(HOSTS, 1)
    last = rollout(undone)
    assert (last.status, changing(last)) == (0, set()), last.words
