# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules for one document that the reference library accepts.

They find what is still a problem for a container, an engine or a person.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.engine_view import (
    releases,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.engine_view.messages import (
    SPEC_NAME_SHORT,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.engine_view.schema import (
    Problem,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.lint import messages
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.spec import (
    stand_ins,
    version,
)

Value = Mapping[str, Any]
# qualified device ('' for all of them), path in the document, the edits
Edits = tuple[str, str, Value]

# Options of a mount that the OCI specification knows for Linux, with their recursive forms; `idmap`
# since 1.1.
FLAGS = (
    "ro",
    "rw",
    "suid",
    "nosuid",
    "dev",
    "nodev",
    "exec",
    "noexec",
    "atime",
    "noatime",
    "diratime",
    "nodiratime",
    "relatime",
    "norelatime",
    "strictatime",
    "nostrictatime",
    "symfollow",
    "nosymfollow",
)
OPTIONS = frozenset(
    {
        *FLAGS,
        *(f"r{flag}" for flag in FLAGS),
        "bind",
        "rbind",
        "private",
        "rprivate",
        "shared",
        "rshared",
        "slave",
        "rslave",
        "unbindable",
        "runbindable",
        "async",
        "sync",
        "dirsync",
        "defaults",
        "iversion",
        "noiversion",
        "lazytime",
        "nolazytime",
        "loud",
        "silent",
        "mand",
        "nomand",
        "remount",
        "acl",
        "noacl",
        "tmpcopyup",
        "idmap",
        "ridmap",
        "z",
        "Z",
        "U",
    }
)
OCTAL_LOOK = (400, 440, 444, 600, 620, 640, 644, 660, 664, 666, 700, 750, 755, 770, 775, 777)
ANNOTATION = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
PREFIX = re.compile(
    r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.IGNORECASE
)
ANNOTATIONS_SIZE = 256 * 1024


def list_all_edits(spec: Value) -> list[Edits]:
    """List the edits of the file, then those of each device with its qualified name."""
    edits = [("", "containerEdits", spec.get("containerEdits") or {})]
    for index, device in enumerate(spec.get("devices") or ()):
        name = f"{spec.get('kind', '')}={device.get('name', '')}"
        edits.append((name, f"devices[{index}].containerEdits", device.get("containerEdits") or {}))
    return edits


def list_edit_entries(edits: Value, path: str, key: str) -> list[tuple[str, Value]]:
    """List the entries of a list that are not null, with their places."""
    return [
        (f"{path}.{key}[{i}]", entry)
        for i, entry in enumerate(edits.get(key) or ())
        if entry is not None
    ]


def check_spec_document(spec: Value, cap: str) -> Iterator[tuple[str, Problem]]:
    """Yield all findings about a document, each with the device that it concerns, '' for none."""
    yield from _check_above_cap(spec, cap)
    yield from (("", problem) for problem in _check_short_kind(str(spec.get("kind", ""))))
    yield from _check_annotations(spec.get("annotations") or {}, "annotations", "")
    for index, device in enumerate(spec.get("devices") or ()):
        name = f"{spec.get('kind', '')}={device.get('name', '')}"
        yield from _check_annotations(
            device.get("annotations") or {}, f"devices[{index}].annotations", name
        )
    edits = list_all_edits(spec)
    for name, path, value in edits:
        yield from ((name, problem) for problem in _check_container_edits(value, path))
    for own in edits[1:] or edits:
        yield from _check_doubles(edits[0], own)


def _check_above_cap(spec: Value, cap: str) -> Iterator[tuple[str, Problem]]:
    given = str(spec.get("cdiVersion", "")).removeprefix("v")
    if (
        cap
        and given in releases.KNOWN
        and version.get_spec_version_key(given) > version.get_spec_version_key(cap)
    ):
        lowest = releases.list_document_needs(spec)[-1][0]
        needless = version.get_spec_version_key(lowest) < version.get_spec_version_key(given)
        said = (
            messages.FOUND_ABOVE_CAP_NEEDLESSLY.fill(given=given, cap=cap, lowest=lowest)
            if needless
            else messages.FOUND_ABOVE_CAP.fill(given=given, cap=cap)
        )
        yield "", Problem("above-cap", "cdiVersion", said)


def _check_short_kind(kind: str) -> Iterator[Problem]:
    names = releases.split_kind(kind)
    for what, name in zip(("vendor", "class"), names, strict=True):
        if len(name) == 1 and all(names):
            yield Problem("short-name", "kind", SPEC_NAME_SHORT.fill(what=what, name=name))


def _check_annotations(found: Value, path: str, device: str) -> Iterator[tuple[str, Problem]]:
    for key in found:
        prefix, slash, name = key.rpartition("/")
        if not ANNOTATION.fullmatch(name) or (
            slash and (len(prefix) > 253 or not PREFIX.fullmatch(prefix))
        ):
            yield (
                device,
                Problem(
                    "annotation",
                    f"{path}.{key}",
                    messages.FOUND_ANNOTATION_FORM.fill(name=key[:80]),
                ),
            )
    size = sum(stand_ins.get_sent_size(k) + stand_ins.get_sent_size(v) for k, v in found.items())
    if size > ANNOTATIONS_SIZE:
        yield (
            device,
            Problem(
                "annotation",
                path,
                messages.FOUND_ANNOTATIONS_LARGE.fill(size=size, limit=ANNOTATIONS_SIZE),
            ),
        )


def _check_container_edits(edits: Value, path: str) -> Iterator[Problem]:
    for place, node in list_edit_entries(edits, path, "deviceNodes"):
        yield from _check_absolute_paths(node, place, ("path", "hostPath"))
        yield from _check_mode(node, place)
        if node.get("permissions") == releases.NONE:
            yield Problem(
                "no-permissions",
                f"{place}.permissions",
                messages.FOUND_PERMISSIONLESS.fill(node=node.get("path")),
            )
    for place, mount in list_edit_entries(edits, path, "mounts"):
        yield from _check_absolute_paths(
            mount, place, ("hostPath", "containerPath") if is_bind(mount) else ("containerPath",)
        )
        yield from _check_mount_options(mount, place)
    for place, hook in list_edit_entries(edits, path, "hooks"):
        yield from _check_absolute_paths(hook, place, ("path",))
        yield from _check_hook_form(hook, place)
    if any(edits.get("additionalGids") or ()):
        yield Problem(
            "additional-gids",
            f"{path}.additionalGids",
            messages.FOUND_GROUPS.fill(groups=", ".join(map(str, edits["additionalGids"]))),
        )
    if edits.get("netDevices"):
        yield Problem("net-runtime", f"{path}.netDevices", messages.FOUND_NET_DEVICES.fill())


def is_bind(mount: Value) -> bool:
    """Tell whether the host path is a path, and not the name of a file system."""
    return mount.get("type", "") in ("", "bind", "none")


def _check_absolute_paths(entry: Value, path: str, keys: tuple[str, ...]) -> Iterator[Problem]:
    for key in keys:
        if entry.get(key) and not entry[key].startswith("/"):
            yield Problem(
                "relative-path",
                f"{path}.{key}",
                messages.FOUND_RELATIVE_PATH.fill(key=key, path=entry[key]),
            )


def _check_mode(node: Value, path: str) -> Iterator[Problem]:
    mode = node.get("fileMode")
    if mode is not None and (mode > 0o7777 or mode in OCTAL_LOOK):
        yield Problem(
            "file-mode",
            f"{path}.fileMode",
            messages.FOUND_FILE_MODE.fill(mode=mode, node=node.get("path")),
        )


def _check_mount_options(mount: Value, path: str) -> Iterator[Problem]:
    options = mount.get("options") or []
    for option in options:
        if option not in OPTIONS and is_bind(mount) and "=" not in option:
            yield Problem(
                "mount-option",
                f"{path}.options",
                messages.FOUND_MOUNT_OPTION.fill(option=option, mount=mount.get("containerPath")),
            )
    if not mount.get("type") and not {"bind", "rbind"} & set(options):
        yield Problem(
            "mount-type",
            path,
            messages.FOUND_MOUNT_TYPELESS.fill(mount=mount.get("containerPath")),
        )


def _check_hook_form(hook: Value, path: str) -> Iterator[Problem]:
    program = posixpath.basename(hook.get("path", ""))
    timeout, args = hook.get("timeout"), hook.get("args") or []
    if timeout is not None and timeout <= 0:
        yield Problem(
            "hook-timeout",
            f"{path}.timeout",
            messages.FOUND_HOOK_TIMEOUT.fill(program=program, timeout=timeout),
        )
    if args and posixpath.basename(args[0]) != program:
        yield Problem(
            "hook-arguments",
            f"{path}.args",
            messages.FOUND_HOOK_ARGUMENT.fill(program=program, argument=args[0]),
        )
    if hook.get("hookName") == "startContainer":
        yield Problem(
            "hook-in-container",
            path,
            messages.FOUND_HOOK_IN_CONTAINER.fill(program=hook.get("path")),
        )


def _check_doubles(common: Edits, own: Edits) -> Iterator[tuple[str, Problem]]:
    """Yield what one device gives a container twice.

    It may do so in itself, or together with what the file gives to all its devices.
    """
    both = (common, own) if own != common else (own,)
    for rule, key, identity, words in DOUBLES:
        first: dict[str, Any] = {}
        for name, path, edits in both:
            for index, entry in enumerate(edits.get(key) or ()):
                if entry is None or not (mark := identity(entry)):
                    continue
                if first.setdefault(mark, entry) != entry:
                    yield (
                        name,
                        Problem(
                            rule,
                            f"{path}.{key}[{index}]",
                            messages.FOUND_TWICE.fill(name=mark, done=words),
                        ),
                    )


Identity = Callable[[Any], str]
DOUBLES: tuple[tuple[str, str, Identity, str], ...] = (
    ("double-mount", "mounts", lambda mount: str(mount.get("containerPath", "")), "mounted"),
    ("double-node", "deviceNodes", lambda node: str(node.get("path", "")), "made"),
    ("double-env", "env", lambda text: str(text).partition("=")[0], "set"),
)
