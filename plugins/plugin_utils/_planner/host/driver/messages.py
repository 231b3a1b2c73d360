# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List the sentences about drivers and GPUs."""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Sentence,
)

NOT_GONE = (
    "a GPU that has fallen off the bus or that a container runtime hides is not known to be gone"
)
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
    why="without that list, this run cannot know whether a GPU is gone",
    next="Mount sysfs (mount -t sysfs sysfs /sys), and run again",
)

# ---------------------------------------------------------------- the state of the driver

NO_GPU = Sentence("driver.no-gpu", "No NVIDIA GPU among the PCI devices of {path}")
PASSED_THROUGH = Sentence(
    "driver.passed-through", "it is passed through to virtual machines ({driver})"
)
BOUND = Sentence("driver.bound-elsewhere", "it is bound to the {driver} driver")
GPU_HELD = Sentence("driver.gpu-held", "GPU {bus}: {holder}")
GPU_WITHOUT_MODULE = Sentence(
    "driver.not-loaded", "GPU {bus} is on PCI, but the NVIDIA kernel module is not loaded"
)
NOT_LOADED_GPU_HELD = Sentence(
    "driver.not-loaded-gpu-held",
    "GPU {bus} is on PCI, but the NVIDIA kernel module is not loaded: {holder}",
)
NOT_LOADED_NO_MODULE = Sentence(
    "driver.not-loaded-no-module",
    "GPU {bus} is on PCI, but the NVIDIA kernel module is not loaded: "
    "there is no NVIDIA module on disk for the running kernel {kernel}, only for {kernels}",
    next="Install or build the NVIDIA module for kernel {kernel} (if DKMS builds it, `dkms status` says what failed; "
    "a .run file builds it for the running kernel alone)",
)
NO_VERSION = Sentence(
    "driver.no-version", "The NVIDIA module is loaded, but {path} contains no version"
)
FILE_CUT_SHORT = Sentence(
    "driver.file-cut-short", "{path} is truncated or unreadable: it has no usable {field}"
)
DRIVES_NO_GPU = Sentence(
    "driver.drives-no-gpu",
    "The NVIDIA module {version} is loaded, but does not drive GPU {bus}; the kernel log says why",
)
LOADED_WITHOUT_GPU = Sentence(
    "driver.loaded-without-gpu", "The NVIDIA module {version} is loaded, but there is no GPU"
)
LOADED_GPU_HELD = Sentence(
    "driver.loaded-gpu-held",
    "The NVIDIA module {version} is loaded, but it serves no GPU. {held}",
)
SERVES = Sentence(
    "driver.serves", "Kernel module {version} ({path}), {gpus}, user-space driver {version}"
)
SERVES_WITHOUT_LIBRARIES = Sentence(
    "driver.serves-without-libraries",
    "Kernel module {version} ({path}), {gpus}, no user-space driver in the usual folders",
)
SERVES_SOME = Sentence("driver.serves-some", "{served}; not served: {lost}")
GPUS_HELD = Sentence("driver.gpus-held", "No container gets GPU {gpus}: {holder}")
GPUS_EXCLUDED = Sentence(
    "driver.gpus-excluded",
    "No container gets GPU {gpus}: the options of the NVIDIA module exclude it",
)
GPUS_LOST = Sentence(
    "driver.gpus-lost",
    "The driver does not serve GPU {gpus}, which is on the PCI bus, so no container gets it",
    next=f"{SEE_WHY}. If the GPU has failed, reset it or reboot the host",
)

# ---------------------------------------------------------------- versions that differ

APART = "Kernel module {loaded} ({where}) and user-space driver {version} ({library}) do not match"
RELOAD = "modprobe -r nvidia_drm nvidia_modeset nvidia_uvm nvidia && modprobe nvidia"
INSTALL = "Install or build the NVIDIA module {version} for kernel {kernel} (`dkms status` says what failed)"
NO_MODULE = "there is no NVIDIA module on disk for the running kernel {kernel}, only for {kernels}"
REBOOT_DUE = Sentence(
    "driver.reboot-due",
    f"{APART}; the module on disk is {{version}} already ({{module}})",
    next=f"Reboot; or, with nothing on the GPUs, reload the module: {RELOAD}. "
    "If a boot loads the older module again, make the initial RAM disk again (update-initramfs -u, dracut -f). "
    "If it still does, the sources of the module are older than their package (modinfo -F version nvidia)",
)
MODULE_ON_DISK_DIFFERS = Sentence(
    "driver.module-on-disk-differs",
    f"{APART}; the module on disk is {{found}} ({{module}}), so a reboot alone does not help",
    next=f"{INSTALL}, or bring the libraries back to {{found}}; then reboot",
)
NO_MODULE_FOR_KERNEL = Sentence(
    "driver.no-module-for-kernel", f"{APART}; {NO_MODULE}", next=f"{INSTALL}; then reboot"
)
VERSIONS_DIFFER = Sentence(
    "driver.versions-differ",
    APART,
    next="Reboot, or reload the module. If they still differ then, install a module {version} for {kernel}, which has none",
)
OTHER_LIBRARIES = Sentence(
    "driver.other-libraries",
    "driver {loaded}: libraries of another driver version exist in addition to those of {loaded}: {paths}",
    next="Remove them",
)
OTHER_MODULE_AFTER_REBOOT = Sentence(
    "driver.other-module-after-reboot",
    "driver {loaded}: works until the next reboot, which loads the kernel module {version} ({path}) under libraries of {loaded}",
    next="Bring libraries and module to one version before that reboot: {version} or {loaded}",
)
NO_MODULE_AFTER_REBOOT = Sentence(
    "driver.no-module-after-reboot",
    f"driver {{version}}: works until the next reboot: {NO_MODULE}",
    next=INSTALL,
)

# ---------------------------------------------------------------- platforms without a spec

WSL = Sentence(
    "driver.wsl",
    "This is WSL, whose driver is on the Windows side; its GPU has no CDI spec here, `nvidia-ctk cdi generate --mode=wsl` makes one",
)
TEGRA = Sentence(
    "driver.tegra",
    "This is a Jetson, whose GPU is part of the chip; it has no CDI spec here, `nvidia-ctk cdi generate --mode=csv` makes one",
)
VGPU_MANAGER = Sentence(
    "driver.vgpu-manager",
    "The driver {version} of this host is NVIDIA's vGPU manager ({mark}, and no libcuda), "
    "which gives its GPUs to virtual machines; containers use a GPU inside such a machine",
)

# ---------------------------------------------------------------- hosts that are containers

GIVE_NODES = (
    "give this container the device nodes, and allow their majors there. Incus and LXD have a device of the type gpu for this. "
    "LXC has lxc.mount.entry and lxc.cgroup2.devices.allow, Proxmox VE dev0 and so on, systemd-nspawn --bind and DeviceAllow="
)
LOAD_OUTSIDE = Sentence(
    "driver.load-outside",
    f"This host is a container ({{kind}}) with the kernel of the host outside. Load the driver there, and {GIVE_NODES}",
)
REPAIR_OUTSIDE = Sentence(
    "driver.repair-outside",
    "This host is a container ({kind}) with the kernel of the host outside. "
    f"Have the driver work there, with libraries of its version here, and {GIVE_NODES}",
)
NODES_OUTSIDE = Sentence(
    "driver.nodes-outside",
    f"This host is a container ({{kind}}). On the host outside, {GIVE_NODES}. Then run again",
)
HOOK_IN_CONTAINER = Sentence(
    "driver.hook-in-container",
    "This host is a container ({kind}), and the prestart hook may not change device rules in an unprivileged one "
    "(failed to add device rules). Leave gpufleet_injection and gpufleet_cdi at auto, "
    f"or set nvidia-container-cli.no-cgroups = true and {GIVE_NODES}",
)
WOULD_LOSE = Sentence("driver.would-lose", "{where} would lose {names}")
