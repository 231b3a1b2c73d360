# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The option `gpufleet_sharing`: the policy that each GPU is to have, as far as that can be judged before any host is looked at."""

from __future__ import annotations

import dataclasses as dc
import re
from collections.abc import Mapping
from typing import Any, Literal

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.sharing import by_plugin, mps_limits
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.sharing.mps_limits import Limits

OPTION = "gpufleet_sharing"
Interval = Literal["", "default", "short", "medium", "long"]
INTERVALS: tuple[Interval, ...] = ("default", "short", "medium", "long")
POLICIES = ("dedicated", "time_slicing", "mps")
UUID = re.compile(r"GPU-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
BUS = re.compile(r"(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}:[0-9a-f]{2}\.[0-7])")
INDEX = re.compile(r"\d{1,3}")
NUMBER = re.compile(r"[-+]?\d+\.\d+(?:e[-+]?\d+)?")
MIG = re.compile(r"MIG-", re.IGNORECASE)
KEYS = "Write a GPU's UUID, its PCI address (0000:17:00.0), its product name or its index"


@dc.dataclass(frozen=True)
class GpuEntry:
    """An entry of the option. kind: what its key is. exclusive: a second process on the GPU is refused. interval: '' leaves it as it is.

    replicas: a device plugin shares the GPU, and nothing is set on the host. limits: what each MPS client of the host's own daemon may use.
    """

    key: str
    kind: Literal["uuid", "bus", "product", "index"]
    policy: Literal["dedicated", "time_slicing", "mps"]
    exclusive: bool = False
    interval: Interval = ""
    replicas: by_plugin.Replicas | None = None
    limits: Limits | None = None

    def names(self, uuid: str, bus: str, model: str, index: int) -> bool:
        """Tell whether the entry names this GPU. bus: as sysfs writes it."""
        return {
            "uuid": self.key.lower() == uuid.lower(),
            "bus": bus_id(self.key) == bus,
            "product": self.key == model,
            "index": self.key.isdigit() and int(self.key) == index,
        }[self.kind]

    @property
    def text(self) -> str:
        """The policy as tables show it."""
        if self.limits:
            return f"mps ({self.limits.text})" if self.limits.text else "mps"
        more = f"{self.replicas.number} replicas" if self.replicas else "exclusive" if self.exclusive else self.interval
        return f"{self.policy} ({more})" if more else self.policy


def parse(given: Mapping[str, Any]) -> tuple[GpuEntry, ...]:
    """Return every entry of the option. Raise PlanError for the first that no host can accept."""
    return tuple(_entry(str(key), value) for key, value in given.items())


def on_host(given: Mapping[str, Any] | None) -> tuple[GpuEntry, ...]:
    """Return the entries that are set on the host itself."""
    return tuple(entry for entry in parse(given or {}) if not entry.replicas)


def check(given: object, root: str, driver_root: str) -> None:
    """Raise PlanError if the option is wrong, or set together with one of the two others that exclude it.

    None: it is not set.
    """
    if given is None:
        return
    if not isinstance(given, Mapping):
        raise PlanError(f"{OPTION} is {given!r}, which is no dictionary", next=f"{KEYS} with one of {', '.join(POLICIES)}")
    entries = parse(given)
    if by_plugin.of_all(OPTION, entries):
        return
    buses: dict[str, str] = {}
    for entry in entries:
        if entry.kind == "bus" and buses.setdefault(bus_id(entry.key), entry.key) != entry.key:
            raise _twice(entry.key, buses[bus_id(entry.key)], "the same PCI address")
    for name, value, why in (
        ("gpufleet_root", root, "modes are set in a driver that runs, and nothing runs beneath another root"),
        ("gpufleet_cdi_driver_root", driver_root, "nvidia-smi of the host itself sets modes, and the driver is elsewhere"),
    ):
        if entries and value not in ("", "/"):
            raise PlanError(f"{OPTION} is set, and {name} is {value}", why=why, next="Leave out one of the two")


def _twice(one: str, other: str, what: str) -> PlanError:
    return PlanError(f"{OPTION} has two entries for one GPU, {other} and {one}", why=what, next="Leave out one of the two")


def two_entries(one: GpuEntry, other: GpuEntry, gpu: str) -> PlanError:
    return _twice(other.key, one.key, f"both are {gpu}")


def _entry(key: str, value: object) -> GpuEntry:
    kind = _kind(key)
    where = f"{OPTION}.{key}"
    settings = {value: None} if isinstance(value, str) else value
    if not isinstance(settings, Mapping):
        raise PlanError(f"{OPTION} has for {key} the value {value!r}, which is no policy", next=f"Give it one of {', '.join(POLICIES)}")
    if by_plugin.meant(settings):
        replicas = by_plugin.parsed(where, settings)
        return GpuEntry(key, kind, replicas.policy, replicas=replicas)
    unknown = sorted(str(name) for name in settings if name not in POLICIES)
    if unknown:
        step = "MIG is set up by nvidia-mig-parted" if unknown[0] == "mig" else f"Known policies are {', '.join(POLICIES)}"
        raise PlanError(f"{OPTION} has for {key} the unknown policy {unknown[0]!r}", next=step)
    if len(settings) != 1:
        said = " and ".join(str(name) for name in settings) or "no policy"
        raise PlanError(f"{OPTION} has for {key} {said}", why="a GPU has one policy", next=f"Give it one of {', '.join(POLICIES)}")
    ((policy, more),) = settings.items()
    if policy == "dedicated":
        return GpuEntry(key, kind, "dedicated", exclusive=_exclusive(where, more))
    if policy == "mps":
        return GpuEntry(key, kind, "mps", limits=mps_limits.parsed(where, more))
    return GpuEntry(key, kind, "time_slicing", interval=_interval(where, more))


def _kind(key: str) -> Literal["uuid", "bus", "product", "index"]:
    if UUID.fullmatch(key.lower().replace("gpu-", "GPU-", 1)):
        return "uuid"
    if BUS.fullmatch(key.lower()):
        return "bus"
    if INDEX.fullmatch(key):
        return "index"
    if MIG.match(key):
        raise PlanError(
            f"{OPTION} names the MIG device {key}", why="a policy is one of a whole GPU", next="Share MIG devices by MIG itself"
        )
    if NUMBER.fullmatch(key):
        why = "YAML reads a PCI address without a letter and without quotes as a number of minutes and seconds"
        raise PlanError(f"{OPTION} has the key {key}, which is no GPU", why=why, next='Write the address in quotes: "0000:17:00.0"')
    if not key.strip() or key.startswith("GPU-") or key != key.strip() or not key.isprintable():
        raise PlanError(f"{OPTION} has the key {key!r}, which is no GPU", next=KEYS)
    return "product"


def _exclusive(where: str, more: object) -> bool:
    settings = _settings(where, "dedicated", more, "exclusive")
    value = settings.get("exclusive", False)
    if not isinstance(value, bool):
        raise PlanError(f"{where}.dedicated: exclusive is {value!r}", next="Write true or false")
    return value


def _interval(where: str, more: object) -> Interval:
    settings = _settings(where, "time_slicing", more, "interval")
    value = settings.get("interval") or ""
    if value not in ("", *INTERVALS):
        raise PlanError(f"{where}.time_slicing: interval is {value!r}", next=f"Write one of {', '.join(INTERVALS)}")
    return value


def _settings(where: str, policy: str, more: object, known: str) -> Mapping[str, Any]:
    if more is None or more is True:
        return {}
    if not isinstance(more, Mapping):
        raise PlanError(f"{where}.{policy} is {more!r}, which is no dictionary", next=f"Write {{}}, or {known} with its value")
    unknown = sorted(str(name) for name in more if name != known)
    if unknown:
        raise PlanError(f"{where}.{policy}: unknown key {unknown[0]!r}", next=f"The known key is {known}")
    return more


def bus_id(text: str) -> str:
    """Return a PCI address as sysfs writes it; '' for another text. nvidia-smi gives the domain eight digits."""
    found = BUS.fullmatch(text.strip().lower())
    return f"{(found.group(1) or '0000')[-4:]}:{found.group(2)}" if found else ""
