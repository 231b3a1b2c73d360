# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List the sentences about drivers and GPUs."""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.message_types import Sentence

NOT_GONE = "a GPU that has fallen off the bus or that a container runtime hides is not known to be gone"
SEE_WHY = "See why on the host (journalctl -k | grep -i -e NVRM -e Xid)"

GPU_NOT_SERVED = Sentence(
    "driver.gpu-not-served",
    "GPU {bus} is on the PCI bus, but the driver does not serve it, and {lost}",
    why=NOT_GONE,
    next=f"{SEE_WHY}, then reset the GPU or reboot the host and run again. "
    "To do without it, remove it, or exclude it from the driver (NVreg_ExcludedGpus)",
)
NODE_WITHOUT_GPU = Sentence(
    "driver.node-without-gpu",
    "{path} is a device node without a GPU in the driver, and {lost}",
    why=NOT_GONE,
    next=f"{SEE_WHY}. If the GPU was taken out, reboot the host or remove {{path}}, and run again",
)
NO_PCI_BUS = Sentence(
    "driver.no-pci-bus",
    "the PCI devices of this host cannot be seen, and {lost}",
    why="if none is shown, nobody knows whether a GPU is gone",
    next="Mount sysfs (mount -t sysfs sysfs /sys), and run again",
)
