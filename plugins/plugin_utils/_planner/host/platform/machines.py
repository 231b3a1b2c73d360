# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Recognise what kind of machine a GPU host is: by the models that procfs has, the NVSwitches on PCI,
and what the driver's state says of vGPU and passthrough. No GPU is asked.
"""

from __future__ import annotations

import dataclasses as dc
import re
from collections.abc import Sequence
from typing import Literal

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    QueryFailed,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
    Sentence,
    read_error_message,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Driver
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.platform import messages

# pcie: GPUs without a switch between them, boards of four with direct links included. nvswitch:
# NVSwitches on PCI. nvlink5: eight B200 or B300, whose switches are InfiniBand devices. rack: GB200
# or GB300, whose switches are in trays of their own. none: no GPU. unknown: a sign of the kind was
# not read. These two are left alone, and so are those after them.
Kind = Literal[
    "pcie", "nvswitch", "nvlink5", "rack", "none", "unknown", "vgpu-guest", "vgpu-manager",
    "passthrough", "confidential", "integrated",
]  # fmt: skip
LEFT_ALONE: tuple[Kind, ...] = (
    "none", "unknown", "vgpu-guest", "vgpu-manager", "passthrough", "confidential", "integrated",
)  # fmt: skip
# Names of NVML and procfs. HGX B200 and B300: eight GPUs (Fabric Manager's user guide, "NVLink 5").
RACK = re.compile(r"\bGB[23]00\b")
NVLINK5 = re.compile(r"\bB[23]00\b")
HGX_GPUS = 8
# A profile of a vGPU ends a guest's name of its GPU: `GRID T4-16C`, `NVIDIA A100-4-20C`,
# `NVIDIA H100-1-10CME` (Virtual GPU Software User Guide, "Virtual GPU Types").
VGPU_GUEST = re.compile(r"-\d{1,3}(?:-\d{1,3})?[ABCQ](?:ME)?$")
OF_DRIVER: dict[str, Kind] = {
    "vgpu": "vgpu-manager", "vfio": "passthrough", "wsl": "integrated", "tegra": "integrated",
}  # fmt: skip
ROWS: dict[Kind, Sentence] = {
    "pcie": messages.PCIE,
    "nvswitch": messages.NVSWITCH,
    "nvlink5": messages.NVLINK5,
    "rack": messages.RACK,
    "none": messages.MACHINE_WITHOUT_GPU,
    "unknown": messages.MACHINE_UNKNOWN,
    "vgpu-guest": messages.VGPU_GUEST,
    "vgpu-manager": messages.MACHINE_OF_VGPU_MANAGER,
    "passthrough": messages.PASSTHROUGH,
    "confidential": messages.CONFIDENTIAL,
    "integrated": messages.INTEGRATED,
}


@dc.dataclass(frozen=True)
class Machine:
    """The kind of a machine, and what shows it."""

    kind: Kind
    why: Message

    @property
    def judged(self) -> bool:
        """Tell whether this collection says what the machine needs."""
        return self.kind not in LEFT_ALONE


def find_machine(
    driver: Driver, on_bus: int, switches: Sequence[str], confidential: Sequence[str]
) -> Machine:
    """Return the kind of a machine.

    on_bus: how many GPUs PCI has. switches: NVSwitches on PCI, and their nodes. confidential: nodes
    that only a guest of confidential computing has.
    """
    models = sorted({gpu.model for gpu in driver.gpus})
    kind = choose_kind(driver, models, on_bus, switches, confidential)
    shown = ", ".join((*switches[:1], *confidential[:1])) if kind in SHOWN_BY_PATH else ""
    evidence = shown or ", ".join(models) or driver.platform or driver.state
    return Machine(kind, ROWS[kind].fill(evidence=evidence))


SHOWN_BY_PATH: tuple[Kind, ...] = ("nvswitch", "confidential")


def describe_unknown_machine(error: QueryFailed) -> Machine:
    """Return a machine whose kind could not be read. error: of the query that failed."""
    return Machine("unknown", ROWS["unknown"].fill(evidence=read_error_message(error)))


def choose_kind(
    driver: Driver,
    models: Sequence[str],
    on_bus: int,
    switches: Sequence[str],
    confidential: Sequence[str],
) -> Kind:
    """Return the kind of a machine by the first of these signs."""
    if driver.platform:
        return OF_DRIVER[driver.platform]
    if not models and not on_bus:
        return "none"
    signs: tuple[tuple[bool, Kind], ...] = (
        (any(VGPU_GUEST.search(model) for model in models), "vgpu-guest"),
        (bool(confidential), "confidential"),
        (any(RACK.search(model) for model in models), "rack"),
        (bool(switches), "nvswitch"),
        (any(NVLINK5.search(model) for model in models) and on_bus == HGX_GPUS, "nvlink5"),
    )
    return next((kind for sign, kind in signs if sign), "pcie")
