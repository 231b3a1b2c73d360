# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fleets: which hosts there are, of which kind, with which GPUs and files."""
from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .artefacts import LabError
from .kinds import KINDS

DEMO = Path(__file__).with_name("fleets") / "demo.json"
DRIVERS = ("ok", "none", "broken")
NAME = re.compile(r"[a-z][a-z0-9-]{0,40}")


@dataclass(frozen=True)
class Spec:
    """One host as the fleet file wants it; a file without a text is one that the host does not have."""

    name: str
    kind: str
    gpus: int
    driver: str
    files: tuple[tuple[str, str | None], ...] = ()

    def as_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "gpus": self.gpus, "driver": self.driver, "files": dict(self.files)}


def read(path: Path) -> dict[str, Any]:
    """The fleet file as it is."""
    try:
        fleet = json.loads(path.read_text())
    except (OSError, ValueError) as why:
        raise LabError(f"The fleet file {path} cannot be read: {why}.") from why
    if not isinstance(fleet, dict):
        raise LabError(f"The fleet file {path} must hold an object with the key 'hosts'.")
    return fleet


def parse(fleet: Mapping[str, Any]) -> dict[str, Spec]:
    """The hosts of a fleet by name."""
    hosts = fleet.get("hosts")
    if not isinstance(hosts, dict) or not hosts:
        raise LabError("The fleet names no hosts: it must be an object with 'hosts': {NAME: {'kind': ...}}.")
    return {name: spec(name, entry) for name, entry in hosts.items()}


def spec(name: str, entry: Mapping[str, Any]) -> Spec:
    """One host, checked."""
    kind, gpus, driver = entry.get("kind"), entry.get("gpus", 1), entry.get("driver", "ok")
    unknown = set(entry) - {"kind", "gpus", "driver", "files"}
    wrong = (
        (not NAME.fullmatch(name), "its name must be made of small letters, digits and dashes"),
        (kind not in KINDS, f"its kind is {kind!r}; known are {', '.join(KINDS)}"),
        (not isinstance(gpus, int) or not 0 <= gpus <= 16, f"gpus is {gpus!r}; it must be a number from 0 to 16"),
        (driver not in DRIVERS, f"driver is {driver!r}; known are {', '.join(DRIVERS)}"),
        (bool(unknown), f"unknown keys: {', '.join(sorted(unknown))}"),
    )
    for is_wrong, why in wrong:
        if is_wrong:
            raise LabError(f"The fleet's host {name!r} is not usable: {why}.")
    return Spec(name, str(kind), gpus, driver, tuple(sorted((entry.get("files") or {}).items())))
