# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A driver that Debian's unattended-upgrades moves, and that it leaves alone while it is held.

The packages are Debian's own of the driver 535. The newer release is the same packages, repacked
with a raised version, so nothing in them is newer.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import (
    hold_facts,
)

from tests.lab import hosts, userland
from tests.lab.fakegpu import packaged
from tests.tools.onlab import ROOT, RUNTIME, Fleet, Run

pytestmark = pytest.mark.lab

FREE, HELD = "driver-free", "driver-held"
OLD, NEW, RELEASE = "535.261.03-1", "535.274.02-1", "535.274.02"
DRIVER = (
    "libnvidia-cfg1",
    "libnvidia-ml1",
    "nvidia-alternative",
    "nvidia-legacy-check",
    "nvidia-smi",
)
# of NVIDIA's, whose name begins as those of the driver do, and of anybody else
OTHERS = ("nvidia-container-toolkit-base", "lab-neighbour")
INDEX = """
cd /root/repository; rm -f Packages Release
for deb in *.deb; do
    dpkg-deb --field $deb
    printf 'Filename: ./%s\\nSize: %s\\nSHA256: %s\\n\\n' $deb $(stat -c %s $deb) $(sha256sum $deb | cut -d ' ' -f 1)
done >Packages
printf 'Origin: Debian\\nLabel: Debian\\nCodename: bookworm\\nSuite: oldstable\\nDate: %s\\nSHA256:\\n %s %s Packages\\n' \\
    "$(date -Ru)" $(sha256sum Packages | cut -d ' ' -f 1) $(stat -c %s Packages) >Release
apt-get -q update
"""
FIRST = f"""
cd /root/repository
for name in {" ".join(OTHERS)}; do
    mkdir -p x/DEBIAN
    printf 'Package: %s\\nVersion: 1.0-1\\nArchitecture: all\\nMaintainer: lab\\nDescription: lab\\n' $name >x/DEBIAN/control
    dpkg-deb --build x ${{name}}_1.0-1_all.deb >/dev/null; rm -r x
done
rm -f /etc/apt/sources.list.d/* /etc/apt/sources.list
echo 'deb [trusted=yes] file:/root/repository ./' >/etc/apt/sources.list.d/local.list
{INDEX}
DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends install unattended-upgrades {" ".join((*userland.MOVED, *OTHERS))}
"""
# the imitated module is that of the packages
LOADED = f"echo {OLD.partition('-')[0]} >/{packaged.TOP}/sys/module/nvidia/version"
NEWER = f"""
cd /root/repository
for deb in *_{OLD}_amd64.deb; do
    dpkg-deb --raw-extract $deb x
    sed -i 's/{OLD}/{NEW}/g' x/DEBIAN/control
    dpkg-deb -Zgzip -z1 --build x ${{deb%%_*}}_{NEW}_amd64.deb >/dev/null; rm -r x
done
for name in {" ".join(OTHERS)}; do
    dpkg-deb --raw-extract ${{name}}_1.0-1_all.deb x
    sed -i 's/1.0-1/1.1-1/' x/DEBIAN/control
    dpkg-deb --build x ${{name}}_1.1-1_all.deb >/dev/null; rm -r x
done
{INDEX}
"""
UPGRADE = "unattended-upgrade --debug >/root/upgrade.log 2>&1 || { cat /root/upgrade.log; exit 1; }"


@pytest.fixture(scope="module")
def fleet(boot: Any) -> Fleet:
    kind = {"kind": "containerd-1.6", "gpus": 1, "driver": "ok"}
    booted: Fleet = boot({FREE: kind, HELD: kind})
    for host in (FREE, HELD):
        process = hosts.first_process(booted.lab.host(host))
        shutil.copytree(
            userland.debs(userland.MOVING), Path(f"/proc/{process}/root/root/repository")
        )
        booted.shell(host, f"{RUNTIME}\n{FIRST}\n{LOADED}")
    return booted


# as docs/driver.md shows them
BLOCKS = re.findall(r"(?ms)^```yaml\n(.*?)^```", (ROOT / "docs/driver.md").read_text())
SETTINGS = {k.removeprefix("gpufleet_"): v for k, v in yaml.safe_load(BLOCKS[0]).items()}
USUAL = {"toolkit_repository": "", "cdi": "disabled", "packages": "ignore"}


def run(fleet: Fleet, host: str, *arguments: str, **options: Any) -> dict[str, Any]:
    done: Run = fleet.task("host", [host], {**USUAL, **options}, arguments=arguments)
    assert done.failed == {}, done.words
    return done.of("host")[host]


def versions(fleet: Fleet, host: str, names: tuple[str, ...]) -> set[str]:
    listed = fleet.shell(host, f"dpkg-query -W -f '${{Version}}\\n' {' '.join(names)}")
    return set(listed.split())


def held(fleet: Fleet, host: str) -> list[str]:
    return sorted(fleet.shell(host, "apt-mark showhold").split())


def test_without_a_hold_the_driver_moves_and_a_run_says_so_before(fleet: Fleet) -> None:
    # the lab's hosts have apt's timer masked, so nothing moves it
    assert "keeping.will-move" not in "\n".join(run(fleet, FREE)["advice"])
    fleet.shell(FREE, "rm /etc/systemd/system/apt-daily-upgrade.timer")
    told = "\n".join(run(fleet, FREE)["advice"])
    assert "keeping.will-move" in told
    assert "unattended-upgrades" in told
    assert "libnvidia-ml1" in told
    fleet.shell(FREE, NEWER)
    fleet.shell(FREE, UPGRADE)
    assert versions(fleet, FREE, DRIVER) == {NEW}
    assert versions(fleet, FREE, OTHERS) == {"1.1-1"}


KERNELS = """
kernel=$(uname -r); mkdir -p /boot /lib/modules/$kernel/updates/dkms
touch /boot/vmlinuz-$kernel /lib/modules/$kernel/updates/dkms/nvidia.ko
"""


def test_a_newer_kernel_without_a_module_is_named(fleet: Fleet) -> None:
    """The kernels are files without content: nothing boots them."""
    fleet.shell(FREE, KERNELS)
    assert "next-kernel-lacks-module" not in str(run(fleet, FREE)["advice"])
    fleet.shell(FREE, "touch /boot/vmlinuz-99.1.0-lab")
    told = str(run(fleet, FREE)["advice"])
    assert "keeping.next-kernel-lacks-module" in told
    assert "99.1.0-lab" in told
    fleet.shell(FREE, "mkdir -p /var/lib/dkms/nvidia/535.261.03/source")
    assert "keeping.headers-missing" in str(run(fleet, FREE)["advice"])


def test_with_a_hold_it_stays_and_all_else_moves(fleet: Fleet) -> None:
    fleet.shell(HELD, "apt-mark hold nvidia-smi")  # a person's
    asked = SETTINGS
    before = fleet.tree(HELD)
    announced = run(fleet, HELD, "--check", **asked)
    assert (held(fleet, HELD), fleet.tree(HELD)) == (["nvidia-smi"], before)
    done = run(fleet, HELD, **asked)
    assert done["differences"] == announced["differences"]
    assert held(fleet, HELD) == sorted(DRIVER)
    record = json.loads(fleet.text(HELD, hold_facts.RECORD))
    assert record["packages"] == sorted({*DRIVER} - {"nvidia-smi"})
    assert record["reason"] == SETTINGS["driver_hold_reason"]
    fleet.shell(HELD, NEWER)
    fleet.shell(HELD, UPGRADE)
    assert versions(fleet, HELD, DRIVER) == {OLD}
    assert versions(fleet, HELD, OTHERS) == {"1.1-1"}
    again = fleet.task("host", [HELD], {**USUAL, **asked})
    assert (again.changed, again.operations[HELD]) == ({}, 1)
    told = "\n".join(again.of("host")[HELD]["advice"])
    assert "hold.keeps-back" in told
    assert RELEASE in told


FAILS = """
mv /usr/bin/apt-mark /usr/bin/apt-mark.real
printf '#!/bin/sh\\n/usr/bin/apt-mark.real "$@"\\n[ "$1" != hold ]\\n' >/usr/bin/apt-mark
chmod 755 /usr/bin/apt-mark
"""


def test_a_hold_that_fails_half_way_is_taken_back(fleet: Fleet) -> None:
    fleet.shell(FREE, "apt-mark hold nvidia-smi")
    fleet.shell(FREE, FAILS)
    done = fleet.task("host", [FREE], {**USUAL, **SETTINGS})
    assert done.of("host")[FREE]["status"] == "failed"
    assert held(fleet, FREE) == ["nvidia-smi"]
    fleet.shell(FREE, f"test ! -e {hold_facts.RECORD}; test ! -e {hold_facts.BLACKLIST}")
    fleet.shell(FREE, "mv /usr/bin/apt-mark.real /usr/bin/apt-mark; apt-mark unhold nvidia-smi")


def test_the_file_alone_keeps_unattended_upgrades_from_the_driver(fleet: Fleet) -> None:
    """A person may lift a hold of apt in passing."""
    fleet.shell(HELD, f"apt-mark unhold {' '.join(DRIVER)}")
    fleet.shell(HELD, UPGRADE)
    assert versions(fleet, HELD, DRIVER) == {OLD}
    fleet.shell(HELD, "apt-mark hold nvidia-smi")
    run(fleet, HELD, **SETTINGS)
    assert held(fleet, HELD) == sorted(DRIVER)


def test_a_hold_that_is_taken_back_lets_it_move_again(fleet: Fleet) -> None:
    run(fleet, HELD, state="absent")
    assert held(fleet, HELD) == ["nvidia-smi"]
    fleet.shell(HELD, f"test ! -e {hold_facts.RECORD}; test ! -e {hold_facts.BLACKLIST}")
    fleet.shell(HELD, "apt-mark unhold nvidia-smi")
    fleet.shell(HELD, UPGRADE)
    assert versions(fleet, HELD, DRIVER) == {NEW}
