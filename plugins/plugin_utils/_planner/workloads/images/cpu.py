# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the level of a host's CPU by the flags of /proc/cpuinfo, and its microarchitectures by
archspec.

The latter are known only if archspec's data are at hand.
"""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Iterable, Mapping

# The flags that each level adds, as the kernel names them in /proc/cpuinfo. Levels: x86-64 psABI,
# `Micro-Architecture Levels` (https://gitlab.com/x86-psABIs/x86-64-ABI). The kernel writes `pni`
# for SSE3 and `abm` for LZCNT; it shows `xsave` only if it switched OSXSAVE on.
LEVELS: Mapping[str, frozenset[str]] = {
    "x86-64-v1": frozenset({"cmov", "cx8", "fpu", "fxsr", "mmx", "sse", "sse2"}),
    "x86-64-v2": frozenset({"cx16", "lahf_lm", "popcnt", "pni", "sse4_1", "sse4_2", "ssse3"}),
    "x86-64-v3": frozenset({"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave"}),
    "x86-64-v4": frozenset({"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}),
}
LEVEL_ARCHITECTURE, ARM = "x86_64", "aarch64"
# The numbers of /proc/cpuinfo (MIDR_EL1.Implementer), as archspec names their makers.
ARM_VENDORS: Mapping[str, str] = {
    "0x41": "ARM",
    "0x43": "Cavium",
    "0x46": "Fujitsu",
    "0x48": "HiSilicon",
    "0x4e": "Nvidia",
    "0x51": "Qualcomm",
    "0x56": "Marvell",
    "0x61": "Apple",
    "0xc0": "Ampere",
}
NAMED = 99  # of a microarchitecture whose features are not known: more than any level needs
# Names of the same machine: of `uname -m`, of image indexes and of Kubernetes.
ARCHITECTURES: Mapping[str, str] = {
    "amd64": "x86_64",
    "x86_64": "x86_64",
    "arm64": "aarch64",
    "aarch64": "aarch64",
    "ppc64le": "ppc64le",
}


@dc.dataclass(frozen=True)
class CpuTarget:
    """A microarchitecture as archspec describes it: what it needs of the CPU, and which others it
    can stand in for.
    """

    vendor: str  # `generic` for those of any vendor
    features: frozenset[str]
    ancestors: tuple[str, ...] = ()


Targets = Mapping[str, CpuTarget]


@dc.dataclass(frozen=True)
class Cpu:
    """A host's CPU. names: the microarchitectures whose code runs here. None and '' stand for what
    is not known.
    """

    architecture: str = ""
    flags: frozenset[str] | None = None
    level: str = ""
    names: frozenset[str] | None = None


def list_level_flags(level: str) -> frozenset[str]:
    """Return all flags of a level, including those of the levels below it."""
    names = list(LEVELS)
    return frozenset().union(*(LEVELS[name] for name in names[: names.index(level) + 1]))


def get_cpu_level(flags: Iterable[str]) -> str:
    """Return the highest level whose flags are all there, '' if the CPU has none."""
    have = frozenset(flags)
    return next((name for name in reversed(list(LEVELS)) if list_level_flags(name) <= have), "")


def list_microarchitectures(
    architecture: str, vendor: str, flags: Iterable[str], targets: Targets
) -> frozenset[str] | None:
    """List the microarchitectures that a CPU can stand in for, compared as archspec does
    (archspec/cpu/detect.py).

    They are of its family, of its vendor or of any, and need no feature that the CPU lacks. Return
    None if there are no targets, if flags do not tell, as on POWER, or if the vendor is not known.
    """
    if not targets or not vendor or architecture not in (LEVEL_ARCHITECTURE, ARM):
        return None
    have = frozenset(flags) | ({"sse3"} if "pni" in flags else set())
    family = (
        (name, target)
        for name, target in targets.items()
        if name == architecture or architecture in target.ancestors
    )
    own = (ARM_VENDORS.get(vendor, vendor), "generic")
    names = {
        name
        for name, target in family
        if target.vendor in own
        and target.features <= have
        and (architecture != ARM or target.vendor != "generic" or name == ARM)
    }
    return frozenset(names).union(*(targets[name].ancestors for name in names))


def build_cpu(
    architecture: str,
    vendor: str,
    flags: frozenset[str] | None,
    level_: str,
    names_: frozenset[str] | None,
    targets: Targets,
) -> Cpu:
    """Build a CPU. Given values count before values that follow from its flags."""
    machine = ARCHITECTURES.get(architecture, architecture)
    if flags is None:
        return Cpu(machine, None, level_, names_)
    levels = list_microarchitectures(machine, vendor, flags, targets) if names_ is None else names_
    return Cpu(
        machine,
        flags,
        level_ or (get_cpu_level(flags) if machine in ("", LEVEL_ARCHITECTURE) else ""),
        levels,
    )


def list_lacking_flags(level_: str, flags: frozenset[str] | None) -> list[str]:
    """List the flags that a level needs and this CPU lacks. Return [] if the flags are not known."""
    return sorted(list_level_flags(level_) - flags) if flags is not None else []


def weigh_code(level_: str, march: str, targets: Targets) -> int:
    """Rate how specific code for a level and a microarchitecture is.

    The rate is the number of features that the code needs, counted as archspec does.
    """
    named = {
        name: targets[name].features
        for name in (level_.replace("-", "_"), march)
        if name in targets
    }
    if march and march not in named:
        return NAMED
    features = named.get(
        level_.replace("-", "_"), list_level_flags(level_) if level_ else frozenset()
    )
    return len(features | named.get(march, frozenset()))
