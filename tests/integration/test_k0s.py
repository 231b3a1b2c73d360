# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""k0s applies drop-ins by itself: what is written there, what is waited for, what is refused, and
what comes back.
"""

from __future__ import annotations

import pytest

from tests.integration.conftest import Boot
from tests.tools.onlab import Fleet, differing, settings

pytestmark = pytest.mark.lab

HOST = "worker"
CONFIG, DROP_IN = "/etc/k0s/containerd.toml", "/etc/k0s/containerd.d/90-gpufleet.toml"
INVOCATION = "systemctl show -p InvocationID --value k0sworker"
CONTAINERD = "pgrep -x containerd"


@pytest.fixture(scope="module")
def fleet(boot: Boot) -> Fleet:
    return boot({HOST: {"kind": "k0s-like", "gpus": 1, "driver": "ok"}})


def handlers(fleet: Fleet) -> set[str]:
    return set(fleet.read_daemon_settings(HOST)["runtimes"])


def test_it_is_converged_by_a_drop_in_that_k0s_applies_and_a_container_sees_its_gpu(
    fleet: Fleet,
) -> None:
    main, invocation, before = (
        fleet.text(HOST, CONFIG),
        fleet.shell(HOST, INVOCATION),
        fleet.shell(HOST, CONTAINERD),
    )
    run = fleet.play("site", [HOST], variables=settings())
    assert run.failed == {}, run.words
    assert fleet.text(HOST, DROP_IN).splitlines()[1] == "version = 3"
    assert fleet.text(HOST, CONFIG) == main
    assert "nvidia" in handlers(fleet)
    assert fleet.shell(HOST, INVOCATION) == invocation  # nobody restarted k0s
    assert fleet.shell(HOST, CONTAINERD) != before
    assert fleet.play("site", [HOST], variables=settings()).changed == {}


def test_a_restart_that_nobody_can_keep_from_happening_is_refused_and_nothing_changes(
    fleet: Fleet,
) -> None:
    before = fleet.tree(HOST)
    answer = fleet.task(
        "host", [HOST], {"restart": "never", "handlers": {"nvidia": {}, "other": {}}}
    ).of("host")[HOST]
    assert answer["error"]["code"] == "containerd.manager-restarts-by-itself"
    assert differing(before, fleet.tree(HOST)) == {}


def test_all_is_taken_back(fleet: Fleet) -> None:
    run = fleet.play("rollback", [HOST])
    assert run.failed == {}, run.words
    assert "No such file" in fleet.shell(HOST, f"ls {DROP_IN} 2>&1", fails=True)
    assert "nvidia" not in handlers(fleet)


# A containerd that serves, and has not read what it should have.
DEAF = f"""#!/bin/sh
grep -qs nvidia {DROP_IN} || exec /var/lib/k0s/bin/real/containerd "$@"
sed /imports/d {CONFIG} >/run/k0s/deaf.toml
exec /var/lib/k0s/bin/real/containerd "$@" --config=/run/k0s/deaf.toml
"""


def test_a_handler_that_does_not_appear_is_taken_back_and_that_is_waited_for_as_well(
    fleet: Fleet,
) -> None:
    trap = f"cd /var/lib/k0s/bin; mkdir real; mv containerd real; printf %s '{DEAF}' >containerd; chmod 755 containerd"
    fleet.shell(HOST, trap)
    before, processes = fleet.tree(HOST), fleet.shell(HOST, CONTAINERD)
    answer = fleet.task("host", [HOST]).of("host")[HOST]
    assert answer["rolled_back"] is True, answer
    assert "it has no handler nvidia" in answer["msg"]
    assert differing(before, fleet.tree(HOST)) == {}
    assert "nvidia" not in handlers(fleet)
    assert fleet.shell(HOST, CONTAINERD) != processes
    assert "deaf" not in fleet.shell(HOST, "tr '\\0' ' ' </proc/$(pgrep -x containerd)/cmdline")
