# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes that others recorded, and captures of `make gpu`, as inventories of the fake GPUs.

tests/fixtures/recorded_nodes.yml has facts of reports. Each file in tests/fixtures/captures is one
machine that was measured, with what it answered to a look (tests/gpu/capture.py).

`nodes` returns each record with its inventory. Everything that a host shows (/proc, /sys, /dev and
the answers of NVML) follows from an inventory, see tests/lab/fakegpu.
"""

from __future__ import annotations

import functools
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeGuard

import yaml

from tests.gpu import capture

from .fakegpu import inventories

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"
FILE = FIXTURES / "recorded_nodes.yml"
CAPTURES = FIXTURES / "captures"
SCHEMA = 1
ADDRESSING = {"none": 0, "HMM": 1, "ATS": 2}
STATES = {"Not Supported": 0, "Not Started": 1, "In Progress": 2, "Completed": 3}
# Names of the parts of NVML's mask of health, and the bit at which each begins
# (NVML_GPU_FABRIC_HEALTH_MASK_SHIFT_*). A part that is true or false is 1 or 2 in the mask; the
# others are NVML's own numbers.
HEALTH = {
    "bandwidth_degraded": 0,
    "route_recovery": 2,
    "route_unhealthy": 4,
    "access_timeout": 6,
    "misconfigured": 8,
    "partition_assigned": 12,
    "manager": 14,
}
OF_NODE = frozenset(
    ("source", "from", "cpu", "modules", "driver", "cuda", "gpus", "errors", "seen", "nvidia_ctk")
)
OF_GPU = frozenset(("bus", "minor"))
# What the GPUs of a node share unless one of them has a value of its own.
SHARED = frozenset(("model", "pci_id", "mib", "mig", "migs", "addressing", "fabric"))
FORMS = {
    "source": r"https://github\.com/[^/ ]+/[^/ ]+/blob/[0-9a-f]{40}/\S+|make gpu of \S+ \S+",
    "from": "node|mock",
    "cpu": "x86_64|aarch64",
    "modules": "open|proprietary",
    "driver": r"\d{3}\.\d{2,3}(\.\d{2})?",
    "cuda": r"\d{2}\.\d",
    "pci_id": "0x[0-9a-f]{4}",
    "bus": r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]",
    "mig": "on|off|-",
}


class BadRecord(ValueError):
    """A record that is not as this reader knows it. The text names the node and the field.

    code: what is wrong with a capture, by tests/gpu/report.py; `record` for anything else.
    """

    def __init__(self, text: str, code: str = "record") -> None:
        super().__init__(text)
        self.code = code


@dataclass(frozen=True)
class Node:
    """A recorded node. measured: whether it was a machine, and not an imitation of the driver.

    seen: what it answered to a look, as {"host", "answers"}. theirs: nvidia-ctk's own specs of it,
    by mode, with its version. Both are empty for a node of a report.
    """

    name: str
    source: str
    measured: bool
    inventory: inventories.Inventory
    seen: Mapping[str, Any] = field(default_factory=dict)
    theirs: Mapping[str, Any] = field(default_factory=dict)


@functools.cache
def nodes(file: Path | None = None) -> Mapping[str, Node]:
    """Return the records of a file by name; without one those of reports and of all captures. Raise
    BadRecord for a file of another form.
    """
    if file is None:
        files = (FILE, *sorted(CAPTURES.glob("*.json")))
        return {name: node for one in files for name, node in nodes(one).items()}
    records = _read_capture(file) if file.suffix == ".json" else _read_reports(file)
    return {str(name): read_node(str(name), record) for name, record in records.items()}


def _read_capture(file: Path) -> Mapping[str, object]:
    try:
        found: Mapping[str, object] = capture.read(file.read_text("utf-8"), file.name)["nodes"]
    except capture.BadCapture as error:
        raise BadRecord(error.sentence, error.code) from error
    return found


def _read_reports(file: Path) -> Mapping[str, object]:
    try:
        found = yaml.safe_load(file.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise BadRecord(f"{file.name} is no YAML: {error}") from error
    if not isinstance(found, Mapping) or found.get("schema") != SCHEMA:
        raise BadRecord(f"{file.name} is not of schema {SCHEMA}")
    records = found.get("nodes")
    if not isinstance(records, Mapping) or not records:
        raise BadRecord(f"{file.name} has no nodes")
    return records


def read_node(name: str, record: object) -> Node:
    """Return a node from its record. Raise BadRecord if a field is missing, unknown or wrong."""
    given = _mapping(name, record, OF_NODE | SHARED)
    gpus, errors = given.get("gpus"), given.get("errors", {})
    if not isinstance(gpus, list) or not gpus:
        raise BadRecord(f"{name}: gpus is no list of GPUs")
    if not isinstance(errors, Mapping) or not all(map(_is_number, errors.values())):
        raise BadRecord(f"{name}: errors is {errors!r}")
    shared = {key: given[key] for key in SHARED if key in given}
    boards = tuple(_gpu(name, shared, index, entry) for index, entry in enumerate(gpus))
    for what in ("bus", "minor"):
        if len({getattr(board, what) for board in boards}) < len(boards):
            raise BadRecord(f"{name}: two GPUs have the same {what}")
    driver = _text(name, given, "driver")
    major, minor = _text(name, given, "cuda").split(".")
    made = inventories.Inventory(
        boards,
        version=driver,
        loaded=driver,
        cpu=_text(name, given, "cpu", "x86_64"),
        open=_text(name, given, "modules", "proprietary") == "open",
        cuda=int(major) * 1000 + int(minor) * 10,
        errors=dict(errors),
    )
    return Node(
        name,
        _text(name, given, "source"),
        _text(name, given, "from") == "node",
        made,
        dict(given.get("seen", {})),
        dict(given.get("nvidia_ctk", {})),
    )


def _mapping(where: str, found: object, known: frozenset[str]) -> dict[str, Any]:
    if not isinstance(found, Mapping):
        raise BadRecord(f"{where} is no mapping")
    unknown = sorted(set(map(str, found)) - known)
    if unknown:
        raise BadRecord(f"{where}: {', '.join(unknown)} is unknown")
    return {str(key): value for key, value in found.items()}


def _text(where: str, given: Mapping[str, Any], key: str, default: str | None = None) -> str:
    value = given.get(key, default)
    if not isinstance(value, str) or not re.fullmatch(FORMS.get(key, ".+"), value):
        raise BadRecord(f"{where}: {key} is {value!r}")
    return value


def _is_number(value: object) -> TypeGuard[int]:
    """Tell whether a value is an integer. True and False are none in a record."""
    return isinstance(value, int) and not isinstance(value, bool)


def _number(where: str, given: Mapping[str, Any], key: str, default: int | None = None) -> int:
    value = given.get(key, default)
    if not _is_number(value) or value < 0:
        raise BadRecord(f"{where}: {key} is {value!r}")
    return value


def _gpu(name: str, shared: Mapping[str, Any], index: int, entry: object) -> inventories.Gpu:
    where = f"{name}: GPU {index}"
    given = {**shared, **_mapping(where, entry, OF_GPU | SHARED)}
    pairs = given.get("migs", [])
    if not isinstance(pairs, list) or not all(_is_pair(pair) for pair in pairs):
        raise BadRecord(f"{where}: migs is {pairs!r}")
    mode = given.get("addressing", "none")
    if str(mode) not in ADDRESSING:
        raise BadRecord(f"{where}: addressing is {mode!r}")
    return inventories.Gpu(
        uuid=f"GPU-{index:08d}-0000-0000-0000-{index:012d}",
        minor=_number(where, given, "minor", index),
        bus=_text(where, given, "bus"),
        name=_text(where, given, "model"),
        pci_id=_text(where, given, "pci_id"),
        mib=_number(where, given, "mib"),
        mig=_text(where, given, "mig"),
        migs=tuple((gi, ci, name_mig_device(name, index, gi, ci)) for gi, ci in pairs),
        addressing=ADDRESSING[mode],
        fabric=_fabric(where, given["fabric"]) if "fabric" in given else None,
    )


def _is_pair(pair: object) -> bool:
    return isinstance(pair, list) and [type(one) for one in pair] == [int, int]


def name_mig_device(node: str, index: int, gi: int, ci: int) -> str:
    """Return the UUID of a MIG device. Reports do not have them; it follows from where it is."""
    return f"MIG-{uuid.uuid5(uuid.NAMESPACE_DNS, f'{node}.gpu{index}.gi{gi}.ci{ci}')}"


def _fabric(where: str, found: object) -> inventories.Fabric:
    given = _mapping(
        where, found, frozenset(("state", "status", "clique", "cluster", "health", "mask"))
    )
    if str(given.get("state")) not in STATES:
        raise BadRecord(f"{where}: the state of the fabric is {given.get('state')!r}")
    health = _mapping(where, given.get("health", {}), frozenset(HEALTH))
    number = _number(where, given, "cluster")
    return inventories.Fabric(
        state=STATES[given["state"]],
        status=_number(where, given, "status", 0),
        clique=_number(where, given, "clique"),
        cluster=f"{number:08d}-0000-0000-0000-{number:012d}",
        health=_number(where, given, "mask", 0)
        | sum(_part(where, health, key) << bit for key, bit in HEALTH.items() if key in health),
    )


def _part(where: str, health: Mapping[str, Any], key: str) -> int:
    value = health[key]
    return (1 if value else 2) if isinstance(value, bool) else _number(where, health, key)
