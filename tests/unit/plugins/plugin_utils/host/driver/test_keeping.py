# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings about a driver that may move: each by its code and values."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import (
    apt_pins,
    driver_packages,
    hold_blacklist,
    hold_facts,
    keeping,
    package_locks,
    package_movers,
)

from tests.unit.driver_hosts import (
    AUTOMATIC,
    BOOT,
    BUS,
    BY_DEBIAN,
    DEBIAN,
    HEALTHY,
    KERNEL,
    NEWER,
    OF_DEBIAN,
    OF_NVIDIA,
    OF_UBUNTU,
    OLDER,
    ON_DISK,
    OPEN,
    PATTERN,
    PIN,
    UBUNTU,
    advise,
    apt,
    device,
    dnf,
    look,
    modules,
    rows,
)
from tests.unit.gpus import BUSES, host, pci

BY_UBUNTU = (
    'Unattended-Upgrade::Allowed-Origins {\n    "${distro_id}:${distro_codename}-security";\n};\n'
)


PINNED = '[[packages.conditions]]\nkey = "evr"\ncomparator = "="\nvalue = "3:580.82.07-1.el9"\n'


WHITELIST = 'Unattended-Upgrade::Package-Whitelist { "%s"; };\n'


STRICT = 'Unattended-Upgrade::Package-Whitelist-Strict "true";\n'


MIRROR = "Package: *\nPin: release o=Mirror\nPin-Priority: %d\n"


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
        "one repository alone, which has newer versions",
        {
            **apt(BY_DEBIAN),
            apt_pins.PIN_FILE: "Package: lib*\nPin: release o=Debian\nPin-Priority: 600\n\n"
            "Package: lib*\nPin: release *\nPin-Priority: -1\n",
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
    ("apt's configuration is not read, and no part is here", apt("#include /x;\n"), rows(UBUNTU, "nvidia-settings 510.47.03-0ubuntu1"), []),
    ("with a package of the driver", apt(BY_UBUNTU), [*OF_UBUNTU[:1], *IMEX], ["keeping.will-move"]),
]  # fmt: skip


@pytest.mark.parametrize(("files", "like", "codes"), [c[1:] for c in BESIDE], ids=[c[0] for c in BESIDE])  # fmt: skip
def test_a_part_that_may_move_away_from_a_driver_of_no_package(
    files: dict[str, Any], like: list[list[Any]], codes: list[str]
) -> None:
    assert [code for code, _values in advise({**HEALTHY, **files}, like)] == codes


def test_a_part_has_no_release_to_move_away_from_where_no_driver_is() -> None:
    codes = [code for code, _values in advise({**ON_DISK, **apt(BY_UBUNTU)}, FM)]
    assert [code for code in codes if code.endswith("will-move")] == []


def hold(manager: str, *names: str) -> dict[str, Any]:
    """Return the files of a hold of this collection."""
    values = {"writer": "gpufleet.nvidia", "manager": manager, "packages": list(names)}
    record = json.dumps({**values, "release": "535.261.03", "since": "2026-11-01"}, indent=1)
    lists = {"apt": {hold_facts.BLACKLIST: hold_blacklist.build_blacklist(names)}, "dnf": {
        package_locks.LOCK_LIST: "".join(f"{name}-3:580.82.07-1.el9.*\n" for name in names)
    }}  # fmt: skip
    return {hold_facts.RECORD: record, **lists[manager]}


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
        "dnf.conf excludes it on a host with zypper, and dnf-automatic runs",
        {
            **dnf("[commands]\napply_updates = yes\n"),
            package_locks.LOCKS[2]: "",
            package_movers.DNF_MAIN: "[main]\nexcludepkgs=*nvidia*\n",
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


def test_nothing_is_asked_or_said_with_ignore() -> None:
    policy = Policy(driver="ignore")
    assert keeping.list_questions(policy) == []
    assert advise({**HEALTHY, **apt(BY_DEBIAN)}, OF_DEBIAN, policy=policy) == []


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
