# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Recognise platforms with GPUs that get no CDI spec from this collection.

These are WSL, Jetson, and hosts that give their GPUs to virtual machines.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Literal

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Sentence,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Driver
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections.file_places import (
    WHOLE,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import messages

Name = Literal["wsl", "tegra"]
# Platforms on which NVIDIA's runtime finds the GPU in a mode of its own, which a mode that this
# collection sets would take away.
OWN_MODES: tuple[Name, ...] = ("tegra", "wsl")
WSL_NODE, TEGRA_FILE = "/dev/dxg", "/etc/nv_tegra_release"
# Names that upstream takes for a GPU that is part of a system on a chip, by the name that NVML
# gives it.
TEGRA_MODEL = re.compile(r"\(nvgpu\)|NVIDIA Thor")
ROWS: Mapping[Name, Sentence] = {"wsl": messages.WSL, "tegra": messages.TEGRA}
# Names that the module nvidia-vgpu-vfio registers: in /proc/devices, and as nodes. A guest's driver
# has none of it.
VGPU_DEVICE = "nvidia-vgpuctl"
VGPU_NODE = re.compile(r"/dev/nvidia-vgpu(?:ctl|\d{1,9})")
# Where a driver that serves CUDA has its library. The vGPU manager's packages have NVML and
# nvidia-smi, and no libcuda.
NAME = "libcuda"
CUDA = (
    "/usr/lib/*-linux-gnu/libcuda.so*",
    "/usr/lib/*-linux-gnu/nvidia/current/libcuda.so*",
    "/usr/lib64/libcuda.so*",
)


def list_platform_questions(tegra_family: str) -> list[queries.Question]:
    return [
        queries.ask_for_file(tegra_family, max=1 << 10, keep=WHOLE),
        queries.ask_for_file(WSL_NODE, content=False),
        queries.ask_for_file(TEGRA_FILE, content=False),
    ]


def find_platform_without_pci(obs: Observation, tegra_family: str) -> Name | None:
    """Return the platform whose GPU is not a PCI device. None if nothing shows one.

    A Jetson of JetPack 6 and newer has the module nvidia loaded, which then lists no GPU below
    /proc.
    """
    if _is_there(obs, WSL_NODE):
        return "wsl"
    return "tegra" if _is_tegra(obs, tegra_family) else None


def describe_platform(name: Name) -> Driver:
    """Describe the driver of such a platform."""
    return Driver("none", "", (), ROWS[name].fill(), platform=name)


def describe_chip_by_model(version: str, models: Iterable[str]) -> Driver | None:
    """Describe a system on a chip by what NVML or /proc call its GPU."""
    on_chip = any(TEGRA_MODEL.search(model) for model in models)
    return Driver("none", version, (), messages.TEGRA.fill(), platform="tegra") if on_chip else None


def find_vgpu_mark(
    obs: Observation, nodes: Iterable[str], devices: Iterable[str], driver_root: str
) -> str:
    """Return what shows that the driver serves virtual machines alone, '' if nothing does: it has
    what the vGPU manager registers, and no libcuda.

    If libcuda is installed as well, containers use the GPUs beside the manager, and the driver
    counts as any other.
    """
    marks = [
        *filter(VGPU_NODE.fullmatch, nodes),
        *(f"{name} in /proc/devices" for name in devices if name == VGPU_DEVICE),
    ]
    libcuda = queries.ask_for_paths(NAME, list(CUDA), driver_root)
    return "" if not marks or obs.get_answer(libcuda).get("files") else marks[0]


def describe_vgpu_manager(version: str, mark: str) -> Driver:
    """Describe a driver that serves virtual machines alone. mark: what shows that."""
    evidence = messages.VGPU_MANAGER.fill(version=version, mark=mark)
    return Driver("none", version, (), evidence, platform="vgpu")


def _is_there(obs: Observation, path: str) -> bool:
    return bool(obs.get_answer(queries.ask_for_file(path, content=False)).get("exists"))


def _is_tegra(obs: Observation, family: str) -> bool:
    return _is_there(obs, TEGRA_FILE) or obs.get_file(family).text.strip().lower().startswith(
        "tegra"
    )
