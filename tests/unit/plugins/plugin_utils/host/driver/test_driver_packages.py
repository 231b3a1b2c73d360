# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Packages of a driver: what each is for, and which of them belong together."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import (
    driver_packages,
)

from tests.unit.driver_hosts import (
    BUS,
    DEBIAN,
    HEALTHY,
    NVIDIA,
    OF_DEBIAN,
    OF_NVIDIA,
    OF_UBUNTU,
    OPEN,
    UBUNTU,
    advise,
    device,
    modules,
    rows,
)
from tests.unit.gpus import NVRM, host, pci

PARTS: list[tuple[str, list[list[Any]], str, str, str]] = [
    # the state, the packages, the release of the libraries, the packages that differ, who made them
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


OLDER_LIBRARIES = rows(NVIDIA, "nvidia-driver-cuda-libs 3:580.65.06-1.el9")
TWICE: list[tuple[str, list[list[Any]], str, bool]] = [
    # the state, the packages in rpm, the manager, whether packages are there twice
    ("one release", OF_NVIDIA, "rpm", False),
    ("a library of two releases", [*OF_NVIDIA, *OLDER_LIBRARIES], "rpm", True),
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
