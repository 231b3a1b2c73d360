# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Define what an image needs of a host, as values: the words of a catalogue's `requires`."""

from __future__ import annotations

import dataclasses as dc
import operator
import re
from collections.abc import Callable, Mapping
from typing import Literal

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.workloads.images import (
    chips,
    dotted,
)

# native: machine code of just this GPU. same-major: of an earlier minor version. ptx: compiled by
# the driver at its first start. unstated: the catalogue does not say what code the image has.
Code = Literal["native", "same-major", "ptx", "unstated"]
BEST: tuple[Code, ...] = ("native", "same-major", "ptx", "unstated")

TARGET = re.compile(r"(\d{1,2}\.\d)([af]?)", re.ASCII)
BOUND = re.compile(r"(<=|>=|!=|=|<|>)?\s*(\d[\d.]*)", re.ASCII)
SIZE = re.compile(r"(\d{1,6}(?:\.\d{1,3})?)\s*(MiB|GiB|MB|GB)", re.ASCII)
BYTES: Mapping[str, int] = {"MiB": 1 << 20, "GiB": 1 << 30, "MB": 10**6, "GB": 10**9}
OPERATORS: Mapping[str, Callable[[dotted.Numbers, dotted.Numbers], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dc.dataclass(frozen=True)
class GpuTarget:
    """A GPU that code was made for: `8.0`, `9.0a` (that GPU alone), `10.0f` (its family).

    https://docs.nvidia.com/cuda/cuda-compiler-driver-nvcc/index.html#gpu-feature-list
    """

    numbers: dotted.Numbers
    suffix: str = ""

    def __str__(self) -> str:
        return dotted.write_dotted(self.numbers) + self.suffix


@dc.dataclass(frozen=True)
class Compute:
    """The compute capabilities that an image has machine code and PTX for."""

    real: tuple[GpuTarget, ...] = ()
    ptx: tuple[GpuTarget, ...] = ()

    def __str__(self) -> str:
        parts = [("machine code", self.real), ("PTX", self.ptx)]
        return " and ".join(
            f"{what} for {', '.join(map(str, targets))}" for what, targets in parts if targets
        )


@dc.dataclass(frozen=True)
class Bound:
    """One bound of a version, as `>=12.4`."""

    operator: str
    version: dotted.Numbers
    text: str


@dc.dataclass(frozen=True)
class Requires:
    """The needs of an image. None, (), 0 and '' stand for what it does not need."""

    driver: tuple[Bound, ...] = ()
    cuda: dotted.Numbers | None = None
    compute: Compute | None = None
    cpu_arch: tuple[str, ...] = ()
    cpu_level: str = ""
    cpu_march: str = ""
    memory: int = 0  # MiB
    mig: bool | None = None
    glibc: dotted.Numbers | None = None
    exact_driver: str = ""


@dc.dataclass(frozen=True)
class Image:
    """An entry of a catalogue.

    compat: the driver branches for which the image has its own libcuda. environment: the variables
    of its configuration.
    """

    name: str
    reference: str
    digest: str = ""
    weight: int = 0
    requires: Requires = Requires()
    compat: tuple[int, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    heeded: bool = True  # whether what its own NVIDIA_REQUIRE_* demand counts
    inspected: str = ""  # a file with what a tool has printed of it
    tags: str = ""  # a pattern: it stands for the images of a repository whose tags match


def parse_target(text: str) -> GpuTarget | None:
    """Return a compute capability with its suffix; None if the text is none."""
    match = TARGET.fullmatch(text)
    return GpuTarget(dotted.parse_known_dotted(match[1]), match[2]) if match else None


def parse_bounds(text: str) -> tuple[Bound, ...] | None:
    """Parse `>=525.60.13, <580` into bounds that must all hold. Return None for any other text.

    A bare version is the oldest one.
    """
    bounds = []
    for part in text.split(","):
        match = BOUND.fullmatch(part.strip())
        version = dotted.parse_dotted(match[2]) if match else None
        if not match or version is None:
            return None
        bounds.append(Bound(match[1] or ">=", version, match[2]))
    return tuple(bounds)


def is_within_bounds(version: dotted.Numbers, wanted: tuple[Bound, ...]) -> bool:
    """Tell whether a version keeps all bounds."""
    return all(OPERATORS[bound.operator](version, bound.version) for bound in wanted)


def is_impossible(wanted: tuple[Bound, ...]) -> bool:
    """Tell whether no version is within the bounds. Between two different versions there always is
    one.
    """
    exact = [bound.version for bound in wanted if bound.operator == "="]
    if exact:
        return not is_within_bounds(exact[0], wanted)
    lowest = max((b.version for b in wanted if b.operator.startswith(">")), default=None)
    highest = min((b.version for b in wanted if b.operator.startswith("<")), default=None)
    if lowest is None or highest is None or lowest < highest:
        return False
    return lowest > highest or not is_within_bounds(lowest, wanted)


def parse_mebibytes(text: str) -> int | None:
    """Convert `40GiB` or `80 GB` to MiB. Return None for any other text."""
    match = SIZE.fullmatch(text.strip())
    return int(float(match[1]) * BYTES[match[2]]) >> 20 if match else None


def find_best_code(compute: Compute, capability: dotted.Numbers, *, jit: bool) -> Code | None:
    """Return the best code that an image has for a GPU, None if there is none.

    jit: whether the driver compiles the image's PTX.
    """
    if any(_runs_exactly(item, capability) for item in compute.real):
        return "native"
    if any(_runs_in_family(item, capability) for item in compute.real if item.suffix != "a"):
        return "same-major"
    return "ptx" if jit and any(_compiles(item, capability) for item in compute.ptx) else None


def _runs_exactly(item: GpuTarget, capability: dotted.Numbers) -> bool:
    return item.numbers == capability


def _runs_in_family(item: GpuTarget, capability: dotted.Numbers) -> bool:
    """Tell whether machine code runs on a GPU of its major version.

    It runs from its own minor version on. It does not run across the line between a desktop and a
    system on a chip.
    """
    if {item.numbers, capability} & chips.INTEGRATED:
        return item.numbers == capability
    return item.numbers[0] == capability[0] and item.numbers <= capability


def _compiles(item: GpuTarget, capability: dotted.Numbers) -> bool:
    if item.suffix == "a":
        return item.numbers == capability
    return item.numbers <= capability and (not item.suffix or item.numbers[0] == capability[0])
