# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A CDI spec from what the look at a host found: the GPUs, their nodes and the nodes that all of them share.

Libraries, firmware, configuration files and hooks are to join here: a profile adds its edits to `common()` and `of_gpu()`.
"""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Iterable, Mapping
from typing import Literal

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils.cdi import version
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils.cdi.model import KIND, Device, DeviceNode, Edits, Spec
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils.gpu import Node
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils.model import Gpu

# The one major that NVIDIA has for itself (GPUs, nvidiactl, nvidia-modeset). Those of nvidia-uvm and nvidia-caps are handed out by the
# kernel at run time: a recorded one goes stale at a reboot and then wins over the live node (nvidia-container-toolkit issue 1934).
STATIC_MAJOR = 195
REQUIRED = ("/dev/nvidiactl", "/dev/nvidia-uvm")
OPTIONAL = ("/dev/nvidia-modeset", "/dev/nvidia-uvm-tools")
# Stops the NVIDIA runtime and hook from injecting a second time into a container that got its GPUs by CDI.
VOID = "NVIDIA_VISIBLE_DEVICES=void"
ALL = "all"
DIGIT_NAMES = "0.5.0"


@dc.dataclass(frozen=True)
class Options:
    kind: str = KIND
    cap: str = ""  # of the oldest consumer; '' is unknown
    node_attributes: Literal["none", "static"] = "static"
    assume_nodes: bool = False  # an offline tree has no /dev: the nodes are named all the same


@dc.dataclass(frozen=True)
class Generated:
    """The spec, what was expected on the host and is not there, and what a person should know."""

    spec: Spec
    missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def generate(gpus: Iterable[Gpu], nodes: Mapping[str, Node], options: Options) -> Generated:
    """Pure and deterministic: equal hosts, equal specs. Without any GPU there is no valid spec, so callers ask first."""
    gpus = tuple(gpus)
    wanted = (*REQUIRED, *(node_path(g) for g in gpus))
    missing = () if options.assume_nodes else tuple(path for path in wanted if path not in nodes)
    per_gpu = {g: of_gpu(g, nodes, options) for g in gpus}
    digits = version.key(options.cap or version.UNKNOWN_CAP) >= version.key(DIGIT_NAMES)
    devices = [Device(name, per_gpu[g]) for g in gpus for name in names(g, digits=digits)]
    everything = Edits(device_nodes=tuple(n for g in gpus for n in per_gpu[g].device_nodes))
    spec = Spec("", (*sorted(devices, key=order), Device(ALL, everything)), options.kind, common(nodes, options))
    return Generated(dc.replace(spec, version=version.minimum(spec)), missing, notes(gpus, nodes, options, digits=digits))


def common(nodes: Mapping[str, Node], options: Options) -> Edits:
    """What every container with a GPU gets, whichever GPU."""
    there = [path for path in (*REQUIRED, *OPTIONAL) if path in nodes or options.assume_nodes]
    return Edits(env=(VOID,), device_nodes=tuple(device_node(path, nodes, options) for path in sorted(there)))


def of_gpu(gpu: Gpu, nodes: Mapping[str, Node], options: Options) -> Edits:
    return Edits(device_nodes=(device_node(node_path(gpu), nodes, options),))


def node_path(gpu: Gpu) -> str:
    """By minor, never by index: NVML counts along the bus, the driver as it probes."""
    return f"/dev/nvidia{gpu.minor}"


def names(gpu: Gpu, *, digits: bool) -> list[str]:
    """Index and UUID, as upstream by default. A library below 0.5.0 drops a file with a name that begins with a digit, so `gpu0` there."""
    return [str(gpu.index) if digits else f"gpu{gpu.index}", *([gpu.uuid] if gpu.uuid else [])]


def order(device: Device) -> tuple[bool, int, str]:
    """Indices as numbers, then UUIDs; `all` is put last by generate()."""
    number = device.name.removeprefix("gpu")
    return not number.isdigit(), int(number) if number.isdigit() else 0, device.name


def device_node(path: str, nodes: Mapping[str, Node], options: Options) -> DeviceNode:
    """Numbers are recorded only where they cannot change; all else is read from the live node when a container starts."""
    rdev = nodes[path].rdev if path in nodes else None
    if options.node_attributes == "none" or rdev is None or rdev[0] != STATIC_MAJOR:
        return DeviceNode(path)
    return DeviceNode(path, major=rdev[0], minor=rdev[1])


def notes(gpus: Iterable[Gpu], nodes: Mapping[str, Node], options: Options, *, digits: bool) -> tuple[str, ...]:
    found = [f"{path} is not there; containers do without it" for path in OPTIONAL if path not in nodes and not options.assume_nodes]
    nameless = [str(g.index) for g in gpus if not g.uuid]
    if nameless:
        found.append(f"UUID of GPU {', '.join(nameless)} is not known: no device of that name in the CDI spec")
    if not digits:
        found.append(f"The oldest consumer accepts CDI {options.cap}, so the devices are called gpu0 and so on instead of 0 and so on")
    return tuple(found)
