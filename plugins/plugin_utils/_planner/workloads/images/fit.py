# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge whether one image runs on one host, with all reasons against it. A fact that is not known
satisfies nothing.
"""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Callable, Sequence

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.workloads.images import (
    cpu,
    cuda,
    dotted,
    facts,
    messages,
    nvidia_require,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.workloads.images.requires import (
    BEST,
    Code,
    Image,
    find_best_code,
    is_within_bounds,
)


@dc.dataclass(frozen=True)
class Fit:
    """The fit of an image on a host.

    code: the kind of code for the GPU that the image suits worst. way: how its CUDA is served, ''
    if it names none.
    """

    image: Image
    reasons: tuple[str, ...] = ()
    code: Code = "unstated"
    way: str = ""
    # its own NVIDIA_REQUIRE_* are not met, and the catalogue says that this does not matter
    overridden: bool = False

    @property
    def fits(self) -> bool:
        return not self.reasons


def judge_image(image: Image, host: facts.ImageHost, gpus: Sequence[facts.ImageGpu]) -> Fit:
    """Judge an image on a host, for containers that see these GPUs."""
    own = nvidia_require.judge_requirements(dict(image.environment), host.list_subjects(gpus))
    reasons = [reason for check in CHECKS for reason in check(image, host)]
    reasons += [reason for gpu in gpus for reason in _judge_gpu(image, gpu)]
    reasons += [] if own.met or not image.heeded else [own.why]
    ways = _list_cuda_ways(image, host)
    if not ways:
        return Fit(image, (*reasons, _explain_no_cuda(image, host)))
    tried = [(way, *_choose_code(image, gpus, way)) for way in ways]
    way, code, wrong = next((attempt for attempt in tried if not attempt[2]), tried[0])
    return Fit(image, (*reasons, *wrong), code, way, own.met is not True and not image.heeded)


# ---------------------------------------------------------------- of the host


def _judge_architecture(image: Image, host: facts.ImageHost) -> list[str]:
    wanted = image.requires.cpu_arch
    if not wanted or host.cpu.architecture in wanted:
        return []
    if not host.cpu.architecture:
        return [messages.FOR_UNKNOWN_CPU.fill(wanted=" or ".join(wanted))]
    return [messages.FOR_OTHER_CPU.fill(wanted=" or ".join(wanted), found=host.cpu.architecture)]


def _judge_level(image: Image, host: facts.ImageHost) -> list[str]:
    wanted, have = image.requires.cpu_level, host.cpu.level
    if not wanted or (have and list(cpu.LEVELS).index(have) >= list(cpu.LEVELS).index(wanted)):
        return []
    if host.cpu.flags is None and not have:
        return [messages.LEVEL_UNKNOWN.fill(wanted=wanted)]
    lacks = cpu.list_lacking_flags(wanted, host.cpu.flags)
    level = have or "of none"
    if not lacks:
        return [messages.LEVEL_TOO_LOW.fill(wanted=wanted, found=level)]
    return [messages.LEVEL_LACKS.fill(wanted=wanted, found=level, flags=", ".join(lacks))]


def _judge_march(image: Image, host: facts.ImageHost) -> list[str]:
    wanted, names = image.requires.cpu_march, host.cpu.names
    if not wanted or (names is not None and wanted in names):
        return []
    if names is None:
        return [messages.MARCH_UNKNOWN.fill(wanted=wanted)]
    return [messages.MARCH_OTHER.fill(wanted=wanted)]


def _judge_glibc(image: Image, host: facts.ImageHost) -> list[str]:
    wanted = image.requires.glibc
    if wanted is None or (host.glibc is not None and host.glibc >= wanted):
        return []
    if not host.glibc:
        return [messages.GLIBC_UNKNOWN.fill(wanted=dotted.write_dotted(wanted))]
    return [
        messages.GLIBC_OLDER.fill(
            wanted=dotted.write_dotted(wanted), found=dotted.write_dotted(host.glibc)
        )
    ]


def _judge_driver(image: Image, host: facts.ImageHost) -> list[str]:
    wanted = image.requires.driver
    if not wanted or (host.release is not None and is_within_bounds(host.release, wanted)):
        return []
    shown = ", ".join(f"{bound.operator}{bound.text}" for bound in wanted)
    if not host.driver:
        return [messages.NEEDS_DRIVER.fill(wanted=shown)]
    return [messages.NEEDS_OTHER_DRIVER.fill(wanted=shown, found=host.driver)]


def _judge_exact_driver(image: Image, host: facts.ImageHost) -> list[str]:
    """List the reason if the image brings a user-space driver of another version.

    The kernel module refuses such a driver (`API mismatch` in its log).
    """
    wanted = image.requires.exact_driver
    if not wanted or host.driver == wanted:
        return []
    if not host.driver:
        return [messages.BRINGS_DRIVER.fill(wanted=wanted)]
    return [messages.BRINGS_OTHER_DRIVER.fill(wanted=wanted, found=host.driver)]


Check = Callable[[Image, facts.ImageHost], list[str]]
CHECKS: tuple[Check, ...] = (
    _judge_architecture,
    _judge_level,
    _judge_march,
    _judge_glibc,
    _judge_driver,
    _judge_exact_driver,
)


# ---------------------------------------------------------------- of the GPUs


def _judge_gpu(image: Image, gpu: facts.ImageGpu) -> list[str]:
    wanted, problems = image.requires, list[str]()
    if wanted.memory and (gpu.memory is None or gpu.memory < wanted.memory):
        if gpu.memory is None:
            problems.append(messages.MEMORY_NOT_KNOWN.fill(gpu=str(gpu), wanted=wanted.memory))
        else:
            problems.append(
                messages.MEMORY_LESS.fill(gpu=str(gpu), wanted=wanted.memory, found=gpu.memory)
            )
    if wanted.mig is not None and gpu.mig is not wanted.mig:
        needed = "with" if wanted.mig else "without"
        if gpu.mig is None:
            problems.append(messages.WITH_MIG_UNKNOWN.fill(gpu=str(gpu), wanted=needed))
        else:
            problems.append(
                messages.WITH_MIG_OTHER.fill(
                    gpu=str(gpu), wanted=needed, found="some" if gpu.mig else "none"
                )
            )
    return problems


def _list_cuda_ways(image: Image, host: facts.ImageHost) -> tuple[str, ...]:
    """List the ways to serve the image's CUDA, best first. ('',) if the image names no CUDA, () if
    there is no way.
    """
    if image.requires.cuda is None:
        return ("",)
    if host.release is None or host.cuda is None:
        return ()
    return cuda.supports(image.requires.cuda, host.release, host.cuda, image.compat)


def _explain_no_cuda(image: Image, host: facts.ImageHost) -> str:
    wanted = image.requires.cuda or ()
    shown = dotted.write_dotted(wanted)
    if host.release is None:
        return messages.CUDA_WITHOUT_DRIVER.fill(wanted=shown)
    first = cuda.FLOORS.get(wanted[0]) or cuda.get_first_driver(wanted)
    brings = messages.BRINGS_CUDA if host.cuda else messages.BEFORE_TABLE
    driver = brings.format(driver=host.driver, cuda=dotted.write_dotted(host.cuda or ()))
    more = messages.FROM_DRIVER.format(first=first) if first else ""
    more += (
        messages.OWN_LIBCUDA.format(branches=", ".join(map(str, image.compat)))
        if image.compat
        else ""
    )
    return messages.CUDA_OLDER.fill(wanted=shown, driver=driver, more=more)


def _choose_code(
    image: Image, gpus: Sequence[facts.ImageGpu], way: str
) -> tuple[Code, tuple[str, ...]]:
    """Return the code that runs on the GPU that the image suits worst, and what is wrong with each
    GPU.
    """
    wrong: list[str] = (
        [reason for gpu in gpus for reason in _forward(gpu)] if way == "forward" else []
    )
    compute = image.requires.compute
    if compute is None:
        needed = image.requires.memory or image.requires.mig is not None or image.requires.cuda
        wrong += [] if gpus or not needed else [messages.NEEDS_GPU.fill()]
        return "unstated", (*wrong, *_list_dropped(image, gpus))
    if not gpus:
        return "unstated", (messages.NEEDS_GPU.fill(),)
    jit = way in ("native", "forward")
    codes: list[Code] = []
    for gpu in gpus:
        code = find_best_code(compute, gpu.capability, jit=jit) if gpu.capability else None
        codes += [code] if code else []
        wrong += [] if code else [_explain_no_code(image, gpu, jit)]
    return max(codes, key=BEST.index, default="unstated"), tuple(wrong)


def _list_dropped(image: Image, gpus: Sequence[facts.ImageGpu]) -> list[str]:
    """List a reason for each GPU that is too old for code of the image's CUDA, whatever the image
    has.
    """
    wanted = image.requires.cuda
    oldest = cuda.get_oldest_capability(wanted) if wanted else None
    if not wanted or not oldest:
        return []
    return [
        messages.CODE_DROPPED.fill(
            gpu=str(gpu),
            cuda=dotted.write_dotted(wanted),
            oldest=dotted.write_dotted(oldest),
            found=dotted.write_dotted(gpu.capability),
        )
        for gpu in gpus
        if gpu.capability and gpu.capability < oldest
    ]


def _forward(gpu: facts.ImageGpu) -> list[str]:
    if gpu.forward:
        return []
    row = messages.FORWARD_UNKNOWN if gpu.forward is None else messages.FORWARD_OTHER
    return [row.fill(gpu=str(gpu))]


def _explain_no_code(image: Image, gpu: facts.ImageGpu, jit: bool) -> str:
    compute = image.requires.compute
    if gpu.capability is None:
        return messages.CODE_UNKNOWN.fill(gpu=str(gpu), code=str(compute))
    late = compute and compute.ptx and not jit and find_best_code(compute, gpu.capability, jit=True)
    row = messages.CODE_LATE if late else messages.CODE_OTHER
    return row.fill(gpu=str(gpu), code=str(compute), found=dotted.write_dotted(gpu.capability))
