# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Describe the change that a host plans as a value that equal hosts share.

It contains what the transactions do (items), and what people read of them (differences and
restarts). The items (bound.py) are literal, except that GPUs are named by position. In the
differences, the state that was found has no host name, identifiers, times, and numbers of
containers and processes. So a reviewer reads each change once, and an approval stays valid if more
containers start. The wanted state is never normalised.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import messages

Result = Mapping[str, Any]
Item = Mapping[str, Any]
UNCHANGED = ""
WORD = re.compile(r"[\w.-]+")
FIELDS = ("what", "path", "key", "before", "after")
SCHEMA = 1  # of what a digest is made from
LENGTH = 64  # hexadecimal digits of a SHA-256
SHOWN = 16  # digits of it that sentences and tables show
WITHIN = "work within"  # of an item that names a tree (gpufleet_root)

# The order matters: a UUID has runs of digits that would also match a time.
OF_ONE_HOST: Sequence[tuple[re.Pattern[str], str]] = (
    (
        re.compile(r"\b(GPU-|MIG-)?[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", re.IGNORECASE),
        "<uuid>",
    ),
    (re.compile(r"\b[0-9a-f]{32,64}\b"), "<id>"),
    (re.compile(r"\bcontent [0-9a-f]{12}\b"), "content <id>"),
    (
        re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?( ?(Z|[+-]\d\d:?\d\d|UTC))?"),
        "<time>",
    ),
    (re.compile(r"\b[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\b", re.IGNORECASE), "<pci>"),
    (re.compile(r"\b\d+ (?:running )?(container|sandbox|pod|process|task)(?:e?s)?\b"), "<n> \\1"),
    (re.compile(r"\b(pid|process|processes) \d+(, \d+)*", re.IGNORECASE), "\\1 <n>"),
)


def build_shared_change(result: Result, host: str) -> dict[str, Any]:
    """Return what changes on a host, without what is its own: `bound` items, `differences` and
    `restarts` (units).
    """
    planned: Mapping[str, Any] = result.get("planned") or {}
    shared: Mapping[str, Any] = (
        planned
        if planned
        else {"differences": result.get("differences"), "restarts": list_shared_restarts(result)}
    )
    differences = [
        share_difference(difference, host) for difference in shared.get("differences") or ()
    ]
    differences.sort(key=lambda d: json.dumps(d, sort_keys=True))
    items = sorted(
        (share_tree_item(item, host) for item in planned.get("bound") or ()),
        key=lambda item: json.dumps(item, sort_keys=True),
    )
    return {
        "bound": items,
        "differences": differences,
        "restarts": sorted({str(u) for u in shared.get("restarts") or ()}),
    }


def share_tree_item(item: Item, host: str) -> Item:
    """Return an item as it is, but one that names a tree without the host's name.

    Each host of an inventory may have a tree of its own.
    """
    return (
        {**item, "path": drop_host_text(str(item["path"]), host)}
        if item.get("do") == WITHIN
        else item
    )


def list_shared_restarts(result: Result) -> Sequence[str]:
    """Return the units that a change restarts, or would restart."""
    return result["would_restart"] if "would_restart" in result else result.get("restarted") or ()


def share_difference(difference: Mapping[str, Any], host: str) -> dict[str, Any]:
    """Return a difference as equal hosts share it.

    The value that was found (`before`) loses what is of one host. All else stays as it is.
    """
    return {
        field: drop_host_values(difference.get(field), host)
        if field == "before"
        else difference.get(field)
        for field in FIELDS
    }


def digest_change(result: Result, host: str) -> str:
    """Return the digest of what changes on a host, '' if nothing changes."""
    return digest_of(build_shared_change(result, host))


def digest_of(change: Mapping[str, Any]) -> str:
    """Return the digest of a change as `build_shared_change` returns it, '' if it is empty.

    It covers canonical JSON, the schema included.
    """
    if not any(change.get(part) for part in ("bound", "differences", "restarts")):
        return UNCHANGED
    read = {part: change.get(part) for part in ("differences", "restarts")}
    whole = {"schema": SCHEMA, "bound": change.get("bound") or [], "shown": read}
    return hashlib.sha256(
        json.dumps(whole, sort_keys=True, separators=(",", ":")).encode()
    ).hexdigest()


def drop_host_values(value: Any, host: str) -> Any:
    """Return a value without what belongs to one host or to one moment."""
    if isinstance(value, str):
        return drop_host_text(value, host)
    if isinstance(value, Mapping):
        return {drop_host_text(str(k), host): drop_host_values(v, host) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [drop_host_values(v, host) for v in value]
    return value


def drop_host_text(text: str, host: str) -> str:
    """Return a text with what belongs to one host replaced, so that equal hosts have equal texts."""
    for pattern, stands_for in OF_ONE_HOST:
        text = pattern.sub(stands_for, text)
    return WORD.sub(lambda found: replace_host_name(found[0], host), text)


def replace_host_name(word: str, host: str) -> str:
    """Return a word with <host> for the host's name or the first label of that name, whatever
    domain follows.
    """
    for name in (host, host.split(".")[0]):
        # The first label of an address is a number, which may occur anywhere in a text.
        if name and not name.isdigit() and (word == name or word.startswith(f"{name}.")):
            return f"<host>{word[len(name) :]}"
    return word


def list_moved_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """List what a change has and the one before had not, and what it has lost, one sentence each."""
    was, is_ = (
        {json.dumps(d, sort_keys=True): d for d in c.get("differences") or ()}
        for c in (before, after)
    )
    moved: list[str] = [
        messages.NEW_IN_PLAN.fill(subject=get_difference_place(d))
        for key, d in is_.items()
        if key not in was
    ]
    moved += [
        messages.GONE_FROM_PLAN.fill(subject=get_difference_place(d))
        for key, d in was.items()
        if key not in is_
    ]
    restarts = [set(c.get("restarts") or ()) for c in (before, after)]
    moved += [messages.WOULD_RESTART.fill(unit=unit) for unit in sorted(restarts[1] - restarts[0])]
    moved += [
        messages.WOULD_NOT_RESTART.fill(unit=unit) for unit in sorted(restarts[0] - restarts[1])
    ]
    return moved + list_moved_items(before.get("bound") or (), after.get("bound") or ())


def list_moved_items(before: Sequence[Item], after: Sequence[Item]) -> list[str]:
    """List how bound items differ, one sentence for each content, command or unit that is another
    one.

    Differences and restarts (`list_moved_changes`) do not show these.
    """
    was, is_ = (
        {json.dumps(item, sort_keys=True): name_item_subject(item) for item in items}
        for items in (before, after)
    )
    new = [place for key, place in is_.items() if key not in was]
    gone = [place for key, place in was.items() if key not in is_]
    moved: list[str] = [
        (messages.NOT_AS_APPROVED if place in gone else messages.NEW_IN_PLAN).fill(subject=place)
        for place in new
    ]
    left = [messages.GONE_FROM_PLAN.fill(subject=place) for place in gone if place not in new]
    return list(dict.fromkeys([*moved, *left]))


SUBJECTS = ("path", "unit", "argv", "name", "text", "socket", "mode")


def name_item_subject(item: Item) -> str:
    """Name an item of a transaction by what it acts on."""
    about = next((item[key] for key in SUBJECTS if item.get(key)), "")
    words = " ".join(map(str, about)) if isinstance(about, list | tuple) else str(about)
    return f"{item.get('do')} {words}".strip()


def list_change_subjects(change: Mapping[str, Any]) -> list[str]:
    """List the subjects of a change: its differences and restarts if it has any, else its items."""
    read = [get_difference_place(d) for d in change["differences"]] + [
        f"a restart of {unit}" for unit in change["restarts"]
    ]
    return read or [name_item_subject(item) for item in change["bound"]]


def get_difference_place(difference: Mapping[str, Any]) -> str:
    """Return the path and the key of a difference, in words."""
    key = f" {difference['key']}" if difference.get("key") else ""
    return f"{difference.get('path')}{key}"
