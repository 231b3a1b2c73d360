# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tables of what each release of the reference library accepts, and the rules that all releases
share.

The library is container-device-interface. Each engine carries one release of it. Tests run these
releases and compare.
"""

from __future__ import annotations

import dataclasses as dc
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.engine_view import (
    messages,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.engine_view.schema import (
    Problem,
    SpecDocument,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.spec import (
    stand_ins,
    version,
)

HOOKS = ("prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop")
NONE = "none"  # of permissions
NODE_TYPES = ("", "b", "c", "u", "p")
KNOWN = ("0.1.0", "0.2.0", *version.KNOWN)

OLD_RDT = frozenset({"rdt.enableCMT", "rdt.enableMBM"})
NEW_RDT = frozenset({"edits.netDevices", "rdt.schemata", "rdt.enableMonitoring"})
NO_ANNOTATIONS = frozenset({"spec.annotations", "device.annotations"})
NO_GIDS = frozenset({"edits.intelRdt", "edits.additionalGids", *OLD_RDT})


@dc.dataclass(frozen=True)
class LibraryRelease:
    """A release of the library. unknown: fields that it does not know, so it drops a file with one."""

    release: str
    highest: str
    unknown: frozenset[str]
    class_dots: bool = True
    needs_devices: bool = True
    root_closid: bool = False
    sorts_names: bool = False  # mounts of one depth by their names; the others keep the order
    fills_mode: bool = False  # takes the mode of a node from the host, if the spec has none
    # From 1.1.1 on, which has another reader of YAML (pkg/cdi/spec.go) and edits containers itself
    # (internal/ociedit).
    exact: bool = False  # keys count in their own case only, and of a merge and a key the key wins
    short_names: bool = False  # a vendor or a class may have one character; it is a crash before
    no_permissions: bool = False  # knows the permissions `none`
    replaces_variables: bool = False  # of the image; earlier releases put theirs behind them
    maps_ids: bool = False  # of bind mounts in a container with a user namespace

    @property
    def harmless(self) -> frozenset[str]:
        """The rules of the shape whose breach this release accepts."""
        return frozenset(
            {"changed-text", "merged-key"}
            if self.exact
            else {"changed-text", "field-case", "field-twice"}
        )


LIBRARIES: Mapping[str, LibraryRelease] = {
    library.release: library
    for library in (
        LibraryRelease(
            "0.5.4",
            "0.5.0",
            NO_ANNOTATIONS | NO_GIDS | NEW_RDT,
            class_dots=False,
            needs_devices=False,
            sorts_names=True,
        ),
        LibraryRelease("0.6.2", "0.6.0", NO_GIDS | NEW_RDT, needs_devices=False, sorts_names=True),
        LibraryRelease("0.7.2", "0.7.0", NEW_RDT, needs_devices=False, sorts_names=True),
        LibraryRelease("0.8.1", "0.8.0", NEW_RDT, needs_devices=False, sorts_names=True),
        LibraryRelease("1.0.1", "1.0.0", NEW_RDT),
        LibraryRelease("1.1.0", "1.1.0", OLD_RDT, root_closid=True, fills_mode=True),
        LibraryRelease(
            "1.1.1",
            "1.1.0",
            OLD_RDT,
            root_closid=True,
            fills_mode=True,
            exact=True,
            short_names=True,
            no_permissions=True,
            replaces_variables=True,
            maps_ids=True,
        ),
    )
}
NEWEST = LIBRARIES["1.1.1"]
# Rules of the shape whose breach some release accepts.
HARMLESS = frozenset().union(*(library.harmless for library in LIBRARIES.values()))


def list_spec_problems(
    document: SpecDocument, library: LibraryRelease = NEWEST
) -> tuple[Problem, ...]:
    """List all reasons why this release drops the file; () if it takes it."""
    problems = [p for p in document.problems if p.rule not in library.harmless]
    unknown = sorted(set(document.fields) & library.unknown)
    problems += [_report_unknown_field(field, document, library) for field in unknown]
    if document.value is None:
        return tuple(problems) or (Problem("empty", "", messages.SPEC_CONTENTLESS.fill()),)
    lines = [*_check_spec(document.value, library)]
    return (*problems, *(dc.replace(p, line=p.line or document.find_line(p.path)) for p in lines))


def _report_unknown_field(field: str, document: SpecDocument, library: LibraryRelease) -> Problem:
    name = field.rpartition(".")[2]
    return Problem(
        "unknown-field",
        name,
        messages.SPEC_FIELD_LATER.fill(release=library.release, field=name),
        document.fields[field],
    )


def _check_spec(spec: Mapping[str, Any], library: LibraryRelease) -> Iterator[Problem]:
    yield from _check_version(spec, library)
    yield from _check_kind(str(spec.get("kind", "")), library)
    yield from _check_edits(spec.get("containerEdits") or {}, "containerEdits", library)
    devices = spec.get("devices") or []
    if not devices and library.needs_devices:
        yield Problem("no-devices", "devices", messages.SPEC_DEVICELESS.fill())
    names: set[str] = set()
    for index, device in enumerate(devices):
        yield from _check_device(device, f"devices[{index}]", library, names)


def _check_version(spec: Mapping[str, Any], library: LibraryRelease) -> Iterator[Problem]:
    given = str(spec.get("cdiVersion", "")).removeprefix("v")
    if given not in KNOWN or version.get_spec_version_key(given) > version.get_spec_version_key(
        library.highest
    ):
        yield Problem(
            "version-unknown",
            "cdiVersion",
            messages.SPEC_VERSION_UNKNOWN.fill(given=given, highest=library.highest),
        )
        return
    for wanted, reason in list_document_needs(spec, library):
        if version.get_spec_version_key(wanted) > version.get_spec_version_key(given):
            yield Problem(
                "version-too-low",
                "cdiVersion",
                messages.SPEC_VERSION_LOW.fill(reason=reason, wanted=wanted, given=given),
            )


def list_document_needs(
    spec: Mapping[str, Any], library: LibraryRelease = NEWEST
) -> list[tuple[str, str]]:
    """List version and reason of everything that needs a version; the floor comes first.

    A release knows no need above its own highest version.
    """
    devices = spec.get("devices") or []
    needs = {(version.FLOOR, "any spec")}
    for edits in (
        spec.get("containerEdits") or {},
        *(d.get("containerEdits") or {} for d in devices),
    ):
        needs |= {(wanted, reason) for wanted, reason, applies in EDIT_NEEDS if applies(edits)}
    if any(DIGIT.match(d.get("name", "")) for d in devices):
        needs.add(("0.5.0", "a device name that begins with a digit"))
    if spec.get("annotations") or any(d.get("annotations") for d in devices):
        needs.add(("0.6.0", "annotations"))
    if "." in str(spec.get("kind", "")).partition("/")[2]:
        needs.add(("0.6.0", "a dot in the class"))
    return sorted(
        need
        for need in needs
        if version.get_spec_version_key(need[0]) <= version.get_spec_version_key(library.highest)
    )


DIGIT = re.compile(r"[0-9]")
EDIT_NEEDS: tuple[tuple[str, str, Callable[[Mapping[str, Any]], bool]], ...] = (
    (
        "0.4.0",
        "a mount with a type",
        lambda e: any(m and m.get("type") for m in e.get("mounts") or ()),
    ),
    (
        "0.5.0",
        "a device node with a host path",
        lambda e: any(n and n.get("hostPath") for n in e.get("deviceNodes") or ()),
    ),
    ("0.7.0", "additionalGids", lambda e: bool(e.get("additionalGids"))),
    ("0.7.0", "intelRdt", lambda e: "intelRdt" in e),
    ("1.1.0", "netDevices", lambda e: bool(e.get("netDevices"))),
    ("1.1.0", "intelRdt.schemata", lambda e: "schemata" in (e.get("intelRdt") or {})),
    (
        "1.1.0",
        "intelRdt.enableMonitoring",
        lambda e: bool((e.get("intelRdt") or {}).get("enableMonitoring")),
    ),
)

NAME = re.compile(r"[A-Za-z]([A-Za-z0-9_.-]*[A-Za-z0-9])?")
UNDOTTED = re.compile(r"[A-Za-z]([A-Za-z0-9_-]*[A-Za-z0-9])?")
DEVICE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.:-]*[A-Za-z0-9])?")


def split_kind(kind: str) -> tuple[str, str]:
    """Return vendor and class; ("", kind) if one of them is missing."""
    vendor, _slash, name = kind.partition("/")
    return (vendor, name) if vendor and name else ("", kind)


def _check_kind(kind: str, library: LibraryRelease) -> Iterator[Problem]:
    vendor, name = split_kind(kind)
    if not vendor:
        yield Problem(
            "vendor",
            "kind",
            messages.SPEC_KIND_FORM.fill(kind=kind) if kind else messages.SPEC_KINDLESS.fill(),
        )
        return
    for rule, text, pattern in (
        ("vendor", vendor, NAME),
        ("class", name, NAME if library.class_dots else UNDOTTED),
    ):
        if not pattern.fullmatch(text):
            yield Problem(rule, "kind", messages.SPEC_NAME_FORM.fill(name=text, what=rule))
        elif len(text) == 1 and not library.short_names:
            yield Problem("short-name", "kind", messages.SPEC_NAME_SHORT.fill(what=rule, name=text))


def _check_device(
    device: Mapping[str, Any], path: str, library: LibraryRelease, seen: set[str]
) -> Iterator[Problem]:
    name = str(device.get("name", ""))
    if not DEVICE.fullmatch(name):
        yield Problem(
            "device-name",
            f"{path}.name",
            messages.SPEC_DEVICE_NAME_FORM.fill(name=name)
            if name
            else messages.SPEC_DEVICE_NAMELESS.fill(),
        )
    if name in seen:
        yield Problem("device-twice", f"{path}.name", messages.SPEC_DEVICE_TWICE.fill(name=name))
    seen.add(name)
    edits = device.get("containerEdits") or {}
    if (
        not any(
            edits.get(k)
            for k in ("env", "deviceNodes", "hooks", "mounts", "netDevices", "additionalGids")
        )
        and "intelRdt" not in edits
    ):
        yield Problem("empty-edits", path, messages.SPEC_DEVICE_EDITLESS.fill(name=name))
    yield from _check_edits(edits, f"{path}.containerEdits", library)


def _check_edits(edits: Mapping[str, Any], path: str, library: LibraryRelease) -> Iterator[Problem]:
    yield from _check_env(edits, path)
    for index, node in enumerate(edits.get("deviceNodes") or ()):
        yield from _check_node(
            {"path": "?"} if node is None else node, f"{path}.deviceNodes[{index}]", library
        )
    for index, hook in enumerate(edits.get("hooks") or ()):
        if hook is not None:
            yield from _check_hook(hook, f"{path}.hooks[{index}]")
    for index, mount in enumerate(edits.get("mounts") or ()):
        missing = (
            [] if mount is None else [k for k in ("hostPath", "containerPath") if not mount.get(k)]
        )
        yield from (
            Problem(
                "mount-path", f"{path}.mounts[{index}]", messages.SPEC_MOUNT_LACKS.fill(key=key)
            )
            for key in missing
        )
    yield from _check_rdt(edits.get("intelRdt") or {}, path, library)
    yield from _check_net(
        [n for n in edits.get("netDevices") or () if n is not None], f"{path}.netDevices"
    )


def _check_env(holder: Mapping[str, Any], path: str) -> Iterator[Problem]:
    for index, text in enumerate(holder.get("env") or ()):
        if text.find("=") < 1:
            yield Problem("env", f"{path}.env[{index}]", messages.SPEC_ENV_FORM.fill(text=text))


def _check_node(node: Mapping[str, Any], path: str, library: LibraryRelease) -> Iterator[Problem]:
    if not node.get("path"):
        yield Problem("node-path", path, messages.SPEC_NODE_PATHLESS.fill())
    if node.get("type", "") not in NODE_TYPES:
        yield Problem(
            "node-type",
            f"{path}.type",
            messages.SPEC_NODE_TYPE.fill(node=node.get("path"), type=node["type"]),
        )
    if set(node.get("permissions", "")) - set("rwm") and not (
        library.no_permissions and node["permissions"] == NONE
    ):
        yield Problem(
            "node-permissions",
            f"{path}.permissions",
            messages.SPEC_NODE_PERMISSIONS.fill(
                node=node.get("path"), permissions=node["permissions"]
            ),
        )


def _check_hook(hook: Mapping[str, Any], path: str) -> Iterator[Problem]:
    if hook.get("hookName") not in HOOKS:
        yield Problem(
            "hook-name", path, messages.SPEC_HOOK_UNKNOWN.fill(hook=hook.get("hookName", ""))
        )
    if not hook.get("path"):
        yield Problem("hook-path", path, messages.SPEC_HOOK_PATHLESS.fill())
    yield from _check_env(hook, path)


def _check_rdt(rdt: Mapping[str, Any], path: str, library: LibraryRelease) -> Iterator[Problem]:
    text = str(rdt.get("closID", ""))
    if text == "/" and library.root_closid:
        return
    if text in (".", "..") or stand_ins.get_sent_size(text) >= 4096 or set(text) & set("/\n"):
        yield Problem(
            "closid", f"{path}.intelRdt.closID", messages.SPEC_CLOSID.fill(text=text[:40])
        )


def _check_net(devices: list[Mapping[str, Any]], path: str) -> Iterator[Problem]:
    for key in ("hostInterfaceName", "name"):
        names = [d.get(key, "") for d in devices]
        if "" in names:
            yield Problem("net-device", path, messages.SPEC_NET_LACKS.fill(key=key))
        for name in sorted({n for n in names if n and names.count(n) > 1}):
            yield Problem("net-device", path, messages.SPEC_NET_TWICE.fill(key=key, name=name))
