# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sharing of GPUs on a real host: set in the (imitated) driver, set again by a boot, taken back
when something fails, and given back.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.sharing_hosts import MODES, OPTIONS, run, stand_in_for_the_toolkit, uuids_of
from tests.lab import images, roots
from tests.tools.onlab import Fleet

pytestmark = pytest.mark.lab

HOST = "sharing"
DOCKER = "sharing-docker"
SERVICE = "gpufleet-sharing.service"
RULES = "/etc/udev/rules.d/90-gpufleet-sharing.rules"
SLICES = "nvidia-smi compute-policy --list | sed -n 's/.*Timeslice *\\([A-Z][a-z]*\\).*/\\1/p'"


@pytest.fixture(scope="module")
def fleet(boot: Any) -> Fleet:
    found: Fleet = boot(
        {HOST: {"kind": "containerd-2.3", "gpus": 4}, DOCKER: {"kind": "docker", "gpus": 4}}
    )
    stand_in_for_the_toolkit(found, DOCKER)
    return found


def modes(fleet: Fleet) -> tuple[list[str], list[str]]:
    return fleet.shell(HOST, MODES).split(), fleet.shell(HOST, SLICES).split()


def test_the_figure_of_the_original_document(fleet: Fleet) -> None:
    """GPUs 0, 1 and 3 are shared, 2 is dedicated; 3 was exclusive before."""
    run(fleet, HOST)
    uuids = uuids_of(fleet, HOST)
    fleet.shell(HOST, "nvidia-smi -i 3 -c EXCLUSIVE_PROCESS")
    found = modes(fleet)
    before = fleet.tree(HOST)
    figure = {
        **{uuids[n]: {"time_slicing": {"interval": "short"}} for n in (0, 1, 3)},
        "0000:65:00.0": {"dedicated": {"exclusive": True}},
    }

    announced = run(fleet, HOST, "--check", "--diff", sharing=figure).of("host")[HOST]
    assert (fleet.tree(HOST), modes(fleet)) == (before, found)
    done = run(fleet, HOST, sharing=figure).of("host")[HOST]
    assert done["differences"] == announced["differences"]
    told = [
        (d["path"], d["key"], d["before"], d["after"])
        for d in done["differences"]
        if d["what"] == "mode"
    ]
    assert (uuids[2], "compute mode", "DEFAULT", "EXCLUSIVE_PROCESS") in told
    assert (uuids[3], "compute mode", "EXCLUSIVE_PROCESS", "DEFAULT") in told
    right = (
        ["Default", "Default", "Exclusive_Process", "Default"],
        ["Short", "Short", "Default", "Short"],
    )
    assert modes(fleet) == right
    # By the kind of the shared ones nobody gets the dedicated one.
    spec = fleet.text(HOST, "/etc/cdi/nvidia.com-gpu-shared.yaml")
    assert (uuids[0] in spec, uuids[2] in spec, "/dev/nvidia2" in spec) == (True, False, False)
    # Two services that hold the dedicated GPU's node open: one by its number, in a tree of their
    # own, since the lab's driver opens none.
    fleet.shell(HOST, "mkdir -p /srv/tree/dev; mknod /srv/tree/dev/nvidia2 c 1 3")
    for tenant in ("one", "two"):
        fleet.shell(
            HOST,
            f"systemd-run -q --unit tenant-{tenant} -p StandardInput=file:/srv/tree/dev/nvidia2 sleep infinity",
        )
    seen = {
        row["gpu"]: row
        for row in fleet.task("host_info", [HOST], {**OPTIONS, "sharing": figure}).of("host_info")[
            HOST
        ]["sharing"]
    }
    tenants = "/system.slice/tenant-one.service, /system.slice/tenant-two.service"
    assert seen[uuids[2]]["violation"].endswith(f": {tenants} [sharing.users-on-dedicated-gpu]")
    assert {seen[uuids[n]]["violation"] for n in (0, 1, 3)} == {""}
    fleet.shell(HOST, "systemctl stop tenant-one tenant-two; rm -r /srv/tree")

    again = run(fleet, HOST, sharing=figure)
    assert (again.changed, again.operations[HOST]) == ({}, 1)

    fleet.lab.kill(HOST)
    fleet.lab.boot(HOST)  # the driver has forgotten
    fleet.shell(
        HOST,
        f"until [ $(systemctl show -p ExecMainExitTimestampMonotonic --value {SERVICE}) != 0 ]; do sleep 0.1; done",
    )
    assert modes(fleet) == right
    assert run(fleet, HOST, sharing=figure).changed == {}

    # A driver that says it has set a mode, and has not: read back by the unit, and all of it is
    # undone.
    fleet.shell(
        HOST,
        "cp -a /usr/bin/nvidia-smi /root/; sed -i 's/^def set_compute_mode.*/&\\n    return/' /usr/bin/nvidia-smi",
    )
    failed = fleet.task(
        "host",
        [HOST],
        {**OPTIONS, "sharing": {**figure, uuids[0]: {"dedicated": {"exclusive": True}}}},
    )
    assert (
        f"{SERVICE} failed: GPU {uuids[0]} has DEFAULT after EXCLUSIVE_PROCESS was set"
        in failed.failed[HOST]
    )
    assert fleet.shell(HOST, f"systemctl is-failed {SERVICE} || true").strip() == "inactive"
    assert modes(fleet) == right
    fleet.shell(HOST, "cp -a /root/nvidia-smi /usr/bin/; rm /root/nvidia-smi")
    assert run(fleet, HOST, sharing=figure).changed == {}

    # Somebody keeps a GPU out of use: that stays, and is said.
    fleet.shell(HOST, "nvidia-smi -i 0 -c PROHIBITED")
    closed = run(fleet, HOST, sharing=figure).of("host")[HOST]
    assert [d for d in closed["differences"] if d["what"] == "mode"] == []
    assert any("[sharing.gpu-closed]" in text for text in closed["advice"]), closed["advice"]
    assert modes(fleet)[0][0] == "Prohibited"
    fleet.shell(HOST, "nvidia-smi -i 0 -c DEFAULT")
    run(fleet, HOST, sharing=figure)
    assert modes(fleet) == right

    run(fleet, HOST, sharing={})
    assert modes(fleet) == found
    assert fleet.tree(HOST) == before


def test_what_contradicts_the_host_changes_nothing(fleet: Fleet) -> None:
    before = fleet.tree(HOST)
    found = modes(fleet)
    for sharing, code in (
        ({"0000:b3:00.0": "dedicated"}, "sharing.no-such-gpu-or-product"),
        ({"0": "dedicated", "0000:17:00.0": "time_slicing"}, "sharing.two-entries"),
    ):
        failed = fleet.task("host", [HOST], {**OPTIONS, "sharing": sharing}).failed
        assert f"[{code}]" in failed[HOST]
    assert (fleet.tree(HOST), modes(fleet)) == (before, found)


# A kernel that has (or has not) NVIDIA's driver, as udev sees it. A directory stands for /sys, and
# udev says that it accepts it.
UDEV_TEST = """
mount -t tmpfs sys /sys; mkdir -p /sys/class /sys/bus/pci/drivers/{driver}; touch /sys/bus/pci/drivers/{driver}/uevent
SYSTEMD_DEVICE_VERIFY_SYSFS=0 udevadm test --action={action} /sys/bus/pci/drivers/{driver} 2>/dev/null"""
EVENTS = [
    ("nvidia", "add", True),
    ("nvidia", "remove", False),
    ("nvidia-nvswitch", "add", False),
    ("nouveau", "add", False),
]
# systemd listens to udev's events only if udev runs when it begins.
UDEVD = """
ln -sf ../../bin/udevadm /usr/lib/systemd/systemd-udevd
systemd-run -q --unit lab-udevd -p Type=notify /usr/lib/systemd/systemd-udevd
systemctl daemon-reexec"""


def test_a_driver_that_is_loaded_again_gets_its_modes_again(fleet: Fleet) -> None:
    """By Debian's own udev. The kernel's event is a real one, of a driver that this machine has,
    for which the rule is changed.
    """
    layer = roots.package_layer(roots.base_root("trixie"), roots.UDEV)
    run(fleet, HOST)
    before = fleet.tree(HOST)
    run(fleet, HOST, sharing={"0": {"dedicated": {"exclusive": True}}})
    assert modes(fleet)[0][0] == "Exclusive_Process"
    fleet.bring(HOST, layer / "usr/bin/udevadm", "/usr/bin/udevadm")
    assert "Success: 1" in fleet.shell(HOST, f"udevadm verify {RULES}")
    for driver, action, wanted in EVENTS:
        script = UDEV_TEST.format(driver=driver, action=action)
        said = fleet.shell(HOST, f"unshare --mount sh -ec '{script}'")
        assert f"DEVPATH=/bus/pci/drivers/{driver}" in said
        assert (f"SYSTEMD_WANTS={SERVICE}" in said) is wanted, (driver, action)
        assert ("TAGS=:systemd:" in said) is wanted, (driver, action)

    fleet.shell(HOST, UDEVD)
    driver = fleet.shell(
        HOST,
        "ls -d /sys/bus/pci/drivers/* /sys/bus/platform/drivers/* 2>/dev/null | head -1 || true",
    ).strip()
    rule = fleet.text(HOST, RULES)
    fleet.shell(
        HOST,
        f"sed -i 's#/bus/pci/drivers/nvidia#{driver.removeprefix('/sys')}#' {RULES}; udevadm control --reload",
    )
    for _time in range(2):
        # the driver has forgotten
        fleet.shell(
            HOST, f"echo remove >{driver}/uevent; udevadm settle; rm /run/fakegpu/modes.json"
        )
        assert modes(fleet)[0][0] == "Default"
        ended = f"{MODES} | grep -q Exclusive_Process && [ $(systemctl show -p ActiveState --value {SERVICE}) = inactive ]"
        fleet.shell(
            HOST, f"echo add >{driver}/uevent; timeout 30 sh -c 'until {ended}; do sleep 0.1; done'"
        )
        assert modes(fleet)[0][0] == "Exclusive_Process"
    fleet.shell(
        HOST,
        f"systemctl stop lab-udevd; rm /usr/bin/udevadm /usr/lib/systemd/systemd-udevd; printf '%s' '{rule}' >{RULES}",
    )
    run(fleet, HOST, sharing={})
    assert fleet.tree(HOST) == before


def test_docker_asks_by_the_kind_of_the_shared_ones(fleet: Fleet) -> None:
    sharing = {
        **{f"0000:{bus}:00.0": "time_slicing" for bus in ("17", "43", "9d")},
        "0000:65:00.0": "dedicated",
    }
    done = fleet.task("host", [DOCKER], {**OPTIONS, "sharing": sharing})
    assert done.failed == {}, done.words
    # The daemon runs all the time: it has to hear of the new file.
    run_ = "docker run --rm --pull=never --network=none --device nvidia.com/gpu-shared=all"
    shown = fleet.shell(DOCKER, f"{run_} {images.PROBE} sh -c 'cd /dev; echo nvidia[0-9]'")
    assert shown.split() == ["nvidia0", "nvidia1", "nvidia3"]
