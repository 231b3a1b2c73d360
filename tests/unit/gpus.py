# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of a host with NVIDIA GPUs, as procfs, sysfs and /dev show them."""

from __future__ import annotations

from typing import Any

from tests.unit import drivers

UUIDS = (
    "GPU-11111111-0000-5000-8000-000000000001",
    "GPU-22222222-0000-5000-8000-000000000002",
    "GPU-33333333-0000-5000-8000-000000000003",
)
BUSES = ("0000:17:00.0", "0000:43:00.0", "0000:65:00.0")
NVRM = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  {}  Tue Apr  8 12:41:17 UTC 2025\nGCC version:  gcc version 12.2.0\n"
LIBRARIES = "/usr/lib/x86_64-linux-gnu"


def information(bus: str, minor: int, uuid: str, **more: str) -> str:
    facts = {
        "Model": "NVIDIA H100 80GB HBM3",
        "IRQ": "64",
        "GPU UUID": uuid,
        "Bus Location": bus,
        "Device Minor": str(minor),
        "GPU Excluded": "No",
    }
    return "".join(f"{key}: \t {value}\n" for key, value in {**facts, **more}.items())


def node(major: int, minor: int) -> dict[str, Any]:
    return {"type": "char", "rdev": [major, minor], "mode": 0o666}


def nodes(minors: tuple[int, ...] = (0, 1), uvm: int = 511) -> dict[str, Any]:
    control = {"/dev/nvidiactl": node(195, 255), "/dev/nvidia-modeset": node(195, 254)}
    memory = {"/dev/nvidia-uvm": node(uvm, 0), "/dev/nvidia-uvm-tools": node(uvm, 1)}
    return {**control, **memory, **{f"/dev/nvidia{m}": node(195, m) for m in minors}}


def pci(count: int = 2) -> dict[str, str]:
    """Return the files of the GPUs, and of a network card that is none."""
    home = "/sys/bus/pci/devices"
    files = {f"{home}/0000:00:03.0/vendor": "0x1af4\n", f"{home}/0000:00:03.0/class": "0x020000\n"}
    for bus in BUSES[:count]:
        files.update({f"{home}/{bus}/vendor": "0x10de\n", f"{home}/{bus}/class": "0x030200\n"})
    return files


def library(version: str) -> dict[str, Any]:
    real = f"{LIBRARIES}/libnvidia-ml.so.{version}"
    return {real: {"real": real}, f"{LIBRARIES}/libnvidia-ml.so.1": {"real": real}}


def host(
    count: int = 2,
    *,
    version: str = "550.163.01",
    user: str = "550.163.01",
    minors: tuple[int, ...] = (),
    uuids: tuple[str, ...] = UUIDS,
) -> dict[str, Any]:
    """Return the files of a host whose driver works.

    A test changes or removes (None) what its case is about.
    """
    minors = minors or tuple(range(count))
    proc = "/proc/driver/nvidia"
    files: dict[str, Any] = {
        f"{proc}/version": NVRM.format(version),
        "/sys/module/nvidia/version": f"{version}\n",
        f"{proc}/params": "ModifyDeviceFiles: 1\n",
    }
    files["/proc/devices"] = (
        "Character devices:\n  1 mem\n195 nvidia\n510 nvidia-caps\n511 nvidia-uvm\n\nBlock devices:\n259 blkext\n"
    )
    for bus, minor, uuid in zip(BUSES[:count], minors, uuids, strict=False):
        files[f"{proc}/gpus/{bus}/information"] = information(bus, minor, uuid)
    return {
        **files,
        **pci(count),
        **nodes(minors),
        **drivers.core(LIBRARIES, user),
        **library(user),
    }


def nvml(
    count: int = 2,
    *,
    minors: tuple[int, ...] = (),
    uuids: tuple[str, ...] = UUIDS,
    migs: dict[int, list[dict[str, Any]]] | None = None,
) -> dict[str, Any]:
    """Return NVML's answer about the same host.

    migs: by the index of a GPU in MIG mode, its MIG devices, as mig() makes them.
    """
    found = [
        {
            "index": index,
            "minor": (minors or tuple(range(count)))[index],
            "uuid": uuids[index],
            "bus_id": BUSES[index],
            "name": "NVIDIA H100 80GB HBM3",
            "mig": index in (migs or {}),
            "migs": (migs or {}).get(index, []),
        }
        for index in range(count)
    ]
    return {
        "probe:nvml": {
            "value": {
                "source": "libnvidia-ml",
                "driver_version": "550.163.01",
                "gpus": found,
                "errors": [],
            }
        }
    }


def mig(index: int, gi: int, ci: int = 0, profile: str = "1g.10gb") -> dict[str, Any]:
    """Return one MIG device as NVML reports it."""
    name = f"NVIDIA H100 80GB HBM3 MIG {profile}"
    return {
        "index": index,
        "uuid": f"MIG-{gi:08d}-0000-5000-8000-{ci:012d}",
        "gi": gi,
        "ci": ci,
        "name": name,
    }


def instances(minor: int, *pairs: tuple[int, int], told: bool = True) -> dict[str, Any]:
    """Return what the driver shows of a GPU's MIG instances: capability files and nodes.

    told: the files name the minors.
    """
    home = f"/proc/driver/nvidia/capabilities/gpu{minor}/mig"
    files: dict[str, Any] = {
        "/dev/nvidia-caps/nvidia-cap1": node(510, 1),
        "/dev/nvidia-caps/nvidia-cap2": node(510, 2),
    }
    for gi, ci in pairs:
        for path, cap in (
            (f"gi{gi}/access", cap_minor(minor, gi)),
            (f"gi{gi}/ci{ci}/access", cap_minor(minor, gi, ci)),
        ):
            files[f"{home}/{path}"] = (
                f"DeviceFileMinor: {cap}\nDeviceFileMode: 292\n"
                if told
                else "DeviceFileMode: 292\n"
            )
            files[f"/dev/nvidia-caps/nvidia-cap{cap}"] = node(510, cap)
    return files


def cap_minor(gpu: int, gi: int, ci: int | None = None) -> int:
    """Return a minor number by the driver's table.

    The table has 15 GPU instances with 8 compute instances each, after the two nodes of
    configuration and monitor.
    """
    return 3 + (gpu * 15 + gi) * 9 + (0 if ci is None else 1 + ci)


def mig_minors(gpus: int = 2) -> str:
    """Return the text of the table itself."""
    lines = ["config 1", "monitor 2"]
    for gpu in range(gpus):
        for gi in range(15):
            lines.append(f"gpu{gpu}/gi{gi}/access {cap_minor(gpu, gi)}")
            lines += [f"gpu{gpu}/gi{gi}/ci{ci}/access {cap_minor(gpu, gi, ci)}" for ci in range(8)]
    return "\n".join(lines) + "\n"
