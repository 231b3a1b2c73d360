# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host's GPUs, made of files: what the driver, its libraries and the kernel would show, from an
inventory of a few lines.

`inventory` reads a host's entry of a fleet file. `tree` returns the files that follow from it (a
pure function). `install` puts them into a host's root. The trees of /proc and /sys lie under
/opt/fakegpu, since nothing can be put into the real ones. A boot mounts the files that NVIDIA's own
tools read in /proc over it.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ..artefacts import cached, digest, run
from . import driver, packaged
from .packaged import TOP as TOP  # for code that reads what a host has

HERE = Path(__file__).resolve().parent
NVIDIA_SMI = HERE / "nvidia-smi"
LIBRARIES = "usr/lib/x86_64-linux-gnu"
NVIDIA_MAJOR, DRM_MAJOR = 195, 226
UVM_MAJOR, CAPS_MAJOR, CHANNEL_MAJOR, SWITCH_MAJOR, LINK_MAJOR = 511, 510, 509, 508, 507
BUSES = ("17", "43", "65", "9d", "b3", "ca", "d1", "e4")
NVML = "libnvidia-ml"
# In the driver's table of capabilities (nvidia-caps), and the first number behind that table.
MOST_GPUS, FABRIC_MINOR = 32, 4323
# What the driver writes in /proc before the first program has used a GPU.
UNKNOWN_UUID = "GPU-????????-????-????-????-????????????"
DRIVERS = ("ok", "none", "broken", "packaged")


@dataclass(frozen=True)
class Profile:
    """A MIG profile. number: NVML's NVML_GPU_INSTANCE_PROFILE_* for it."""

    name: str  # 3g.40gb, for example
    number: int
    slices: int
    mib: int


@dataclass(frozen=True)
class Fabric:
    """The answer of NVML about the fabric of a GPU, in NVML's numbers.

    state: 1 not started, 2 in progress, 3 completed. health: NVML's mask. cluster: a UUID.
    """

    state: int = 3
    status: int = 0
    clique: int = 0
    cluster: str = "00000000-0000-0000-0000-000000000000"
    health: int = 0


@dataclass(frozen=True)
class Gpu:
    """A GPU as the kernel and NVML show it.

    migs: its MIG devices as (GPU instance, compute instance, UUID). profiles: the profile of each
    GPU instance, 1g where it is not told. bound: its kernel driver. excluded: withheld from all
    programs by the driver's options. lost: off the bus for the driver, which does not list it any
    more. initialised: whether any program has used it since the boot.
    """

    uuid: str
    minor: int
    bus: str  # as in sysfs: 0000:17:00.0
    name: str = "NVIDIA H100 80GB HBM3"
    pci_id: str = "0x2330"
    mib: int = 81559
    mig: str = "off"  # on, off, or - for a GPU that has no MIG
    migs: tuple[tuple[int, int, str], ...] = ()
    drm: bool = False  # has a card and a render node under /dev/dri
    profiles: Mapping[int, Profile] = field(default_factory=dict)
    # numbers of its card and render node, where they do not follow its minor
    drm_numbers: tuple[int, int] | None = None
    pending: str = ""  # MIG after the next reset, where it differs: on or off
    bound: str = "nvidia"
    excluded: bool = False
    lost: bool = False
    initialised: bool = True
    addressing: int = 0  # NVML's number: none, HMM, ATS
    fabric: Fabric | None = None

    @property
    def listed(self) -> bool:
        """Tell whether the driver has the GPU in /proc."""
        return self.bound == "nvidia" and not self.lost

    @property
    def served(self) -> bool:
        """Tell whether the driver gives the GPU to programs."""
        return self.listed and not self.excluded


@dataclass(frozen=True)
class Inventory:
    """The GPUs of one host and the state of its driver.

    driver: `ok`; `none` is a GPU without a driver; `broken` is a driver whose kernel module is
    older than its libraries (an upgrade without a reboot), which NVML answers with error 18;
    `packaged` is one that the host's own packages bring (packaged.py).
    """

    gpus: tuple[Gpu, ...] = ()
    driver: str = "ok"
    version: str = "550.163.01"
    loaded: str = "550.163.01"
    switches: int = 0  # NVSwitches, whose nodes are there
    channels: int = 0  # IMEX channels, whose nodes are there
    cpu: str = "x86_64"
    open: bool = False  # whether the kernel modules are the open ones
    cuda: int = 12040
    errors: Mapping[str, int] = field(default_factory=dict)  # NVML call, or call@GPU, -> error code
    # NVML call, or call@GPU, -> milliseconds
    delays: Mapping[str, int] = field(default_factory=dict)

    @property
    def installed(self) -> bool:
        """Tell whether the lab itself installs the driver's files."""
        return bool(self.gpus) and self.driver in ("ok", "broken")

    @property
    def served(self) -> tuple[Gpu, ...]:
        """Return the GPUs in NVML's order."""
        return tuple(gpu for gpu in self.gpus if gpu.served)


@dataclass(frozen=True)
class Entry:
    """An entry of a tree: a file's text, or the target of a symbolic link."""

    text: str = ""
    link: str = ""
    mode: int = 0o644


def inventory(name: str, host: Mapping[str, object]) -> Inventory:
    """Return the inventory of a host from its entry in a fleet file.

    "gpus" is a number or a list of objects that override Gpu's fields; "mig" is on, off or -;
    "migs" is a number of GPU instances with one compute instance each, or a list of [GPU instance,
    compute instance]; "recorded" names a node of tests/fixtures/recorded_nodes.yml, whose GPUs the
    host has instead; "nvml" has "errors" and "delays"; "switches" and "channels" are numbers of
    NVSwitches and IMEX channels.
    """
    if "recorded" in host:
        return _recorded(str(host["recorded"]))
    given = host.get("gpus", 0)
    entries = [{}] * given if isinstance(given, int) else list(given)  # type: ignore[call-overload]
    driver = str(host.get("driver", "ok"))
    if driver not in DRIVERS:
        raise ValueError(
            f"Host {name}: driver is {driver!r}, but must be one of {', '.join(DRIVERS)}."
        )
    faults = host.get("nvml") or {}
    assert isinstance(faults, Mapping)
    errors = dict(faults.get("errors", {}))
    if driver == "broken":
        errors.setdefault("nvmlInit", 18)
    gpus = tuple(
        _gpu(name, index, {"mig": host.get("mig", "off"), **entry})
        for index, entry in enumerate(entries)
    )
    loaded = "550.90.07" if driver == "broken" else Inventory.loaded
    fabric = {key: int(str(host.get(key, 0))) for key in ("switches", "channels")}
    return Inventory(
        gpus, driver, loaded=loaded, errors=errors, delays=dict(faults.get("delays", {})), **fabric
    )


def _recorded(node: str) -> Inventory:
    """Return the inventory of a recorded node, on this machine's own kind of CPU."""
    from .. import recorded  # which makes inventories

    known = recorded.nodes()
    if node not in known:
        raise ValueError(f"no node {node!r} is recorded; known are {', '.join(known)}")
    return dataclasses.replace(known[node].inventory, cpu=Inventory.cpu)


def _gpu(host: str, index: int, entry: Mapping[str, object]) -> Gpu:
    """Return the GPU at an index.

    Its UUIDs follow from host and index, so they survive a rebuild of the host and differ between
    hosts.
    """
    own = {
        "uuid": f"GPU-{uuid.uuid5(uuid.NAMESPACE_DNS, f'{host}.gpu{index}')}",
        "minor": index,
        "bus": f"{index // len(BUSES):04x}:{BUSES[index % len(BUSES)]}:00.0",
    }
    own.update({key: value for key, value in entry.items() if key != "migs"})
    pairs = _instances(entry.get("migs", 0))
    migs = tuple(
        (gi, ci, f"MIG-{uuid.uuid5(uuid.NAMESPACE_DNS, f'{host}.gpu{index}.gi{gi}.ci{ci}')}")
        for gi, ci in pairs
    )
    return Gpu(**own, migs=migs)  # type: ignore[arg-type]


def _instances(wanted: object) -> list[tuple[int, int]]:
    if isinstance(wanted, int):
        return [(number + 1, 0) for number in range(wanted)]
    return [(int(gi), int(ci)) for gi, ci in wanted]  # type: ignore[attr-defined]


def tree(inv: Inventory, kernel: str) -> dict[str, Entry]:
    """Return every file of the fake but the compiled libraries, by its path in the host."""
    if inv.driver == "packaged":
        return _packaged(inv, kernel)
    found = dict(_sysfs(inv))
    found[f"{TOP}/proc/devices"] = Entry(_proc_devices(inv))
    if inv.installed:
        found.update(_procfs(inv))
        found.update(_host_files(inv, kernel))
    return found


def _packaged(inv: Inventory, kernel: str) -> dict[str, Entry]:
    """Return what a host without a driver has, and beside it what a loaded module would add, of any
    version.
    """
    of_any = dataclasses.replace(inv, version=packaged.ANY, loaded=packaged.ANY)
    served, bare = (
        tree(dataclasses.replace(of_any, driver=driver), kernel) for driver in ("ok", "none")
    )
    found = dict(bare)
    for path, entry in bare.items():
        found[f"{packaged.BARE}{path.removeprefix(TOP)}"] = entry
    for path, entry in served.items():
        if path.startswith((f"{TOP}/proc/", f"{TOP}/sys/")) and bare.get(path) != entry:
            found[f"{packaged.MODULE}{path.removeprefix(TOP)}"] = entry
    found[packaged.CONF] = served["etc/fake-nvml.conf"]
    found[packaged.NODES] = served[f"{TOP}/start"]
    for path, text, mode in packaged.texts(kernel, "\n".join(MOUNTS)):
        found[path] = Entry(text, mode=mode)
    units = (path for path in served if path.startswith("etc/systemd/"))
    return {**found, **{path: served[path] for path in units}}


def _sysfs(inv: Inventory) -> Iterator[tuple[str, Entry]]:
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


def _proc_devices(inv: Inventory) -> str:
    own = [f"{NVIDIA_MAJOR} {name}" for name in ("nvidia", "nvidia-modeset", "nvidiactl")]
    own += [f"{CAPS_MAJOR} nvidia-caps", f"{UVM_MAJOR} nvidia-uvm"]
    # registered by the driver, whether any of them is there
    own += [f"{CHANNEL_MAJOR} nvidia-caps-imex-channels", f"{SWITCH_MAJOR} nvidia-nvswitch"]
    own += [f"{LINK_MAJOR} nvidia-nvlink"]
    own = own if inv.installed else []
    others = ["Character devices:", "  1 mem", "  5 /dev/tty", " 10 misc", "136 pts"]
    return "\n".join([*others, *own, "", "Block devices:", "  7 loop", "259 blkext", ""])


def _procfs(inv: Inventory) -> Iterator[tuple[str, Entry]]:
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
    for access, minor in _mig_access(inv):
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


def mig_minor(gpu: int, instance: int, compute: int | None) -> int:
    """Return the minor number of a MIG instance, as in the kernel's static table.

    There 1 and 2 are config and monitor. Then each GPU has 15 instances with 8 compute instances
    each.
    """
    return 3 + (gpu * 15 + instance) * 9 + (0 if compute is None else 1 + compute)


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


def _mig_access(inv: Inventory) -> Iterator[tuple[str, int]]:
    """Yield each instance that exists: its name under capabilities, and the minor of its node."""
    for gpu in inv.served:
        for instance, compute, _uuid in gpu.migs:
            yield f"gpu{gpu.minor}/gi{instance}/access", mig_minor(gpu.minor, instance, None)
            yield (
                f"gpu{gpu.minor}/gi{instance}/ci{compute}/access",
                mig_minor(gpu.minor, instance, compute),
            )


def drm_nodes(gpu: Gpu) -> list[tuple[str, int, int]]:
    """Return the DRM nodes of a GPU: path, major, minor."""
    card, render = gpu.drm_numbers or (gpu.minor, 128 + gpu.minor)
    found = [
        (f"/dev/dri/card{card}", DRM_MAJOR, card),
        (f"/dev/dri/renderD{render}", DRM_MAJOR, render),
    ]
    return found if gpu.drm else []


def drm_links(inv: Inventory) -> Iterator[tuple[str, str]]:
    """Yield the links by which udev names the DRM nodes by their place on the bus: path, target."""
    for gpu in inv.served:
        for (path, _major, _minor), kind in zip(drm_nodes(gpu), ("card", "render"), strict=False):
            yield f"/dev/dri/by-path/pci-{gpu.bus}-{kind}", f"../{path.rpartition('/')[2]}"


def _fabric_nodes(inv: Inventory) -> list[tuple[str, int, int]]:
    control = [("/dev/nvidia-nvswitchctl", SWITCH_MAJOR, 255)] if inv.switches else []
    switches = [
        (f"/dev/nvidia-nvswitch{number}", SWITCH_MAJOR, number) for number in range(inv.switches)
    ]
    channels = [
        (f"/dev/nvidia-caps-imex-channels/channel{number}", CHANNEL_MAJOR, number)
        for number in range(inv.channels)
    ]
    return [*control, *switches, *channels]


def nodes(inv: Inventory) -> list[tuple[str, int, int]]:
    """Return the device nodes that a working driver has in /dev: path, major, minor."""
    if not inv.installed:
        return []
    control = [
        ("/dev/nvidiactl", NVIDIA_MAJOR, 255),
        ("/dev/nvidia-modeset", NVIDIA_MAJOR, 254),
        ("/dev/nvidia-uvm", UVM_MAJOR, 0),
        ("/dev/nvidia-uvm-tools", UVM_MAJOR, 1),
    ]
    gpus = [(f"/dev/nvidia{gpu.minor}", NVIDIA_MAJOR, gpu.minor) for gpu in inv.served]
    # the nodes of MIG's configuration and monitor
    capable = (1, 2) if any(gpu.mig != "-" for gpu in inv.served) else ()
    caps = [
        (f"/dev/nvidia-caps/nvidia-cap{minor}", CAPS_MAJOR, minor)
        for minor in (*capable, *(access[1] for access in _mig_access(inv)))
    ]
    return [
        *control,
        *gpus,
        *dict.fromkeys(caps),
        *(node for gpu in inv.served for node in drm_nodes(gpu)),
        *_fabric_nodes(inv),
    ]


def get_node_mode(path: str) -> int:
    """Return the mode that the driver gives a node: of capabilities, what their file in /proc says."""
    folder, _slash, name = path.rpartition("/")
    if folder != "/dev/nvidia-caps":
        return 0o666
    return 0o400 if name == "nvidia-cap1" else 0o444


# NVIDIA's own tools know no other root for these: nvidia-ctk reads majors and MIG minors there. The
# parameters say there that nothing is to be made in containers: a hook of NVIDIA's mounts such a
# file over the one in the container's own /proc, and that has none here.
SHOWN = {"devices": "devices", "driver": "driver", "driver/nvidia/params": "params-in-proc"}
MOUNT = "[ ! -e {source} ] || mountpoint -q {place} || mount --bind {source} {place}"
MOUNTS = tuple(
    MOUNT.format(source=f"/{TOP}/proc/{real}", place=f"/proc/{name}")
    for name, real in SHOWN.items()
)
# Debian 13 and later rebuild the library cache by a unit of systemd's at the first boot, and two
# ldconfig take each other's new file away.
UNIT = """\
[Unit]
Description=Device nodes and library cache of the lab's GPUs
DefaultDependencies=no
After=local-fs.target ldconfig.service
Before=sysinit.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh /opt/fakegpu/start
"""


def _host_files(inv: Inventory, kernel: str) -> Iterator[tuple[str, Entry]]:
    yield "etc/fake-nvml.conf", Entry(nvml_conf(inv))
    yield "usr/bin/nvidia-smi", Entry(NVIDIA_SMI.read_text(), mode=0o755)
    yield from ((path, Entry(text, mode=mode)) for path, text, mode in driver.texts(inv.version))
    yield (
        "usr/bin/nvidia-cuda-mps-control",
        Entry((HERE / "nvidia-cuda-mps-control").read_text(), mode=0o755),
    )
    yield from ((path, Entry(link=target)) for path, target in driver.links(LIBRARIES, inv.version))
    yield f"{LIBRARIES}/{NVML}.so.1", Entry(link=f"{NVML}.so.{inv.version}")
    # What nvidia-cdi-refresh.service looks at to see whether a driver is installed for this kernel.
    yield (
        f"usr/lib/modules/{kernel}/modules.dep",
        Entry("updates/dkms/nvidia.ko:\nupdates/dkms/nvidia-uvm.ko: updates/dkms/nvidia.ko\n"),
    )
    made = [
        f"[ -e {path} ] || mknod -m {get_node_mode(path):o} {path} c {major} {minor}"
        for path, major, minor in nodes(inv)
    ]
    folders = " ".join(
        sorted(
            {path.rpartition("/")[0] for path, _major, _minor in nodes(inv)} | {"/dev/nvidia-caps"}
        )
    )
    yield (
        f"{TOP}/start",
        Entry("\n".join([f"mkdir -p {folders}", *made, *MOUNTS, "/sbin/ldconfig", ""])),
    )
    yield "etc/systemd/system/fakegpu.service", Entry(UNIT)
    yield (
        "etc/systemd/system/sysinit.target.wants/fakegpu.service",
        Entry(link="../fakegpu.service"),
    )


def nvml_conf(inv: Inventory) -> str:
    """Return the file that the fake libnvidia-ml.so.1 answers from (its format: nvml.c)."""
    lines = [f"driver {inv.version}", f"cuda {inv.cuda}"]
    for index, gpu in enumerate(inv.served):
        domain, rest = gpu.bus.split(":", 1)
        lines.append(
            f"gpu {gpu.name}|{gpu.uuid}|{gpu.minor}|{domain:0>8}:{rest.upper()}|{gpu.mib}|{gpu.mig}"
        )
        lines += _nvml_more(index, gpu)
    lines += [f"error {call} {code}" for call, code in sorted(inv.errors.items())]
    lines += [f"delay {call} {milliseconds}" for call, milliseconds in sorted(inv.delays.items())]
    return "\n".join(lines) + "\n"


def _nvml_more(index: int, gpu: Gpu) -> Iterator[str]:
    """Yield the lines about a GPU beside its own."""
    for instance, compute, identity in gpu.migs:
        of = gpu.profiles.get(instance)
        more = f"|{of.name}|{of.number}|{of.slices}|{of.mib}" if of else ""
        yield f"mig {index}|{identity}|{instance}|{compute}{more}"
    if gpu.pending:
        yield f"pending {index} {gpu.pending}"
    if gpu.addressing:
        yield f"addressing {index} {gpu.addressing}"
    if gpu.fabric:
        told = gpu.fabric
        numbers = f"{told.state} {told.status} {told.clique} {told.health}"
        yield f"fabric {index} {numbers} {told.cluster.replace('-', '')}"


def libraries() -> Path:
    """Return the directory with the compiled libraries.

    NVML lies there under its SONAME, the others under their names without any suffix.
    """
    wanted = repr((driver.LIBRARIES, driver.PLATFORMS))
    return cached("fakegpu", "libraries", digest(HERE / "nvml.c", wanted), compile_libraries)


def list_own_programs() -> tuple[Path, ...]:
    """Return the sources of what packages of a driver bring in place of the real programs."""
    return HERE / "nvml.c", NVIDIA_SMI


FLAGS = ("gcc", "-std=gnu11", "-shared", "-fPIC", "-O2", "-fvisibility=hidden", "-s")


def compile_nvml(out: Path, version: str = "") -> None:
    """Compile NVML alone into a directory, under its SONAME.

    version: the only one of a loaded module that it works with; any, if it is not given.
    """
    name = f"{NVML}.so.1"
    own = [f'-DOWN_VERSION="{version}"'] if version else []
    run([*FLAGS, *own, f"-Wl,-soname,{name}", "-o", str(out / name), str(HERE / "nvml.c")])


def compile_libraries(out: Path) -> None:
    """Compile the libraries into a directory."""
    compile_nvml(out)
    suffixes = {
        name: suffix for name, (suffix, _link) in {**driver.LIBRARIES, **driver.PLATFORMS}.items()
    }
    for name, suffix in suffixes.items():
        base = name.rpartition("/")[2]
        # without one, readers take the file's name for it
        named = [f"-Wl,-soname,{base}.so.{suffix}"] if suffix else []
        run([*FLAGS, "-nostdlib", *named, "-x", "c", "/dev/null", "-o", str(out / base)])


@functools.cache
def _library_bytes() -> dict[str, bytes]:
    return {path.name.partition(".so")[0]: path.read_bytes() for path in libraries().iterdir()}


def nvml_bytes() -> bytes:
    """Return the NVML that answers from /etc/fake-nvml.conf, or from the file that FAKE_NVML names."""
    return _library_bytes()[NVML]


def install(root: Path, inv: Inventory) -> None:
    """Put the fake into a host's root directory."""
    for name, entry in tree(inv, os.uname().release).items():
        put(root / name, entry)
    if inv.installed:
        install_libraries(root / LIBRARIES, inv.version)


def install_libraries(folder: Path, version: str) -> None:
    """Write the compiled libraries with versions in their names. Their links are part of the tree."""
    versions = {f"{name}.so.{own}": name for name, (_suffix, own) in driver.PLATFORMS.items()}
    versions.update(
        {f"{name}.so.{version}": name.rpartition("/")[2] for name in (NVML, *driver.LIBRARIES)}
    )
    for path, name in versions.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(_library_bytes()[name])


def put(path: Path, entry: Entry) -> None:
    """Write one entry of a tree."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    if entry.link:
        path.symlink_to(entry.link)
        return
    path.write_text(entry.text)
    path.chmod(entry.mode)
