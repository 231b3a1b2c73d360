# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A driver that dnf 4, dnf5 and zypper leave alone while it is held.

The package managers are real. The packages of the driver are imitated: they have NVIDIA's names
and versions, and no files.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import (
    hold_facts,
    package_locks,
)

from tests.lab import hosts, rpmrepo
from tests.tools.onlab import RUNTIME, Fleet

pytestmark = pytest.mark.lab

DNF, DNF5, ZYPPER = "locks-dnf", "locks-dnf5", "locks-zypper"
HOSTS = (DNF, DNF5, ZYPPER)
DRIVER = ("kmod-nvidia-open-dkms", "nvidia-driver-cuda", "nvidia-driver-cuda-libs")
OTHERS = ("nvidia-container-toolkit-extra", "lab-neighbour")
# the first one is that of the module that the lab imitates
OLD, NEW = "550.163.01-1", "550.190.02-1"
SPEC = (
    r"Name: %s\nVersion: %s\nRelease: 1\nEpoch: 3\nSummary: lab\nLicense: MIT\nVendor: NVIDIA\n"
    r"BuildArch: noarch\n%%description\nlab\n%%files\n"
)
BUILD = f"""
mkdir -p /root/packages; cd /root/packages
for version in {OLD.partition("-")[0]} {NEW.partition("-")[0]}; do
    for name in {" ".join((*DRIVER, *OTHERS))}; do
        printf '{SPEC}' $name $version >x.spec
        rpmbuild -bb --quiet --define '_topdir /tmp/build' --define '_rpmdir /root/packages' \\
            --define '_rpmfilename %{{NAME}}-%{{VERSION}}.rpm' --define '_build_id_links none' x.spec
    done
done
rm x.spec; createrepo_c --quiet --no-database .
"""
STANZA = r"[lab]\nname=lab\nbaseurl=file:///root/packages\nenabled=1\ngpgcheck=0\nautorefresh=1\n"
FILES = {
    DNF: "/etc/yum.repos.d/lab.repo",
    DNF5: "/etc/yum.repos.d/lab.repo",
    ZYPPER: "/etc/zypp/repos.d/lab.repo",
}


def name_old(sign: str) -> str:
    """Return all packages in the old version, as a package manager takes them."""
    return " ".join(f"{name}{sign}{OLD}" for name in (*DRIVER, *OTHERS))


INSTALL = {
    DNF: f"dnf -y -q install {name_old('-3:')}",
    DNF5: f"dnf -y -q install {name_old('-3:')}",
    ZYPPER: f"zypper --non-interactive --no-gpg-checks install {name_old('=3:')}",
}
# what dnf-automatic's timers start; Debian has the module and no program of it
UPGRADE = {
    DNF: "python3 -c 'import sys, dnf.automatic.main as of; sys.exit(of.main([\"--installupdates\"]))'",
    DNF5: "dnf5 automatic --installupdates",
    ZYPPER: "zypper --non-interactive --no-gpg-checks update",
}
TIMER = """
mkdir -p /etc/systemd/system/timers.target.wants; cd /etc/systemd/system/timers.target.wants
ln -sf /usr/lib/systemd/system/dnf-automatic-install.timer .
"""
ASKED = {
    "toolkit_repository": "",
    "cdi": "disabled",
    "packages": "ignore",
    "driver": "hold",
    "driver_hold_reason": "tested release",
}


@pytest.fixture(scope="module")
def fleet(boot: Any) -> Fleet:
    gpus = {"gpus": 1, "driver": "ok"}
    booted: Fleet = boot(
        {
            DNF: {"kind": rpmrepo.DNF, **gpus, "files": rpmrepo.files(rpmrepo.ROCKY)},
            DNF5: {"kind": rpmrepo.DNF5, **gpus, "files": rpmrepo.files(rpmrepo.FEDORA)},
            ZYPPER: {"kind": rpmrepo.ZYPPER, **gpus, "files": rpmrepo.files(rpmrepo.SLES)},
        }
    )
    roots = {host: f"/proc/{hosts.first_process(booted.lab.host(host))}/root" for host in HOSTS}
    booted.shell(DNF, BUILD)
    for host in HOSTS:
        booted.bring(host, rpmrepo.nvidia_rpms() / f"{rpmrepo.SYSTEM}.rpm", "/root/system.rpm")
        booted.shell(host, f"{RUNTIME}\n{rpmrepo.PROVIDE.format('/root/system.rpm')}")
        if host != DNF:
            shutil.copytree(Path(roots[DNF], "root/packages"), Path(roots[host], "root/packages"))
        booted.shell(
            host,
            f"mkdir -p {Path(FILES[host]).parent}; printf '{STANZA}' >{FILES[host]}; {INSTALL[host]}",
        )
    return booted


def run(fleet: Fleet, host: str, *arguments: str, **options: Any) -> Any:
    return fleet.task("host", [host], {**ASKED, **options}, arguments=arguments)


def versions(fleet: Fleet, host: str, names: tuple[str, ...]) -> set[str]:
    return set(
        fleet.shell(host, f"rpm -q --qf '%{{VERSION}}-%{{RELEASE}}\\n' {' '.join(names)}").split()
    )


def test_the_lines_of_a_person_stay_byte_for_byte(fleet: Fleet) -> None:
    theirs = (
        r"# of a person\nbash-0:5.1.8-9.el9.*\n\n!nvidia-driver-cuda-3:590.1-1.*\n# to be seen\n"
    )
    fleet.shell(DNF, f"printf '{theirs}' >{package_locks.LOCK_LIST}")
    before = fleet.text(DNF, package_locks.LOCK_LIST)
    assert run(fleet, DNF).failed == {}
    assert fleet.text(DNF, package_locks.LOCK_LIST) != before
    assert run(fleet, DNF, driver="advise").failed == {}
    assert fleet.text(DNF, package_locks.LOCK_LIST) == before


OTHERWISE = rf"nvidia-driver-cuda-3:{OLD}.*\nnvidia-driver-cuda-3:{NEW}.*\n"


def test_a_lock_of_another_version_is_refused(fleet: Fleet) -> None:
    fleet.shell(DNF, f"printf '{OTHERWISE}' >{package_locks.LOCK_LIST}")
    before = fleet.tree(DNF)
    refused = run(fleet, DNF)
    assert refused.of("host")[DNF]["error"]["code"] == "hold.locked-otherwise"
    assert fleet.tree(DNF) == before
    fleet.shell(DNF, f": >{package_locks.LOCK_LIST}")


@pytest.mark.parametrize("host", HOSTS)
def test_held_then_free_again(fleet: Fleet, host: str) -> None:
    before = fleet.tree(host)
    announced = run(fleet, host, "--check")
    assert announced.failed == {}, announced.words
    assert fleet.tree(host) == before
    done = run(fleet, host)
    assert done.failed == {}, done.words
    assert json.loads(fleet.text(host, hold_facts.RECORD))["packages"] == list(DRIVER)
    fleet.shell(host, UPGRADE[host])
    assert versions(fleet, host, DRIVER) == {OLD}
    assert versions(fleet, host, OTHERS) == {NEW}
    again = run(fleet, host)
    assert (again.changed, again.operations[host]) == ({}, 1)

    back = run(fleet, host, driver="advise")
    assert back.failed == {}, back.words
    fleet.shell(host, f"test ! -e {hold_facts.RECORD}")
    fleet.shell(host, UPGRADE[host])
    assert versions(fleet, host, DRIVER) == {NEW}


@pytest.mark.parametrize("host", [DNF, DNF5])
def test_a_timer_of_dnf_automatic_is_known(fleet: Fleet, host: str) -> None:
    assert "keeping.will-move" not in str(run(fleet, host, driver="advise").of("host"))
    fleet.shell(host, TIMER)
    assert "keeping.will-move" in str(run(fleet, host, driver="advise").of("host"))
    fleet.shell(host, "echo excludepkgs=*nvidia-driver*,kmod-nvidia* >>/etc/dnf/dnf.conf")
    assert "keeping.will-move" not in str(run(fleet, host, driver="advise").of("host"))


def test_dnf_without_its_plugin_is_refused_by_name(fleet: Fleet) -> None:
    fleet.shell(DNF, f"mv {package_locks.VERSIONLOCK} /root/versionlock.conf")
    before = fleet.tree(DNF)
    refused = run(fleet, DNF)
    assert refused.of("host")[DNF]["error"]["code"] == "hold.no-versionlock"
    assert fleet.tree(DNF) == before
    fleet.shell(DNF, f"mv /root/versionlock.conf {package_locks.VERSIONLOCK}")


def test_a_file_of_locks_with_a_conflict_is_refused(fleet: Fleet) -> None:
    fleet.shell(DNF, "printf '<<<<<<< ours\\n' >>/etc/dnf/plugins/versionlock.list")
    before = fleet.tree(DNF)
    refused = run(fleet, DNF)
    assert refused.of("host")[DNF]["error"]["code"] == "hold.locks-unread"
    assert fleet.tree(DNF) == before
