# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The CDI spec and the gate on real hosts: one owner, one file, given back; and a rollout that
stops when hosts go away.
"""

from __future__ import annotations

import pytest
import yaml

from tests.lab import recorded
from tests.tools.onlab import Fleet

pytestmark = pytest.mark.lab

OURS, THEIRS = "/etc/cdi/nvidia.yaml", "/var/run/cdi/nvidia.yaml"
UNUSED = "for f in /opt/fakegpu/proc/driver/nvidia/gpus/*/information; do sed -i 's/^GPU UUID:.*/GPU UUID: \\t GPU-????????-????/' $f; done"
# A node whose driver counts the GPUs in another order than NVML, in two PCI domains.
FOREIGN = "vrnvl72"
UNITS = "systemctl is-enabled nvidia-cdi-refresh.path nvidia-cdi-refresh.service || true"


@pytest.fixture(scope="module")
def fleet(boot) -> Fleet:  # type: ignore[no-untyped-def]
    kinds = {"cdi-ok": "ok", "cdi-unused": "ok", "cdi-broken": "broken", "cdi-none": "none"}
    hosts: dict[str, dict[str, object]] = {
        name: {"kind": "containerd-1.7", "gpus": 2, "driver": driver}
        for name, driver in kinds.items()
    }
    hosts["cdi-foreign"] = {"kind": "containerd-1.7", "recorded": FOREIGN}
    return boot(hosts)  # type: ignore[no-any-return]


def names(fleet: Fleet, host: str) -> list[str]:
    return [d["name"] for d in yaml.safe_load(fleet.text(host, OURS))["devices"]]


def test_written_once_and_given_back(fleet: Fleet) -> None:
    hosts = ["cdi-ok", "cdi-unused"]
    fleet.shell("cdi-unused", UNUSED)
    before = {host: fleet.tree(host) for host in hosts}
    announced = fleet.task("cdi_spec", hosts, arguments=["--check"]).of("cdi_spec")
    first = fleet.task("cdi_spec", hosts)
    assert sorted(first.changed) == hosts, first.words
    assert {h: r["differences"] for h, r in announced.items()} == {
        h: r["differences"] for h, r in first.of("cdi_spec").items()
    }
    for host in hosts:
        found = names(fleet, host)
        assert [found[0], found[1], found[-1]] == ["0", "1", "all"]
        assert all(name.startswith("GPU-") for name in found[2:4])  # NVML told what procfs did not
    second = fleet.task("cdi_spec", hosts)
    assert second.changed == {}
    assert dict(second.operations) == dict.fromkeys(hosts, 1)
    fleet.task("cdi_spec", hosts, {"state": "absent"})
    assert {host: fleet.tree(host) for host in hosts} == before


def test_gpus_of_a_recorded_node_are_given_by_their_own_nodes(fleet: Fleet) -> None:
    first = fleet.task("cdi_spec", ["cdi-foreign"])
    assert sorted(first.changed) == ["cdi-foreign"], first.words
    made = yaml.safe_load(fleet.text("cdi-foreign", OURS))
    given = {
        device["name"]: [node["path"] for node in device["containerEdits"]["deviceNodes"]]
        for device in made["devices"]
    }
    gpus = recorded.nodes()[FOREIGN].inventory.gpus
    assert [gpu.minor for gpu in gpus] != sorted(gpu.minor for gpu in gpus)
    for index, gpu in enumerate(gpus):
        assert given[str(index)] == given[gpu.uuid] == [f"/dev/nvidia{gpu.minor}"]
    assert fleet.task("cdi_spec", ["cdi-foreign"]).changed == {}
    fleet.task("cdi_spec", ["cdi-foreign"], {"state": "absent"})


REFUSED = [
    ("cdi-broken", "Kernel module 550.90.07", "Reboot, or reload the module"),
    ("cdi-none", "the NVIDIA kernel module is not loaded", "modprobe nvidia"),
]


@pytest.mark.parametrize(("host", "why", "more"), REFUSED, ids=[case[0] for case in REFUSED])
def test_a_driver_that_does_not_work_is_refused(
    fleet: Fleet, host: str, why: str, more: str
) -> None:
    before = fleet.tree(host)
    sentence = fleet.task("cdi_spec", [host]).failed[host]
    assert why in sentence
    assert more in sentence
    assert fleet.tree(host) == before


def test_a_file_that_nobody_reads_is_named(fleet: Fleet) -> None:
    fleet.shell(
        "cdi-ok",
        f"mkdir -p /etc/cdi; echo 'kind: nvidia.com/gpu' > {OURS.replace('.yaml', '.yml')}",
    )
    advice = fleet.task("cdi_spec", ["cdi-ok"], arguments=["--check"]).of("cdi_spec")["cdi-ok"][
        "advice"
    ]
    fleet.shell("cdi-ok", "rm -r /etc/cdi")
    assert [a for a in advice if "nvidia.yml" in a and a.endswith("[cdi.other-ending]")]


@pytest.mark.nightly("by day `test_rollout_fleet.py` loses a host, and unit tests judge the count")
def test_a_play_stops_when_a_host_is_lost(fleet: Fleet) -> None:
    hosts = ["cdi-broken", "cdi-none", "cdi-ok", "cdi-unused"]
    check = {"gpufleet.nvidia.failed_hosts_check": {"max_failed": 0}}
    play = {
        "hosts": ",".join(hosts),
        "gather_facts": False,
        "serial": 2,
        "tasks": [check, {"ansible.builtin.raw": "true"}, check],
    }
    assert fleet.play([play], hosts).status == 0
    fleet.lab.link("cdi-none", "down")
    try:
        stopped = fleet.play([play], hosts)
    finally:
        fleet.lab.link("cdi-none", "up")
    assert stopped.status != 0
    assert "1 of 4 hosts failed, but at most 0 may fail: cdi-none" in stopped.words
    assert "cdi-ok" not in stopped.of("raw")
