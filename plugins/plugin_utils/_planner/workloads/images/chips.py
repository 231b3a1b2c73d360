# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Identify GPUs by PCI device id (the chip and its compute capability), and read a GPU's name if
NVML is not asked.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.workloads.images import (
    dotted,
)

# vendor 10de: the chip of each device id
PCI_IDS = "https://github.com/pciutils/pciids/blob/master/pci.ids"
CUDA_GPUS = "https://developer.nvidia.com/cuda-gpus"  # the compute capability of each product
# Rubin's, which CUDA_GPUS does not have yet; the driver's open modules call its chip GR100
# (published/rubin/gr100). GR102's is not published.
RUBIN = "https://github.com/pytorch/pytorch/pull/190654"
# First and last device id of a block that NVIDIA has given to one chip (PCI_IDS), the chip, its
# compute capability (CUDA_GPUS, RUBIN). A chip whose compute capability is not published is not
# here, nor are those of Jetsons before Thor, which are on no PCI bus.
CHIPS: tuple[tuple[int, int, str, str], ...] = (
    (0x0FC0, 0x0FFF, "GK107", "3.0"),
    (0x1001, 0x102C, "GK110", "3.5"),
    (0x102D, 0x102D, "GK210", "3.7"),
    (0x102E, 0x103F, "GK110", "3.5"),
    (0x1180, 0x11BF, "GK104", "3.0"),
    (0x11C0, 0x11FF, "GK106", "3.0"),
    (0x1280, 0x12BF, "GK208", "3.5"),
    (0x1340, 0x137F, "GM108", "5.0"),
    (0x1380, 0x13BF, "GM107", "5.0"),
    (0x13C0, 0x13FF, "GM204", "5.2"),
    (0x1400, 0x143F, "GM206", "5.2"),
    (0x15C0, 0x15FF, "GP100", "6.0"),
    (0x1600, 0x167F, "GM204", "5.2"),
    (0x1725, 0x172F, "GP100", "6.0"),
    (0x174D, 0x174E, "GM108", "5.0"),
    (0x1789, 0x179C, "GM107", "5.0"),
    (0x17C0, 0x17FF, "GM200", "5.2"),
    (0x1B00, 0x1B7F, "GP102", "6.1"),
    (0x1B80, 0x1BFF, "GP104", "6.1"),
    (0x1C00, 0x1C7F, "GP106", "6.1"),
    (0x1C80, 0x1CFF, "GP107", "6.1"),
    (0x1D00, 0x1D7F, "GP108", "6.1"),
    (0x1D80, 0x1DFF, "GV100", "7.0"),
    (0x1E00, 0x1E7F, "TU102", "7.5"),
    (0x1E80, 0x1EFF, "TU104", "7.5"),
    (0x1F00, 0x1F7F, "TU106", "7.5"),
    (0x1F80, 0x1FFF, "TU117", "7.5"),
    (0x2080, 0x20FF, "GA100", "8.0"),
    (0x2180, 0x21FF, "TU116", "7.5"),
    (0x2200, 0x227F, "GA102", "8.6"),
    (0x2300, 0x23FF, "GH100", "9.0"),
    (0x2400, 0x247F, "GA103", "8.6"),
    (0x2480, 0x24FF, "GA104", "8.6"),
    (0x2500, 0x257F, "GA106", "8.6"),
    (0x2580, 0x25FF, "GA107", "8.6"),
    (0x2680, 0x26FF, "AD102", "8.9"),
    (0x2700, 0x277F, "AD103", "8.9"),
    (0x2780, 0x27FF, "AD104", "8.9"),
    (0x2800, 0x287F, "AD106", "8.9"),
    (0x2880, 0x28FF, "AD107", "8.9"),
    (0x2900, 0x297F, "GB100", "10.0"),
    (0x2980, 0x29FF, "GB102", "10.0"),
    (0x2B00, 0x2B7F, "GB10B", "11.0"),
    (0x2B80, 0x2BFF, "GB202", "12.0"),
    (0x2C00, 0x2C7F, "GB203", "12.0"),
    (0x2D00, 0x2D7F, "GB206", "12.0"),
    (0x2D80, 0x2DFF, "GB207", "12.0"),
    (0x2E00, 0x2E7F, "GB20B", "12.1"),
    (0x2F00, 0x2F7F, "GB205", "12.0"),
    (0x3000, 0x307F, "GR100", "10.7"),
    (0x3180, 0x31FF, "GB110", "10.3"),
)
# Systems on a chip. NVIDIA guarantees code to run on a later minor version among desktop GPUs only,
# and not between desktops and these (CUDA C++ Programming Guide, Binary Compatibility).
INTEGRATED = frozenset(map(dotted.parse_known_dotted, ("3.2", "5.3", "6.2", "7.2", "8.7")))

# The beginning of a name without `NVIDIA `, and the brands that NVML may give the GPU
# (nvmlBrandType_t, as nvidia-container-cli writes them in src/driver.c): newer drivers split some
# of the older brands, and its older releases say `Unknown` for all that came later.
BRANDS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("Tesla", ("Tesla",)),
    ("GRID", ("GRID",)),
    ("NVS", ("NVS",)),
    ("Quadro RTX", ("QuadroRTX", "Quadro", "Unknown")),
    ("Quadro", ("Quadro",)),
    ("GeForce RTX", ("GeForceRTX", "GeForce", "Unknown")),
    ("GeForce", ("GeForce",)),
    ("TITAN RTX", ("TitanRTX", "TITAN", "Unknown")),
    ("TITAN", ("TITAN",)),
    ("RTX", ("NvidiaRTX", "Quadro", "Unknown")),
    ("", ("NVIDIA", "Tesla", "Unknown")),
)
# Forward compatibility is for data centres' GPUs. There is no table of the other GPUs that are
# certified for it.
CONSUMER = ("GeForce", "TITAN", "NVS")
WORKSTATION = ("Quadro", "RTX")
# `NVIDIA A100-SXM4-80GB`, `Tesla V100-PCIE-16GB`, `NVIDIA H100 80GB HBM3`
MEMORY = re.compile(r"\b(\d{1,3}) ?GB\b")
# GB of each GPU of a card, for products that are sold with one size, by NVIDIA's data sheets
# (https://www.nvidia.com/en-us/data-center/). RTX PRO by the names of NVIDIA's open kernel modules
# (README.md) and, with MIG, the sizes of its MIG user guide (supported-gpus.html). GPUs of laptops
# have names of their own, and other sizes.
SIZES: Mapping[str, int] = {
    "Tesla K80": 12,
    "Tesla M10": 8,
    "Tesla M60": 8,
    "Tesla P4": 8,
    "Tesla P40": 24,
    "Tesla T4": 16,
    "A2": 16,
    "A10": 24,
    "A16": 16,
    "A30": 24,
    "A40": 48,
    "L4": 24,
    "L40": 48,
    "L40S": 48,
    "H200": 141,
    "H200 NVL": 141,
    "RTX A6000": 48,
    "RTX 6000 Ada Generation": 48,
    "RTX PRO 6000 Blackwell Server Edition": 96,
    "RTX PRO 6000 Blackwell Workstation Edition": 96,
    "RTX PRO 6000 Blackwell Max-Q Workstation Edition": 96,
    # the one with 72 GB says so in its name
    "RTX PRO 5000 Blackwell": 48,
    "RTX PRO 4500 Blackwell": 32,
    "RTX PRO 4500 Blackwell Server Edition": 32,
    "RTX PRO 4000 Blackwell": 24,
    "RTX PRO 4000 Blackwell SFF Edition": 24,
    "RTX PRO 2000 Blackwell": 16,
}


def compute_capability(device: int) -> dotted.Numbers | None:
    """Return the compute capability for a PCI device id of NVIDIA, None for an unknown id."""
    return next(
        (
            dotted.parse_known_dotted(cc)
            for first, last, _chip, cc in CHIPS
            if first <= device <= last
        ),
        None,
    )


def list_gpu_brands(model: str) -> tuple[str, ...]:
    """Return the brands that NVML may give a GPU of this name, () for an empty name."""
    name = shorten_model(model)
    return (
        next((brands for beginning, brands in BRANDS if name.startswith(beginning)), ())
        if name
        else ()
    )


def serves_forward(model: str) -> bool | None:
    """Tell whether the image's own libcuda may take the place of the host's on this GPU.

    Return None if that depends on a certification, or the name is empty.
    """
    name = shorten_model(model)
    if not name or name.startswith(WORKSTATION):
        return None
    return not name.startswith(CONSUMER)


def get_model_memory(model: str) -> int | None:
    """Return the memory in MiB by a GPU's name, None if it is not known.

    The name has the size if a product is sold with several sizes.
    """
    match = MEMORY.search(model)
    size = int(match[1]) if match else SIZES.get(shorten_model(model))
    return size * 10**9 >> 20 if size else None


def shorten_model(model: str) -> str:
    """Return the model of a GPU without the vendor's name."""
    return model.strip().removeprefix("NVIDIA ").strip()
