# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The option `gpufleet_sharing`: the policy that each GPU is to have, as far as that can be judged
before any host is looked at.
"""

from __future__ import annotations

import dataclasses as dc
import re
from collections.abc import Mapping
from typing import Any, Literal

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import gpus
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.sharing import (
    by_plugin,
    messages,
    mps_limits,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.sharing.mps_limits import (
    Limits,
)

OPTION = "gpufleet_sharing"
Interval = Literal["", "default", "short", "medium", "long"]
INTERVALS: tuple[Interval, ...] = ("default", "short", "medium", "long")
POLICIES = ("dedicated", "time_slicing", "mps")
UUID = re.compile(r"GPU-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
BUS = re.compile(r"(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}:[0-9a-f]{2}\.[0-7])")
INDEX = re.compile(r"\d{1,3}")
NUMBER = re.compile(r"[-+]?\d+\.\d+(?:e[-+]?\d+)?")
MIG = re.compile(r"MIG-", re.IGNORECASE)


@dc.dataclass(frozen=True)
class GpuEntry:
    """An entry of the option. kind: what its key is. exclusive: a second process on the GPU is
    refused. interval: '' leaves it as it is.

    replicas: a device plugin shares the GPU, and nothing is set on the host. limits: what each MPS
    client of the host's own daemon may use.
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
            "bus": format_bus_id(self.key) == bus,
            "product": self.key == model,
            "index": self.key.isdigit() and int(self.key) == index,
        }[self.kind]

    @property
    def text(self) -> str:
        """The policy as tables show it."""
        if self.limits:
            return f"mps ({self.limits.text})" if self.limits.text else "mps"
        more = (
            f"{self.replicas.number} replicas"
            if self.replicas
            else "exclusive"
            if self.exclusive
            else self.interval
        )
        return f"{self.policy} ({more})" if more else self.policy


def parse_sharing(given: Mapping[str, Any]) -> tuple[GpuEntry, ...]:
    """Return every entry of the option. Raise PlanError for the first that no host can accept."""
    return tuple(_parse_entry(str(key), value) for key, value in given.items())


def list_host_entries(given: Mapping[str, Any] | None) -> tuple[GpuEntry, ...]:
    """Return the entries that are set on the host itself."""
    return tuple(entry for entry in parse_sharing(given or {}) if not entry.replicas)


def check_sharing(given: object, root: str, driver_root: str) -> None:
    """Raise PlanError if the option is wrong, or set together with one of the two others that
    exclude it.

    None: it is not set.
    """
    if given is None:
        return
    if not isinstance(given, Mapping):
        raise PlanError(
            messages.NO_DICTIONARY.fill(value=repr(given), policies=", ".join(POLICIES))
        )
    entries = parse_sharing(given)
    if by_plugin.get_common_replicas(OPTION, entries):
        return
    buses: dict[str, str] = {}
    for entry in entries:
        if (
            entry.kind == "bus"
            and buses.setdefault(format_bus_id(entry.key), entry.key) != entry.key
        ):
            raise PlanError(
                messages.ONE_ADDRESS_TWICE.fill(
                    first=buses[format_bus_id(entry.key)], second=entry.key
                )
            )
    for row, value in ((messages.BENEATH_ROOT, root), (messages.DRIVER_ELSEWHERE, driver_root)):
        if entries and value not in ("", "/"):
            raise PlanError(row.fill(value=value))


def build_two_entries_error(one: GpuEntry, other: GpuEntry, gpu: str) -> PlanError:
    return PlanError(messages.TWO_ENTRIES.fill(first=one.key, second=other.key, gpu=gpu))


def _parse_entry(key: str, value: object) -> GpuEntry:
    kind = _parse_kind(key)
    where, policies = f"{OPTION}.{key}", ", ".join(POLICIES)
    settings = {value: None} if isinstance(value, str) else value
    if not isinstance(settings, Mapping):
        raise PlanError(messages.NOT_A_POLICY.fill(key=key, value=repr(value), policies=policies))
    if by_plugin.is_meant_for_plugin(settings):
        replicas = by_plugin.parse_replicas(where, settings)
        return GpuEntry(key, kind, replicas.policy, replicas=replicas)
    require_one_policy(key, [str(name) for name in settings])
    ((policy, more),) = settings.items()
    if policy == "dedicated":
        return GpuEntry(key, kind, "dedicated", exclusive=_parse_exclusive(where, more))
    if policy == "mps":
        return GpuEntry(key, kind, "mps", limits=mps_limits.parse_mps_limits(where, more))
    return GpuEntry(key, kind, "time_slicing", interval=_parse_interval(where, more))


def require_one_policy(key: str, given: list[str]) -> None:
    """Raise PlanError unless these are one policy that this collection knows."""
    policies = ", ".join(POLICIES)
    unknown = sorted(name for name in given if name not in POLICIES)
    if unknown[:1] == ["mig"]:
        raise PlanError(messages.MIG_POLICY.fill(key=key, policy=repr(unknown[0])))
    if unknown:
        raise PlanError(
            messages.UNKNOWN_POLICY.fill(key=key, policy=repr(unknown[0]), policies=policies)
        )
    if not given:
        raise PlanError(messages.NO_POLICY.fill(key=key, policies=policies))
    if len(given) > 1:
        raise PlanError(
            messages.SEVERAL_POLICIES.fill(key=key, given=" and ".join(given), policies=policies)
        )


def _parse_kind(key: str) -> Literal["uuid", "bus", "product", "index"]:
    if UUID.fullmatch(key.lower().replace("gpu-", "GPU-", 1)):
        return "uuid"
    if BUS.fullmatch(key.lower()):
        return "bus"
    if INDEX.fullmatch(key):
        return "index"
    if MIG.match(key):
        raise PlanError(messages.MIG_DEVICE.fill(key=key))
    if NUMBER.fullmatch(key):
        raise PlanError(messages.KEY_IS_NUMBER.fill(key=key))
    if not key.strip() or key.startswith("GPU-") or key != key.strip() or not key.isprintable():
        raise PlanError(messages.NOT_A_GPU.fill(key=repr(key)))
    return "product"


def _parse_exclusive(where: str, more: object) -> bool:
    settings = _require_settings(where, "dedicated", more, "exclusive")
    value = settings.get("exclusive", False)
    if not isinstance(value, bool):
        raise PlanError(
            messages.SETTING_NOT_BOOLEAN.fill(
                where=f"{where}.dedicated", name="exclusive", value=repr(value)
            )
        )
    return value


def _parse_interval(where: str, more: object) -> Interval:
    settings = _require_settings(where, "time_slicing", more, "interval")
    value = settings.get("interval") or ""
    if value not in ("", *INTERVALS):
        raise PlanError(
            messages.UNKNOWN_INTERVAL.fill(
                where=f"{where}.time_slicing", value=repr(value), intervals=", ".join(INTERVALS)
            )
        )
    return value


def _require_settings(where: str, policy: str, more: object, known: str) -> Mapping[str, Any]:
    if more is None or more is True:
        return {}
    if not isinstance(more, Mapping):
        raise PlanError(
            messages.SETTINGS_NOT_DICTIONARY.fill(
                where=f"{where}.{policy}", value=repr(more), known=known
            )
        )
    unknown = sorted(str(name) for name in more if name != known)
    if unknown:
        raise PlanError(
            messages.UNKNOWN_KEY.fill(where=f"{where}.{policy}", key=repr(unknown[0]), known=known)
        )
    return more


def format_bus_id(text: str) -> str:
    """Return a PCI address as sysfs writes it; '' for another text. nvidia-smi gives the domain
    eight digits.
    """
    match = BUS.fullmatch(text.strip().lower())
    return gpus.shorten_bus_id(f"{match.group(1) or '0000'}:{match.group(2)}") if match else ""
