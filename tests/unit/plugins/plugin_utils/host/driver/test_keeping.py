# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What may take a driver out of order: each finding by its code and values."""

from __future__ import annotations

import fnmatch
import json
import re
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.projection import contents
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Driver,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections import (
    file_places,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import (
    apt_pins,
    driver_packages,
    driver_state,
    holding,
    keeping,
    next_kernel,
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


def built(kernel: str, release: str) -> dict[str, str]:
    """Return a module that DKMS has built."""
    return {f"/var/lib/dkms/nvidia/{release}/{kernel}/x86_64/module/nvidia.ko": ""}


TIMER = {"/etc/systemd/system/timers.target.wants/apt-daily-upgrade.timer": ""}
ON = 'APT::Periodic::Update-Package-Lists "1";\nAPT::Periodic::Unattended-Upgrade "1";\n'
PATTERN = 'Unattended-Upgrade::Origins-Pattern {\n        // "origin=Debian";\n        %s\n};\n'
BY_DEBIAN = PATTERN % '"origin=Debian,codename=${distro_codename},label=Debian";'
BY_UBUNTU = (
    'Unattended-Upgrade::Allowed-Origins {\n    "${distro_id}:${distro_codename}-security";\n};\n'
)


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


PINNED = '[[packages.conditions]]\nkey = "evr"\ncomparator = "="\nvalue = "3:580.82.07-1.el9"\n'
AUTOMATIC = dnf("[commands]\napply_updates = yes\n")
WHITELIST = 'Unattended-Upgrade::Package-Whitelist { "%s"; };\n'
STRICT = 'Unattended-Upgrade::Package-Whitelist-Strict "true";\n'
PIN = "Package: %s\nPin: version %s\nPin-Priority: %d\n"
MIRROR = "Package: *\nPin: release o=Mirror\nPin-Priority: %d\n"
HEALTHY = {**host(version="535.261.03", user="535.261.03"), **BOOT}
MOVES: list[tuple[str, dict[str, Any], list[list[Any]], str, str, str]] = [
    # what the host is like, its files, packages, package database, what moves them, packages named
    (
        "unattended-upgrades of Debian",
        apt(BY_DEBIAN),
        OF_DEBIAN,
        "dpkg",
        "unattended-upgrades",
        "libcuda1, libnvidia-ml1, nvidia-kernel-dkms",
    ),
    (
        "unattended-upgrades of Ubuntu, by the old form of origins",
        apt(BY_UBUNTU),
        OF_UBUNTU,
        "dpkg",
        "unattended-upgrades",
        "libnvidia-compute-535-server, nvidia-utils-535-server",
    ),
    (
        "any origin",
        apt(PATTERN % '"origin=*";'),
        OF_NVIDIA,
        "dpkg",
        "unattended-upgrades",
        "kmod-nvidia-open-dkms, nvidia-driver-cuda, nvidia-driver-cuda-libs, nvidia-persistenced",
    ),
    (
        "NVIDIA's site",
        apt(PATTERN % '"site=developer.download.nvidia.com";'),
        OF_NVIDIA,
        "dpkg",
        "unattended-upgrades",
        "kmod-nvidia-open-dkms, nvidia-driver-cuda, nvidia-driver-cuda-libs, nvidia-persistenced",
    ),
    (
        "one package is left out of the hold",
        apt(BY_DEBIAN),
        [*rows(DEBIAN, "libcuda1 535.261.03-1", held=True), *OF_DEBIAN[1:]],
        "dpkg",
        "unattended-upgrades",
        "libnvidia-ml1, nvidia-kernel-dkms",
    ),
    (
        "a blacklist that fits some",
        apt(
            BY_DEBIAN + 'Unattended-Upgrade::Package-Blacklist {\n  "nvidia-";\n  "libcuda$";\n};\n'
        ),
        OF_DEBIAN,
        "dpkg",
        "unattended-upgrades",
        "libcuda1, libnvidia-ml1",
    ),
    (
        "dnf-automatic that applies",
        dnf("[commands]\nupgrade_type = default\napply_updates = yes\n"),
        OF_NVIDIA,
        "rpm",
        "dnf-automatic",
        "kmod-nvidia-open-dkms, nvidia-driver-cuda, nvidia-driver-cuda-libs, nvidia-persistenced",
    ),
    (
        "the timer that always applies",
        dnf("[commands]\napply_updates = no\n", "dnf-automatic-install.timer"),
        OF_NVIDIA[:1],
        "rpm",
        "dnf-automatic",
        "nvidia-driver-cuda",
    ),
    (
        "a lock on one of them",
        {
            **dnf("[commands]\napply_updates = True\n"),
            package_locks.LOCKS[0]: "# Added lock\nnvidia-driver-cuda-3:580.82.07-1.el9.*\n",
        },
        OF_NVIDIA[:2],
        "rpm",
        "dnf-automatic",
        "nvidia-driver-cuda-libs",
    ),
    (
        "a whitelist that catches one of them, and its dependencies come along",
        apt(BY_DEBIAN + WHITELIST % "libcuda1$"),
        OF_DEBIAN,
        "dpkg",
        "unattended-upgrades",
        "libcuda1, libnvidia-ml1, nvidia-kernel-dkms",
    ),
    (
        "a strict whitelist that catches one of them",
        apt(BY_DEBIAN + WHITELIST % "libcuda1$" + STRICT),
        OF_DEBIAN,
        "dpkg",
        "unattended-upgrades",
        "libcuda1",
    ),
    (
        "a whitelist with a rule that is not compared",
        apt(BY_DEBIAN + WHITELIST % "(a|b)+$" + STRICT),
        OF_DEBIAN,
        "dpkg",
        "unattended-upgrades",
        "libcuda1, libnvidia-ml1, nvidia-kernel-dkms",
    ),
    (
        "a pin of one of them",
        {
            **apt(BY_DEBIAN),
            "/etc/apt/preferences.d/nvidia": PIN % ("libcuda1", "535.261.03-1", 1001),
        },
        OF_DEBIAN,
        "dpkg",
        "unattended-upgrades",
        "libnvidia-ml1, nvidia-kernel-dkms",
    ),
    (
        "a pin of the branch",
        {
            **apt(BY_DEBIAN),
            apt_pins.PIN_FILE: PIN % ("*", "535.*", 1001) + "\n" + PIN % ("lib*", "535.*", 1001),
        },
        OF_DEBIAN[:1],
        "dpkg",
        "unattended-upgrades",
        "libcuda1",
    ),
    (
        # apt 2.6 takes the newer version: both have one priority
        "a pin of one of them, and the same for all packages of a mirror",
        {
            **apt(BY_DEBIAN),
            apt_pins.PIN_FILE: PIN % ("libcuda1", "535.261.03-1", 1001) + "\n" + MIRROR % 1001,
        },
        OF_DEBIAN[:1],
        "dpkg",
        "unattended-upgrades",
        "libcuda1",
    ),
    (
        "a lock of zypper, which dnf does not heed",
        {**AUTOMATIC, package_locks.LOCKS[2]: "type: package\nsolvable_name: *nvidia*\n"},
        OF_NVIDIA[:1],
        "rpm",
        "dnf-automatic",
        "nvidia-driver-cuda",
    ),
    (
        "a package that dnf-automatic alone excludes, before the next boot",
        {
            **dnf("[commands]\napply_updates = yes\n[base]\nexclude = *nvidia*\n"),
            package_movers.OFFLINE: {"type": "link"},
        },
        OF_NVIDIA[:1],
        "rpm",
        "",
        "nvidia-driver-cuda",
    ),
    (
        "SUSE's transactional updates",
        {"/etc/systemd/system/timers.target.wants/transactional-update.timer": ""},
        OF_NVIDIA[:1],
        "rpm",
        "transactional-update",
        "nvidia-driver-cuda",
    ),
]


@pytest.mark.parametrize(
    ("files", "like", "manager", "program", "names"),
    [c[1:] for c in MOVES],
    ids=[c[0] for c in MOVES],
)
def test_a_program_that_moves_the_driver(
    files: dict[str, Any], like: list[list[Any]], manager: str, program: str, names: str
) -> None:
    (told,) = advise({**HEALTHY, **files}, like, manager)
    assert told[0] == ("keeping.will-move" if program else "keeping.moves-at-boot")
    assert (told[1].get("program", ""), told[1]["packages"]) == (program, names)


IMEX = rows(UBUNTU, "nvidia-imex-535 535.183.01-0ubuntu1")
FM = rows(UBUNTU, "nvidia-fabricmanager-535 535.261.03-0ubuntu1")
HELD_FM = rows(UBUNTU, "nvidia-fabricmanager-535 535.261.03-0ubuntu1", held=True)
BESIDE: list[tuple[str, dict[str, Any], list[list[Any]], list[str]]] = [
    # what the host is like whose driver is a .run file, its files, its packages, the codes
    ("nothing moves packages", {}, FM, []),
    ("Fabric Manager may move alone", apt(BY_UBUNTU), FM, ["keeping.part-will-move"]),
    ("it is held", apt(BY_UBUNTU), HELD_FM, []),
    ("an update waits for the next boot", {package_movers.OFFLINE: {"type": "link"}}, FM, ["keeping.moves-at-boot"]),
    ("tools that belong to any driver", apt(BY_UBUNTU), rows(UBUNTU, "nvidia-settings 510.47.03-0ubuntu1"), []),
    ("with a package of the driver", apt(BY_UBUNTU), [*OF_UBUNTU[:1], *IMEX], ["keeping.will-move"]),
]  # fmt: skip


@pytest.mark.parametrize(("files", "like", "codes"), [c[1:] for c in BESIDE], ids=[c[0] for c in BESIDE])  # fmt: skip
def test_a_part_that_may_move_away_from_a_driver_of_no_package(
    files: dict[str, Any], like: list[list[Any]], codes: list[str]
) -> None:
    assert [code for code, _values in advise({**HEALTHY, **files}, like)] == codes


def hold(manager: str, *names: str) -> dict[str, Any]:
    """Return the files of a hold of this collection."""
    values = {"writer": "gpufleet.nvidia", "manager": manager, "packages": list(names)}
    record = json.dumps({**values, "release": "535.261.03", "since": "2026-11-01"}, indent=1)
    lists = {"apt": {holding.BLACKLIST: holding.build_blacklist(names)}, "dnf": {
        package_locks.LOCK_LIST: "".join(f"{name}-3:580.82.07-1.el9.*\n" for name in names)
    }}  # fmt: skip
    return {holding.RECORD: record, **lists[manager]}


LIBRARIES = ("libcuda1", "libnvidia-ml1")
OF_PERSON = {
    "/etc/apt/apt.conf.d/90own": 'Unattended-Upgrade::Package-Blacklist { "libcuda1$"; };\n'
}
TAKEN_BACK = [
    # the files of the host, its packages that are held, its database; the packages that may move
    # once this run has taken the hold back
    ({**apt(BY_DEBIAN), **hold("apt", *LIBRARIES)}, LIBRARIES, "dpkg", "libcuda1, libnvidia-ml1"),
    # a person holds the other one as well, in dpkg or in a file of their own
    ({**apt(BY_DEBIAN), **hold("apt", "libcuda1")}, LIBRARIES, "dpkg", "libcuda1"),
    ({**apt(BY_DEBIAN), **hold("apt", *LIBRARIES), **OF_PERSON}, LIBRARIES, "dpkg", "libnvidia-ml1"),
    # a person has released one or all in passing, and unattended-upgrades' file still had them
    ({**apt(BY_DEBIAN), **hold("apt", *LIBRARIES)}, ("libcuda1",), "dpkg", "libcuda1, libnvidia-ml1"),
    ({**apt(BY_DEBIAN), **hold("apt", *LIBRARIES)}, (), "dpkg", "libcuda1, libnvidia-ml1"),
    ({**dnf("[commands]\napply_updates = yes\n"), **hold("dnf", "nvidia-driver-cuda")}, (), "rpm", "nvidia-driver-cuda"),
]  # fmt: skip


@pytest.mark.parametrize(("files", "held", "manager", "names"), TAKEN_BACK)
def test_a_run_that_takes_a_hold_back_says_what_moves_the_driver_then(
    files: dict[str, Any], held: tuple[str, ...], manager: str, names: str
) -> None:
    every = OF_DEBIAN[:2] if manager == "dpkg" else OF_NVIDIA[:1]
    like = [[*package[:3], package[0] in held, ""] for package in every]
    (told,) = advise({**HEALTHY, **files}, like, manager)
    assert (told[0], told[1]["packages"]) == ("keeping.will-move", names)


EVERY_HELD = [[*package[:3], True, ""] for package in OF_DEBIAN]
QUIET: list[tuple[str, dict[str, Any], list[list[Any]], str]] = [
    # what the host is like, its files, its packages, its package database
    ("Debian's daemon is older than its driver", {}, OF_DEBIAN, "dpkg"),
    ("Ubuntu's modules have the kernel's version", {}, OF_UBUNTU, "dpkg"),
    ("the toolkit beside NVIDIA's packages", {}, OF_NVIDIA, "rpm"),
    ("no package of the driver (a .run file)", apt(BY_DEBIAN), [], "dpkg"),
    ("all are held", apt(BY_DEBIAN), EVERY_HELD, "dpkg"),
    ("NVIDIA's are not among the origins", apt(BY_DEBIAN), OF_NVIDIA, "dpkg"),
    (
        "the switch is off",
        apt(BY_DEBIAN, **{"/etc/apt/apt.conf.d/20auto-upgrades": ""}),
        OF_DEBIAN,
        "dpkg",
    ),
    (
        "all of apt's timers are off",
        apt(BY_DEBIAN, **{"/etc/apt/apt.conf.d/99off": 'APT::Periodic::Enable "0";'}),
        OF_DEBIAN,
        "dpkg",
    ),
    (
        "the timer is masked",
        apt(
            BY_DEBIAN,
            **{"/etc/systemd/system/apt-daily-upgrade.timer": {"real": "/dev/null"}},
        ),
        OF_DEBIAN,
        "dpkg",
    ),
    (
        "a later file clears the origins",
        apt(
            BY_DEBIAN,
            **{"/etc/apt/apt.conf.d/99ours": "#clear Unattended-Upgrade::Origins-Pattern;\n"},
        ),
        OF_DEBIAN,
        "dpkg",
    ),
    (
        "a backup of a configuration does not count",
        apt("", **{"/etc/apt/apt.conf.d/50unattended-upgrades.dpkg-old": BY_DEBIAN}),
        OF_DEBIAN,
        "dpkg",
    ),
    (
        "a blacklist with all of them",
        apt(
            BY_DEBIAN
            + 'Unattended-Upgrade::Package-Blacklist { "nvidia-"; "libnvidia-"; "libcuda1$"; };'
        ),
        OF_DEBIAN,
        "dpkg",
    ),
    (
        "a blacklist that no semicolon ends",
        apt(
            BY_DEBIAN
            + 'Unattended-Upgrade::Package-Blacklist {\n // one\n # two\n "nvidia-"; "lib.*"; \n}\n'
        ),
        OF_DEBIAN,
        "dpkg",
    ),
    ("a whitelist without the driver", apt(BY_DEBIAN + WHITELIST % "openssl"), OF_DEBIAN, "dpkg"),
    (
        "a pin of all of them at the installed version",
        {
            **apt(BY_DEBIAN),
            apt_pins.PIN_FILE: PIN % ("src:*nvidia*:any lib* nvidia-*", "535.261.03-1", 1000),
        },
        OF_DEBIAN,
        "dpkg",
    ),
    (
        "a pin that lets no repository in",
        {
            **apt(BY_DEBIAN),
            apt_pins.PIN_FILE: "Package: lib* nvidia-*\nPin: release *\nPin-Priority: -1\n",
        },
        OF_DEBIAN,
        "dpkg",
    ),
    (
        "a pin that lets no version in",
        {**apt(BY_DEBIAN), apt_pins.PIN_FILE: PIN % ("lib* nvidia-*", "*", -1)},
        OF_DEBIAN,
        "dpkg",
    ),
    (
        "dnf-automatic that only downloads",
        dnf("[commands]\napply_updates = no\n"),
        OF_NVIDIA,
        "rpm",
    ),
    (
        "advisories alone, and NVIDIA's repository has none",
        dnf("[commands]\nupgrade_type = security\napply_updates = yes\n"),
        OF_NVIDIA,
        "rpm",
    ),
    (
        "apply_updates of another section",
        dnf("[emitters]\napply_updates = yes\n"),
        OF_NVIDIA,
        "rpm",
    ),
    (
        "a pin of all of them, above what all packages of a mirror have",
        {
            **apt(BY_DEBIAN),
            apt_pins.PIN_FILE: PIN % ("lib* nvidia-*", "535.261.03-1", 1001) + "\n" + MIRROR % 1000,
        },
        OF_DEBIAN,
        "dpkg",
    ),
    (
        "dnf excludes it",
        {
            **dnf("[commands]\napply_updates = yes\n"),
            package_movers.DNF_MAIN: "[main]\nexcludepkgs=kernel*, *nvidia*\n",
        },
        OF_NVIDIA,
        "rpm",
    ),
    (
        "dnf-automatic alone excludes it",
        dnf("[commands]\napply_updates = yes\n[base]\nexclude = *nvidia*\n"),
        OF_NVIDIA,
        "rpm",
    ),
    (
        "a lock with a wildcard",
        {
            **dnf("[commands]\napply_updates = yes\n"),
            package_locks.LOCKS[0]: "*nvidia*-3:580.82.07-1.el9.*\n",
        },
        OF_NVIDIA,
        "rpm",
    ),
    (
        "a lock of dnf 5",
        {
            **dnf("[commands]\napply_updates = yes\n", "dnf5-automatic.timer"),
            package_locks.DNF5: "",
            package_locks.LOCKS[1]: f'version = "1.0"\n[[packages]]\nname = "*nvidia*"\n{PINNED}',
        },
        OF_NVIDIA,
        "rpm",
    ),
    (
        "a lock of zypper",
        {
            "/etc/systemd/system/timers.target.wants/os-update.timer": "",
            package_locks.LOCKS[2]: "type: package\nmatch_type: glob\nsolvable_name: *nvidia*\n",
        },
        OF_NVIDIA,
        "rpm",
    ),
]


@pytest.mark.parametrize(
    ("files", "like", "manager"), [c[1:] for c in QUIET], ids=[c[0] for c in QUIET]
)
def test_a_driver_that_stays(files: dict[str, Any], like: list[list[Any]], manager: str) -> None:
    assert advise({**HEALTHY, **files}, like, manager) == []


LOCK = "nvidia-driver-cuda-3:{}-1.el9.*\n"
OFF = {package_locks.VERSIONLOCK: "[main]\nenabled = no\n"}
IDLE: list[tuple[str, dict[str, Any], list[tuple[str, str]]]] = [
    # what the locks are like, their files, the findings with their packages
    ("the installed version", {package_locks.LOCKS[0]: LOCK.format("580.82.07")}, []),
    (
        "a newer version",
        {package_locks.LOCKS[0]: LOCK.format("580.95.05")},
        [("keeping.locked-elsewhere", "nvidia-driver-cuda"), ("keeping.will-move", "nvidia-driver-cuda")],
    ),
    (
        "the installed version and a newer one",
        {package_locks.LOCKS[0]: LOCK.format("580.82.07") + LOCK.format("580.95.05")},
        [("keeping.locked-elsewhere", "nvidia-driver-cuda"), ("keeping.will-move", "nvidia-driver-cuda")],
    ),
    (
        "the plugin is off",
        {**OFF, package_locks.LOCKS[0]: LOCK.format("580.82.07")},
        [("keeping.locks-idle", ""), ("keeping.will-move", "nvidia-driver-cuda")],
    ),
    (
        "the plugin is off, and nothing is locked",
        {**OFF, package_locks.LOCKS[0]: "bash-0:5-1.*\n"},
        [("keeping.will-move", "nvidia-driver-cuda")],
    ),
    (
        "the locks are in a folder that is still to be made",
        {package_locks.VERSIONLOCK: "[main]\nlocklist = /home/user/new/locks\n"},
        [("keeping.locks-idle", ""), ("keeping.will-move", "nvidia-driver-cuda")],
    ),
    (
        "the locks are in a file of another user",
        {
            package_locks.VERSIONLOCK: "[main]\nlocklist = /srv/locks\n",
            "/srv": {"type": "dir"},
            "/srv/locks": {"content": LOCK.format("580.82.07"), "mode": 0o666},
        },
        [("keeping.locks-idle", ""), ("keeping.will-move", "nvidia-driver-cuda")],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("files", "told"), [c[1:] for c in IDLE], ids=[c[0] for c in IDLE])
def test_locks_that_keep_nothing(files: dict[str, Any], told: list[tuple[str, str]]) -> None:
    found = advise({**HEALTHY, **AUTOMATIC, **files}, OF_NVIDIA[:1], "rpm")
    assert [(code, values.get("packages", "")) for code, values in found] == told


APART: list[tuple[str, str, bool, bool]] = [
    # what the preferences say, the text, whether the package is held, whether it is told
    ("a newer version, as soon as it is there", PIN % ("libcuda1", "550.*", 1001), False, True),
    ("the same for a package that is held", PIN % ("libcuda1", "550.*", 1001), True, False),
    ("less than the target release", PIN % ("libcuda1", "550.*", 900), False, False),
    ("the installed version first", PIN % ("lib*", "535.*", 1002) + "\n" + PIN % ("libcuda1", "550.*", 1001), False, False),
    ("all packages", PIN % ("*", "550.*", 1001), False, False),
    ("any architecture", PIN % ("libcuda1:any", "550.*", 1001), False, True),
    ("another architecture", PIN % ("libcuda1:i386", "550.*", 1001), False, False),
    ("a comment", "# " + (PIN % ("libcuda1", "550.*", 1001)).replace("\n", "\n# "), False, False),
]  # fmt: skip


@pytest.mark.parametrize(("text", "held", "told"), [c[1:] for c in APART], ids=[c[0] for c in APART])  # fmt: skip
def test_preferences_that_take_the_driver_elsewhere(text: str, held: bool, told: bool) -> None:
    shown = contents.show_content(text.encode(), apt_pins.PIN_KEEP, "/x")["content"]
    like = rows(DEBIAN, "libcuda1 535.261.03-1", held=held)
    values = {
        "path": apt_pins.PIN_FILE,
        "packages": "libcuda1",
        "version": "550.*",
        "priority": 1001,
        "release": "535.261.03",
    }
    found = advise({**HEALTHY, apt_pins.PIN_FILE: shown}, like)
    assert found == ([("keeping.pinned-elsewhere", values)] if told else [])


SECRET_WORD = "a-word"
PREFERENCES = f"""Explanation: {SECRET_WORD}
Package: libcuda1
Pin: release o=Debian,n={SECRET_WORD}
Pin-Priority: 990

Package: nvidia-driver {{{SECRET_WORD}}}
Pin: origin "{SECRET_WORD}.example.org"
Pin-Priority: 1001
"""


def test_only_names_versions_and_priorities_of_preferences_leave_a_host() -> None:
    shown = contents.show_content(PREFERENCES.encode(), apt_pins.PIN_KEEP, "/x")["content"]
    assert SECRET_WORD not in shown
    of_unread = apt_pins.Pin("/x", apt_pins.ALL_PACKAGES, "", 1001)
    assert apt_pins.parse_pins("/x", shown) == (
        apt_pins.Pin("/x", ("libcuda1",), "", 990),
        of_unread,
    )


def test_nothing_is_asked_or_said_with_ignore() -> None:
    policy = Policy(driver="ignore")
    assert keeping.list_questions(policy) == []
    assert advise({**HEALTHY, **apt(BY_DEBIAN)}, OF_DEBIAN, policy=policy) == []


def test_a_spelling_that_is_not_read_is_said() -> None:
    text = 'Unattended-Upgrade {\n  Mail "somebody";\n  Origins-Pattern { "o=Debian"; };\n};\n'
    shown = contents.show_content(text.encode(), package_movers.APT_KEEP, "/x")["content"]
    assert "somebody" not in shown
    path = "/etc/apt/apt.conf.d/50unattended-upgrades"
    assert advise({**HEALTHY, **apt(shown)}, OF_DEBIAN) == [("keeping.apt-unread", {"path": path})]


INCLUDES = [
    '#include "/etc/apt/ours.conf";\n',
    f"{BY_DEBIAN}#include /etc/apt/ours.d/;\n{ON}",
]


@pytest.mark.parametrize("text", INCLUDES)
def test_a_file_that_includes_another_is_not_read_as_a_whole(text: str) -> None:
    shown = contents.show_content(text.encode(), package_movers.APT_KEEP, "/x")["content"]
    assert "ours" not in shown
    path = "/etc/apt/apt.conf.d/50unattended-upgrades"
    assert advise({**HEALTHY, **apt(shown)}, OF_DEBIAN) == [("keeping.apt-unread", {"path": path})]


SECRET = "a-password"
TRAVELS = f"""
// comment {SECRET}
Acquire::http::Proxy "http://user:{SECRET}@proxy:3128";
APT {{ Authentication {{ TrustCDROM "{SECRET}"; }}; }};
DPkg::Post-Invoke {{ "rm -f /var/*/{SECRET}*/x || true"; }};
Unattended-Upgrade::Mail "{SECRET}@example.org";
  Unattended-Upgrade::Package-Blacklist {{
    "nvidia-driver$";
  }}
APT::Periodic {{ Enable "1"; Unattended-Upgrade "1"; }};
"""


def test_only_what_decides_about_upgrades_leaves_a_host() -> None:
    shown = contents.show_content(TRAVELS.encode(), package_movers.APT_KEEP, "/x")["content"]
    assert SECRET not in shown
    conf = package_movers.apt_conf.read_apt_conf([shown])
    assert conf.values == (
        ("unattended-upgrade::package-blacklist::", "nvidia-driver$"),
        ("apt::periodic::enable", "1"),
        ("apt::periodic::unattended-upgrade", "1"),
    )


PARTS: list[tuple[str, list[list[Any]], str, str, str]] = [
    # what the host has, its packages, the release of the libraries, those that differ, who made them
    (
        "a Fabric Manager of another release",
        [*OF_NVIDIA, *rows(NVIDIA, "nvidia-fabricmanager 580.65.06-1")],
        "580.82.07",
        "nvidia-fabricmanager 580.65.06-1",
        "NVIDIA",
    ),
    (
        "the fabric manager of another branch of Ubuntu's",
        [*OF_UBUNTU, *rows(UBUNTU, "nvidia-fabricmanager-550 550.90.07-0ubuntu0.22.04.1")],
        "535.183.01",
        "nvidia-fabricmanager-550 550.90.07-0ubuntu0.22.04.1",
        "Ubuntu",
    ),
    (
        "NVIDIA's daemon is part of the release",
        [*OF_NVIDIA[:3], *rows(NVIDIA, "nvidia-persistenced 3:575.57.08-1.el9")],
        "580.82.07",
        "nvidia-persistenced 3:575.57.08-1.el9",
        "NVIDIA",
    ),
    # github.com/negativo17/nvidia-driver/issues/167: the repository had the newer module alone
    (
        "a built module of RHEL that moved alone",
        [
            *rows(
                NVIDIA,
                "nvidia-driver-cuda-libs 3:565.57.01-1.el8",
                "nvidia-driver-cuda 3:565.57.01-1.el8",
            ),
            *rows(NVIDIA, "kmod-nvidia 3:565.77-1.el8"),
        ],
        "565.57.01",
        "kmod-nvidia 3:565.77-1.el8",
        "NVIDIA",
    ),
    # github.com/NVIDIA/open-gpu-kernel-modules/issues/1000: two repositories, one of them behind
    (
        "libraries of SUSE's repository for the module of NVIDIA's",
        [
            *rows(
                NVIDIA,
                "nvidia-compute-G06 580.119.02-lp160.1",
                "nvidia-compute-utils-G06 580.119.02-lp160.1",
            ),
            *rows(
                NVIDIA,
                "nvidia-open-driver-G06-signed-cuda-kmp-default 580.105.08_k6.12.0_160000.8-lp160.1",
            ),
        ],
        "580.119.02",
        "nvidia-open-driver-G06-signed-cuda-kmp-default 580.105.08_k6.12.0_160000.8-lp160.1",
        "NVIDIA",
    ),
    (
        "SUSE's module for NVIDIA's libraries",
        [
            *rows(
                NVIDIA, "nvidia-compute-G06 580.82.07-lp156.1", "nvidia-gl-G06 580.82.07-lp156.1"
            ),
            *rows(
                "SUSE LLC <https://www.suse.com/>",
                "nvidia-open-driver-G06-signed-kmp-default 570.172.08_k6.4.0_150600.21-150600.3.1",
            ),
        ],
        "580.82.07",
        "nvidia-open-driver-G06-signed-kmp-default 570.172.08_k6.4.0_150600.21-150600.3.1",
        "NVIDIA",
    ),
    (
        "Ubuntu's library of NVSwitches of another branch",
        [*OF_UBUNTU, *rows(UBUNTU, "libnvidia-nscq-550 550.90.07-0ubuntu0.22.04.1")],
        "535.183.01",
        "libnvidia-nscq-550 550.90.07-0ubuntu0.22.04.1",
        "Ubuntu",
    ),
    (
        "a library of another architecture",
        [*OF_DEBIAN, *rows(DEBIAN, "libnvidia-ml1:i386 535.183.01-1")],
        "535.261.03",
        "libnvidia-ml1:i386 535.183.01-1",
        "Debian",
    ),
    (
        "half of an upgrade",
        [*OF_DEBIAN, *rows(DEBIAN, "libnvidia-encode1 550.163.01-2")],
        "535.261.03",
        "libnvidia-encode1 550.163.01-2",
        "Debian",
    ),
]


@pytest.mark.parametrize(
    ("like", "release", "odd", "maker"), [c[1:] for c in PARTS], ids=[c[0] for c in PARTS]
)
def test_parts_of_several_versions(
    like: list[list[Any]], release: str, odd: str, maker: str
) -> None:
    values = {"release": release, "odd": odd, "maker": maker}
    assert advise(HEALTHY, like) == [("keeping.parts-differ", values)]


def test_a_package_that_only_leads_to_another_has_no_release() -> None:
    """As Ubuntu's of an older branch, which stay when their successors move."""
    like = [*OF_UBUNTU, *rows(UBUNTU, "libnvidia-compute-530 535.129.03-0ubuntu0.22.04.1")]
    answer = {"manager": "dpkg", "installed": {}, "like": like}
    key = driver_packages.QUESTION["id"]
    told = advise(HEALTHY, like, answers={key: {**answer, "empty": ["libnvidia-compute-530"]}})
    assert told == []
    assert [code for code, _v in advise(HEALTHY, like, answers={key: answer})] == ["keeping.parts-differ"]  # fmt: skip


BOOTS: list[tuple[str, dict[str, Any], list[tuple[str, dict[str, Any]]]]] = [
    # what the host is like, its files beside those of a healthy host, what is said
    ("the newest kernel has a module", {}, []),
    (
        "a newer kernel without a module, and its headers are there",
        {f"/boot/vmlinuz-{NEWER}": "", f"/lib/modules/{NEWER}/build": ""},
        [
            (
                "keeping.next-kernel-lacks-module",
                {"next": NEWER, "kernels": KERNEL, "last": KERNEL},
            )
        ],
    ),
    (
        "the newest kernel has the module of another release alone",
        {**built(KERNEL, "535.261.03"), **built(NEWER, "525.147.05"), f"/boot/vmlinuz-{NEWER}": ""},
        [
            (
                "keeping.next-kernel-other-module",
                {"next": NEWER, "built": "525.147.05", "release": "535.261.03", "running": KERNEL},
            )
        ],
    ),
    (
        "the newest kernel has the module of this release, too",
        {**built(NEWER, "525.147.05"), **built(NEWER, "535.261.03"), f"/boot/vmlinuz-{NEWER}": ""},
        [],
    ),
    (
        "an older kernel has the module of another release alone",
        {**built(OLDER, "525.147.05"), f"/boot/vmlinuz-{OLDER}": ""},
        [],
    ),
    (
        "a newer kernel, and DKMS lacks its headers",
        {f"/lib/modules/{NEWER}/vmlinuz": ""},
        [("keeping.headers-missing", {"next": NEWER, "kernels": KERNEL})],
    ),
    (
        "the headers of the newer kernel are a link to nothing",
        {f"/boot/vmlinuz-{NEWER}": "", f"/lib/modules/{NEWER}/build": {"real": None}},
        [("keeping.headers-missing", {"next": NEWER, "kernels": KERNEL})],
    ),
    (
        "a newer kernel on which the module does not build",
        {
            f"/boot/vmlinuz-{NEWER}": "",
            f"/lib/modules/{NEWER}/build": "",
            "/var/lib/dkms/nvidia/535.261.03/build/make.log": "",
        },
        [
            (
                "keeping.build-failed",
                {
                    "next": NEWER,
                    "kernels": KERNEL,
                    "log": "/var/lib/dkms/nvidia/535.261.03/build/make.log",
                },
            )
        ],
    ),
    (
        "a newer kernel on which akmods could not build the module",
        {
            f"/boot/vmlinuz-{NEWER}": "",
            f"/lib/modules/{NEWER}/build": "",
            f"/var/cache/akmods/nvidia/535.261.03-1-for-{KERNEL}.failed.log": "",
            f"/var/cache/akmods/nvidia/535.261.03-1-for-{NEWER}.failed.log": "",
        },
        [
            (
                "keeping.build-failed",
                {
                    "next": NEWER,
                    "kernels": KERNEL,
                    "log": f"/var/cache/akmods/nvidia/535.261.03-1-for-{NEWER}.failed.log",
                },
            )
        ],
    ),
    (
        "DKMS stops at a driver whose sources are gone",
        {
            f"/boot/vmlinuz-{NEWER}": "",
            f"/lib/modules/{NEWER}/build": "",
            "/var/lib/dkms/nvidia/390.48/source": {"real": None},
        },
        [
            (
                "keeping.dkms-stops",
                {"next": NEWER, "kernels": KERNEL, "path": "/var/lib/dkms/nvidia/390.48/source"},
            )
        ],
    ),
    (
        "a driver whose sources are gone, and the newest kernel has a module",
        {"/var/lib/dkms/nvidia/390.48/source": {"real": None}},
        [],
    ),
    ("an older kernel without a module", {f"/boot/vmlinuz-{OLDER}": ""}, []),
    ("a rescue kernel", {"/boot/vmlinuz-0-rescue-3f2a": ""}, []),
    ("a kernel before its update", {f"/boot/vmlinuz-{KERNEL}.old": ""}, []),
    ("a copy of dpkg's", {f"/boot/vmlinuz-{NEWER}.dpkg-bak": ""}, []),
    (
        "a release candidate of the running kernel",
        {f"/boot/vmlinuz-{KERNEL.replace('-28', '-rc28')}": ""},
        [],
    ),
    (
        "an update waits for the next boot",
        {package_movers.OFFLINE: {"type": "link"}},
        [
            (
                "keeping.moves-at-boot",
                {
                    "path": package_movers.OFFLINE,
                    "release": "535.261.03",
                    "packages": "libcuda1, libnvidia-ml1, nvidia-kernel-dkms",
                },
            )
        ],
    ),
]


@pytest.mark.parametrize(("files", "told"), [c[1:] for c in BOOTS], ids=[c[0] for c in BOOTS])
def test_the_next_boot(files: dict[str, Any], told: list[tuple[str, dict[str, Any]]]) -> None:
    assert advise({**HEALTHY, **files}, OF_DEBIAN) == told


# Where a module for the newest kernel may be, its target if it is a link, whether it counts.
PLACES = [
    ("updates/dkms/nvidia-current.ko", "", True),
    ("kernel/nvidia-535srv/nvidia.ko.zst", "", True),
    ("extra/nvidia/nvidia.ko.xz", "", True),
    # NVIDIA/yum-packaging-precompiled-kmod, kmod-nvidia.spec
    ("extra/drivers/video/nvidia/nvidia.ko", "", True),
    # openSUSE/nvidia-driver-G06/issues/109
    ("updates/nvidia.ko", "", True),
    ("weak-updates/updates/nvidia.ko", "/lib/modules/6.1.0-28-amd64/updates/nvidia.ko", True),
    # AlmaLinux/almalinux-deploy/issues/271: a link of weak-modules to a kernel that is gone
    ("weak-updates/nvidia-open/nvidia.ko", None, False),
    ("extramodules/nvidia.ko.xz", "", True),
    ("video/nvidia.ko", "", True),
    ("extra/nvidia-drm.ko", "", False),
]


@pytest.mark.parametrize(("place", "target", "counts"), PLACES)
def test_a_module_of_the_newest_kernel_is_found(
    place: str, target: str | None, counts: bool
) -> None:
    module: Any = "" if target == "" else {"real": target, "type": "link"}
    files = {f"/boot/vmlinuz-{NEWER}": "", f"/lib/modules/{NEWER}/build": ""}
    told = advise({**HEALTHY, **files, f"/lib/modules/{NEWER}/{place}": module}, OF_DEBIAN)
    codes = [code for code, _values in told]
    assert codes == ([] if counts else ["keeping.next-kernel-lacks-module"])


OUT = "/etc/modprobe.d/nvidia-blacklists-nouveau.conf"
NOUVEAU = f"/lib/modules/{KERNEL}/kernel/drivers/gpu/drm/nouveau/nouveau.ko.xz"
LINE = "BOOT_IMAGE=/boot/vmlinuz-6.1 root=/dev/sda1 {} quiet"
KEPT_OUT: list[tuple[str, dict[str, Any], bool]] = [
    # what the host is like, its files beside nouveau in the newest kernel, whether it is kept out
    ("by the driver's file", {}, True),
    ("by no file", {OUT: None}, False),
    ("a file of that name with other settings", {OUT: "options nvidia NVreg_EnableMSI=1\n"}, False),
    ("a comment", {OUT: "# blacklist nouveau\n"}, False),
    ("another module", {OUT: "blacklist nouveaux\nblacklist lbm-nouveau\n"}, False),
    ("an alias, which no device goes by", {OUT: "alias nouveau off\n"}, False),
    ("a rule with a comment behind it", {OUT: "  blacklist\tnouveau # as NVIDIA says\n"}, True),
    ("a command in its place", {OUT: "install nouveau /bin/false\n"}, True),
    ("a command that may load it", {OUT: "install nouveau /sbin/modprobe -i nouveau\n"}, False),
    ("without a mode", {OUT: "options nouveau config=x modeset=0\n"}, True),
    ("with a mode", {OUT: "options nouveau modeset=1\n"}, False),
    ("by a file of another name", {OUT: None, "/etc/modprobe.d/99.conf": "blacklist nouveau\n"}, True),
    ("by a file at run time", {OUT: None, "/run/modprobe.d/1.conf": "blacklist nouveau\n"}, True),
    ("by a file that modprobe does not read", {OUT: None, "/etc/modprobe.d/99.off": "blacklist nouveau\n"}, False),
    (
        "by a file that another one of its name replaces",
        {OUT: None, "/usr/lib/modprobe.d/nvidia.conf": "blacklist nouveau\n", "/etc/modprobe.d/nvidia.conf": ""},
        False,
    ),
    ("by the kernel", {OUT: None, "/proc/cmdline": LINE.format("module_blacklist=e1000e,nouveau")}, True),
    ("by modprobe's list", {OUT: None, "/proc/cmdline": LINE.format("modprobe.blacklist=nouveau")}, True),
    ("by the initramfs alone", {OUT: None, "/proc/cmdline": LINE.format("rd.driver.blacklist=nouveau")}, False),
    ("by a mode of the command line", {OUT: None, "/proc/cmdline": LINE.format("nouveau.modeset=0")}, True),
    ("by no mode at all", {OUT: None, "/proc/cmdline": LINE.format("nomodeset")}, True),
    ("another one's list", {OUT: None, "/proc/cmdline": LINE.format("module_blacklist=nouveau2")}, False),
]  # fmt: skip


@pytest.mark.parametrize(("files", "out"), [c[1:] for c in KEPT_OUT], ids=[c[0] for c in KEPT_OUT])
def test_nouveau_is_kept_out_by_what_a_file_says(files: dict[str, Any], out: bool) -> None:
    keeps = {"/proc/cmdline": next_kernel.BY_COMMAND_LINE}
    shown = {
        path: text and file_places.show_own_text(text, keeps.get(path, next_kernel.BY_FILE))
        for path, text in {OUT: "blacklist nouveau\n", "/proc/cmdline": "", **files}.items()
    }
    told = advise({**HEALTHY, NOUVEAU: "", **shown}, OF_DEBIAN)
    assert told == ([] if out else [("keeping.nouveau-not-kept-out", {"kernel": KERNEL})])


# Kernels with nouveau, those that can be booted, whether it is said.
BEFORE = "6.1.0-9-amd64"
NEXT_NOUVEAU = [
    ((KERNEL,), (KERNEL,), True),
    ((KERNEL,), (KERNEL, NEWER), False),
    ((BEFORE,), (BEFORE, KERNEL), False),
    ((NEWER,), (KERNEL, NEWER), True),
]


@pytest.mark.parametrize(("nouveau", "kernels", "said"), NEXT_NOUVEAU)
def test_only_nouveau_of_the_next_kernel_counts(
    nouveau: tuple[str, ...], kernels: tuple[str, ...], said: bool
) -> None:
    files = {
        **{f"/boot/vmlinuz-{kernel}": "" for kernel in kernels},
        **{f"/lib/modules/{kernel}/updates/dkms/nvidia.ko": "" for kernel in kernels},
        **{NOUVEAU.replace(KERNEL, kernel): "" for kernel in nouveau},
    }
    codes = [code for code, _values in advise({**HEALTHY, OUT: None, **files}, OF_DEBIAN)]
    assert codes == ["keeping.nouveau-not-kept-out"] * said


# The later kernel first.
ORDERS = [
    ("6.8.0", "6.8.0-rc1"),
    ("6.8.0-rc10", "6.8.0-rc2"),
    ("6.8.0-060800-generic", "6.8.0-060800rc1-generic"),
    ("6.8.9-amd64", "6.8-amd64"),
    ("6.8.9-amd64", "6.8-rc7-amd64"),
    ("6.8.0-28-generic", "6.8.0"),
    ("6.10.0-1-amd64", "6.9.12-amd64"),
    ("5.14.0-570.el9_6.x86_64", "5.14.0-427.42.1.el9_4.x86_64"),
    ("6.8.2-arch1-1", "6.8.1-arch2-1"),
]


@pytest.mark.parametrize(("later", "earlier"), ORDERS)
def test_kernels_are_sorted_by_their_releases(later: str, earlier: str) -> None:
    assert max(earlier, later, key=next_kernel.get_kernel_order) == later
    assert max(later, earlier, key=next_kernel.get_kernel_order) == later


# The version of a package, the release of the driver in it.
RELEASES = [
    ("580.95.05-0ubuntu0.24.04.1", "580.95.05"),
    ("3:580.82.07-1.el9", "580.82.07"),
    ("0:580.82.07-1", "580.82.07"),
    ("580.82-1", "580.82"),
    ("580.82.07~beta-1", "580.82.07"),
    ("580.82.07.1-1", ""),
    ("2025.10.11-1", "2025.10.11"),  # of another source: no part of the driver has it
    ("20220217+3~deb12u1", ""),
    ("unstable", ""),
]


@pytest.mark.parametrize(("version", "release"), RELEASES)
def test_the_release_in_the_version_of_a_package(version: str, release: str) -> None:
    assert driver_packages.parse_release(version) == release


OPEN = NVRM.replace("UNIX x86_64 Kernel Module", "UNIX Open Kernel Module for x86_64")


def modules(version: str, text: str = NVRM, device_id: str = "0x2330") -> dict[str, Any]:
    """Return a host with one GPU and a loaded module."""
    return {
        **host(1, version=version, user=version),
        "/proc/driver/nvidia/version": text.format(version),
        **device(BUS, device_id),
    }


FLAVOURS: list[tuple[str, dict[str, Any], list[list[Any]], str, str]] = [
    # what the host is like, its files, its packages, the code, the GPUs
    ("H100 with open modules", modules("580.82.07", OPEN), [], "", ""),
    ("H100 with proprietary modules", modules("580.82.07"), [], "", ""),
    ("V100 with proprietary modules of 580", modules("580.82.07", NVRM, "0x1db6"), [], "", ""),
    ("T4 with open modules", modules("580.82.07", OPEN, "0x1eb8"), [], "", ""),
    (
        "V100 with open modules",
        modules("580.82.07", OPEN, "0x1db6"),
        [],
        "keeping.open-modules-old-gpu",
        "1db6",
    ),
    (
        "P40 with branch 595",
        modules("595.45.04", OPEN, "0x1b38"),
        [],
        "keeping.no-driver-for-old-gpu",
        "1b38",
    ),
    (
        "B200 with proprietary modules",
        modules("570.172.08", NVRM, "0x2901"),
        [],
        "keeping.proprietary-modules-new-gpu",
        "2901",
    ),
    (
        "GH200 with proprietary modules",
        modules("570.172.08", NVRM, "0x2342"),
        [],
        "keeping.proprietary-modules-new-gpu",
        "2342",
    ),
    (
        "Thor with proprietary modules",
        modules("580.82.07", NVRM, "0x2b00"),
        [],
        "keeping.proprietary-modules-new-gpu",
        "2b00",
    ),
    ("GB10 with open modules", modules("580.173.02", OPEN, "0x2e12"), [], "", ""),
    (
        "GB10 with proprietary modules",
        modules("580.173.02", NVRM, "0x2e12"),
        [],
        "keeping.proprietary-modules-gb10",
        "2e12",
    ),
    (
        "B200 whose module is not loaded, by its packages",
        {**pci(1), **device(BUS, "0x2901")},
        rows(UBUNTU, "nvidia-dkms-570-server 570.172.08-0ubuntu1"),
        "keeping.proprietary-modules-new-gpu",
        "2901",
    ),
    *(
        (
            f"P40 whose module is not loaded, by {name}",
            {**pci(1), **device(BUS, "0x1b38")},
            rows(UBUNTU, f"{name} 570.172.08-0ubuntu1"),
            code,
            "1b38",
        )
        for name, code in (
            ("nvidia-headless-570-server-open", "keeping.open-modules-old-gpu"),
            ("nvidia-headless-no-dkms-570-open", "keeping.open-modules-old-gpu"),
            ("linux-modules-nvidia-570-server-open-generic", "keeping.open-modules-old-gpu"),
            ("linux-modules-nvidia-570-open-6.8.0-60-generic", "keeping.open-modules-old-gpu"),
            ("linux-modules-nvidia-570-server-generic", ""),
            ("nvidia-headless-570-server", ""),
        )
    ),
    (
        "P40 whose module is not loaded, by its packages",
        {**pci(1), **device(BUS, "0x1b38")},
        rows(UBUNTU, "nvidia-dkms-570-server-open 570.172.08-0ubuntu1"),
        "keeping.open-modules-old-gpu",
        "1b38",
    ),
]


@pytest.mark.parametrize(
    ("files", "like", "code", "number"), [c[1:] for c in FLAVOURS], ids=[c[0] for c in FLAVOURS]
)
def test_kinds_of_modules(
    files: dict[str, Any], like: list[list[Any]], code: str, number: str
) -> None:
    told = advise(files, like)
    assert [(c, v["gpus"]) for c, v in told] == ([(code, f"{BUS} (10de:{number})")] if code else [])


HALF: list[tuple[list[list[str]], list[tuple[str, str]]]] = [
    # what dpkg has not finished, the codes with the packages
    ([], []),
    (
        [["libnvidia-ml1", "half-configured"]],
        [("half-installed", "libnvidia-ml1 (half-configured)")],
    ),
    ([["libnvidia-ml1", "unpacked"]], [("half-installed", "libnvidia-ml1 (unpacked)")]),
    (
        [
            ["libcuda1", "half-installed"],
            ["libnvidia-ml1", "unpacked"],
            ["nvidia-smi", "reinstreq"],
        ],
        [
            ("reinstallation-required", "libcuda1 (half-installed), nvidia-smi (reinstreq)"),
            ("half-installed", "libnvidia-ml1 (unpacked)"),
        ],
    ),
]


@pytest.mark.parametrize(("half", "told"), HALF)
def test_packages_that_dpkg_has_not_finished(
    half: list[list[str]], told: list[tuple[str, str]]
) -> None:
    key = driver_packages.QUESTION["id"]
    answer = {"manager": "dpkg", "installed": {}, "like": OF_DEBIAN, "half": half}
    found = advise(HEALTHY, OF_DEBIAN, answers={key: answer})
    assert [(code, values["packages"]) for code, values in found] == [
        (f"keeping.{code}", packages) for code, packages in told
    ]


KMP = "nvidia-open-driver-G06-signed-kmp-default"
OLDER = rows(NVIDIA, "nvidia-driver-cuda-libs 3:580.65.06-1.el9")
TWICE: list[tuple[str, list[list[Any]], str, bool]] = [
    # what rpm has, of which manager, whether packages are there twice
    ("one release", OF_NVIDIA, "rpm", False),
    ("a library of two releases", [*OF_NVIDIA, *OLDER], "rpm", True),
    ("a module for each of two kernels", [
        *OF_NVIDIA, *rows(NVIDIA, f"{KMP} 580.82.07_k6.4-1", f"{KMP} 580.82.07_k6.5-1"),
    ], "rpm", False),
    ("two versions of what has its own", [*OF_NVIDIA, *rows(NVIDIA, "nvidia-container-toolkit 1.19.0-1")], "rpm", False),
]  # fmt: skip


@pytest.mark.parametrize(("like", "manager", "twice"), [c[1:] for c in TWICE], ids=[c[0] for c in TWICE])  # fmt: skip
def test_packages_that_rpm_has_twice(like: list[list[Any]], manager: str, twice: bool) -> None:
    told = dict(advise(host(version="580.82.07", user="580.82.07"), like, manager))
    assert ("keeping.installed-twice" in told) is twice
    if twice:
        assert told["keeping.installed-twice"]["packages"] == "nvidia-driver-cuda-libs"


def file(content: str) -> dict[str, Any]:
    return {"content": content, "encoding": "utf-8"}


ON_DISK = {**pci(1), **BOOT}
ENROLLED = {next_kernel.KEYS[0]: file("KEY"), next_kernel.TRUSTED: file("\x00xKEYy")}
SECURE: list[tuple[str, dict[str, Any], list[str]]] = [
    # what the host is like, its files beside a module on disk that is not loaded, the codes
    ("no firmware variables", {}, []),
    ("Secure Boot is off", {next_kernel.SECURE_BOOT: file("\x06\0\0\0\0")}, []),
    (
        "no key",
        {next_kernel.SECURE_BOOT: file("\x06\0\0\0\x01")},
        ["keeping.key-missing"],
    ),
    (
        "the key is not enrolled",
        {
            next_kernel.SECURE_BOOT: file("\x06\0\0\0\x01"),
            **ENROLLED,
            next_kernel.TRUSTED: file("\x00xyz"),
        },
        ["keeping.key-not-enrolled"],
    ),
    ("signatures are not enforced", {next_kernel.SIG_ENFORCE: file("N\n")}, []),
    (
        "signatures are enforced without Secure Boot",
        {next_kernel.SIG_ENFORCE: file("Y\n")},
        ["keeping.signatures-enforced"],
    ),
    (
        "a kernel in lockdown without Secure Boot",
        {
            next_kernel.SECURE_BOOT: file("\x06\0\0\0\0"),
            next_kernel.LOCKDOWN: file("none [integrity] confidentiality\n"),
        },
        ["keeping.signatures-enforced"],
    ),
    ("no lockdown", {next_kernel.LOCKDOWN: file("[none] integrity confidentiality\n")}, []),
    (
        "the key is an empty file, so that nothing is known",
        {
            next_kernel.SECURE_BOOT: file("\x06\0\0\0\x01"),
            **ENROLLED,
            next_kernel.KEYS[0]: file(""),
        },
        [],
    ),
    (
        "the key is enrolled",
        {next_kernel.SECURE_BOOT: file("\x06\0\0\0\x01"), **ENROLLED},
        [],
    ),
    # fedora-silverblue/issue-tracker/issues/272
    (
        "the key of akmods is enrolled",
        {
            next_kernel.SECURE_BOOT: file("\x06\0\0\0\x01"),
            next_kernel.KEYS[2]: file("KEY"),
            next_kernel.TRUSTED: ENROLLED[next_kernel.TRUSTED],
        },
        [],
    ),
    (
        "the key of akmods is enrolled, and one that DKMS has left is not",
        {
            next_kernel.SECURE_BOOT: file("\x06\0\0\0\x01"),
            **ENROLLED,
            next_kernel.KEYS[0]: file("OLD"),
            next_kernel.KEYS[2]: file("KEY"),
        },
        [],
    ),
    (
        "neither of two keys is enrolled",
        {
            next_kernel.SECURE_BOOT: file("\x06\0\0\0\x01"),
            **ENROLLED,
            next_kernel.KEYS[0]: file("OLD"),
            next_kernel.KEYS[2]: file("OTHER"),
        },
        ["keeping.key-not-enrolled"],
    ),
]


@pytest.mark.parametrize(("files", "codes"), [c[1:] for c in SECURE], ids=[c[0] for c in SECURE])
def test_secure_boot(files: dict[str, Any], codes: list[str]) -> None:
    assert [code for code, _values in advise({**ON_DISK, **files}, OF_DEBIAN)] == codes


OWN_RULE = "/lib/modprobe.d/blacklist-nvidia.conf"
MODULE_OUT: list[tuple[str, str, str, bool]] = [
    # what the rule is like, the file, its text, whether NVIDIA's module is kept out by it
    ("none", OWN_RULE, "", False),
    # canonical/nvidia-prime/issues/20
    ("a blacklist", OWN_RULE, "blacklist nvidia\nblacklist nvidia-drm\n", True),
    ("an alias", OWN_RULE, "alias nvidia off\n", True),
    ("a command in its place", OWN_RULE, "install nvidia /bin/false\n", True),
    ("a command that loads it", OWN_RULE, "install nvidia /sbin/modprobe --ignore-install nvidia\n", False),
    ("the older frame buffer", OWN_RULE, "blacklist nvidiafb\nblacklist nvidia_drm\n", False),
    ("a comment", OWN_RULE, "# blacklist nvidia\n", False),
    ("a file that modprobe does not read", f"{OWN_RULE}.off", "blacklist nvidia\n", False),
    ("the kernel's list", "/proc/cmdline", LINE.format("module_blacklist=nouveau,nvidia"), True),
    ("modprobe's list", "/proc/cmdline", LINE.format("modprobe.blacklist=nvidia,nvidia_drm"), True),
    ("the frame buffer in that list", "/proc/cmdline", LINE.format("modprobe.blacklist=nouveau,nvidiafb"), False),
    ("the initramfs alone", "/proc/cmdline", LINE.format("rd.driver.blacklist=nvidia"), False),
]  # fmt: skip


@pytest.mark.parametrize(("path", "text", "out"), [c[1:] for c in MODULE_OUT], ids=[c[0] for c in MODULE_OUT])  # fmt: skip
def test_a_rule_that_keeps_the_module_out(path: str, text: str, out: bool) -> None:
    keep = next_kernel.BY_COMMAND_LINE if path == "/proc/cmdline" else next_kernel.BY_FILE
    shown = file_places.show_own_text(text, keep)
    told = advise({**ON_DISK, path: shown}, OF_DEBIAN)
    values = {"path": path, "kernel": KERNEL}
    assert told == ([("keeping.module-kept-out", values)] if out else [])
    # a module that somebody has loaded all the same
    assert advise({**HEALTHY, path: shown}, OF_DEBIAN) == []


RULES: list[tuple[str, str, bool]] = [
    # what the rule of a blacklist is like, the rule, whether libnvidia-cfg1 fits
    ("a beginning", "libnvidia", True),
    ("signs of a shell", "libnvidia-*", True),
    ("anything before", ".*nvidia", True),
    ("an end", "libnvidia-cfg1$", True),
    ("another end", "libnvidia$", False),
    ("one of two", "nouveau|^libnvidia", True),
    ("characters", "lib[a-z]vidia-cfg[0-9]", True),
    ("a sign that is meant", r"libnvidia\-cfg1", True),
    ("Python refuses it", "*libnvidia", False),
    # what takes long for a name that its host may choose
    ("repeated groups", "(l?i?b?)+nvidia", False),
    ("many that repeat", ".*n.*v.*i.*d", False),
    ("a rule longer than names", "lib[nvidia]" * 20, False),
]


@pytest.mark.parametrize(("rule", "fits"), [c[1:] for c in RULES], ids=[c[0] for c in RULES])
def test_a_rule_of_the_blacklist(rule: str, fits: bool) -> None:
    rules = package_movers.compile_rules([rule])
    assert package_movers.fits_beginning(rules, "libnvidia-cfg1") is fits


WHOLE: list[tuple[str, dict[str, Any], str, bool]] = [
    # the line, what may travel of its file, a name that is excluded by it, whether it is known
    ("exclude=*nvidia*", package_movers.DNF_KEEP, "*nvidia*", True),
    ("excludepkgs = nvidia-[a-k]*, foo", package_movers.DNF_KEEP, "nvidia-[a-k]*", True),
    ("exclude=*/nvidia.rpm", package_movers.DNF_KEEP, "", False),
    ("exclude=nvidia*{a}", package_movers.DNF_KEEP, "", False),
]


@pytest.mark.parametrize(("line", "keep", "name", "known"), WHOLE)
def test_a_pattern_is_known_as_a_whole(
    line: str, keep: dict[str, Any], name: str, known: bool
) -> None:
    shown = contents.show_content(f"[main]\n{line}\n".encode(), keep, "/x")["content"]
    assert (package_movers.parse_excluded(shown, "main") != ()) is known
    assert not known or name in package_movers.parse_excluded(shown, "main")


def test_a_rule_that_would_never_end_is_not_compared() -> None:
    """The name fits none of its beginnings, in two to the power of hundred ways."""
    rules = package_movers.compile_rules(["(n+)+$", "(n|n)*$", "n?" * 64 + "n" * 64])
    assert not package_movers.fits_beginning(rules, "n" * 100 + "x")


def test_a_host_with_thousands_of_packages_is_compared() -> None:
    """A host may say so: each package is looked at a few times, whatever the others are."""
    every = tuple(
        driver_packages.DriverPackage(f"nvidia-{n}", f"{500 + n % 90}.{n}", "driver", "nvidia")
        for n in range(1 << 10)
    )
    found = driver_packages.DriverSet(every, "dpkg")
    assert found.release == "500.0"
    assert len(found.list_odd_packages()) == len(every) - 1


def test_each_lock_is_compared_with_the_packages_of_its_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A host may have thousands of both."""
    locks, packages = 1 << 10, 1 << 13
    lines = "".join(f"nvidia-{n}-0:580.{n}-1.*\n" for n in range(locks))
    index = package_locks.LockIndex(package_locks.parse_locks(package_locks.LOCK_LIST, lines))
    compared: list[str] = []
    keeps = package_locks.Lock.keeps

    def count(lock: package_locks.Lock, evrs: Any) -> bool:
        compared.append(lock.name)
        return keeps(lock, evrs)

    monkeypatch.setattr(package_locks.Lock, "keeps", count)
    verdicts = [index.judge(f"nvidia-{n}", [f"580.{n}-1"]) for n in range(packages)]
    assert verdicts == ["kept"] * locks + ["free"] * (packages - locks)
    assert len(compared) == locks


def test_locks_of_one_name_are_compared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host may have a package in very many versions, and a lock for each of them."""
    many = 1 << 10
    versions = [f"3:580.{n}-1" for n in range(many)]
    lines = "".join(f"nvidia-x-{version}.*\n" for version in reversed(versions))
    index = package_locks.LockIndex(package_locks.parse_locks(package_locks.LOCK_LIST, lines))
    compared: list[str] = []
    spells = package_locks._spells_out

    def count(pattern: str, evr: str) -> bool:
        compared.append(evr)
        return spells(pattern, evr)

    monkeypatch.setattr(package_locks, "_spells_out", count)
    judged = {index.judge("nvidia-x", versions) for _package in range(many)}
    assert judged == {"elsewhere"}, "not all of them are compared"
    assert len(compared) <= many * package_locks.MOST_VERSIONS
    assert index.judge("nvidia-x", versions[:1]) == "elsewhere"


def count_translations(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the patterns that are made to be compared, as they are."""
    made: list[str] = []
    translate = fnmatch.translate

    def count(pattern: str) -> str:
        made.append(pattern)
        return translate(pattern)

    monkeypatch.setattr(fnmatch, "translate", count)
    return made


def test_very_many_excluded_names_are_not_all_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    made = count_translations(monkeypatch)
    names = " ".join(f"{n}*" for n in range(1 << 14))
    files = dnf(f"[commands]\napply_updates = yes\n[base]\nexclude = nvidia-driver-cuda {names}\n")
    like = rows(NVIDIA, *(f"nvidia-driver-cuda{n or ''} 3:580.82.07-1" for n in range(64)))
    ((code, values),) = advise({**HEALTHY, **files}, like, "rpm")
    assert (code, values["packages"].split(", ")[0]) == ("keeping.will-move", "nvidia-driver-cuda1")
    assert len(made) <= package_locks.MOST_PATTERNS


def test_patterns_of_origins_that_are_too_many_or_too_long_may_let_a_driver_move() -> None:
    known = ",".join(["origin=*Debian*"] * package_movers.LONGEST_ORIGIN)
    for patterns in (
        '"origin=another";\n' * (package_movers.MOST_ORIGINS + 1),
        f'"{known},origin=another";',
    ):
        told = advise({**HEALTHY, **apt(PATTERN % patterns)}, OF_DEBIAN)
        assert [code for code, _values in told] == ["keeping.will-move"]


MANY = "\n".join([PIN % ("bash", "5*", 100)] * apt_pins.MOST_PINS)
RIVALS: list[tuple[str, str, bool]] = [
    # what a record beside the one that pins libcuda1 is like, the record, whether libcuda1 stays
    ("of another package", PIN % ("bash", "5*", 1001), True),
    ("of the same version, by names that are not compared", PIN % ("*l*i*b*c*u*d*a*", "535*", 1001), True),
    ("by names that are not compared", PIN % ("bash *l*i*b*c*u*d*a*", "550*", 1001), False),
    ("by a name that is too long", PIN % ("n" * (apt_pins.LONGEST_NAME + 1), "550*", 1001), False),
    ("the last of very many names", PIN % ("bash " * apt_pins.MOST_NAMES + "libcuda1", "550*", 1001), False),
    ("by a regular expression", PIN % ("/cuda/", "550*", 1001), False),
    ("by the name of a source", PIN % ("src:nvidia-graphics-drivers", "550*", 1001), False),
    ("by a name that is not shown", PIN % ("libcuda{1}", "550*", 1001), False),
    ("with a lower priority", PIN % ("/cuda/", "550*", 1000), True),
    ("for all packages, by a version, over which apt passes", PIN % ("*", "550*", 1001), True),
    ("after very many", MANY + "\n" + PIN % ("libcuda1", "550*", 1001), False),
]  # fmt: skip


@pytest.mark.parametrize(("text", "stays"), [c[1:] for c in RIVALS], ids=[c[0] for c in RIVALS])
def test_a_record_that_is_not_compared_may_be_a_rival(text: str, stays: bool) -> None:
    pin = PIN % ("libcuda1", "535.261.03-1", 1001)
    shown = contents.show_content(f"{pin}\n{text}".encode(), apt_pins.PIN_KEEP, "/x")["content"]
    pins = apt_pins.read_pins(obs(files={apt_pins.PIN_FILE: shown}))
    verdict = apt_pins.judge_pins(pins, "libcuda1", "535.261.03-1").verdict
    assert (verdict == "kept") is stays


ZYPPER_LOCKS: list[tuple[str, str, str]] = [
    # what the lock is like, its stanza, what becomes of nvidia-driver-cuda
    ("as zypper makes it", "type: package\nmatch_type: glob\nsolvable_name: nvidia-driver-cuda\n", "kept"),
    ("a part of a name", "type: package\nmatch_type: substring\nsolvable_name: driver\n", "kept"),
    ("a regular expression", "type: package\nmatch_type: regex\nsolvable_name: nvidia.*\n", "free"),
    ("of a version", "type: package\nsolvable_name: nvidia-driver-cuda\nversion: > 580\n", "free"),
    ("of a repository", "type: package\nsolvable_name: nvidia-driver-cuda\nrepo: cuda\n", "free"),
    ("of patches", "type: patch\nmatch_type: glob\nsolvable_name: nvidia-*\n", "free"),
    ("of patches and packages", "type: package\ntype: patch\nsolvable_name: nvidia-*\n", "kept"),
    ("without a kind", "match_type: glob\nsolvable_name: nvidia-*\n", "kept"),
    ("beside another one", "type: package\nsolvable_name: x\nrepo: y\n\ntype: package\nsolvable_name: nvidia-*\n", "kept"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "verdict"), [c[1:] for c in ZYPPER_LOCKS], ids=[c[0] for c in ZYPPER_LOCKS])  # fmt: skip
def test_a_lock_of_zypper(text: str, verdict: str) -> None:
    keep, path = package_locks.LOCK_KEEPS[2], package_locks.LOCKS[2]
    shown = contents.show_content(text.encode(), keep, path)["content"]
    index = package_locks.LockIndex(package_locks.parse_locks(path, shown))
    assert index.judge("nvidia-driver-cuda", ["580.82.07-1"]) == verdict


def test_a_hold_without_a_driver_is_said() -> None:
    hold = Policy(driver="hold")
    ((code, values),) = advise({}, [], policy=hold)
    assert (code, values["evidence"][0]) == ("hold.no-driver", "driver.no-gpu")
    outside = {**HEALTHY, "/run/systemd/container": "lxc\n"}
    ((code, values),) = advise(outside, OF_DEBIAN, policy=hold)
    assert (code, values["evidence"][0]) == ("hold.no-driver", "hold.driver-outside")
    assert advise({}, []) == []


def test_a_driver_of_a_run_file_over_packages_is_not_held() -> None:
    key = driver_packages.HOLD_QUESTION["id"]
    answers = {key: {"manager": "dpkg", "installed": {}, "like": OF_DEBIAN}}
    runs = {**host(version="580.82.07", user="580.82.07"), **BOOT}
    with pytest.raises(PlanError) as refused:
        advise(runs, OF_DEBIAN, policy=Policy(driver="hold"), answers=answers)
    assert refused.value.message.code == "hold.another-runs"


def test_nouveau_has_the_gpu() -> None:
    files = {**ON_DISK, f"/sys/bus/pci/drivers/nouveau/{BUS}": ""}
    assert advise(files, OF_DEBIAN) == [("keeping.nouveau-has-gpu", {"gpus": BUS})]


def test_a_failed_answer_is_said_and_stops_nothing() -> None:
    failed = {driver_packages.QUESTION["id"]: {"error": {"kind": "failed", "message": "no rpm"}}}
    told = advise(HEALTHY, [], answers=failed)
    assert {code for code, _values in told} == {"keeping.not-checked"}


# Names in the wild, and what each is for.
NAMES: list[tuple[str, str]] = [
    ("libnvidia-compute-580", "driver"),
    ("libcuda1", "driver"),
    ("libcuda1:i386", "driver"),
    ("nvidia-driver-pinning-580.82.07", "other"),
    ("xserver-xorg-video-nvidia-535", "driver"),
    ("cuda-drivers", "driver"),
    ("nvidia-kernel-open-dkms", "module"),
    ("nvidia-dkms-535-server-open", "module"),
    ("kmod-nvidia-latest-dkms", "module"),
    ("akmod-nvidia", "module"),
    ("nvidia-driver-G06-kmp-default", "module"),
    ("kmod-nvidia-580.82.07-5.14.0-570.el9", "other"),
    ("linux-modules-nvidia-580-open-generic", "other"),
    ("nvidia-firmware-535-535.183.01", "other"),
    ("nvidia-settings", "other"),
    ("nvidia-container-toolkit-base", "other"),
    ("libnvidia-container1", "other"),
    ("nvidia-fabricmanager-580", "fabric-manager"),
    ("nvidia-fabric-manager", "fabric-manager"),
    ("cuda-drivers-fabricmanager-580", "fabric-manager"),
    ("nvidia-imex-580", "imex"),
    ("libnvidia-nscq-580", "switch-library"),
    ("nvidia-persistenced", "persistenced"),
]


@pytest.mark.parametrize(("name", "part"), NAMES)
def test_what_a_package_is_for(name: str, part: str) -> None:
    assert driver_packages.find_part(name) == part


REBOOT, LOAD = "Reboot", "Load the driver"
EXPLAINED: list[tuple[str, dict[str, Any], list[list[Any]], str, str, list[str], bool]] = [
    # what the host is like, its files and packages, the refusal, its step, the codes that explain
    # it, whether their step takes the place of the refusal's
    (
        "nouveau",
        {**ON_DISK, f"/sys/bus/pci/drivers/nouveau/{BUS}": ""},
        OF_DEBIAN,
        "cdi.driver-not-loaded",
        LOAD,
        ["keeping.nouveau-has-gpu"],
        True,
    ),
    (
        "moved under its module, and it will be again",
        {**host(version="535.183.01", user="535.261.03"), **BOOT, **apt(BY_DEBIAN)},
        OF_DEBIAN,
        "cdi.driver-broken",
        REBOOT,
        ["keeping.will-move"],
        False,
    ),
    (
        "a reboot would bring a kernel without a module",
        {
            **host(version="535.183.01", user="535.261.03"),
            **BOOT,
            f"/boot/vmlinuz-{NEWER}": "",
            f"/lib/modules/{NEWER}/build": "",
        },
        OF_DEBIAN,
        "cdi.driver-broken",
        REBOOT,
        ["keeping.next-kernel-lacks-module"],
        True,
    ),
    (
        "the module does not build on the running kernel",
        {
            **pci(1),
            f"/lib/modules/{OLDER}/updates/dkms/nvidia.ko": "",
            f"/boot/vmlinuz-{KERNEL}": "",
            f"/lib/modules/{KERNEL}/build": "",
            "/var/lib/dkms/nvidia/535.261.03/source": "",
            "/var/lib/dkms/nvidia/535.261.03/build/make.log": "",
        },
        OF_DEBIAN,
        "cdi.driver-not-loaded",
        LOAD,
        ["keeping.build-failed"],
        True,
    ),
    (
        "one of two GPUs is too old for the open modules",
        {
            **modules("535.183.01", OPEN),
            **pci(2),
            **device(BUSES[1], "0x1bb3"),
        },
        [],
        "driver.gpu-not-served",
        REBOOT,
        ["keeping.open-modules-old-gpu"],
        True,
    ),
    (
        "a GPU that has fallen off the bus",
        {**HEALTHY, **pci(2), **apt(BY_DEBIAN)},
        OF_DEBIAN,
        "driver.gpu-not-served",
        REBOOT,
        [],
        False,
    ),
    ("another refusal", ON_DISK, OF_DEBIAN, "cdi.no-libraries", LOAD, [], False),
    ("a driver that serves", HEALTHY, OF_DEBIAN, "cdi.driver-broken", REBOOT, [], False),
]


@pytest.mark.parametrize(
    ("files", "like", "code", "step", "codes", "replaced"),
    [c[1:] for c in EXPLAINED],
    ids=[c[0] for c in EXPLAINED],
)
def test_a_refusal_gets_its_causes(
    files: dict[str, Any],
    like: list[list[Any]],
    code: str,
    step: str,
    codes: list[str],
    replaced: bool,
) -> None:
    error = PlanError(Message("no CDI spec can be made", code, next=step))
    explained = keeping.explain_refused_plan(*look(files, like), error)
    assert explained.code == code
    assert re.findall(r"\[(keeping\.[\w-]+)\]", explained.why) == codes
    assert (explained.next != step) is replaced
