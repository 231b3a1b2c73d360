# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Device nodes of a real host: made, mended, there after a reboot before the engine starts, and
nothing left when it is taken back.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.tools.onlab import Fleet, Run

pytestmark = pytest.mark.lab

HOST = "nodes"
SERVICE = "gpufleet-device-nodes.service"
# The host's own modprobe has no module to load. This one does to the lab's driver what loading does
# to a real one. It takes the other's place, since modprobe is looked for in root's own directories
# alone.
MODPROBE = """\
#!/bin/sh
[ "$1" != nvidia-uvm ] || sed -i 's/^Block devices:/512 nvidia-uvm\\n\\nBlock devices:/' /opt/fakegpu/proc/devices
"""
NODES = "cd /dev; stat -c '%n %t:%T %a' nvidia[0-9a-z-]* nvidia-caps/* | sort"
STARTED = "systemctl show -p {} --value {}"


@pytest.fixture(scope="module")
def fleet(boot: Any) -> Fleet:
    found: Fleet = boot({HOST: {"kind": "containerd-1.7", "gpus": [{}, {"mig": "on", "migs": 2}]}})
    found.shell(
        HOST,
        f"rm -f /usr/sbin/modprobe; cat >/usr/sbin/modprobe <<'EOF'\n{MODPROBE}EOF\nchmod 755 /usr/sbin/modprobe",
    )
    return found


def run(fleet: Fleet, *arguments: str, **options: Any) -> Run:
    found = fleet.task("device_nodes", [HOST], options, arguments=arguments)
    assert found.failed == {}, found.words
    return found


def test_made_mended_and_taken_back(fleet: Fleet) -> None:
    before = fleet.tree(HOST)
    announced = run(fleet, "--check").of("device_nodes")[HOST]
    assert fleet.tree(HOST) == before
    done = run(fleet).of("device_nodes")[HOST]
    assert done["differences"] == announced["differences"]
    assert "/dev/char/195:0" in [d["path"] for d in done["differences"]]
    again = run(fleet)
    assert (again.changed, again.operations[HOST]) == ({}, 1)

    # As after a boot at which nothing of the driver was used yet, with the nodes of another one.
    right = fleet.shell(HOST, NODES)
    fleet.shell(HOST, "sed -i /nvidia-uvm/d /opt/fakegpu/proc/devices")
    fleet.shell(
        HOST, "cd /dev; rm nvidia-uvm nvidia1 nvidia-caps/nvidia-cap??*; mknod nvidia1 c 195 9"
    )
    wrong = run(fleet, "--check").of("device_nodes")[HOST]["differences"]
    told = {d["path"]: (d["before"], d["after"]) for d in wrong}
    assert told["nvidia-uvm"] == ("not loaded", "loaded")
    assert told["/dev/nvidia-uvm"] == (None, "nvidia-uvm:0 0666 0:0")
    assert told["/dev/nvidia1"][0].startswith("195:9 ")
    assert run(fleet).of("device_nodes")[HOST]["restarted"] == []
    assert run(fleet).changed == {}
    mended = fleet.shell(HOST, NODES)
    assert "nvidia-uvm 200:0 666" in mended  # 512, the number that the module got now
    assert {
        line for line in right.splitlines() if "nvidia1 " in line or "nvidia-caps/" in line
    } <= set(mended.splitlines())

    fleet.lab.kill(HOST)
    fleet.lab.boot(HOST)
    ended = int(fleet.shell(HOST, STARTED.format("InactiveEnterTimestampMonotonic", SERVICE)))
    engine = int(
        fleet.shell(HOST, STARTED.format("ActiveEnterTimestampMonotonic", "containerd.service"))
    )
    assert 0 < ended <= engine
    assert run(fleet).changed == {}

    run(fleet, state="absent")
    assert fleet.tree(HOST) == before
    assert run(fleet, state="absent").changed == {}


def test_a_whole_host_gets_nodes_and_spec_in_one_run(fleet: Fleet) -> None:
    """Without the nodes no spec can be made, and one option makes them in the same transaction."""
    fleet.shell(HOST, "rm /dev/nvidia-uvm")
    options = {"packages": "ignore", "cdi_owner": "collection"}
    refused = fleet.task("host", [HOST], options).failed[HOST]
    assert "/dev/nvidia-uvm" in refused
    assert "[cdi.node-missing]" in refused
    assert "device_nodes: present" in refused
    whole = fleet.task("host", [HOST], {**options, "device_nodes": "present"})
    assert whole.failed == {}, whole.words
    assert "/dev/nvidia-uvm" in fleet.text(HOST, "/etc/cdi/nvidia.yaml")
    again = fleet.task("host", [HOST], {**options, "device_nodes": "present"})
    assert (again.changed, again.operations[HOST]) == ({}, 1)
    fleet.task("host", [HOST], {**options, "state": "absent"})
    assert fleet.shell(HOST, "ls /etc/gpufleet /etc/cdi 2>&1 || true").count("No such file") == 2
