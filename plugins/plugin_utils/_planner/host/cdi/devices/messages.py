# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List the sentences about the sources that name a host's GPUs."""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Sentence,
)

REBOOT = "Reboot, or reload the kernel module, so that it is of the same version as the libraries"
LOAD = "Load the driver: modprobe nvidia"
RESET = "Reset or replace the GPU; the kernel log shows its Xid"

NVML_MISMATCH = Sentence("devices.nvml-mismatch", "NVML answers {problem}", next=REBOOT)
NVML_NOT_LOADED = Sentence("devices.nvml-not-loaded", "NVML answers {problem}", next=LOAD)
NVML_GPU_LOST = Sentence("devices.nvml-gpu-lost", "NVML answers {problem}", next=RESET)
NVML_UNTRUSTED = Sentence(
    "devices.nvml-untrusted",
    "NVML is not asked, since users besides root can change what the dynamic linker loads for it",
    why="{problem}",
    next="Give that place to root, or take it out of /etc/ld.so.conf.d and run ldconfig; then run again",
)
NVIDIA_SMI_MISMATCH = Sentence(
    "devices.nvidia-smi-mismatch",
    "nvidia-smi ends with status {status}",
    why="{problem}",
    next=REBOOT,
)
NVIDIA_SMI_NOT_LOADED = Sentence(
    "devices.nvidia-smi-not-loaded",
    "nvidia-smi ends with status {status}",
    why="{problem}",
    next=LOAD,
)
NVIDIA_SMI_GPU_LOST = Sentence(
    "devices.nvidia-smi-gpu-lost",
    "nvidia-smi ends with status {status}",
    why="{problem}",
    next=RESET,
)
OUTSIDE = Sentence(
    "devices.remedy-outside", "On the host outside of this container ({kind}): {remedy}"
)
MINOR_DIFFERS = Sentence(
    "devices.minor-differs",
    "GPU {bus} has minor {seen} in /proc and {reported} by the driver's library",
    why="a GPU was exchanged or reset during the observation, or /proc does not belong to this driver",
    next="Run again; if it stays like that, load the driver again or boot the host",
)
UUID_DIFFERS = Sentence(
    "devices.uuid-differs",
    "GPU {bus} has UUID {seen} in /proc and {reported} by the driver's library",
    why="a GPU was exchanged or reset during the observation, or /proc does not belong to this driver",
    next="Run again; if it stays like that, load the driver again or boot the host",
)
NVML_NOT_QUERIED = Sentence("devices.nvml-not-queried", "NVML could not be queried ({problem})")
NVML_SILENT = Sentence("devices.nvml-silent", "NVML gave no answer ({call}: {problem})")
NVIDIA_SMI_FAILED = Sentence("devices.nvidia-smi-failed", "nvidia-smi could not be run ({problem})")
NVIDIA_SMI_SILENT = Sentence("devices.nvidia-smi-silent", "nvidia-smi prints nothing")
NVIDIA_SMI_STRANGE = Sentence(
    "devices.nvidia-smi-strange",
    "the output of nvidia-smi is not in a known form ({line})",
)
NAMED_FROM_PROC = Sentence("devices.named-from-proc", "{problem}; the devices are named from /proc")
NAMED_WITHOUT_BOTH = Sentence(
    "devices.named-without-both",
    "{problem}, {other}; the devices are named from /proc",
)
NAMED_BY_NVIDIA_SMI = Sentence(
    "devices.named-by-nvidia-smi", "{problem}; nvidia-smi listed the devices"
)
GPU_NOT_LISTED = Sentence(
    "devices.gpu-not-listed",
    "{source} does not list GPU {gpus}, which the kernel module has; the CDI spec leaves it out",
)
