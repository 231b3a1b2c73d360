# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge whether one image runs on one host, with all reasons against it. What is not known satisfies nothing."""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Callable, Sequence

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.images import cpu, cuda, dotted, facts, nvidia_require
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.images.requires import BEST, Code, Image, runs, within

NO_DRIVER = "no driver is known on this host"


@dc.dataclass(frozen=True)
class Fit:
    """The fit of an image on a host.

    code: the kind of code for the GPU that the image suits worst. way: how its CUDA is served, '' if it names none.
    """

    image: Image
    reasons: tuple[str, ...] = ()
    code: Code = "unstated"
    way: str = ""
    overridden: bool = False  # its own NVIDIA_REQUIRE_* are not met, and the catalogue says that this does not matter

    @property
    def fits(self) -> bool:
        return not self.reasons


def judged(image: Image, host: facts.Host, gpus: Sequence[facts.Gpu]) -> Fit:
    """Judge an image on a host, for containers that see these GPUs."""
    own = nvidia_require.judged(dict(image.environment), host.subjects(gpus))
    reasons = [reason for check in CHECKS for reason in check(image, host)]
    reasons += [reason for gpu in gpus for reason in _gpu(image, gpu)]
    reasons += [] if own.met or not image.heeded else [own.why]
    ways = _ways(image, host)
    if not ways:
        return Fit(image, (*reasons, _no_cuda(image, host)))
    tried = [(way, *_code(image, gpus, way)) for way in ways]
    way, code, wrong = next((found for found in tried if not found[2]), tried[0])
    return Fit(image, (*reasons, *wrong), code, way, own.met is not True and not image.heeded)


# ---------------------------------------------------------------- of the host


def _architecture(image: Image, host: facts.Host) -> list[str]:
    wanted = image.requires.cpu_arch
    if not wanted or host.cpu.architecture in wanted:
        return []
    return [f"it is for {' or '.join(wanted)}, and this host is {host.cpu.architecture or 'of an architecture that is not known'}"]


def _level(image: Image, host: facts.Host) -> list[str]:
    wanted, have = image.requires.cpu_level, host.cpu.level
    if not wanted or (have and list(cpu.LEVELS).index(have) >= list(cpu.LEVELS).index(wanted)):
        return []
    if host.cpu.flags is None and not have:
        return [f"it needs a CPU of {wanted}, and the level of this CPU is not known"]
    lacks = cpu.lacking(wanted, host.cpu.flags)
    return [f"it needs a CPU of {wanted}, and this one is {have or 'of none'}" + (f": it lacks {', '.join(lacks)}" if lacks else "")]


def _march(image: Image, host: facts.Host) -> list[str]:
    wanted, names = image.requires.cpu_march, host.cpu.names
    if not wanted or (names is not None and wanted in names):
        return []
    if names is None:
        return [
            f"it is compiled for {wanted}, and what this CPU can stand in for is not known: archspec is not installed on the controller"
        ]
    return [f"it is compiled for {wanted}, which this CPU cannot stand in for: it would end with an illegal instruction"]


def _glibc(image: Image, host: facts.Host) -> list[str]:
    wanted = image.requires.glibc
    if wanted is None or (host.glibc is not None and host.glibc >= wanted):
        return []
    have = f"this host has {dotted.written(host.glibc)}" if host.glibc else "that of this host is not known"
    return [f"it needs glibc {dotted.written(wanted)} on the host, and {have}"]


def _driver(image: Image, host: facts.Host) -> list[str]:
    wanted = image.requires.driver
    if not wanted or (host.release is not None and within(host.release, wanted)):
        return []
    shown = ", ".join(f"{bound.operator}{bound.text}" for bound in wanted)
    return [f"it needs a driver {shown}, and {f'this host has {host.driver}' if host.driver else NO_DRIVER}"]


def _exact(image: Image, host: facts.Host) -> list[str]:
    """List the reason if the image brings a user-space driver of another version.

    The kernel module refuses such a driver (`API mismatch` in its log).
    """
    wanted = image.requires.exact_driver
    if not wanted or host.driver == wanted:
        return []
    have = f"the kernel module of this host is {host.driver}" if host.driver else NO_DRIVER
    return [f"it brings the user-space driver {wanted}, which only a kernel module of just this version serves, and {have}"]


Check = Callable[[Image, facts.Host], list[str]]
CHECKS: tuple[Check, ...] = (_architecture, _level, _march, _glibc, _driver, _exact)


# ---------------------------------------------------------------- of the GPUs


def _gpu(image: Image, gpu: facts.Gpu) -> list[str]:
    wanted, found = image.requires, list[str]()
    if wanted.memory and (gpu.memory is None or gpu.memory < wanted.memory):
        have = "that of this one is not known" if gpu.memory is None else f"this one has {gpu.memory} MiB"
        found.append(f"{gpu}: it needs {wanted.memory} MiB of memory on a GPU, and {have}")
    if wanted.mig is not None and gpu.mig is not wanted.mig:
        have = "whether this one has them is not known" if gpu.mig is None else f"this one has {'some' if gpu.mig else 'none'}"
        found.append(f"{gpu}: it needs a GPU {'with' if wanted.mig else 'without'} MIG devices, and {have}")
    return found


def _ways(image: Image, host: facts.Host) -> tuple[str, ...]:
    """List the ways to serve the image's CUDA, best first. ('',) if the image names no CUDA, () if there is no way."""
    if image.requires.cuda is None:
        return ("",)
    if host.release is None or host.cuda is None:
        return ()
    return cuda.supports(image.requires.cuda, host.release, host.cuda, image.compat)


def _no_cuda(image: Image, host: facts.Host) -> str:
    wanted = image.requires.cuda or ()
    shown = dotted.written(wanted)
    if host.release is None:
        return f"it needs CUDA {shown}, and {NO_DRIVER}"
    first = cuda.FLOORS.get(wanted[0]) or cuda.first_driver(wanted)
    brings = (
        f"driver {host.driver} brings CUDA {dotted.written(host.cuda)}" if host.cuda else f"driver {host.driver} is older than the table"
    )
    compat = f"; its own libcuda is for drivers {', '.join(map(str, image.compat))}" if image.compat else ""
    return f"it needs CUDA {shown}, and {brings}" + (f": drivers from {first} on run it" if first else "") + compat


def _code(image: Image, gpus: Sequence[facts.Gpu], way: str) -> tuple[Code, tuple[str, ...]]:
    """Return the code that runs on the GPU that the image suits worst, and what is wrong with each GPU."""
    wrong = [reason for gpu in gpus for reason in _forward(gpu)] if way == "forward" else []
    compute = image.requires.compute
    if compute is None:
        needed = image.requires.memory or image.requires.mig is not None or image.requires.cuda
        return "unstated", (*wrong, *(() if gpus or not needed else ("it needs a GPU, and none is known on this host",)))
    if not gpus:
        return "unstated", ("it needs a GPU, and none is known on this host",)
    jit = way in ("native", "forward")
    found: list[Code] = []
    for gpu in gpus:
        code = runs(compute, gpu.capability, jit=jit) if gpu.capability else None
        found += [code] if code else []
        wrong += [] if code else [_no_code(image, gpu, jit)]
    return max(found, key=BEST.index, default="unstated"), tuple(wrong)


def _forward(gpu: facts.Gpu) -> list[str]:
    if gpu.forward:
        return []
    why = "whether this one is certified for that is not known" if gpu.forward is None else "this one is not"
    return [f"{gpu}: its CUDA is newer than the driver's, and a libcuda of its own is for GPUs of data centres: {why}"]


def _no_code(image: Image, gpu: facts.Gpu, jit: bool) -> str:
    compute = image.requires.compute
    if gpu.capability is None:
        return f"{gpu}: it has {compute}, and the compute capability of this GPU is not known"
    late = compute and compute.ptx and not jit and runs(compute, gpu.capability, jit=True)
    why = ": its PTX needs a driver that brings its CUDA" if late else ""
    return f"{gpu}: it has {compute}, and this GPU is {dotted.written(gpu.capability)}{why}"
