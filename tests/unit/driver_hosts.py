# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts with a driver whose packages something may move: files, packages, and what is advised."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Driver,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import (
    driver_packages,
    driver_state,
    keeping,
    package_locks,
    package_movers,
)

from tests.unit.builders import obs
from tests.unit.coded import read_all_coded
from tests.unit.gpus import BUSES, NVRM, host, pci

DEBIAN = "Debian NVIDIA Maintainers <pkg-nvidia-devel@lists.alioth.debian.org>"


UBUNTU = "Ubuntu Core developers <ubuntu-devel-discuss@lists.ubuntu.com>"


NVIDIA = "cudatools <cudatools@nvidia.com>"


OLDER, KERNEL, NEWER = "6.1.0-9-amd64", "6.1.0-28-amd64", "6.1.0-30-amd64"


BUS = BUSES[0]


def rows(by: str, *packages: str, held: bool = False) -> list[list[Any]]:
    """Return packages as a host lists them, each written as `name version`."""
    return [[*package.split(" "), by, held, ""] for package in packages]


# As packages.debian.org has bookworm's: the daemon is built from a source of its own.
OF_DEBIAN = rows(
    DEBIAN,
    "libcuda1 535.261.03-1",
    "libnvidia-ml1 535.261.03-1",
    "nvidia-kernel-dkms 535.261.03-1",
    "nvidia-persistenced 535.171.04-1~deb12u1",
    "nvidia-installer-cleanup 20220217+3~deb12u1",
    "libnvidia-egl-wayland1 1:1.1.10-1",
)


OF_UBUNTU = rows(
    UBUNTU,
    "libnvidia-compute-535-server 535.183.01-0ubuntu0.22.04.1",
    "nvidia-utils-535-server 535.183.01-0ubuntu0.22.04.1",
    "linux-modules-nvidia-535-server-5.15.0-112-generic 5.15.0-112.122+1",
    "nvidia-settings 510.47.03-0ubuntu1",
)


OF_NVIDIA = rows(
    NVIDIA,
    "nvidia-driver-cuda 3:580.82.07-1.el9",
    "nvidia-driver-cuda-libs 3:580.82.07-1.el9",
    "kmod-nvidia-open-dkms 3:580.82.07-1.el9",
    "nvidia-persistenced 3:580.82.07-1.el9",
    "nvidia-container-toolkit 1.20.2-1",
)


BOOT = {
    f"/lib/modules/{KERNEL}/updates/dkms/nvidia.ko": "",
    f"/boot/vmlinuz-{KERNEL}": "",
    f"/lib/modules/{KERNEL}/build": "",
    "/var/lib/dkms/nvidia/535.261.03/source": "",
    "/etc/modprobe.d/nvidia-blacklists-nouveau.conf": "blacklist nouveau\n",
}


TIMER = {"/etc/systemd/system/timers.target.wants/apt-daily-upgrade.timer": ""}


ON = 'APT::Periodic::Update-Package-Lists "1";\nAPT::Periodic::Unattended-Upgrade "1";\n'


PATTERN = 'Unattended-Upgrade::Origins-Pattern {\n        // "origin=Debian";\n        %s\n};\n'


BY_DEBIAN = PATTERN % '"origin=Debian,codename=${distro_codename},label=Debian";'


def apt(text: str, **more: Any) -> dict[str, Any]:
    """Return the files of a host that upgrades by itself. text: of its own configuration."""
    return {
        "/usr/bin/unattended-upgrade": "",
        **TIMER,
        "/etc/apt/apt.conf.d/20auto-upgrades": ON,
        "/etc/apt/apt.conf.d/50unattended-upgrades": text,
        **more,
    }


def dnf(text: str, timer: str = "dnf-automatic.timer") -> dict[str, Any]:
    return {
        package_movers.DNF_FILE: text,
        f"/etc/systemd/system/timers.target.wants/{timer}": "",
    }


def look(
    files: dict[str, Any],
    like: list[list[Any]],
    manager: str = "dpkg",
    policy: Policy = Policy(),  # noqa: B008  (it cannot change)
    answers: dict[str, Any] | None = None,
) -> tuple[Policy, keeping.KeepingFacts, Driver]:
    given = {
        driver_packages.QUESTION["id"]: {"manager": manager, "installed": {}, "like": like},
        "package:of this test": {"manager": manager, "installed": {}, "candidates": {}},
        **(answers or {}),
    }
    there = {path: text for path, text in files.items() if text is not None}
    system = {"ID": "opensuse-leap"} if package_locks.LOCKS[2] in files else {}
    seen = obs(files=there, answers=given, host={"kernel": KERNEL, "os_release": system})
    return (
        policy,
        keeping.read_keeping_facts(policy, seen),
        driver_state.read_driver(policy, seen),
    )


def advise(
    files: dict[str, Any], like: list[list[Any]], manager: str = "dpkg", **more: Any
) -> list[tuple[str, dict[str, Any]]]:
    return read_all_coded(keeping.plan_keeping(*look(files, like, manager, **more)).advice)


def device(bus: str, number: str) -> dict[str, str]:
    return {f"/sys/bus/pci/devices/{bus}/device": f"{number}\n"}


AUTOMATIC = dnf("[commands]\napply_updates = yes\n")


PIN = "Package: %s\nPin: version %s\nPin-Priority: %d\n"


HEALTHY = {**host(version="535.261.03", user="535.261.03"), **BOOT}


OPEN = NVRM.replace("UNIX x86_64 Kernel Module", "UNIX Open Kernel Module for x86_64")


def modules(version: str, text: str = NVRM, device_id: str = "0x2330") -> dict[str, Any]:
    """Return a host with one GPU and a loaded module."""
    return {
        **host(1, version=version, user=version),
        "/proc/driver/nvidia/version": text.format(version),
        **device(BUS, device_id),
    }


ON_DISK = {**pci(1), **BOOT}
