# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Waves on real hosts: the engine of one does not live with its change, one is lost, and what comes
after them is not touched.
"""

from __future__ import annotations

import pytest

from tests.integration.conftest import Boot
from tests.tools.onlab import Fleet, differing, repository

pytestmark = pytest.mark.lab

HOSTS = ["wave1", "wave2", "wave3"]
TRAP = "[Service]\nExecStartPre=/bin/sh -c '! grep -rq nvidia /etc/containerd'\n"
ONE_BY_ONE = {"gpufleet_serial": 1}


@pytest.fixture(scope="module")
def fleet(boot: Boot) -> Fleet:
    """Hosts that have the packages already, so all that differs is ours; the engine of the second
    is trapped.
    """
    up = boot({name: {"kind": "containerd-1.7", "gpus": 1, "driver": "ok"} for name in HOSTS})
    assert up.play("site", HOSTS, variables=repository()).failed == {}
    assert up.play("rollback", HOSTS).failed == {}
    unit = "/etc/systemd/system/containerd.service.d/trap.conf"
    up.shell(
        "wave2", f'mkdir -p $(dirname {unit}); printf %s "{TRAP}" >{unit}; systemctl daemon-reload'
    )
    return up


def test_what_comes_after_a_host_that_failed_is_not_touched(fleet: Fleet) -> None:
    before = {host: fleet.tree(host) for host in HOSTS}
    run = fleet.play("site", HOSTS, variables=ONE_BY_ONE)
    after = {host: fleet.tree(host) for host in HOSTS}
    assert run.status == 2, run.words
    assert set(run.failed) == {"wave2"}
    assert differing(before["wave1"], after["wave1"]) != {}
    assert differing(before["wave2"], after["wave2"]) == {}, "rolled back by the host itself"
    assert differing(before["wave3"], after["wave3"]) == {}
    assert "wave3" not in run.of("host"), "its wave did not start"
    assert run.words.count("HOST ") == 1, run.words


def test_what_comes_after_a_host_that_was_lost_is_not_touched(fleet: Fleet) -> None:
    before = {host: fleet.tree(host) for host in HOSTS}
    # an address that nobody has
    elsewhere = "{{ '192.0.2.1' if inventory_hostname == 'wave1' else ansible_host }}"
    run = fleet.play(
        "site",
        ["wave1", "wave3"],
        variables={**ONE_BY_ONE, "ansible_ssh_timeout": 2, "ansible_ssh_host": elsewhere},
    )
    assert run.status != 0, run.words
    assert run.of("host")["wave1"]["status"] == "unreachable", run.words
    assert "1 lost" in run.words
    assert "wave3" not in run.of("host"), "its wave did not start"
    assert {host: fleet.tree(host) for host in HOSTS} == before
