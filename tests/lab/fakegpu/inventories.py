# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The GPUs of a host and the state of its driver, from a host's entry of a fleet file."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field

BUSES = ("17", "43", "65", "9d", "b3", "ca", "d1", "e4")
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
