# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ask NVML in three ways, and tell where the answers differ: our probe, pynvml, nvidia-smi.

Each answer is {"driver", "gpus": [{"index", "minor", "uuid", "bus", "name", "mig", "migs"}]}; what a
source does not tell is not in it. Standard library only, Python 3.6.
"""

import ctypes
import re

from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.probes import nvml

FIELDS = ("driver", "count", "index", "minor", "uuid", "bus", "name", "mig", "migs")
SMI_FIELDS = ("index", "uuid", "pci.bus_id", "name", "driver_version", "mig.mode.current")
SMI_QUERY = ["--query-gpu=" + ",".join(SMI_FIELDS), "--format=csv,noheader,nounits"]
MIGS = re.compile(r"^\s+MIG\s.*\(UUID:\s*(?P<uuid>MIG-[^)]+)\)")
OF_GPU = re.compile(r"^GPU \d+:.*\(UUID:\s*(?P<uuid>GPU-[^)]+)\)")
MODES = {"Enabled": True, "Disabled": False}


def normalise(found):
    """Return an answer of our probe in the shape that all sources have."""
    gpus = [
        {
            "index": gpu["index"],
            "minor": gpu["minor"],
            "uuid": gpu["uuid"],
            "bus": gpu["bus_id"],
            "name": gpu["name"],
            "mig": gpu["mig"],
            "migs": sorted(mig["uuid"] for mig in gpu["migs"]),
            "places": [[mig["gi"], mig["ci"]] for mig in gpu["migs"]],
        }
        for gpu in found["gpus"]
    ]
    return {"driver": found["driver_version"], "gpus": gpus, "errors": found["errors"]}


def ask_own(request):
    """Ask by the probe that the collection sends to hosts."""
    return normalise(nvml.run({"library": request.get("library", "")}))


def ask_pynvml(_request):
    """Ask by NVIDIA's own binding, if this Python has it."""
    try:
        import pynvml
    except ImportError:
        return {"absent": "this Python has no pynvml"}

    def get_text(value):
        return value.decode("utf-8") if isinstance(value, bytes) else value

    pynvml.nvmlInit()
    gpus = []
    for index in range(pynvml.nvmlDeviceGetCount()):
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        try:
            mig = bool(pynvml.nvmlDeviceGetMigMode(handle)[0])
        except pynvml.NVMLError:
            mig = None
        migs = []
        for place in range(pynvml.nvmlDeviceGetMaxMigDeviceCount(handle) if mig else 0):
            try:
                found = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, place)
            except pynvml.NVMLError:
                continue
            migs.append(get_text(pynvml.nvmlDeviceGetUUID(found)))
        gpus.append(
            {
                "index": index,
                "minor": pynvml.nvmlDeviceGetMinorNumber(handle),
                "uuid": get_text(pynvml.nvmlDeviceGetUUID(handle)),
                "bus": nvml.get_sysfs_name(get_text(pynvml.nvmlDeviceGetPciInfo(handle).busId)),
                "name": get_text(pynvml.nvmlDeviceGetName(handle)),
                "mig": mig,
                "migs": sorted(migs),
            }
        )
    driver = get_text(pynvml.nvmlSystemGetDriverVersion())
    return {"driver": driver, "gpus": gpus, "version": getattr(pynvml, "__version__", "")}


def read_smi(table, listed):
    """Return what nvidia-smi told: its table of GPUs, and its list with MIG devices."""
    migs, gpu = {}, ""
    for line in listed.splitlines():
        of_gpu, of_mig = OF_GPU.match(line), MIGS.match(line)
        if of_gpu:
            gpu = of_gpu.group("uuid")
        elif of_mig:
            migs.setdefault(gpu, []).append(of_mig.group("uuid"))
    gpus, driver = [], ""
    for line in filter(str.strip, table.splitlines()):
        index, uuid, bus, name, driver, mode = [part.strip() for part in line.split(",")]
        gpus.append(
            {
                "index": int(index),
                "uuid": uuid,
                "bus": nvml.get_sysfs_name(bus),
                "name": name,
                "mig": MODES.get(mode),
                "migs": sorted(migs.get(uuid, [])),
            }
        )
    return {"driver": driver, "gpus": gpus}


def compare(first, second):
    """Return what two sources tell differently, as [field, of the first, of the second]. A field
    that only one of them tells is left out.
    """
    found = []
    if first["driver"] != second["driver"]:
        found.append(["driver", first["driver"], second["driver"]])
    if len(first["gpus"]) != len(second["gpus"]):
        found.append(["count", len(first["gpus"]), len(second["gpus"])])
    for one, other in zip(first["gpus"], second["gpus"]):
        found += [
            ["gpu%d.%s" % (one["index"], key), one[key], other[key]]
            for key in FIELDS
            if key in one and key in other and one[key] != other[key]
        ]
    return found


# ---------------------------------------------------------------- what a capture has besides


class Memory(ctypes.Structure):
    """nvmlMemory_t."""

    _fields_ = [(name, ctypes.c_ulonglong) for name in ("total", "free", "used")]


class Fabric(ctypes.Structure):
    """nvmlGpuFabricInfo_v2_t."""

    _fields_ = [
        ("version", ctypes.c_uint),
        ("cluster", ctypes.c_ubyte * 16),
        ("status", ctypes.c_uint),
        ("clique", ctypes.c_uint),
        ("state", ctypes.c_ubyte),
        ("health", ctypes.c_uint),
    ]


class Addressing(ctypes.Structure):
    """nvmlDeviceAddressingMode_v1_t."""

    _fields_ = [("version", ctypes.c_uint), ("value", ctypes.c_uint)]


def get_version_word(kind, number):
    """Return NVML_STRUCT_VERSION: the size of a structure with its version above."""
    return ctypes.sizeof(kind) | number << 24


def ask_more(request):
    """Return what only a capture has: {"cuda", "gpus": [{"pci_id", "mib", "addressing", "fabric"}],
    "refused": {call: code}}.
    """
    library = nvml.Library(request.get("library", ""))
    library.call("nvmlInit_v2")
    refused = {}

    def attempt(name, *arguments):
        try:
            library.call(name, *arguments)
        except nvml.NvmlError as exc:
            refused[name] = exc.code
            return False
        return True

    cuda = ctypes.c_int()
    attempt("nvmlSystemGetCudaDriverVersion_v2", ctypes.byref(cuda))
    gpus = []
    for index in range(library.number("nvmlDeviceGetCount_v2")):
        handle = library.handle("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(index))
        gpus.append(ask_more_of_gpu(attempt, handle))
    library.call("nvmlShutdown")
    return {"cuda": cuda.value, "gpus": gpus, "refused": refused}


def ask_more_of_gpu(attempt, handle):
    pci, memory = nvml.PciInfo(), Memory()
    attempt("nvmlDeviceGetPciInfo_v3", handle, ctypes.byref(pci))
    attempt("nvmlDeviceGetMemoryInfo", handle, ctypes.byref(memory))
    found = {"pci_id": "0x%04x" % (pci.pciDeviceId >> 16), "mib": memory.total >> 20}
    mode = Addressing(get_version_word(Addressing, 1))
    if attempt("nvmlDeviceGetAddressingMode", handle, ctypes.byref(mode)):
        found["addressing"] = mode.value
    fabric = Fabric(get_version_word(Fabric, 2))
    if attempt("nvmlDeviceGetGpuFabricInfoV", handle, ctypes.byref(fabric)):
        found["fabric"] = {
            "state": fabric.state,
            "status": fabric.status,
            "clique": fabric.clique,
            "health": fabric.health,
            "cluster": any(fabric.cluster),
        }
    most = ctypes.c_uint()
    if attempt("nvmlDeviceGetMaxMigDeviceCount", handle, ctypes.byref(most)):
        found["max_migs"] = most.value
    return found
