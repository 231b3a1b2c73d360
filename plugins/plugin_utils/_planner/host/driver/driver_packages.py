# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the packages of the NVIDIA driver on a host, and judge which of them have to have one
version.

A distribution builds some parts in sources of their own, so that a table says what has to match in
whose packages. The parts check one another's version when they start: NVML answers "Driver/library
version mismatch", and Fabric Manager and IMEX refuse another driver than their own.
"""

from __future__ import annotations

import collections
import dataclasses as dc
import functools
import re
from collections.abc import Container, Iterable, Mapping
from typing import Literal

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)

# The purpose of a package. driver: libraries and programs. module: a kernel module, or a program
# that builds one. other: it has a version of its own.
Part = Literal[
    "driver", "module", "fabric-manager", "imex", "persistenced", "switch-library", "other"
]
Maker = Literal["nvidia", "ubuntu", "debian", "suse", "rpmfusion", ""]

# Names that may be of the driver: Debian has parts without NVIDIA's name.
NAMES = r".*nvidia.*|libcuda(?:debugger)?1|libnvcuvid1|libnvoptix1|libnvsdm.*|cuda-drivers.*"
QUESTION = queries.ask_for_packages_like("driver", NAMES)
# With a hold, packages that bring kernels count as well, and so do newer releases in the
# repositories.
META_NAMES = r"linux-[a-z].*"
HOLD_QUESTION = queries.ask_for_packages_like("driver", f"{NAMES}|{META_NAMES}", candidates=True)

# Packages that bring a driver into containers. They move by themselves.
CONTAINER_TOOLS = r"(?:lib)?nvidia-container.*|nvidia-docker.*"
# Tools that NVIDIA builds from sources of their own, so that a driver has no release of theirs.
OWN_TOOLS = r"nvidia-(?:settings|xconfig|modprobe)|.*libxnvctrl.*|nvidia-libXNVCtrl.*"
# The first row that fits a name decides its part; all other names are of libraries and programs.
PARTS: tuple[tuple[str, Part], ...] = (
    (CONTAINER_TOOLS, "other"),
    (OWN_TOOLS, "other"),
    # preferences of apt alone, which keep a branch or a release (NVIDIA's guide, "Version locking")
    (r"nvidia-driver-pinning-.*", "other"),
    # Of these, one package for each kernel or release stays installed. Ubuntu's built modules have
    # the version of their kernel.
    (r"linux-(?:modules|objects|signatures)-nvidia-.*|kmod-nvidia-.*\d\.\d.*", "other"),
    (r"nvidia-(?:kernel-)?firmware-.*", "other"),
    (r".*fabric-?manager.*", "fabric-manager"),
    (r"nvidia-imex.*", "imex"),
    (r"libnvidia-nscq.*|libnvsdm.*", "switch-library"),
    (r"nvidia-persistenced.*", "persistenced"),
    (r".*[-](?:dkms|kmod|kmp)\b.*|nvidia-(?:.*-)?kernel-.*|a?kmod-.*|nvidia-kmod.*", "module"),
)
# rpm keeps several of these, as of kernels (multiversion(kernel), installonlypkgs).
PER_KERNEL = re.compile(r".*-kmp(?:-.*)?|kmod-.*")
MADE_BY: tuple[tuple[str, Maker], ...] = (
    (r"(?i).*\bubuntu\b.*|.*canonical.*", "ubuntu"),
    (r"(?i)debian nvidia maintainers.*|.*@.*debian\.org.*", "debian"),
    (r"(?i).*nvidia.*", "nvidia"),
    (r"(?i).*\bsuse\b.*", "suse"),
    (r"(?i).*rpm ?fusion.*", "rpmfusion"),
)
MAKERS: Mapping[Maker, str] = {
    "nvidia": "NVIDIA",
    "ubuntu": "Ubuntu",
    "debian": "Debian",
    "suse": "SUSE",
    "rpmfusion": "RPM Fusion",
}
# Which parts of one maker have one version. NVIDIA's: one release of the driver has them all
# (https://docs.nvidia.com/datacenter/tesla/driver-installation-guide/, "Fabric Manager",
# https://docs.nvidia.com/datacenter/tesla/fabric-manager-user-guide/: the versions must match;
# https://docs.nvidia.com/multi-node-nvlink-systems/imex-guide/). Ubuntu's: its persistenced is in
# nvidia-compute-utils. Debian's: nvidia-persistenced is a source package of its own
# (https://packages.debian.org/source/bookworm/nvidia-persistenced: 535.171.04 beside a driver
# 535.261.03), and NVML and the daemon do not compare versions. SUSE's and RPM Fusion's: the same.
MATCHING: Mapping[Maker, tuple[Part, ...]] = {
    "nvidia": (
        "driver",
        "module",
        "fabric-manager",
        "imex",
        "persistenced",
        "switch-library",
    ),
    "ubuntu": ("driver", "module", "fabric-manager", "imex", "switch-library"),
    "debian": ("driver", "module"),
    "suse": ("driver", "module"),
    "rpmfusion": ("driver", "module"),
}
# Whose it is does not matter for these: they refuse another driver than their own.
ALWAYS: tuple[Part, ...] = ("fabric-manager", "imex")
RELEASE = re.compile(r"(?:\d+:)?(\d{3,4}\.\d{1,4}(?:\.\d{1,4})?)(?![\d.])")


@dc.dataclass(frozen=True)
class DriverPackage:
    """An installed package of the driver. name: with the architecture behind a colon, if that is
    another one than the system's. release: NVIDIA's version, '' if its version has none. offered:
    the version that apt would install, '' if that is not known.
    """

    name: str
    version: str
    part: Part
    maker: Maker
    held: bool = False
    offered: str = ""

    @property
    def release(self) -> str:
        return parse_release(self.version)

    @property
    def shown(self) -> str:
        return f"{self.name} {self.version}"


@dc.dataclass(frozen=True)
class DriverSet:
    """The packages of the driver on a host, sorted by name. manager: dpkg, rpm, or none. half: the
    packages that dpkg has not finished, each with dpkg's word for its state. half_held: the ones
    among them that dpkg holds.
    """

    packages: tuple[DriverPackage, ...] = ()
    manager: str = "none"
    half: tuple[tuple[str, str], ...] = ()
    half_held: frozenset[str] = frozenset()

    @functools.cached_property
    def matching(self) -> tuple[DriverPackage, ...]:
        """The packages that have to have one version. Of a maker that is not known, only those of
        a release that a known maker's libraries have, if there are any: others bring programs of
        their own by NVIDIA's name.
        """
        parts = [
            p
            for p in self.packages
            if p.release and (p.part in MATCHING.get(p.maker, ("driver",)) or p.part in ALWAYS)
        ]
        known = {p.release for p in parts if p.maker and p.part == "driver"}
        return tuple(
            p for p in parts if p.maker or p.part in ALWAYS or not known or p.release in known
        )

    @functools.cached_property
    def release(self) -> str:
        """The version of the libraries, '' if no package has them. If there are several versions,
        it is that of most packages.
        """
        counts = collections.Counter(p.release for p in self.matching if p.part == "driver")
        return max(sorted(counts), key=counts.__getitem__, default="")

    @functools.cached_property
    def versions(self) -> Mapping[str, tuple[str, ...]]:
        """The installed versions of each name: rpm may have several."""
        by_name = collections.defaultdict(list)
        for package in self.packages:
            by_name[package.name].append(package.version)
        return {name: tuple(several) for name, several in by_name.items()}

    @property
    def maker(self) -> Maker:
        """Return the maker of the libraries."""
        return next((p.maker for p in self.matching if p.part == "driver"), "")

    def list_twice_installed(self) -> list[str]:
        """List the names that rpm has in several versions, which an interrupted transaction leaves.
        Of what has a version for each kernel, several are usual.
        """
        versions = collections.defaultdict(set)
        for package in self.packages:
            if package.part != "other" and not PER_KERNEL.fullmatch(package.name):
                versions[package.name].add(package.version)
        return [name for name, several in versions.items() if len(several) > 1]

    def list_unfinished(self) -> list[str]:
        """List the packages that an interrupted run has left in part, each with dpkg's word for
        its state. Tools beside the driver do not count.
        """
        twice = self.list_twice_installed() if self.manager == "rpm" else []
        beside = re.compile(f"(?:{CONTAINER_TOOLS}|{OWN_TOOLS})")
        return [f"{n} ({state})" for n, state in self.half if not beside.fullmatch(n)] + twice

    def list_odd_packages(self) -> tuple[DriverPackage, ...]:
        """List the packages whose version is not that of the libraries."""
        return tuple(p for p in self.matching if self.release and p.release != self.release)


def get_package_question(policy: Policy) -> queries.Question:
    return HOLD_QUESTION if policy.driver == "hold" else QUESTION


def list_package_questions(policy: Policy) -> list[queries.Question]:
    """Return the question about packages, which goes to hosts with NVIDIA's module. Any other host
    with a GPU is asked in a second look.
    """
    loaded = f"{policy.proc_root.rstrip('/')}/driver/nvidia/version"
    asked = get_package_question(policy)
    return [queries.ask_where(asked, absent=[], present=[loaded], each=(loaded, loaded))]


def read_driver_set(policy: Policy, obs: Observation) -> DriverSet:
    """Return the packages of the driver; none in a tree whose database takes a running program."""
    asked = get_package_question(policy)
    said = obs.get_answer_or_error(asked)
    if (said.get("error") or {}).get("kind") == "offline":
        return DriverSet()
    answer = obs.get_answer(asked)
    half = answer.get("half") or ()
    return DriverSet(
        tuple(_build_packages(answer.get("like") or (), frozenset(answer.get("empty") or ()))),
        str(answer.get("manager") or "none"),
        tuple((str(row[0]), str(row[1])) for row in half if is_of_driver(str(row[0]))),
        frozenset(str(row[0]) for row in half if row[2:] == [True]),
    )


def _build_packages(
    rows: Iterable[tuple[str, str, str, bool, str]], empty: Container[str]
) -> Iterable[DriverPackage]:
    for name, version, by, held, offered in sorted(rows):
        part: Part = "other" if name in empty else find_part(name)
        yield DriverPackage(name, version, part, find_maker(by), held, offered)


def parse_release(version: str) -> str:
    """Return NVIDIA's version in that of a package; '' if there is none."""
    match = RELEASE.match(version)
    return match[1] if match else ""


def find_part(name: str) -> Part:
    """Return what a package of this name is for."""
    plain = name.partition(":")[0]
    return next((part for rule, part in PARTS if re.fullmatch(rule, plain)), "driver")


def is_of_driver(name: str) -> bool:
    """Tell whether a name may be of the driver, and not only of what brings the next kernel."""
    return bool(re.fullmatch(NAMES, name.partition(":")[0]))


def find_maker(by: str) -> Maker:
    """Return who made a package, by the field Maintainer or Vendor; '' for anybody else."""
    return next((maker for rule, maker in MADE_BY if re.fullmatch(rule, by)), "")
