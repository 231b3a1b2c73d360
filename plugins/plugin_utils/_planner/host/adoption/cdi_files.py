# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge whether a spec, under any name, has exactly what `nvidia-ctk cdi generate` writes.

Everything in such a spec comes from the driver or the toolkit: device nodes of NVIDIA's, files that
the driver brings, hooks of the toolkit's own program, two variables (nvidia-container-toolkit,
pkg/nvcdi). Anything else was written by a person, who counts on it. Paths in containers are those
of the host, or of the driver's root. Since 1.19 the tool records for a node what the host's node
has, and its group, never a user.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.driver_files import (
    catalogue,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.spec import (
    stand_ins,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.spec.model import (
    VOID_MOUNT,
    DeviceNode,
    Edits,
    Hook,
    Mount,
    Spec,
)

TOOL = "nvidia-ctk"
REFRESH = "nvidia-cdi-refresh"
PROGRAMS = ("nvidia-cdi-hook", "nvidia-ctk")
STAGES = ("createContainer", "createRuntime")
# of its own program; there are more of them with each release
COMMAND = re.compile(r"[a-z]+(?:-[a-z]+)*")
# The flags that each command is written with (internal/discover/hooks.go); those of other commands
# are unknown.
FLAGS: Mapping[str, frozenset[str]] = {
    "create-symlinks": frozenset(("--link",)),
    "chmod": frozenset(("--mode", "--path")),
    "update-ldcache": frozenset(("--ldconfig-path", "--folder")),
    "enable-cuda-compat": frozenset(
        ("--host-driver-version", "--host-cuda-version", "--cuda-compat-container-root")
    ),
    "disable-device-node-modification": frozenset(),
    "update-application-profile": frozenset(),
    "apply-cuda-memory-limits": frozenset(("--driver-root", "--gpu-id")),
}
ENV = re.compile(r"NVIDIA_VISIBLE_DEVICES=void|NVIDIA_CTK_LIBCUDA_DIR=/\S*")
HOOK_ENV = re.compile(r"NVIDIA_CTK_DEBUG=(?:true|false)")
# Of a GPU's DRM nodes the tool takes all that the kernel lists, and older kernels list controlD
# (internal/info/drm).
NODE = re.compile(
    r"/dev/(?:nvidia[\w-]*|nvidia-caps(?:-imex-channels)?/[\w-]+|dri/(?:card|renderD|controlD)\d+|dxg)"
)
GPU_NODE = re.compile(r"/dev/nvidia\d+|/dev/nvidia-caps/nvidia-cap\d+|/dev/dxg")
# The last two are InfiniBand's, which libnvsdm of a management spec loads (pkg/nvcdi/management.go,
# from 1.20.2 on).
LIBRARY = re.compile(
    r"(?:libcuda\w*|libnv[\w-]+|lib\w+_nvidia|nvidia_drv)\.so(?:\.\d+)*|libibumad\.so\.3|libibmad\.so\.5"
)
SHARED = re.compile(r"lib.+\.so(?:\..*)?")
BY_PATH = "/dev/dri/by-path/"
FOLDERS = (
    "/usr/share/nvidia/",
    "/lib/firmware/nvidia/",
    "/usr/lib/firmware/nvidia/",
    "/usr/lib/wsl/",
)
OPTIONS = frozenset(("ro", "nosuid", "nodev", "noexec", "bind", "rbind", "private", "rprivate"))
USUAL_NAME = re.compile(r"\d+(?::\d+)?|(?:GPU|MIG)-.+|all")
TYPE_INDEX = re.compile(r"(?:gpu|mig)\d+(?::\d+)?")


def list_unexplained_spec_parts(spec: Spec) -> tuple[str, ...]:
    """List what in a spec the tool never writes, as a person finds it."""
    every = (spec.edits, *(d.edits for d in spec.devices))
    groups = {node.gid for edits in every for node in edits.device_nodes}
    places = _places(every)
    parts = [
        word
        for edits in every
        for word in (
            *_list_strange_edits(edits),
            *_list_strange_groups(edits, groups),
            *_list_strange_arguments(edits, places),
        )
    ]
    notes = [
        key
        for annotations in (spec.annotations, *(d.annotations for d in spec.devices))
        for key in annotations
        if "nvidia.com" not in key
    ]
    return tuple(
        dict.fromkeys(
            stand_ins.describe_without_tags(word)
            for word in (*parts, *(f"the annotation {key}" for key in notes))
        )
    )


def _list_strange_edits(edits: Edits) -> Iterator[str]:
    yield from (
        f"the variable {entry.partition('=')[0]}" for entry in edits.env if not ENV.fullmatch(entry)
    )
    yield from (
        f"{_name_strange_attribute(n)}the device node {n.path}"
        for n in edits.device_nodes
        if _name_strange_attribute(n) or not NODE.fullmatch(n.path)
    )
    yield from (f"the mount of {m.host_path}" for m in edits.mounts if not is_driver_mount(m))
    yield from (f"the hook {hook.path}" for hook in edits.hooks if not is_toolkit_hook(hook))
    yield from (f"the network device {n.name}" for n in edits.net_devices)
    if edits.rdt is not None:
        yield "intelRdt"


def _name_strange_attribute(node: DeviceNode) -> str:
    """Name the attribute of a node that is not as the tool writes it. '' if all are."""
    strange = {
        "uid": node.uid is not None,
        "type": node.type not in ("", "c"),
        "permissions": node.permissions not in ("", "rwm"),
        "hostPath": not _is_below_a_root(node.host_path, node.path),
    }
    return next((f"the {key} of " for key, is_so in strange.items() if is_so), "")


def _is_below_a_root(host: str, place: str) -> bool:
    return not host or posixpath.normpath(host).endswith(posixpath.normpath(place))


def _list_strange_groups(edits: Edits, groups: set[int | None]) -> Iterator[str]:
    """Yield the groups that the tool did not add. It adds only those of nodes of the same spec."""
    yield from (f"the group {gid}" for gid in edits.additional_gids if gid not in groups)


def is_toolkit_hook(hook: Hook) -> bool:
    words = hook.args[1:]
    command = words[1] if words[:1] == ("hook",) and len(words) > 1 else words[0] if words else ""
    known = (
        hook.name in STAGES
        and posixpath.basename(hook.path) in PROGRAMS
        and bool(COMMAND.fullmatch(command))
    )
    return known and hook.timeout is None and all(HOOK_ENV.fullmatch(entry) for entry in hook.env)


def _list_strange_arguments(edits: Edits, places: Mapping[str, frozenset[str]]) -> Iterator[str]:
    """Yield arguments of the tool's own hooks that it would not write for this spec.

    Each argument that the tool writes is of something in the spec.
    """
    for hook in filter(is_toolkit_hook, edits.hooks):
        command, *words = hook.args[2:] if hook.args[1:2] == ("hook",) else hook.args[1:]
        for flag, value in _split_flags(words) if command in FLAGS else ():
            if flag not in FLAGS[command] or not _is_of_spec(flag, value, places):
                yield f"{' '.join(filter(None, (flag, value)))} of the hook {command}"


def _split_flags(words: list[str]) -> Iterator[tuple[str, str]]:
    """Yield flags with their values, in the two forms of the tool's command line."""
    left = list(words)
    while left:
        flag, equals, value = left.pop(0).partition("=")
        yield flag, value if equals or not left or not flag.startswith("--") else left.pop(0)


def _is_of_spec(flag: str, value: str, places: Mapping[str, frozenset[str]]) -> bool:
    if flag == "--link":
        target, _mark, link = value.partition("::")
        names = [posixpath.basename(target), posixpath.basename(link)]
        return link.startswith(BY_PATH) or any(
            LIBRARY.fullmatch(name) or name in catalogue.BINARIES for name in names
        )
    return flag not in places or value in places[flag]


def _places(every: tuple[Edits, ...]) -> Mapping[str, frozenset[str]]:
    """Return the values that flags can have.

    These are folders of libraries (internal/discover/ldconfig.go) and of device nodes.
    """
    mounts = [mount for edits in every for mount in edits.mounts]
    libraries = [
        path
        for m in mounts
        for path in (m.host_path, m.container_path)
        if SHARED.fullmatch(posixpath.basename(path))
    ]
    nodes = [node.path for edits in every for node in edits.device_nodes]
    return {
        "--folder": frozenset(map(posixpath.dirname, libraries)),
        "--path": frozenset(map(posixpath.dirname, nodes)),
        "--mode": frozenset(("755",)),
    }


def is_driver_mount(mount: Mount) -> bool:
    """Tell whether a mount is a file of the driver, read-only.

    It is in its place on the host or below another root, or in the folder that loaders look in.
    """
    if mount == VOID_MOUNT:
        return True
    place, name = mount.container_path, posixpath.basename(mount.container_path)
    if name != posixpath.basename(mount.host_path):
        return False
    if place.endswith(catalogue.SOCKETS) or place.startswith(catalogue.MPS):
        return True
    same = (LIBRARY.fullmatch(name) or name in catalogue.BINARIES) and _is_below_a_root(
        mount.host_path, place
    )
    driver = same or place.endswith(tuple(catalogue.CONFIGS)) or place.startswith(FOLDERS)
    return bool(driver) and "ro" in mount.options and set(mount.options) <= OPTIONS


def list_lost_device_names(found: Spec, own: Spec) -> tuple[str, ...]:
    """List the names of devices that containers could not ask for any more.

    They belong to GPUs with other names in the new spec, or to no GPU.
    """
    given = {d.name for d in own.devices}
    here = {n.path for d in own.devices for n in d.edits.device_nodes}
    nodes = {
        d.name: _list_gpu_nodes(d.edits.device_nodes) for d in found.devices if d.name not in given
    }
    return tuple(name for name, of_gpus in nodes.items() if of_gpus & here or not of_gpus)


def list_chosen_names(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names that a person has chosen. Each generator writes an index and a UUID, as far
    as consumers and NVML allow it.
    """
    return tuple(name for name in names if not USUAL_NAME.fullmatch(name))


def _list_gpu_nodes(nodes: tuple[DeviceNode, ...]) -> set[str]:
    return {n.path for n in nodes if GPU_NODE.fullmatch(n.path)}


def suggest_rename_step(names: tuple[str, ...]) -> str:
    if all(TYPE_INDEX.fullmatch(name) for name in names):
        return "add type-index to gpufleet_cdi_device_names, so that these names stay"
    return f"remove the file once no container asks for {', '.join(names)}"


STEPS: Mapping[bool, str] = {
    True: "move your own settings to a spec of another kind, and move the file out of the CDI directories",
    False: "remove the file, or keep it outside the CDI directories",
}
