# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List the sentences about the kind of a machine and the units that it needs."""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Sentence,
)

PCIE = Sentence("platform.pcie", "GPUs without NVSwitches ({evidence})")
NVSWITCH = Sentence("platform.nvswitch", "GPUs behind NVSwitches ({evidence})")
NVLINK5 = Sentence("platform.nvlink5", "eight GPUs behind NVSwitches of NVLink 5 ({evidence})")
RACK = Sentence("platform.rack", "a compute tray of an NVLink rack ({evidence})")
MACHINE_WITHOUT_GPU = Sentence("platform.no-gpu", "no NVIDIA GPU ({evidence})")
MACHINE_UNKNOWN = Sentence(
    "platform.unknown", "the kind of the machine could not be read ({evidence})"
)
VGPU_GUEST = Sentence(
    "platform.vgpu-guest", "a guest with a vGPU ({evidence}); its hypervisor minds the rest"
)
MACHINE_OF_VGPU_MANAGER = Sentence(
    "platform.vgpu-manager", "a host of vGPUs ({evidence}), which is left alone"
)
PASSTHROUGH = Sentence(
    "platform.passthrough", "GPUs that are passed through to machines ({evidence}); left alone"
)
CONFIDENTIAL = Sentence(
    "platform.confidential", "a guest of confidential computing ({evidence}), which is left alone"
)
INTEGRATED = Sentence("platform.integrated", "a GPU without PCI ({evidence}), which is left alone")

# ---------------------------------------------------------------- Fabric Manager

CUDA_802 = "CUDA ends with error 802 without it, system not yet initialized"
FM_ABSENT = Sentence(
    "platform.fabric-manager-absent",
    "{unit} is not installed",
    why=CUDA_802,
    next="Install nvidia-fabricmanager of the driver's version {driver}, and enable the unit",
)
FM_ABSENT_KUBERNETES = Sentence(
    "platform.fabric-manager-not-on-host",
    "{unit} is not installed on this host",
    why=f"{CUDA_802}; a driver container brings its own",
    next="Without a driver container, install nvidia-fabricmanager of the driver's version {driver}",
)
FM_OTHER_VERSION = Sentence(
    "platform.fabric-manager-version",
    "{unit} has the version {version}, and the driver has {driver}",
    why="it refuses a driver of any other version than its own",
    next="Bring both to one version, and hold them together",
)
FM_OFF = Sentence(
    "platform.fabric-manager-off",
    "{unit} does not run ({state})",
    why=CUDA_802,
    next="Run `systemctl enable --now {unit}` on the host",
)
FM_FAILED = Sentence(
    "platform.fabric-manager-failed",
    "{unit} has failed",
    why=CUDA_802,
    next="See why on the host (journalctl -b -u {unit})",
)
FM_IN_RACK = Sentence(
    "platform.fabric-manager-in-rack",
    "{unit} is on ({state})",
    why="the switches of a rack are in trays of their own, and this host has none to program",
    next="Disable {unit}; the host's part is nvidia-imex",
)

# ---------------------------------------------------------------- NVLink Subnet Manager

NVLSM_ABSENT = Sentence(
    "platform.subnet-manager-absent",
    "the package {unit} is not installed",
    why="Fabric Manager of NVLink 5 starts the NVLink Subnet Manager, and the fabric stays in progress without it",
    next="Install {unit}, and restart nvidia-fabricmanager.service",
)

# ---------------------------------------------------------------- IMEX

IMEX_OTHER_VERSION = Sentence(
    "platform.imex-version",
    "{unit} has the version {version}, and the driver has {driver}",
    why="IMEX is a part of the driver",
    next="Bring both to one version, and hold them together",
)
IMEX_TWICE = Sentence(
    "platform.imex-twice",
    "{unit} runs, and NVIDIA's DRA driver starts IMEX for ComputeDomains",
    why="two of them take the same channels, and both end with NV_ERR_IN_USE",
    next="Stop and mask {unit}; with the gate HostManagedIMEXDaemon of the DRA driver, leave it running "
    "with IMEX_CMD_ENABLED=1 and IMEX_CMD_UNIX_DOMAIN_PATH in /etc/nvidia-imex/config.cfg",
)
IMEX_NOT_MASKED = Sentence(
    "platform.imex-not-masked",
    "{unit} is not masked ({state}), and NVIDIA's DRA driver starts IMEX for ComputeDomains",
    why="a package's update or a person may start it as well, and both end with NV_ERR_IN_USE",
    next="Mask {unit}",
)
IMEX_BY_HOST = Sentence(
    "platform.imex-by-host",
    "{unit} runs with its command socket, as the gate HostManagedIMEXDaemon of NVIDIA's DRA driver wants it",
    next="Without that gate, stop and mask {unit}",
)
IMEX_FAILED = Sentence(
    "platform.imex-failed",
    "{unit} has failed",
    next="See why on the host (journalctl -b -u {unit}), or disable it where jobs or the DRA driver start IMEX",
)
DOMAINS_TOO_OLD = Sentence(
    "platform.compute-domains-driver",
    "NVIDIA's DRA driver serves ComputeDomains here, and the driver is {driver}",
    why="ComputeDomains need 570.158.01 or later",
    next="Update the driver",
)

# ---------------------------------------------------------------- nvidia-persistenced

PERSISTENCE_OFF = Sentence(
    "platform.persistence-off",
    "{unit} is installed and does not run ({state})",
    why="without it each first container waits until the GPUs are initialised, 20 to 40 seconds for eight",
    next="Run `systemctl enable --now {unit}` on the host",
)
WELL = Sentence("platform.well", "{unit}: {state}")
