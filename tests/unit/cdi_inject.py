# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A prediction of what a container gets when devices are injected into it: the OCI spec after, from
the OCI spec before.

It follows the reference library. Nothing is injected here, since an engine does that. Tests compare
the prediction with what the library does.
"""

from __future__ import annotations

import copy
import dataclasses as dc
import posixpath
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.engine_view.lookup import (
    Loaded,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.engine_view.releases import (
    NEWEST,
    NONE,
    LibraryRelease,
)

Value = Mapping[str, Any]
LISTS = ("env", "deviceNodes", "netDevices", "hooks", "mounts", "additionalGids")


class CannotInject(ValueError):
    """An injection that fails, with the library's reason. The container is not started."""


class Unresolvable(CannotInject):
    """An injection of names that no spec gives. Nothing is injected then."""

    def __init__(self, names: tuple[str, ...]) -> None:
        super().__init__(f"unresolvable CDI devices {', '.join(names)}")
        self.names = names


@dc.dataclass(frozen=True)
class HostNode:
    """A path on the host as lstat shows it. `type` is b, c or p, and '' for what is not a node."""

    type: str
    major: int = 0
    minor: int = 0
    mode: int = 0


def inject(
    container: Value,
    names: Iterable[str],
    devices: Mapping[str, Loaded],
    host: Mapping[str, HostNode],
    library: LibraryRelease = NEWEST,
) -> dict[str, Any]:
    """Return the container's OCI spec with the named devices.

    devices: each qualified name with its file. host: what is there at host paths.
    """
    edits = gather(tuple(names), devices)
    spec: dict[str, Any] = copy.deepcopy(dict(container))
    _env(spec, edits["env"], library)
    for node in edits["deviceNodes"]:
        _node(spec, node, host, library)
    for net in edits["netDevices"]:
        _linux(spec).setdefault("netDevices", {})[net["hostInterfaceName"]] = {"name": net["name"]}
    _mounts(spec, edits["mounts"], library)
    for hook in edits["hooks"]:
        oci = {key: value for key, value in hook.items() if key != "hookName"}
        spec.setdefault("hooks", {}).setdefault(hook["hookName"], []).append(oci)
    if edits["intelRdt"] is not None:
        _linux(spec)["intelRdt"] = dict(edits["intelRdt"])
    _groups(spec, edits["additionalGids"])
    return spec


def gather(names: tuple[str, ...], devices: Mapping[str, Loaded]) -> dict[str, Any]:
    """Return the edits of all devices one after the other.

    A file's own edits come once, before those of the first of its devices. The last intelRdt
    counts.
    """
    missing = tuple(name for name in names if name not in devices)
    if missing:
        raise Unresolvable(missing)
    found: dict[str, Any] = {**{key: [] for key in LISTS}, "intelRdt": None}
    files: set[str] = set()
    for name in names:
        file = devices[name]
        device = file.map_devices()[name][1]
        parts = [device] if file.path in files else [file.document.value, device]
        files.add(file.path)
        for edits in (part.get("containerEdits") or {} for part in parts):
            for key in LISTS:
                found[key] += edits.get(key) or []
            found["intelRdt"] = edits.get("intelRdt", found["intelRdt"])
    return found


def _linux(spec: dict[str, Any]) -> dict[str, Any]:
    linux: dict[str, Any] = spec.setdefault("linux", {})
    return linux


def _process(spec: dict[str, Any]) -> dict[str, Any]:
    process: dict[str, Any] = spec.setdefault("process", {})
    return process


def _env(spec: dict[str, Any], added: list[str], library: LibraryRelease) -> None:
    """Let a variable of the edits replace one of earlier edits, and from 1.1.1 on one of the image.

    Up to 1.1.0 runtime-tools (createEnvCacheMap) knows what was there by its whole text, not by its
    name. So a container gets both, in this order, and a program that reads its environment as runc
    sets it up sees the last.
    """
    if not added:
        return
    env: list[str] = _process(spec).setdefault("env", [])
    places = {
        text.partition("=")[0] if library.replaces_variables else text: index
        for index, text in enumerate(env)
    }
    for text in added:
        key = text.partition("=")[0]
        if key in places:
            env[places[key]] = text
        else:
            places[key] = len(env)
            env.append(text)


def _node(
    spec: dict[str, Any], node: Value, host: Mapping[str, HostNode], library: LibraryRelease
) -> None:
    device = _filled(node, host, library)
    user = (spec.get("process") or {}).get("user") or {}
    for key in ("uid", "gid"):
        if key not in device and user.get(key):
            device[key] = user[key]
    there: list[dict[str, Any]] = _linux(spec).setdefault("devices", [])
    for index, other in enumerate(there):
        if other.get("path") == device["path"]:
            del there[index]
            break
    for index, other in enumerate(there):
        if other.get("path") == device["path"]:
            there[index] = device
            break
    else:
        there.append(device)
    if device["type"] in ("b", "c"):
        rule = {
            "allow": True,
            "access": "" if node.get("permissions") == NONE else node.get("permissions") or "rwm",
            **{k: device[k] for k in ("type", "major", "minor")},
        }
        _linux(spec).setdefault("resources", {}).setdefault("devices", []).append(rule)


def _filled(node: Value, host: Mapping[str, HostNode], library: LibraryRelease) -> dict[str, Any]:
    """Return a device as fillMissingInfo completes it.

    Values that the spec leaves out come from the host's node, and values of the spec win.
    """
    device: dict[str, Any] = {
        "path": node.get("path", ""), "type": node.get("type", ""), "major": node.get("major", 0), "minor": node.get("minor", 0),
        **{key: node[key] for key in ("fileMode", "uid", "gid") if key in node},
    }  # fmt: skip
    path = str(node.get("hostPath") or node.get("path") or "")
    whole = bool(device["type"]) and (device["major"] != 0 or device["type"] == "p")
    live = host.get(path)
    if live is None or not live.type:
        if whole:
            return device
        raise CannotInject(
            f"failed to stat CDI host device {path}: {'no such file or directory' if live is None else 'not a device node'}"
        )
    if library.fills_mode:
        device.setdefault("fileMode", live.mode)
    if whole:
        return device
    if (device["type"] or live.type) != live.type:
        raise CannotInject(
            f"CDI device {device['path']}, {path}: host type mismatch ({device['type']}, {live.type})"
        )
    device["type"] = live.type
    if live.type != "p" and device["major"] == 0:
        device.update(major=live.major, minor=live.minor)
    return device


def _mounts(spec: dict[str, Any], added: list[Value], library: LibraryRelease) -> None:
    if not added:
        return
    mounts: list[dict[str, Any]] = spec.setdefault("mounts", [])
    for mount in added:
        for index, other in enumerate(mounts):
            if other.get("destination") == mount["containerPath"]:
                del mounts[index]
                break
        keys = {
            "destination": "containerPath",
            "type": "type",
            "source": "hostPath",
            "options": "options",
        }
        mounts.append({new: mount[old] for new, old in keys.items() if old in mount})
        if library.maps_ids and any(
            n.get("type") == "user" for n in (spec.get("linux") or {}).get("namespaces") or ()
        ):
            _map_ids(mounts[-1])
    places = [
        (_clean(name).count("/"), name if library.sorts_names else "")
        for name in (str(m.get("destination", "")) for m in mounts)
    ]
    mounts[:] = [
        mount
        for _place, mount in sorted(zip(places, mounts, strict=True), key=lambda pair: pair[0])
    ]


def _map_ids(mount: dict[str, Any]) -> None:
    """Map the ids of a bind mount.

    In a container with a user namespace such a mount shows files with the ids of that namespace.
    """
    options = list(mount.get("options") or ())
    if {"idmap", "ridmap"} & set(options):
        return
    binds = [option for option in options if option in ("bind", "rbind")] or (
        ["bind"] if mount.get("type") == "bind" else []
    )
    if binds:
        mount["options"] = [*options, {"bind": "idmap", "rbind": "ridmap"}[binds[-1]]]


def _clean(path: str) -> str:
    """Return a path as Go's filepath.Clean does, which keeps no double slash in front."""
    return posixpath.normpath(path).replace("//", "/") if path else "."


def _groups(spec: dict[str, Any], added: list[int]) -> None:
    for group in added:
        if group:
            groups = _process(spec).setdefault("user", {}).setdefault("additionalGids", [])
            if group not in groups:
                groups.append(group)
