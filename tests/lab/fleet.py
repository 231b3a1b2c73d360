# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fleets: the hosts that there are, with their kinds, GPUs and files."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .artefacts import LabError
from .fakegpu.inventories import Inventory, inventory
from .kinds import KINDS

FLEETS = Path(__file__).with_name("fleets")
DEMO = FLEETS / "debian.json"  # engines as Debian packages them, so little has to be built
# engines and their releases, one host each: what the tests of the main line boot
ENGINES = FLEETS / "engines.json"
ALL = FLEETS / "all.json"  # these, and every manager and package manager
NAME = re.compile(r"[a-z][a-z0-9-]{0,40}")
OWN_KEYS = ("kind", "files")
GPU_KEYS = ("gpus", "driver", "mig", "nvml", "switches", "channels", "recorded")


@dataclass(frozen=True)
class Spec:
    """A host as the fleet file wants it."""

    name: str
    entry: Mapping[str, Any]

    @property
    def kind(self) -> str:
        return str(self.entry["kind"])

    @property
    def files(self) -> Mapping[str, str | None]:
        """Files of this host by path. A path without a text (null) is absent although the packages
        bring it.
        """
        return self.entry.get("files") or {}

    @property
    def gpu_entry(self) -> dict[str, Any]:
        return {"gpus": 1, **{key: self.entry[key] for key in GPU_KEYS if key in self.entry}}

    @property
    def gpus(self) -> Inventory:
        return inventory(self.name, self.gpu_entry)


def read(path: Path) -> dict[str, Any]:
    """Read a fleet file, with the hosts of another one if it names that: {"with": "engines",
    "hosts": {...}}.
    """
    try:
        fleet = json.loads(path.read_text())
    except (OSError, ValueError) as why:
        raise LabError(f"The fleet file {path} cannot be read: {why}.") from why
    if not isinstance(fleet, dict):
        raise LabError(f"The fleet file {path} must hold an object with the key 'hosts'.")
    if "with" not in fleet:
        return fleet
    return {
        "hosts": {
            **read(path.with_name(f"{fleet['with']}.json"))["hosts"],
            **(fleet.get("hosts") or {}),
        }
    }


def parse(fleet: Mapping[str, Any]) -> dict[str, Spec]:
    """Return the hosts of a fleet by name."""
    hosts = fleet.get("hosts")
    if not isinstance(hosts, dict) or not hosts:
        raise LabError(
            "The fleet names no hosts: it must be an object with 'hosts': {NAME: {'kind': ...}}."
        )
    return {name: spec(name, entry) for name, entry in hosts.items()}


def spec(name: str, entry: Mapping[str, Any]) -> Spec:
    """Return one host from its entry, checked."""
    wanted, why = Spec(name, dict(entry)), ""
    unknown = sorted(set(entry) - {*OWN_KEYS, *GPU_KEYS})
    if not NAME.fullmatch(name):
        why = "its name must be made of small letters, digits and dashes"
    elif entry.get("kind") not in KINDS:
        why = f"its kind is {entry.get('kind')!r}; known are {', '.join(KINDS)}"
    elif unknown:
        why = f"unknown keys: {', '.join(unknown)}"
    else:
        why = _gpu_fault(wanted)
    if why:
        raise LabError(f"The fleet's host {name!r} is not usable: {why}.")
    return wanted


def _gpu_fault(wanted: Spec) -> str:
    try:
        inventory(wanted.name, wanted.gpu_entry)
    except (TypeError, ValueError, AssertionError) as error:
        return f"its GPUs are described wrongly: {error}"
    return ""
