# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build a CDI spec from the hardware of a host.

The spec has what each device gives a container, and what every container with a GPU gets. Building
is pure and deterministic: equal hardware gives an equal spec, for any order in which it was seen.
Files and hooks of the driver come in as edits.
"""

from __future__ import annotations

import dataclasses as dc
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Literal

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.devices import (
    inventory,
    names,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.devices.inventory import (
    Hardware,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.driver_files import (
    roots,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.generate import (
    closed_nodes,
    layouts,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.spec import (
    messages,
    version,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.spec.model import (
    KIND,
    VOID_MOUNT,
    Device,
    DeviceNode,
    Edits,
    Spec,
    combine,
)

# The one major that NVIDIA has for itself (GPUs, nvidiactl, nvidia-modeset). Those of nvidia-uvm
# and nvidia-caps are handed out by the kernel at run time: a recorded one goes stale at a reboot
# and then wins over the live node (nvidia-container-toolkit issue 1934).
STATIC_MAJOR = 195
GPU_NODE = re.compile(r"/dev/nvidia(\d{1,9})")
# Path -> major, or the name whose major the kernel reports, and minor.
FIXED: Mapping[str, tuple[int | str, int]] = {
    "/dev/nvidiactl": (STATIC_MAJOR, 255),
    "/dev/nvidia-modeset": (STATIC_MAJOR, 254),
    "/dev/nvidia-uvm": ("nvidia-uvm", 0),
    "/dev/nvidia-uvm-tools": ("nvidia-uvm", 1),
}
# Stops the NVIDIA runtime and hook from injecting a second time into a container that got its GPUs
# by CDI.
VOID = "NVIDIA_VISIBLE_DEVICES=void"
ALL = names.ALL
# Driver capabilities in the words of NVIDIA_DRIVER_CAPABILITIES. DRM nodes are of use only for
# drawing.
FEATURES = frozenset(("compute", "utility", "video", "graphics", "display", "ngx"))
DRAWING = frozenset(("graphics", "display"))

Attributes = Literal["none", "static", "all"]


@dc.dataclass(frozen=True)
class Options:
    kind: str = KIND
    cap: str = ""  # of the oldest consumer; '' is unknown
    node_attributes: Attributes = "static"
    # for a tree without nodes of the driver: name the nodes that the driver would make
    assume_nodes: bool = False
    features: frozenset[str] = FEATURES
    layout: str = layouts.WORKLOADS
    names: tuple[str, ...] = names.DEFAULT
    group_ids: bool = False
    above_cap: Literal["drop", "refuse"] = "drop"
    void_mount: bool = True  # whether the host's NVIDIA runtime takes it for "no devices"


@dc.dataclass(frozen=True)
class Generated:
    """A spec, the nodes that were expected on the host and are missing, and notes for people."""

    spec: Spec
    missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


NOTHING = Edits()


def build_no_files(_drm: tuple[str, ...]) -> Edits:
    return NOTHING


def generate(
    seen: Hardware,
    options: Options,
    files: Edits = NOTHING,
    files_of: Callable[[tuple[str, ...]], Edits] = build_no_files,
) -> Generated:
    """Build the spec of one kind.

    A spec without a device is invalid, so callers check whether it has some. files: what every
    container gets of the driver. files_of: what the DRM nodes of one device take next to them.
    """
    layout = layouts.LAYOUTS[options.layout]
    files_of = files_of if layout.driver else build_no_files
    offers = layout.offers(seen, names.list_allowed_strategies(options.names, options.cap))
    edits = {
        offer: combine(build_device_edits(seen, offer.paths, options, files_of), offer.more)
        for offer in offers
    }
    devices = [Device(name, edits[offer]) for offer in offers for name in offer.names]
    if layout.everything:
        devices.append(
            Device(
                ALL,
                combine(
                    *edits.values(),
                    build_node_edits(seen, layout.everything(seen, offers), options),
                ),
            )
        )
    void = Edits(env=(VOID,), mounts=(VOID_MOUNT,) if options.void_mount else ())
    shared = combine(
        files if layout.driver else NOTHING,
        void,
        build_node_edits(seen, layout.shared(seen), options),
    )
    # a device without edits makes a whole file invalid
    named = [d for d in devices if d.edits != NOTHING]
    spec = finish_spec(
        Spec("", tuple(sorted(named, key=names.sort_device_names)), options.kind, shared)
    )
    fitting, dropped = fit_generated_spec(spec, options)
    assumed = (messages.NODES_ASSUMED.fill(),) if options.assume_nodes and layout.driver else ()
    return Generated(
        fitting,
        list_missing_nodes(seen, options),
        (*list_generation_notes(seen, options), *dropped, *assumed),
    )


def finish_spec(spec: Spec) -> Spec:
    """Return the spec in its final form, with the lowest version that it needs.

    Edits that the common part already gives are not repeated, unless a device would have nothing
    left. Nodes and mounts are in order.
    """
    shared = spec.edits
    lean = [dc.replace(d, edits=tidy(subtract_edits(d.edits, shared))) for d in spec.devices]
    full = dc.replace(spec, edits=tidy(shared), devices=tuple(lean))
    return dc.replace(full, version=version.get_minimum_version(full))


def subtract_edits(edits: Edits, shared: Edits) -> Edits:
    def rest(field: str) -> tuple[object, ...]:
        return tuple(
            entry for entry in getattr(edits, field) if entry not in getattr(shared, field)
        )

    fields = ("env", "device_nodes", "hooks", "mounts")
    left = {field: rest(field) for field in fields}
    return dc.replace(edits, **left) if any(left.values()) else edits  # type: ignore[arg-type]


def tidy(edits: Edits) -> Edits:
    """Sort nodes and mounts by depth, then by path, as upstream writes them."""
    nodes = sorted(edits.device_nodes, key=lambda n: (n.path.count("/"), n.path, n.host_path))
    mounts = sorted(
        edits.mounts, key=lambda m: (m.container_path.count("/"), m.container_path, m.host_path)
    )
    return dc.replace(edits, device_nodes=tuple(nodes), mounts=tuple(mounts))


# ---------------------------------------------------------------- nodes


def build_device_edits(
    seen: Hardware,
    paths: tuple[str, ...],
    options: Options,
    files_of: Callable[[tuple[str, ...]], Edits],
) -> Edits:
    drm = tuple(path for path in paths if path.startswith("/dev/dri/"))
    if not options.features & DRAWING:
        return build_node_edits(seen, (path for path in paths if path not in drm), options)
    return combine(build_node_edits(seen, paths, options), files_of(drm))


def build_node_edits(seen: Hardware, paths: Iterable[str], options: Options) -> Edits:
    nodes = tuple(
        build_device_node(path, seen, options)
        for path in paths
        if is_usable_node(path, seen, options)
    )
    gids = (
        {gid for node in nodes for gid in get_node_group(seen, node.path)}
        if options.group_ids
        else set()
    )
    return Edits(device_nodes=nodes, additional_gids=tuple(sorted(gids)))


def is_usable_node(path: str, seen: Hardware, options: Options) -> bool:
    """Tell whether the spec may name a node.

    An engine that does not find a node starts no container, unless the spec has its type and
    numbers.
    """
    recordable = (
        options.node_attributes == "all" and get_expected_numbers(path, seen)[0] is not None
    )
    return path in seen.nodes or options.assume_nodes or recordable


def get_node_group(seen: Hardware, path: str) -> tuple[int, ...]:
    """Return the group that a process needs to open a node, () if it needs none.

    It is the group of a node that not everyone may read and write: video or render, usually.
    """
    node = seen.nodes.get(path)
    return () if node is None or node.gid == 0 or node.mode & 0o006 == 0o006 else (node.gid,)


def build_device_node(path: str, seen: Hardware, options: Options) -> DeviceNode:
    """Build a device node.

    With `static`, numbers are recorded only if they cannot change. All else is read from the live
    node when a container starts.
    """
    live = seen.nodes.get(path)
    host_path = live.host if live else predict_host_path(path, seen.dev_root)
    rdev = live.rdev if live else None
    if options.node_attributes == "all":
        return build_recorded_node(path, host_path, seen)
    if options.node_attributes == "none" or rdev is None or rdev[0] != STATIC_MAJOR:
        return DeviceNode(path, host_path)
    return DeviceNode(path, host_path, major=rdev[0], minor=rdev[1])


def predict_host_path(path: str, dev_root: str) -> str:
    """Return the host path that a node which is not there yet will have; '' if that is its path."""
    host = roots.get_path_beneath_root(dev_root, path)
    return "" if host == path else host


def build_recorded_node(path: str, host_path: str, seen: Hardware) -> DeviceNode:
    """Build a device node with its type and numbers.

    It need not even be there when a container starts (the library's minimally specified node).
    """
    live = seen.nodes.get(path)
    major, minor = live.rdev if live and live.rdev else get_expected_numbers(path, seen)
    mode = None if live is None else live.mode & 0o777
    gid = None if live is None or live.gid == 0 else live.gid
    return DeviceNode(
        path, host_path, "c" if major is not None else "", major, minor, mode, "rwm", gid=gid
    )


def get_expected_numbers(path: str, seen: Hardware) -> tuple[int | None, int | None]:
    """Return the major and minor that a node would have; each is None if it is not known.

    Numbers of nodes with NVIDIA's own major are always known. Others depend on the majors that the
    kernel reports.
    """
    if path in FIXED:
        major, minor = FIXED[path]
        return (seen.majors.get(major), minor) if isinstance(major, str) else (major, minor)
    gpu, cap = GPU_NODE.fullmatch(path), path.removeprefix(inventory.CAPS)
    if gpu:
        return STATIC_MAJOR, int(gpu[1])
    return (
        (seen.majors["nvidia-caps"], int(cap))
        if cap != path and "nvidia-caps" in seen.majors
        else (None, None)
    )


# ---------------------------------------------------------------- what is lacking, what is too much


def list_missing_nodes(seen: Hardware, options: Options) -> tuple[str, ...]:
    """List the nodes without which a container would start and not work, or not start at all."""
    if options.assume_nodes:
        return ()
    wanted = layouts.list_wanted_nodes(
        seen, options.layout, names.list_allowed_strategies(options.names, options.cap)
    )
    unneeded = [
        path
        for path in wanted
        if options.node_attributes == "all" and get_expected_numbers(path, seen)[0] is not None
    ]
    return tuple(path for path in wanted if path not in seen.nodes and path not in unneeded)


def fit_generated_spec(spec: Spec, options: Options) -> tuple[Spec, tuple[str, ...]]:
    """Return the spec within what the oldest consumer reads, and a sentence about each part left
    out.

    If the options refuse that, the spec stays as it is.
    """
    if options.above_cap == "refuse" or not version.list_needs_above_cap(spec, options.cap):
        return spec, ()
    lean, dropped = version.fit_spec_to_cap(spec, options.cap)
    return dc.replace(lean, version=version.get_minimum_version(lean)), dropped


def list_generation_notes(seen: Hardware, options: Options) -> tuple[str, ...]:
    needless = options.assume_nodes or not layouts.LAYOUTS[options.layout].driver
    lacking = () if needless else tuple(path for path in layouts.OPTIONAL if path not in seen.nodes)
    notes: list[str] = [messages.NODE_OPTIONAL.fill(path=path) for path in lacking]
    notes += closed_nodes.advise_on_closed_nodes(
        seen,
        options.layout,
        names.list_allowed_strategies(options.names, options.cap),
        group_ids=options.group_ids,
    )
    wanted = names.list_allowed_strategies(options.names, options.cap)
    if (
        names.INDEX in options.names
        and names.INDEX not in wanted
        and options.layout not in layouts.FABRIC
    ):
        notes.append(messages.NAMES_OF_OLD_CDI.fill(version=options.cap))
    if options.layout != layouts.WORKLOADS:
        return tuple(notes)
    nameless = [
        str(b.gpu.index)
        for b in inventory.list_offered_boards(seen)
        if not b.devices and not b.gpu.uuid
    ]
    if nameless and names.UUID in wanted:
        notes.append(messages.GPU_WITHOUT_UUID.fill(gpus=", ".join(nameless)))
    migs = [
        f"{b.gpu.index}:{m.index}"
        for b in seen.boards
        for m in b.devices
        if not names.is_valid_device_name(m.uuid)
    ]
    if migs and names.UUID in wanted:
        notes.append(messages.MIG_WITHOUT_UUID.fill(devices=", ".join(migs)))
    idle = [str(b.gpu.index) for b in inventory.drop_mig_instances(seen)]
    if idle:
        notes.append(messages.MIG_WITHOUT_INSTANCE.fill(gpus=", ".join(idle)))
    return tuple(notes)
