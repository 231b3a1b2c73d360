# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the GPUs and the driver of one host in the everyday look: procfs, sysfs and /dev alone, so a
sick GPU cannot hang it.
"""

from __future__ import annotations

import collections
import dataclasses as dc
import posixpath
import re
from collections.abc import Iterable, Mapping

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import (
    host_paths,
    queries,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import NeedMore
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Policy,
    SeenGpu,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
    ObservedFile,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections.file_places import (
    WHOLE,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.whole import read_whole
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import (
    messages,
    mismatch,
    outer_host,
    platforms,
)

NVIDIA_VENDOR = "0x10de"
GPU_CLASSES = ("0x0300", "0x0302")  # VGA and 3D controllers; NVSwitches are 0x0680
# asked for on every host; of a GPU that nothing serves, its own link names any other
FOREIGN_DRIVERS = (
    "nouveau",
    "vfio-pci",
)
DEV_GLOBS = (
    "/dev/nvidia*",
    "/dev/nvidia-caps/nvidia-cap*",
    "/dev/nvidia-caps-imex-channels/channel*",
    "/dev/dri/*",
)
# Debian, Ubuntu and SUSE on any CPU; Fedora and RHEL; Debian's own packages, which put an
# alternatives link in between.
LIBRARY_GLOBS = (
    "/usr/lib/*-linux-gnu/libnvidia-ml.so.*",
    "/usr/lib/*-linux-gnu/nvidia/current/libnvidia-ml.so.*",
    "/usr/lib64/libnvidia-ml.so.*",
)
VERSION = re.compile(r"\b\d{1,9}\.\d{1,9}(?:\.\d{1,9})?\b")
LIBRARY_VERSION = re.compile(r"\.so\.(\d{1,9}\.\d{1,9}(?:\.\d{1,9})?)$")
CHANNELS = "/dev/nvidia-caps-imex-channels/channel"
CHANNEL = re.compile(CHANNELS + r"(\d{1,9})")
SWITCH = re.compile(r"/dev/nvidia-nvswitch(?:ctl|\d{1,9})")
OF_GPU = re.compile(r"/gpu([0-9]{1,9})/mig/")
BUS_ID = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_BUS_SIGNS = re.compile("[:.]")


@dc.dataclass(frozen=True)
class DeviceFile:
    """A device node under /dev.

    host: its path on the host, if that is another one (a driver container's /dev).
    """

    path: str
    rdev: tuple[int, int] | None
    mode: int
    host: str = ""
    gid: int = 0


@dc.dataclass(frozen=True)
class GpuPaths:
    """The files in which this policy's procfs and sysfs describe GPUs."""

    proc_version: str
    information: str
    params: str
    devices: str
    mig: tuple[str, str]
    mig_minors: str
    drm: str
    module_version: str
    pci_vendor: str
    pci_class: str
    drivers: str
    tegra_family: str


def get_gpu_paths(policy: Policy) -> GpuPaths:
    proc, sys = policy.proc_root.rstrip("/"), policy.sys_root.rstrip("/")
    instances = f"{proc}/driver/nvidia/capabilities/gpu*/mig/gi*"
    return GpuPaths(
        proc_version=f"{proc}/driver/nvidia/version",
        information=f"{proc}/driver/nvidia/gpus/*/information",
        params=f"{proc}/driver/nvidia/params",
        devices=f"{proc}/devices",
        mig=(f"{instances}/access", f"{instances}/ci*/access"),
        mig_minors=f"{proc}/driver/nvidia-caps/mig-minors",
        drm=f"{sys}/bus/pci/devices/*/drm/*",
        module_version=f"{sys}/module/nvidia/version",
        pci_vendor=f"{sys}/bus/pci/devices/*/vendor",
        pci_class=f"{sys}/bus/pci/devices/*/class",
        drivers=f"{sys}/bus/pci/drivers",
        tegra_family=f"{sys}/devices/soc0/family",
    )


def list_questions(policy: Policy) -> list[queries.Question]:
    """List all that the driver's facts and the CDI generator read, in one look."""
    p = get_gpu_paths(policy)
    return [
        queries.ask_for_file(p.proc_version, keep=WHOLE),
        queries.ask_for_glob(p.information, keep=WHOLE),
        queries.ask_for_file(p.params, keep=WHOLE),
        queries.ask_for_file(p.devices, keep=WHOLE),
        *(queries.ask_for_glob(pattern, max=1 << 10, keep=WHOLE) for pattern in p.mig),
        queries.ask_for_glob(p.drm, content=False),
        queries.ask_for_file(p.module_version, keep=WHOLE),
        *platforms.list_platform_questions(p.tegra_family),
        queries.ask_for_glob(p.pci_vendor, max=64, keep=WHOLE),
        queries.ask_for_glob(p.pci_class, max=64, keep=WHOLE),
        *(queries.ask_for_directory(f"{p.drivers}/{name}") for name in FOREIGN_DRIVERS),
        *(
            queries.ask_for_glob(pattern, content=False)
            for pattern in list_dev_globs(get_dev_root(policy))
        ),
        *(
            queries.ask_for_glob(pattern, content=False)
            for pattern in list_library_globs(policy.cdi_driver_root)
        ),
        *mismatch.list_mismatch_questions(),
        *outer_host.list_outer_host_questions(policy),
    ]


def get_driver_root_path(root: str, path: str) -> str:
    """Return a path of the driver's own tree as the host sees it. Driver containers have that tree
    in /run/nvidia/driver, for example.
    """
    return root.rstrip("/") + path


def get_dev_root(policy: Policy) -> str:
    """Return the root of /dev. A driver container has its own /dev unless the policy sets another
    one.
    """
    return policy.cdi_dev_root or policy.cdi_driver_root


def list_dev_globs(dev_root: str) -> tuple[str, ...]:
    return tuple(get_driver_root_path(dev_root, pattern) for pattern in DEV_GLOBS)


def list_library_globs(driver_root: str) -> tuple[str, ...]:
    return tuple(get_driver_root_path(driver_root, pattern) for pattern in LIBRARY_GLOBS)


def list_pci_gpus(obs: Observation, p: GpuPaths) -> list[str]:
    """List the bus ids of all NVIDIA GPUs, with or without a driver."""
    vendors = {
        host_paths.get_folder_name(f.path)
        for f in obs.list_glob_files(p.pci_vendor)
        if read_proc_text(f).lower() == NVIDIA_VENDOR
    }
    classes = {
        host_paths.get_folder_name(f.path)
        for f in obs.list_glob_files(p.pci_class)
        if read_proc_text(f).lower().startswith(GPU_CLASSES)
    }
    return sorted(filter(BUS_ID.fullmatch, vendors & classes), key=get_bus_position)


def get_bus_position(bus: str) -> tuple[int, ...]:
    """Return the place of a PCI address on the bus, for sorting. A domain may have five digits."""
    return tuple(int(part, 16) for part in _BUS_SIGNS.split(bus))


def shorten_bus_id(bus: str) -> str:
    """Return a PCI address with its domain as sysfs writes it.

    NVML gives the domain eight digits, sysfs at least four.
    """
    domain, _colon, rest = bus.lower().partition(":")
    return f"{domain.lstrip('0'):0>4}:{rest}"


def is_pci_shown(obs: Observation, p: GpuPaths) -> bool:
    """Tell whether any PCI device is shown, of any vendor."""
    return bool(obs.list_glob_files(p.pci_vendor))


def map_gpus_held_by_others(obs: Observation, p: GpuPaths) -> dict[str, str]:
    """Return bus id -> the other kernel driver that has the device."""
    entries = (
        (str(entry["name"]), name)
        for name in FOREIGN_DRIVERS
        for entry in obs.list_directory(f"{p.drivers}/{name}")
    )
    held = {bus: name for bus, name in entries if BUS_ID.fullmatch(bus)}
    listed = {
        host_paths.get_folder_name(f.path).lower() for f in obs.list_glob_files(p.information)
    }
    return {
        **held,
        **map_bound_drivers(
            obs, p, [bus for bus in list_pci_gpus(obs, p) if bus not in held and bus not in listed]
        ),
    }


def map_bound_drivers(obs: Observation, p: GpuPaths, buses: list[str]) -> dict[str, str]:
    """Return bus id -> kernel driver, for each of these devices whose own link shows another driver
    than NVIDIA's.
    """
    links = {
        bus: queries.ask_for_file(f"{p.pci_vendor.partition('*')[0]}{bus}/driver", content=False)
        for bus in buses
    }
    unasked = [question for question in links.values() if not obs.was_asked(question)]
    if unasked:
        raise NeedMore(unasked)
    names = {
        bus: posixpath.basename(str(obs.get_answer(question).get("real") or ""))
        for bus, question in links.items()
    }
    return {bus: name for bus, name in names.items() if name not in ("", "driver", "nvidia")}


def list_usable_gpus(obs: Observation, p: GpuPaths) -> list[str]:
    """Return the bus ids of the NVIDIA GPUs that no other kernel driver has."""
    held = map_gpus_held_by_others(obs, p)
    return [bus for bus in list_pci_gpus(obs, p) if bus not in held]


def is_module_loaded(obs: Observation, p: GpuPaths) -> bool:
    return obs.get_file(p.proc_version).exists or obs.get_file(p.module_version).exists


def read_module_version(obs: Observation, p: GpuPaths) -> tuple[str, str]:
    """Return the version of the loaded kernel module, and the file that shows it. The version is ''
    if no file does.
    """
    for path in (p.module_version, p.proc_version):
        first = read_proc_text(obs.get_file(path)).split("\n")[0]
        match = VERSION.search(first)
        if match:
            return match.group(), path
    return "", p.proc_version


def read_gpus(obs: Observation, p: GpuPaths) -> tuple[tuple[SeenGpu, ...], Message | None]:
    """Return the GPUs in NVML's order, which is that of the bus, and a complaint about the first
    file that is not whole.
    """
    reported: list[tuple[str, int, str, str]] = []
    complaint: Message | None = None
    for f in obs.list_glob_files(p.information):
        facts = parse_driver_fields(read_proc_text(f))
        if facts.get("GPU Excluded", "No").lower() == "yes":
            continue  # NVreg_ExcludedGpus: the driver keeps it away from NVML, so it has no index
        bus, minor = facts.get("Bus Location", "").lower(), read_whole(facts.get("Device Minor"))
        if not BUS_ID.fullmatch(bus) or minor is None:
            lacking = "Device Minor" if BUS_ID.fullmatch(bus) else "Bus Location"
            complaint = complaint or messages.FILE_CUT_SHORT.fill(path=f.path, field=repr(lacking))
            continue
        reported.append(
            (bus, minor, get_known_uuid(facts.get("GPU UUID", "")), facts.get("Model", ""))
        )
    gpus = (
        SeenGpu(index, minor, bus, uuid, model)
        for index, (bus, minor, uuid, model) in enumerate(
            sorted(reported, key=lambda gpu: get_bus_position(gpu[0]))
        )
    )
    return tuple(gpus), complaint


def list_excluded_gpus(obs: Observation, p: GpuPaths) -> set[str]:
    """Return the bus ids of the GPUs that the driver withholds from all programs by its options
    (NVreg_ExcludedGpus).
    """
    every = (parse_driver_fields(read_proc_text(f)) for f in obs.list_glob_files(p.information))
    return {
        facts.get("Bus Location", "").lower()
        for facts in every
        if facts.get("GPU Excluded", "No").lower() == "yes"
    }


def get_known_uuid(uuid: str) -> str:
    """Return the UUID. '' if it is unknown: the driver writes question marks until the GPU has been
    initialised for the first time.
    """
    return uuid if uuid.startswith("GPU-") and "?" not in uuid else ""


def parse_driver_fields(content: str) -> dict[str, str]:
    """Parse lines `key: value` as the driver writes them, with tabs between."""
    pairs = (line.split(":", 1) for line in content.splitlines() if ":" in line)
    return {key.strip(): value.strip() for key, value in pairs}


def map_library_versions(obs: Observation, driver_root: str) -> dict[str, str]:
    """Return library file -> version for the libraries that the loader would take.

    These are the targets of `.so.1`, otherwise all that carry a version.
    """
    files = [
        f
        for pattern in list_library_globs(driver_root)
        for f in obs.list_present_files(pattern)
        if f.exists and f.type != "link"
    ]
    linked = {
        f.real: parse_library_version(f.real)
        for f in files
        if f.path.endswith(".so.1") and parse_library_version(f.real)
    }
    return linked or {
        f.path: parse_library_version(f.path) for f in files if parse_library_version(f.path)
    }


def parse_library_version(path: str) -> str:
    match = LIBRARY_VERSION.search(path)
    return match.group(1) if match else ""


def map_device_files(obs: Observation, dev_root: str = "/") -> dict[str, DeviceFile]:
    """Return path in a container -> device node, for the driver's character devices."""
    files = (
        f
        for pattern in list_dev_globs(dev_root)
        for f in obs.list_present_files(pattern)
        if f.exists and f.type == "char"
    )
    inside = ((f.path.removeprefix(dev_root.rstrip("/")), f) for f in files)
    return {
        path: DeviceFile(path, f.rdev, f.mode, "" if f.path == path else f.path, f.gid)
        for path, f in inside
    }


def list_channel_nodes(nodes: Iterable[str]) -> tuple[str, ...]:
    """Return the nodes of IMEX channels among these, sorted by number."""
    channel_nodes = ((CHANNEL.fullmatch(path), path) for path in nodes)
    return tuple(
        path
        for _number, path in sorted((int(match[1]), path) for match, path in channel_nodes if match)
    )


def list_switch_nodes(nodes: Iterable[str]) -> tuple[str, ...]:
    """Return the nodes of NVSwitches among these."""
    return tuple(sorted(path for path in nodes if SWITCH.fullmatch(path)))


def map_device_majors(policy: Policy, obs: Observation) -> dict[str, int]:
    """Return name -> major of the character devices that the kernel knows now. Only 195 is fixed,
    the others may change at every boot.
    """
    lines = (
        line.split()
        for line in read_proc_text(obs.get_file(get_gpu_paths(policy).devices))
        .split("Block devices:")[0]
        .splitlines()
    )
    return {
        words[1]: major
        for words in lines
        if len(words) == 2 and (major := read_whole(words[0])) is not None
    }


def list_mig_files(policy: Policy, obs: Observation) -> tuple[ObservedFile, ...]:
    """Return the driver's capability files for the MIG instances that exist: GPU instances, and
    compute instances within them.
    """
    return tuple(f for pattern in get_gpu_paths(policy).mig for f in obs.list_glob_files(pattern))


def list_mig_instance_paths(policy: Policy, obs: Observation) -> tuple[str, ...]:
    """Return the paths of the capability files."""
    return tuple(f.path for f in list_mig_files(policy, obs))


def count_mig_devices(policy: Policy, obs: Observation) -> Mapping[int, int]:
    """Count the MIG devices of each GPU, by minor.

    A MIG device is a compute instance. The driver's capability files count GPUs by minor.
    """
    minors = (OF_GPU.search(path) for path in list_mig_instance_paths(policy, obs) if "/ci" in path)
    return collections.Counter(int(minor[1]) for minor in minors if minor)


def read_proc_text(f: ObservedFile) -> str:
    return f.text.strip()
