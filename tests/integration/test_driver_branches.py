# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A driver that the package manager takes to a newer branch while the old module stays loaded, and
that a reboot puts in order.

Debian's packages are its own of 535 and 550, as a host has them that goes from Debian 12 to 13. The
module is imitated, and so are all packages of Rocky (tests/lab/fakegpu/packaged.py, driverrpms.py).
"""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import messages

from tests.lab import driver_hosts
from tests.lab.driver_hosts import DEBIAN, ROCKY, Distribution
from tests.tools.onlab import RUNTIME, Fleet

pytestmark = pytest.mark.lab

HOSTS = {"branch-debian": DEBIAN, "branch-rocky": ROCKY}
UPGRADE = {
    "branch-debian": "apt-get -q update; DEBIAN_FRONTEND=noninteractive apt-get -q -y upgrade",
    "branch-rocky": "dnf -y -q upgrade",
}
OPTIONS = {"packages": "ignore", "cdi": "disabled", "toolkit_repository": ""}


@pytest.fixture(scope="module")
def fleet(boot: Any) -> Fleet:
    booted: Fleet = boot(
        {
            "branch-debian": driver_hosts.DEBIAN_HOST,
            "branch-rocky": driver_hosts.ROCKY_HOST,
        }
    )
    driver_hosts.install(booted.lab, HOSTS)
    for host in HOSTS:
        booted.shell(host, RUNTIME)
    return booted


def judge(fleet: Fleet, host: str) -> tuple[str, str, str]:
    run = fleet.task("host_info", [host], OPTIONS)
    assert run.failed == {}, run.words
    driver = run.of("host_info")[host]["driver"]
    return driver["state"], driver["version"], driver["remedy"]


@pytest.mark.parametrize(("host", "of"), HOSTS.items())
def test_the_old_module_is_loaded_until_a_reboot(fleet: Fleet, host: str, of: Distribution) -> None:
    assert driver_hosts.find_installed(fleet.lab, host, of) == {of.old}
    assert judge(fleet, host) == ("ok", of.old, "")
    if of is DEBIAN:
        driver_hosts.offer_on_debian(fleet.lab, host)
    fleet.shell(host, UPGRADE[host])
    assert driver_hosts.find_installed(fleet.lab, host, of) == {of.new}
    assert driver_hosts.find_loaded(fleet.lab, host) == of.old
    assert "mismatch" in fleet.shell(host, "nvidia-smi -L || true")
    assert judge(fleet, host) == ("broken", of.old, messages.REBOOT_DUE.next)
    rebooted = fleet.play(
        [{"hosts": host, "gather_facts": False, "tasks": [{"ansible.builtin.reboot": {}}]}], [host]
    )
    assert rebooted.failed == {}, rebooted.words
    assert driver_hosts.find_loaded(fleet.lab, host) == of.new
    assert judge(fleet, host) == ("ok", of.new, "")
