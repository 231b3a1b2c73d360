# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The hardware of one host as a CDI spec names it.

It consists of GPUs, their MIG devices, their nodes and the nodes that all GPUs share. It comes from
the everyday look at procfs, sysfs and /dev. Facts that this cannot show (UUIDs of MIG devices,
whether MIG is on where it has no instance yet) are added from what NVML or nvidia-smi report, or
from what our own spec on the host still knows.
"""

from __future__ import annotations

import dataclasses as dc
import re
from collections.abc import Iterable, Mapping

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    NeedMore,
    PlanError,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Policy,
    SeenGpu,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections.file_places import (
    WHOLE,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.devices import (
    messages,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import (
    gpus as driver_gpus,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver.gpus import (
    DeviceFile,
)

PROCFS = "procfs"
CAPS = "/dev/nvidia-caps/nvidia-cap"
INSTANCE = re.compile(r"/gpu(?P<gpu>\d{1,9})/mig/gi(?P<gi>\d{1,9})/(?:ci(?P<ci>\d{1,9})/)?access$")
CAP_MINOR = re.compile(r"(?m)^DeviceFileMinor:[ \t]*(\d{1,9})[ \t]*$")
MIG_MINOR = re.compile(r"(config|monitor|gpu\d{1,9}/gi\d{1,9}/(?:ci\d{1,9}/)?access) (\d{1,9})")
DRM = re.compile(r"/devices/(?P<bus>[^/]+)/drm/(?P<name>card\d{1,9}|renderD\d{1,9})$")
# The GPU that only drives a DGX Station's screen; NVML counts it, upstream offers it to no
# container.
DISPLAY_ONLY = ("DGX Display", "NVIDIA DGX Display")


@dc.dataclass(frozen=True)
class MigDevice:
    """A compute instance of a GPU instance.

    index: its place on the GPU as NVML counts. graphics: whether its profile has the attribute gfx.
    """

    gi: int
    ci: int
    index: int
    uuid: str = ""
    profile: str = ""
    graphics: bool = False


@dc.dataclass(frozen=True)
class Board:
    """A GPU with what belongs to it.

    mig: None if it is not known. procfs alone leaves it open if the GPU has no instance.
    """

    gpu: SeenGpu
    mig: bool | None = None
    devices: tuple[MigDevice, ...] = ()
    drm: tuple[str, ...] = ()

    @property
    def path(self) -> str:
        return get_gpu_node_path(self.gpu)


@dc.dataclass(frozen=True)
class Hardware:
    """Everything that a spec can name.

    caps: `gpu0/gi1/access` -> minor of its node. source: what listed the devices. granted: the
    nodes of IMEX channels or NVSwitches that an option gives away.
    """

    boards: tuple[Board, ...]
    nodes: Mapping[str, DeviceFile]
    caps: Mapping[str, int] = dc.field(default_factory=dict)
    majors: Mapping[str, int] = dc.field(default_factory=dict)
    dev_root: str = "/"
    source: str = PROCFS
    granted: tuple[str, ...] = ()

    @property
    def shows_nodes(self) -> bool:
        """Tell whether any node of the driver is there.

        A tree without one has no /dev of its own: its DRM nodes may belong to another driver.
        """
        return any(path.startswith("/dev/nvidia") for path in self.nodes)

    @property
    def switches(self) -> tuple[str, ...]:
        return driver_gpus.list_switch_nodes(self.nodes)

    @property
    def channels(self) -> tuple[str, ...]:
        return driver_gpus.list_channel_nodes(self.nodes)


@dc.dataclass(frozen=True)
class GpuFacts:
    """A GPU as NVML or nvidia-smi reports it. minor: None if the source does not know it."""

    index: int
    bus_id: str
    uuid: str
    model: str = ""
    minor: int | None = None
    mig: bool | None = None
    devices: tuple[MigDevice, ...] = ()


@dc.dataclass(frozen=True)
class SourceAnswer:
    """The report of one source. gpus: None if it could not be asked. trouble: why, as a sentence."""

    source: str
    gpus: tuple[GpuFacts, ...] | None
    trouble: str = ""


def get_gpu_node_path(of: SeenGpu) -> str:
    """Return the path of a GPU's node, by its minor and never by its index.

    NVML counts GPUs along the bus, the driver in the order in which it probes them.
    """
    return f"/dev/nvidia{of.minor}"


def get_cap_path(minor: int) -> str:
    return f"{CAPS}{minor}"


def get_mig_cap_keys(board: Board, mig: MigDevice) -> tuple[str, str]:
    """Return the two capabilities that a MIG device takes.

    They give access to its GPU instance and to its compute instance. The number after `driver_gpus`
    is the GPU's minor.
    """
    home = f"gpu{board.gpu.minor}/gi{mig.gi}"
    return f"{home}/access", f"{home}/ci{mig.ci}/access"


def list_mig_node_paths(seen: Hardware, board: Board, mig: MigDevice) -> tuple[str, ...]:
    """Return the nodes of a MIG device: that of its GPU, and those of the capabilities that exist."""
    minors = (seen.caps[key] for key in get_mig_cap_keys(board, mig) if key in seen.caps)
    return (board.path, *map(get_cap_path, minors))


# ---------------------------------------------------------------- what procfs, sysfs and /dev show


def observe(policy: Policy, obs: Observation, gpus: Iterable[SeenGpu]) -> Hardware:
    """Build the hardware as far as the everyday look shows it.

    Raise NeedMore for the table of MIG minors if the look cannot do without it.
    """
    nodes = driver_gpus.map_device_files(obs, driver_gpus.get_dev_root(policy))
    instances = map_mig_instances(policy, obs)
    boards = tuple(
        build_board(g, instances.get(g.minor, ()), list_drm_nodes(policy, obs, g.bus_id, nodes))
        for g in gpus
    )
    return Hardware(
        boards,
        nodes,
        map_cap_minors(policy, obs),
        driver_gpus.map_device_majors(policy, obs),
        driver_gpus.get_dev_root(policy),
    )


def build_board(of: SeenGpu, instances: Iterable[tuple[int, int]], nodes: tuple[str, ...]) -> Board:
    """Build a GPU with its MIG devices, counted by their instances' numbers as NVML does it."""
    devices = tuple(MigDevice(gi, ci, index) for index, (gi, ci) in enumerate(sorted(instances)))
    return Board(of, True if devices else None, devices, nodes)


def map_mig_instances(policy: Policy, obs: Observation) -> dict[int, tuple[tuple[int, int], ...]]:
    """Map the minor of each GPU to its MIG devices, as (GPU instance, compute instance)."""
    instances: dict[int, tuple[tuple[int, int], ...]] = {}
    for path in driver_gpus.list_mig_instance_paths(policy, obs):
        match = INSTANCE.search(path)
        if match and match["ci"] is not None:
            minor = int(match["gpu"])
            instances[minor] = (*instances.get(minor, ()), (int(match["gi"]), int(match["ci"])))
    return instances


def map_cap_minors(policy: Policy, obs: Observation) -> dict[str, int]:
    """Map each capability, as `gpu0/gi1/access`, to the minor of its node.

    The driver's own capability files give the minors. If one of them does not, read the table of
    all possible instances (120 kB on a large host), or raise NeedMore for it.
    """
    minors: dict[str, int] = {}
    for file in driver_gpus.list_mig_files(policy, obs):
        match, minor = INSTANCE.search(file.path), CAP_MINOR.search(file.content or "")
        if match is None:
            continue
        if minor is None:
            return {**minors, **read_mig_minors(policy, obs)}
        compute = "" if match["ci"] is None else f"ci{match['ci']}/"
        minors[f"gpu{match['gpu']}/gi{match['gi']}/{compute}access"] = int(minor[1])
    return minors


def read_mig_minors(policy: Policy, obs: Observation) -> dict[str, int]:
    """Read the driver's static table, /proc/driver/nvidia-caps/mig-minors: capability -> minor.

    A line of another form is skipped, as upstream does. Raise NeedMore if the table was not asked
    for.
    """
    question = queries.ask_for_file(driver_gpus.get_gpu_paths(policy).mig_minors, keep=WHOLE)
    if not obs.was_asked(question):
        raise NeedMore([question])
    lines = (
        MIG_MINOR.fullmatch(line.strip()) for line in obs.get_text(question["path"]).splitlines()
    )
    return {line[1]: int(line[2]) for line in lines if line}


def list_drm_nodes(
    policy: Policy, obs: Observation, bus_id: str, nodes: Mapping[str, DeviceFile]
) -> tuple[str, ...]:
    """List the DRM nodes of the device at a bus address.

    Cards and render nodes are counted over all drivers, so only sysfs knows which are this
    device's.
    """
    matches = (
        DRM.search(file.path) for file in obs.list_glob_files(driver_gpus.get_gpu_paths(policy).drm)
    )
    drm_nodes = sorted(
        f"/dev/dri/{match['name']}" for match in matches if match and match["bus"].lower() == bus_id
    )
    return tuple(path for path in drm_nodes if path in nodes)


# ---------------------------------------------------------------- what other sources add


def complete(seen: Hardware, facts: SourceAnswer) -> Hardware:
    """Return the hardware with what a source reported.

    GPUs that the source does not know are left out, since it would not serve them either.
    """
    if facts.gpus is None:
        return seen
    by_bus = {known.bus_id: known for known in facts.gpus}
    boards = tuple(add(b, by_bus[b.gpu.bus_id]) for b in seen.boards if b.gpu.bus_id in by_bus)
    return dc.replace(
        seen, boards=tuple(sorted(boards, key=lambda b: b.gpu.index)), source=facts.source
    )


def add(seen: Board, reported: GpuFacts) -> Board:
    """Return a GPU with what a source reported about it.

    Raise PlanError if the two do not describe the same GPU: whichever is wrong, a spec would hand
    out the wrong node.
    """
    pairs = (
        (messages.MINOR_DIFFERS, seen.gpu.minor, reported.minor),
        (messages.UUID_DIFFERS, seen.gpu.uuid, reported.uuid),
    )
    for row, one, other in pairs:
        if one not in ("", None) and other not in ("", None) and one != other:
            raise PlanError(row.fill(bus=seen.gpu.bus_id, seen=one, reported=other))
    named = dc.replace(
        seen.gpu,
        index=reported.index,
        uuid=seen.gpu.uuid or reported.uuid,
        model=seen.gpu.model or reported.model,
    )
    return dc.replace(
        seen,
        gpu=named,
        mig=reported.mig if reported.mig is not None else seen.mig,
        devices=merge_mig_devices(seen, reported),
    )


def merge_mig_devices(seen: Board, reported: GpuFacts) -> tuple[MigDevice, ...]:
    """Return the MIG devices of a GPU, from what was seen and what a source reported.

    They are matched by instance if the source knows instances (NVML), else by count (nvidia-smi).
    If the counts differ, the devices that were seen stay.
    """
    if not reported.devices:
        return seen.devices if reported.mig is None else ()
    if all(d.gi >= 0 for d in reported.devices):
        return reported.devices
    if len(reported.devices) != len(seen.devices):
        return seen.devices  # one was made or removed in between; the next run sees both
    pairs = zip(seen.devices, reported.devices, strict=True)
    return tuple(dc.replace(other, gi=mine.gi, ci=mine.ci) for mine, other in pairs)


def list_offered_boards(seen: Hardware) -> tuple[Board, ...]:
    """List the GPUs that containers may ask for.

    GPUs in MIG mode without an instance are left out, and so is one that only drives a screen.
    """
    return tuple(
        b for b in seen.boards if b.gpu.model not in DISPLAY_ONLY and (b.devices or not b.mig)
    )


def drop_mig_instances(seen: Hardware) -> tuple[Board, ...]:
    return tuple(b for b in seen.boards if b.mig and not b.devices)
