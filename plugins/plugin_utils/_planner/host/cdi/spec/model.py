# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The values of a CDI spec in one file, and their conversion to and from the document that engines
read.
"""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.spec import messages

KIND = "nvidia.com/gpu"


@dc.dataclass(frozen=True)
class DeviceNode:
    """A node for the container.

    A value of None is taken from the host's node when the container starts. A recorded value wins
    over it.
    """

    path: str
    host_path: str = ""
    type: str = ""
    major: int | None = None
    minor: int | None = None
    file_mode: int | None = None
    permissions: str = ""
    uid: int | None = None
    gid: int | None = None


@dc.dataclass(frozen=True)
class Mount:
    host_path: str
    container_path: str
    options: tuple[str, ...] = ()
    type: str = ""


@dc.dataclass(frozen=True)
class Hook:
    name: str
    path: str
    args: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    timeout: int | None = None


@dc.dataclass(frozen=True)
class NetDevice:
    host_name: str
    name: str


@dc.dataclass(frozen=True)
class Edits:
    """The changes to a container. `rdt` is kept as it was read: this collection never writes it."""

    env: tuple[str, ...] = ()
    device_nodes: tuple[DeviceNode, ...] = ()
    net_devices: tuple[NetDevice, ...] = ()
    hooks: tuple[Hook, ...] = ()
    mounts: tuple[Mount, ...] = ()
    rdt: Mapping[str, Any] | None = None
    additional_gids: tuple[int, ...] = ()


@dc.dataclass(frozen=True)
class Device:
    name: str
    edits: Edits
    annotations: Mapping[str, str] = dc.field(default_factory=dict)


@dc.dataclass(frozen=True)
class Spec:
    version: str
    devices: tuple[Device, ...]
    kind: str = KIND
    edits: Edits = Edits()
    annotations: Mapping[str, str] = dc.field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """Qualified names, as a container asks for them."""
        return tuple(f"{self.kind}={d.name}" for d in self.devices)


# "No devices" in the form of a device plugin that asks by mounts; toolkit releases from 1.20.2 on
# know it (pkg/nvcdi/wrapper.go).
VOID_MOUNT = Mount(
    "/dev/null", "/var/run/nvidia-container-devices/void", ("ro", "nosuid", "nodev", "bind")
)


def combine(*parts: Edits) -> Edits:
    """Combine several edits into one, without doubles; env and hooks keep their order, which
    counts.
    """

    def joined(field: str) -> tuple[Any, ...]:
        return tuple(dict.fromkeys(entry for part in parts for entry in getattr(part, field)))

    lists = ("env", "device_nodes", "net_devices", "hooks", "mounts")
    gids = tuple(sorted({gid for part in parts for gid in part.additional_gids}))
    rdt = next((part.rdt for part in reversed(parts) if part.rdt is not None), None)
    return Edits(**{field: joined(field) for field in lists}, rdt=rdt, additional_gids=gids)


# Field of the class -> key of the document; the order is that in which keys are written.
NODE_KEYS = {
    "path": "path",
    "host_path": "hostPath",
    "type": "type",
    "major": "major",
    "minor": "minor",
    "file_mode": "fileMode",
    "permissions": "permissions",
    "uid": "uid",
    "gid": "gid",
}
MOUNT_KEYS = {
    "host_path": "hostPath",
    "container_path": "containerPath",
    "options": "options",
    "type": "type",
}
HOOK_KEYS = {"name": "hookName", "path": "path", "args": "args", "env": "env", "timeout": "timeout"}
NET_KEYS = {"host_name": "hostInterfaceName", "name": "name"}
EDIT_LISTS: Mapping[str, tuple[str, type, Mapping[str, str]]] = {
    "device_nodes": ("deviceNodes", DeviceNode, NODE_KEYS),
    "net_devices": ("netDevices", NetDevice, NET_KEYS),
    "hooks": ("hooks", Hook, HOOK_KEYS),
    "mounts": ("mounts", Mount, MOUNT_KEYS),
}

NEEDED = {
    cls: tuple(f.name for f in dc.fields(cls) if f.default is dc.MISSING)
    for _key, cls, _keys in EDIT_LISTS.values()
}


def convert_spec_to_document(spec: Spec) -> dict[str, Any]:
    """Return the spec as plain values under CDI's own keys, without empty ones."""
    document: dict[str, Any] = {"cdiVersion": spec.version, "kind": spec.kind}
    if spec.annotations:
        document["annotations"] = dict(sorted(spec.annotations.items()))
    if spec.edits != Edits():
        document["containerEdits"] = _convert_edits(spec.edits)
    document["devices"] = [_convert_device(d) for d in spec.devices]
    return document


def _convert_device(device: Device) -> dict[str, Any]:
    document: dict[str, Any] = {"name": device.name}
    if device.annotations:
        document["annotations"] = dict(sorted(device.annotations.items()))
    return {**document, "containerEdits": _convert_edits(device.edits)}


def _convert_edits(edits: Edits) -> dict[str, Any]:
    document: dict[str, Any] = {"env": list(edits.env)} if edits.env else {}
    for field, (key, _cls, keys) in EDIT_LISTS.items():
        entries = getattr(edits, field)
        if entries:
            document[key] = [_convert_entry(e, keys) for e in entries]
    if edits.rdt is not None:
        document["intelRdt"] = dict(edits.rdt)
    if edits.additional_gids:
        document["additionalGids"] = list(edits.additional_gids)
    return document


def _convert_entry(entry: Any, keys: Mapping[str, str]) -> dict[str, Any]:
    values = ((key, getattr(entry, field)) for field, key in keys.items())
    return {
        key: list(v) if isinstance(v, tuple) else v for key, v in values if v not in (None, "", ())
    }


def read_spec_of_document(document: Any) -> Spec:
    """Return a document as values.

    Raise ValueError with one sentence if it cannot be a CDI spec. The rules of content are the
    validator's.
    """
    top = _require_mapping(document, "the document")
    devices = _require_spec_list(top.get("devices"), "devices")
    return Spec(
        version=_require_spec_text(top, "cdiVersion", "the document").removeprefix("v"),
        kind=_require_spec_text(top, "kind", "the document"),
        annotations=dict(_require_mapping(top.get("annotations") or {}, "annotations")),
        edits=_read_edits(top.get("containerEdits"), "containerEdits"),
        devices=tuple(_read_device(d, f"devices[{i}]") for i, d in enumerate(devices)),
    )


def _read_device(value: Any, where: str) -> Device:
    device = _require_mapping(value, where)
    annotations = dict(_require_mapping(device.get("annotations") or {}, f"{where}.annotations"))
    return Device(
        _require_spec_text(device, "name", where),
        _read_edits(device.get("containerEdits"), f"{where}.containerEdits"),
        annotations,
    )


def _read_edits(value: Any, where: str) -> Edits:
    edits = _require_mapping(value or {}, where)
    lists: dict[str, Any] = {}
    for field, (key, cls, keys) in EDIT_LISTS.items():
        entries = enumerate(_require_spec_list(edits.get(key), f"{where}.{key}"))
        lists[field] = tuple(_read_entry(e, cls, keys, f"{where}.{key}[{i}]") for i, e in entries)
    return Edits(
        env=tuple(map(str, _require_spec_list(edits.get("env"), f"{where}.env"))),
        rdt=None
        if edits.get("intelRdt") is None
        else _require_mapping(edits["intelRdt"], f"{where}.intelRdt"),
        additional_gids=tuple(
            map(int, _require_spec_list(edits.get("additionalGids"), f"{where}.additionalGids"))
        ),
        **lists,
    )


def _read_entry(value: Any, cls: type, keys: Mapping[str, str], where: str) -> Any:
    entry = _require_mapping(value, where)
    given = {
        field: entry[key] for field, key in keys.items() if entry.get(key) not in (None, "", [])
    }
    lacking = next((keys[name] for name in NEEDED[cls] if name not in given), "")
    if lacking:
        raise ValueError(messages.SPEC_PART_LACKS.fill(where=where, lacking=lacking))
    return cls(
        **{field: tuple(map(str, v)) if isinstance(v, list) else v for field, v in given.items()}
    )


def _require_mapping(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(messages.SPEC_PART_NO_MAPPING.fill(where=where))
    return value


def _require_spec_list(value: Any, where: str) -> list[Any]:
    if value is not None and not isinstance(value, list):
        raise ValueError(messages.SPEC_PART_NO_LIST.fill(where=where))
    return value or []


def _require_spec_text(value: Mapping[str, Any], key: str, where: str) -> str:
    if not isinstance(value.get(key), str) or not value[key]:
        raise ValueError(messages.SPEC_PART_LACKS.fill(where=where, lacking=key))
    return str(value[key])
