# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make the files below TOP in which the kernel and the driver show GPUs: /proc and /sys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from .device_nodes import (
    CAPS_MAJOR,
    CHANNEL_MAJOR,
    DRM_MAJOR,
    LINK_MAJOR,
    NVIDIA_MAJOR,
    SWITCH_MAJOR,
    UVM_MAJOR,
    drm_nodes,
    list_mig_access,
    mig_minor,
)
from .inventories import Gpu, Inventory
from .packaged import TOP
from .tree_entries import Entry

# In the driver's table of capabilities (nvidia-caps), and the first number behind that table.
MOST_GPUS, FABRIC_MINOR = 32, 4323
# What the driver writes in /proc before the first program has used a GPU.
UNKNOWN_UUID = "GPU-????????-????-????-????-????????????"


def list_sysfs(inv: Inventory) -> Iterator[tuple[str, Entry]]:
    """Yield PCI devices: one that is not a GPU on every host, and the GPUs with or without a driver
    bound.
    """
    yield from _pci("0000:00:03.0", "0x1af4", "0x1000", "0x020000", "virtio-pci")
    for gpu in inv.gpus:
        yield from _pci(
            gpu.bus, "0x10de", gpu.pci_id, "0x030200", gpu.bound if inv.installed else ""
        )
        for path, _major, minor in drm_nodes(gpu) if inv.installed and gpu.served else ():
            name = path.rpartition("/")[2]
            yield (
                f"{TOP}/sys/bus/pci/devices/{gpu.bus}/drm/{name}/dev",
                Entry(f"{DRM_MAJOR}:{minor}\n"),
            )
    if inv.installed:
        yield f"{TOP}/sys/module/nvidia/version", Entry(f"{inv.loaded}\n")
        yield f"{TOP}/sys/module/nvidia_uvm/refcnt", Entry("0\n")


def _pci(bus: str, vendor: str, device: str, kind: str, driver: str) -> Iterator[tuple[str, Entry]]:
    home = f"{TOP}/sys/bus/pci/devices/{bus}"
    for name, value in (("vendor", vendor), ("device", device), ("class", kind)):
        yield f"{home}/{name}", Entry(f"{value}\n")
    if driver:
        yield f"{home}/driver", Entry(link=f"../../drivers/{driver}")
        yield f"{TOP}/sys/bus/pci/drivers/{driver}/bind", Entry()
        yield f"{TOP}/sys/bus/pci/drivers/{driver}/{bus}", Entry(link=f"../../devices/{bus}")


def render_proc_devices(inv: Inventory) -> str:
    """Return the text of /proc/devices."""
    own = [f"{NVIDIA_MAJOR} {name}" for name in ("nvidia", "nvidia-modeset", "nvidiactl")]
    own += [f"{CAPS_MAJOR} nvidia-caps", f"{UVM_MAJOR} nvidia-uvm"]
    # registered by the driver, whether any of them is there
    own += [f"{CHANNEL_MAJOR} nvidia-caps-imex-channels", f"{SWITCH_MAJOR} nvidia-nvswitch"]
    own += [f"{LINK_MAJOR} nvidia-nvlink"]
    own = own if inv.installed else []
    others = ["Character devices:", "  1 mem", "  5 /dev/tty", " 10 misc", "136 pts"]
    return "\n".join([*others, *own, "", "Block devices:", "  7 loop", "259 blkext", ""])


def list_procfs(inv: Inventory) -> Iterator[tuple[str, Entry]]:
    """Yield the files of a loaded driver below /proc/driver."""
    home = f"{TOP}/proc/driver/nvidia"
    module = f"Open Kernel Module for {inv.cpu}" if inv.open else f"{inv.cpu} Kernel Module"
    # the open module says who built it; both end in what may be empty
    built = "Release Build  (builder@host)  " if inv.open else ""
    when = "Tue Apr  8 12:41:17 UTC 2025"
    loaded = f"NVRM version: NVIDIA UNIX {module}  {inv.loaded}  {built}{when}\n"
    yield (
        f"{home}/version",
        Entry(f"{loaded}GCC version:  gcc version 12.2.0 (Debian 12.2.0-14) \n", mode=0o444),
    )
    yield f"{home}/params", Entry(parameters(PARAMETERS), mode=0o444)
    yield (
        f"{TOP}/proc/params-in-proc",
        Entry(parameters({**PARAMETERS, "ModifyDeviceFiles": 0}), mode=0o444),
    )
    for gpu in (gpu for gpu in inv.gpus if gpu.listed):
        yield f"{home}/gpus/{gpu.bus}/information", Entry(_information(gpu, inv.loaded), mode=0o444)
    yield f"{TOP}/proc/driver/nvidia-caps/mig-minors", Entry(_mig_minors(), mode=0o444)
    yield (
        f"{TOP}/proc/driver/nvidia-caps/sys-minors",
        Entry(f"fabric-imex-mgmt {FABRIC_MINOR}\n", mode=0o444),
    )
    yield f"{TOP}/proc/driver/nvidia-caps/nvlink-minors", Entry("fabric-mgmt 0\n", mode=0o444)
    control = {"mig/config": (1, 0o400), "mig/monitor": (2, 0o444)}
    control["fabric-imex-mgmt"] = (FABRIC_MINOR, 0o400)
    for name, (minor, mode) in control.items():
        yield f"{home}/capabilities/{name}", Entry(_capability(minor, mode), mode=0o444)
    for access, minor in list_mig_access(inv):
        gpu_part, rest = access.split("/", 1)
        yield (
            f"{home}/capabilities/{gpu_part}/mig/{rest}",
            Entry(_capability(minor, 0o444), mode=0o444),
        )


def _capability(minor: int, mode: int) -> str:
    return f"DeviceFileMinor: {minor}\nDeviceFileMode: {mode}\nDeviceFileModify: 1\n"


# Of 580.159.04 with the open modules, as the driver sets them by itself.
PARAMETERS: Mapping[str, int | str] = {
    "ResmanDebugLevel": 4294967295,
    "RmLogonRC": 1,
    "ModifyDeviceFiles": 1,
    "DeviceFileUID": 0,
    "DeviceFileGID": 0,
    "DeviceFileMode": 438,
    "InitializeSystemMemoryAllocations": 1,
    "UsePageAttributeTable": 4294967295,
    "EnableMSI": 1,
    "EnablePCIeGen3": 0,
    "MemoryPoolSize": 0,
    "KMallocHeapMaxSize": 0,
    "VMallocHeapMaxSize": 0,
    "IgnoreMMIOCheck": 0,
    "EnableStreamMemOPs": 0,
    "EnableUserNUMAManagement": 1,
    "NvLinkDisable": 0,
    "RmProfilingAdminOnly": 0,
    "PreserveVideoMemoryAllocations": 0,
    "EnableS0ixPowerManagement": 0,
    "S0ixPowerManagementVideoMemoryThreshold": 256,
    "DynamicPowerManagement": 3,
    "DynamicPowerManagementVideoMemoryThreshold": 200,
    "RegisterPCIDriver": 1,
    "EnablePCIERelaxedOrderingMode": 0,
    "EnableResizableBar": 0,
    "EnableGpuFirmware": 18,
    "EnableGpuFirmwareLogs": 2,
    "RmNvlinkBandwidthLinkCount": 0,
    "EnableDbgBreakpoint": 0,
    "OpenRmEnableUnsupportedGpus": 1,
    "DmaRemapPeerMmio": 1,
    "ImexChannelCount": 2048,
    "CreateImexChannel0": 0,
    "GrdmaPciTopoCheckOverride": 0,
    "CoherentGPUMemoryMode": '""',
    "RegistryDwords": '""',
    "RegistryDwordsPerDevice": '""',
    "RmMsg": '""',
    "GpuBlacklist": '""',
    "TemporaryFilePath": '""',
    "ExcludedGpus": '""',
}


def parameters(values: Mapping[str, int | str]) -> str:
    return "".join(f"{key}: {value}\n" for key, value in values.items())


# What stands before the last tab of a line (kernel-open/nvidia/nv-procfs.c): two tabs after short
# names, and no blank after the last one.
PADDED = {"Model": "Model: \t", "IRQ": "IRQ:   \t", "GPU Excluded": "GPU Excluded:"}


def _information(gpu: Gpu, loaded: str) -> str:
    values = {
        "Model": gpu.name,
        "IRQ": "64",
        "GPU UUID": gpu.uuid if gpu.initialised else UNKNOWN_UUID,
        "Video BIOS": "96.00.74.00.01",
        "Bus Type": "PCIe",
        "DMA Size": "52 bits",
        "DMA Mask": "0xfffffffffffff",
        "Bus Location": gpu.bus,
        "Device Minor": str(gpu.minor),
        "GPU Firmware": loaded,
        "GPU Excluded": "Yes" if gpu.excluded else "No",
    }
    return "".join(f"{PADDED.get(key, key + ': ')}\t {value}\n" for key, value in values.items())


def _mig_minors() -> str:
    """Return the driver's table, which has all GPUs that there can be, whether there are any."""
    lines = ["config 1", "monitor 2"]
    for gpu in range(MOST_GPUS):
        for instance in range(15):
            lines.append(f"gpu{gpu}/gi{instance}/access {mig_minor(gpu, instance, None)}")
            lines += [
                f"gpu{gpu}/gi{instance}/ci{compute}/access {mig_minor(gpu, instance, compute)}"
                for compute in range(8)
            ]
    return "\n".join(lines) + "\n"
