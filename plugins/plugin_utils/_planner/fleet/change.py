# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The change that a host plans, as a value that equal hosts share.

What belongs to one host, or to one moment, is left out: its name, its UUIDs, times, numbers of containers and processes. So a reviewer
reads each change once, and an approval stands however many containers have started since.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

Result = Mapping[str, Any]
UNCHANGED = ""
WORD = re.compile(r"[\w.-]+")
FIELDS = ("what", "path", "key", "before", "after")
LENGTH = 16

# In this order: a UUID has runs of digits that would also pass for a time.
OF_ONE_HOST: Sequence[tuple[re.Pattern[str], str]] = (
    (re.compile(r"\b(GPU-|MIG-)?[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", re.IGNORECASE), "<uuid>"),
    (re.compile(r"\b[0-9a-f]{32,64}\b"), "<id>"),
    (re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?( ?(Z|[+-]\d\d:?\d\d|UTC))?"), "<time>"),
    (re.compile(r"\b[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\b", re.IGNORECASE), "<pci>"),
    (re.compile(r"\b\d+ (?:running )?(container|sandbox|pod|process|task)(?:e?s)?\b"), "<n> \\1"),
    (re.compile(r"\b(pid|process|processes) \d+(, \d+)*", re.IGNORECASE), "\\1 <n>"),
)


def of(result: Result, host: str) -> dict[str, Any]:
    """What changes on a host: differences and units that restart, without what is its own."""
    restarts = result["would_restart"] if "would_restart" in result else result.get("restarted")
    differences = [{field: common(d.get(field), host) for field in FIELDS} for d in result.get("differences") or ()]
    differences.sort(key=lambda d: json.dumps(d, sort_keys=True))
    return {"differences": differences, "restarts": sorted({str(u) for u in restarts or ()})}


def digest(result: Result, host: str) -> str:
    """'' where nothing changes."""
    return digest_of(of(result, host))


def digest_of(change: Mapping[str, Any]) -> str:
    """The digest of a change as `of` gives it."""
    if not change["differences"] and not change["restarts"]:
        return UNCHANGED
    return hashlib.sha256(json.dumps(change, sort_keys=True).encode()).hexdigest()[:LENGTH]


def common(value: Any, host: str) -> Any:
    """A value without what belongs to one host or to one moment."""
    if isinstance(value, str):
        return common_text(value, host)
    if isinstance(value, Mapping):
        return {common_text(str(k), host): common(v, host) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [common(v, host) for v in value]
    return value


def common_text(text: str, host: str) -> str:
    for pattern, stands_for in OF_ONE_HOST:
        text = pattern.sub(stands_for, text)
    return WORD.sub(lambda found: without_host(found[0], host), text)


def without_host(word: str, host: str) -> str:
    """A word without the host's name or its first label, whatever domain follows."""
    for name in (host, host.split(".")[0]):
        # The first label of an address is a number that may stand anywhere.
        if name and not name.isdigit() and (word == name or word.startswith(f"{name}.")):
            return f"<host>{word[len(name) :]}"
    return word


def moved(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """What a change has that another one had not, and the other way round, one sentence each."""
    was, is_ = ({json.dumps(d, sort_keys=True): d for d in c.get("differences") or ()} for c in (before, after))
    moved = [f"{place(d)} is new in the plan" for key, d in is_.items() if key not in was]
    moved += [f"{place(d)} is in the plan no more" for key, d in was.items() if key not in is_]
    restarts = [set(c.get("restarts") or ()) for c in (before, after)]
    moved += [f"{unit} would restart" for unit in sorted(restarts[1] - restarts[0])]
    return moved + [f"{unit} would not restart any more" for unit in sorted(restarts[0] - restarts[1])]


def place(difference: Mapping[str, Any]) -> str:
    key = f" {difference['key']}" if difference.get("key") else ""
    return f"{difference.get('path')}{key}"
