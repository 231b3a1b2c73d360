# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host's GPUs and driver as a report describes them in a few words, and the files, links and
device nodes that show them.
"""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tests.unit import gpus

DEVICES = "/sys/bus/pci/devices"
DRIVERS = "/sys/bus/pci/drivers"
PROC = "/proc/driver/nvidia"
OPEN = gpus.NVRM.replace("UNIX x86_64 Kernel Module", "UNIX Open Kernel Module for x86_64")
MAJORS = {
    "nvidia-uvm": 511,
    "nvidia-caps": 237,
    "nvidia-caps-imex-channels": 238,
    "nvidia-nvswitch": 510,
}
LIBRARIES = ("libcuda.so", "libnvidia-ml.so", "libnvidia-ptxjitcompiler.so", "libnvidia-nvvm.so")
NODES = (
    ("/dev/nvidiactl", 195, 255),
    ("/dev/nvidia-uvm", 511, 0),
    ("/dev/nvidia-uvm-tools", 511, 1),
    ("/dev/nvidia-modeset", 195, 254),
)


@dc.dataclass(frozen=True)
class Gpu:
    """A GPU. drm: the numbers of its card and render nodes, if it has any."""

    bus: str
    minor: int = 0
    pci_class: str = "0x030200"
    device: str = "0x2330"
    bound: str = "nvidia"  # its kernel driver, "" for none
    model: str = "NVIDIA H100 80GB HBM3"
    uuid: str = ""
    excluded: bool = False
    node: bool = True  # whether /dev has its node
    known: bool = True  # whether the driver shows it
    drm: tuple[int, ...] = ()
    drm_nodes: bool = True  # whether /dev has those of drm

    @property
    def served(self) -> bool:
        return self.bound == "nvidia"

    @property
    def name(self) -> str:
        return self.uuid or f"GPU-00000000-0000-0000-0000-0000000000{self.minor:02d}"


@dc.dataclass(frozen=True)
class Hardware:
    """A host's GPUs, the driver that is loaded and its libraries. driver: its version, "" if none
    is loaded.
    """

    gpus: tuple[Gpu, ...] = ()
    driver: str = "580.65.06"
    open: bool = True
    majors: Mapping[str, int] = dc.field(default_factory=lambda: MAJORS)
    nodes: tuple[tuple[str, int, int], ...] = NODES
    node_mode: str = "0666"
    node_group: int = 0
    libdir: str = "/usr/lib/x86_64-linux-gnu"
    libs: tuple[str, ...] = LIBRARIES
    bins: tuple[str, ...] = ("/usr/bin/nvidia-smi",)


def files(of: Hardware) -> dict[str, str]:
    """Return the texts by their path."""
    found: dict[str, str] = {"/proc/devices": _numbers(of)}
    if of.driver:
        found[f"{PROC}/version"] = (OPEN if of.open else gpus.NVRM).format(of.driver)
        found["/sys/module/nvidia/version"] = f"{of.driver}\n"
        found.update({f"{of.libdir}/{name}.{of.driver}": "" for name in of.libs})
    for gpu in of.gpus:
        home = f"{DEVICES}/{gpu.bus}"
        found.update(
            {
                f"{home}/vendor": "0x10de\n",
                f"{home}/class": f"{gpu.pci_class}\n",
                f"{home}/device": f"{gpu.device}\n",
            }
        )
        if gpu.served and gpu.known:
            more = {"Model": gpu.model, "GPU Excluded": "Yes" if gpu.excluded else "No"}
            found[f"{PROC}/gpus/{gpu.bus}/information"] = gpus.information(
                gpu.bus, gpu.minor, gpu.name, **more
            )
    return found


def _numbers(of: Hardware) -> str:
    own = {name: 195 for name in ("nvidia", "nvidia-modeset", "nvidiactl") if of.driver}
    rows = "".join(f"{number:3} {name}\n" for name, number in {**own, **of.majors}.items())
    return f"Character devices:\n  1 mem\n{rows}\nBlock devices:\n  8 sd\n"


def links(of: Hardware) -> dict[str, str]:
    """Return the links by their path: which kernel driver has which GPU."""
    return {
        f"{DEVICES}/{gpu.bus}/driver": f"../../drivers/{gpu.bound}" for gpu in of.gpus if gpu.bound
    }


def directories(of: Hardware) -> Iterator[str]:
    for gpu in of.gpus:
        if gpu.bound:
            yield f"{DRIVERS}/{gpu.bound}"
        if gpu.drm and gpu.served:
            yield from (f"{DEVICES}/{gpu.bus}/drm/{name}" for name in _drm(gpu))


def _drm(gpu: Gpu) -> dict[str, int]:
    card, render = gpu.drm
    return {f"card{card}": card, f"renderD{render}": render}


def devices(of: Hardware) -> dict[str, tuple[int, int, int, int]]:
    """Return the device nodes by their path: major and minor number, mode and group."""
    rows: list[tuple[str, int, int]] = list(of.nodes)
    for gpu in (gpu for gpu in of.gpus if gpu.served):
        rows += [(f"/dev/nvidia{gpu.minor}", 195, gpu.minor)] if gpu.node else []
        rows += (
            [(f"/dev/dri/{name}", 226, number) for name, number in _drm(gpu).items()]
            if gpu.drm and gpu.drm_nodes
            else []
        )
    return {
        path: (major, minor, int(of.node_mode, 8), of.node_group) for path, major, minor in rows
    }


def nvml(of: Hardware) -> dict[str, Any]:
    """Return what NVML reports of the GPUs that the driver serves."""
    served = [gpu for gpu in of.gpus if gpu.served and gpu.known and not gpu.excluded]
    found = [
        {
            "index": at,
            "minor": gpu.minor,
            "uuid": gpu.name,
            "bus_id": gpu.bus,
            "name": gpu.model,
            "mig": False,
            "migs": [],
        }
        for at, gpu in enumerate(served)
    ]
    return {"source": "libnvidia-ml", "driver_version": of.driver, "gpus": found, "errors": []}


# What NVML says of a GPU without a part in a fabric, with all well.
HEALTHY: Mapping[str, Any] = {
    "lost": None, "pages_pending": None, "rows_pending": False, "rows_failed": False, "links": [],
    "fabric": None, "slowdown": 0, "recovery": 0, "unread": [],
}  # fmt: skip
REFUSED: Mapping[str, Any] = {"call": "nvmlInit_v2", "code": 9, "message": "Driver Not Loaded"}


def states(of: Hardware, given: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what NVML says of the state of the GPUs that the driver serves.

    given: for each what it does not say of a healthy one, () if NVML cannot be asked.
    """
    unknown = {key for one in given for key in one} - {*HEALTHY}
    if unknown:
        raise ValueError(f"NVML says nothing of that name: {sorted(unknown)}")
    if not given:
        return {"driver_version": "", "gpus": [], "errors": [REFUSED]}
    found = [
        {"index": gpu["index"], "bus_id": gpu["bus_id"], "name": gpu["name"], **HEALTHY, **state}
        for gpu, state in zip(nvml(of)["gpus"], given, strict=True)
    ]
    return {"driver_version": of.driver, "gpus": found, "errors": []}


def of_report(given: Mapping[str, Any]) -> Hardware:
    """Read a report's words. A key that is not known is an error (TypeError)."""
    found = tuple(_gpu(one) for one in given.get("gpus", ()))
    lists = {
        key: tuple(tuple(row) if key == "nodes" else row for row in given[key])
        for key in ("nodes", "libs", "bins")
        if key in given
    }
    return Hardware(**{**given, **lists, "gpus": found})


def _gpu(given: Mapping[str, Any]) -> Gpu:
    words: dict[str, Any] = {
        "pci_class" if key == "class" else key: value for key, value in given.items()
    }
    return Gpu(**{**words, "drm": tuple(words.get("drm", ()))})
