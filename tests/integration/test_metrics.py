# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Metrics on a real host: they come with the change, stay on a converged host, tell of a rollback,
and go with everything else.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.trapped_hosts import DROP_IN, TRAP
from tests.tools.onlab import Fleet, Run, repository
from tests.unit.metric_values import values

HOST = "metrics1"
PLACE = "/var/lib/prometheus/node-exporter"
FILE = f"{PLACE}/gpufleet.prom"
CHANGED, BACK = "gpufleet_last_change_timestamp_seconds", "gpufleet_last_rollback_timestamp_seconds"
pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def fleet(boot: Any) -> Fleet:
    found: Fleet = boot({HOST: {"kind": "containerd-1.7", "gpus": 1, "driver": "ok"}})
    found.shell(HOST, f"mkdir -p {PLACE}")
    return found


def site(fleet: Fleet) -> Run:
    return fleet.play("site", [HOST], variables={**repository(), "gpufleet_metrics_dir": PLACE})


def read(fleet: Fleet) -> dict[str, float]:
    return values(fleet.text(HOST, FILE))


def now(fleet: Fleet) -> float:
    return float(fleet.shell(HOST, "date +%s"))


def test_metrics_follow_the_host(fleet: Fleet) -> None:
    began = now(fleet)
    assert site(fleet).failed == {}
    first = fleet.text(HOST, FILE)
    assert began <= values(first)[CHANGED] <= now(fleet)
    assert any("injection=native-cdi" in name for name in values(first))
    assert fleet.shell(HOST, f"stat -c '%a %U' {FILE}").strip() == "644 root"
    again = site(fleet)
    assert (again.changed, again.failed) == ({}, {}), again.words
    assert fleet.text(HOST, FILE) == first, "a converged host writes nothing"

    assert fleet.play("rollback", [HOST], variables={"gpufleet_metrics_dir": PLACE}).failed == {}
    assert fleet.shell(HOST, f"ls -A {PLACE}").strip() == ""

    trapped = now(fleet)
    fleet.shell(
        HOST,
        f'mkdir -p $(dirname {DROP_IN}); printf %s "{TRAP}" >{DROP_IN}; systemctl daemon-reload',
    )
    assert "1 rolled back" in site(fleet).words
    assert {CHANGED, BACK} & set(read(fleet)) == {BACK}
    assert trapped <= read(fleet)[BACK] <= now(fleet)
    fleet.shell(HOST, f"rm -f {DROP_IN}; systemctl daemon-reload")
    back = read(fleet)[BACK]
    assert site(fleet).failed == {}
    assert read(fleet)[BACK] >= back
    assert read(fleet)[CHANGED] > back
    last = site(fleet)
    assert (last.changed, last.failed) == ({}, {}), last.words
