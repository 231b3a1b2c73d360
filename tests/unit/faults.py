# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Single faults of a host as a look reports them: one answer that fails, or one thing that an
answer has no longer.

A fault is a function from a question's id and its answer to the answer. It also holds for what is
asked later on.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Plan
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.engine_view import (
    reader,
)

Answer = Mapping[str, Any]
Fault = Callable[[str, Answer], Answer]
FAILED: Answer = {"error": {"kind": "timeout", "message": "no answer within 5 s"}}


def at(qid: str, change: Callable[[dict[str, Any]], Answer]) -> Fault:
    """Return the fault of one answer."""
    return lambda asked, answer: (
        change(copy.deepcopy(dict(answer))) if asked == qid and "error" not in answer else answer
    )


def without(kind: str, key: str, part: Any) -> Callable[[dict[str, Any]], Answer]:
    """Return a change that takes one part out of an answer."""

    def change(answer: dict[str, Any]) -> Answer:
        if isinstance(answer[key], list):
            answer[key] = [one for one in answer[key] if one != part]
        else:
            answer[key][part] = {
                "units": {"LoadState": "not-found", "ActiveState": "inactive"}
            }.get(kind)
        return answer

    return change


def unit(name: str, **state: str) -> Callable[[dict[str, Any]], Answer]:
    def change(answer: dict[str, Any]) -> Answer:
        answer["units"][name] = {**answer["units"][name], **state}
        return answer

    return change


STATES = (
    {"ActiveState": "inactive", "SubState": "dead", "MainPID": "0"},
    {"ActiveState": "failed", "SubState": "failed", "MainPID": "0"},
    {"LoadState": "masked", "ActiveState": "inactive", "UnitFileState": "masked", "MainPID": "0"},
)
PARTS = {
    "which": "found",
    "package": "installed",
    "glob": "files",
    "paths": "files",
    "dir": "entries",
    "processes": "processes",
}


def of(qid: str, answer: Answer) -> Iterator[tuple[str, Fault]]:
    """Yield the closed list of what may be wrong with one answer, each with its name."""
    kind = qid.partition(":")[0]
    if "error" in answer:
        return
    yield f"{qid}: fails", at(qid, lambda _answer: FAILED)
    if kind in ("file", "stat") and answer.get("exists"):
        yield f"{qid}: not there", at(qid, lambda _answer: {"exists": False})
    if kind == "file" and isinstance(answer.get("content"), str) and answer["content"]:
        yield f"{qid}: empty", at(qid, lambda a: {**a, "content": "", "sha256": "0" * 64})
    if kind in ("command", "probe", "cri", "http"):
        yield (
            f"{qid}: says nothing",
            at(
                qid,
                lambda _answer: {"rc": 1, "stdout": "", "stderr": ""} if kind == "command" else {},
            ),
        )
    found = answer.get(PARTS.get(kind, ""))
    for part in (
        (list(found) if found else ())
        if not isinstance(found, dict)
        else [name for name, what in found.items() if what]
    ):
        named = (
            part
            if isinstance(part, str)
            else part.get("path") or part.get("exe") or part.get("name")
        )
        yield f"{qid}: without {named}", at(qid, without(kind, PARTS[kind], part))
    for name, state in (answer.get("units") or {}).items() if kind == "units" else ():
        if state.get("LoadState") == "not-found":
            continue
        yield f"{qid}: without {name}", at(qid, without(kind, "units", name))
        for other in STATES:
            yield (
                f"{qid}: {name} is {other.get('LoadState', other['ActiveState'])}",
                at(qid, unit(name, **other)),
            )


def stopped(program: str, socket: str, name: str, state: Mapping[str, str]) -> Fault:
    """Return the fault of an engine that does not run.

    It has no process, its socket does not answer, and its unit is in this state.
    """

    def fault(qid: str, answer: Answer) -> Answer:
        kind = qid.partition(":")[0]
        if kind in ("cri", "http") and socket in qid:
            return {"error": {"kind": "unreachable", "message": "connection refused"}}
        if kind == "processes" and "processes" in answer:
            return {
                **answer,
                "processes": [p for p in answer["processes"] if p.get("exe") != program],
            }
        if kind == "units" and name in (answer.get("units") or {}):
            return unit(name, **state)(copy.deepcopy(dict(answer)))
        return answer

    return fault


# ---------------------------------------------------------------- what is less afterwards, judged
# without the planner's own table

NVIDIA = re.compile(r"nvidia")
# has what a spec was made from: another value there is another spec's, and none is less
WATCH = "/etc/gpufleet/cdi-watch.json"


def taken(plan: Plan) -> list[str]:
    """List what a plan takes away, in a word each."""
    every = [*plan.first, plan]
    found = [
        f"{c['op']} {c['path']}"
        for one in every
        for c in one.changes
        if c["op"] in ("remove", "restore")
    ]
    found += [f"disable {name}" for one in every for name in one.disable_units]
    found += [
        " ".join(c["argv"])
        for one in every
        for c in one.commands
        if {"stop", "disable", "mask"} & set(c["argv"][:3])
    ]
    found += [
        f"{d.path} {d.key}: {d.before} to {d.after}"
        for one in every
        for d in one.differences
        if d.path != WATCH and less(d.key, d.before, d.after)
    ]
    return found + [
        f"{path}: {lost}"
        for one in every
        for path, before, after in one.diffs
        for lost in losses(before, after)
    ]


def less(key: str, before: Any, after: Any) -> bool:
    if isinstance(before, bool):
        return before and after is not True and key != "privileged_without_host_devices"
    if isinstance(before, list):
        return not set(map(str, before)) <= set(map(str, after or ()))
    return (
        bool(before) and "default" in key and bool(NVIDIA.search(str(before))) and before != after
    )


def losses(before: str, after: str) -> list[str]:
    """List devices of a CDI spec, strategies and engines of a record that are missing afterwards."""
    if "cdiVersion" in before:
        try:
            names = [
                {d.name for d in reader.parse_spec(text).devices} if text else set()
                for text in (before, after)
            ]
        except ValueError:
            return []
        return sorted(names[0] - names[1])
    if '"engines"' not in before:
        return []
    was, now = (
        {e["engine"]: e for e in json.loads(text or "{}").get("engines", ())}
        for text in (before, after)
    )
    gone = [name for name in was if name not in now]
    return gone + [
        n
        for n in now
        if n in was
        and not set(was[n]["device_list_strategy"]) <= set(now[n]["device_list_strategy"])
    ]
