# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reports that were kept: judged before they are believed, and put together where a fleet has several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.model import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.page import document, hosts

SETTING = "gpufleet_report_from"
STEP = f"Name files report.json that this collection has written in {SETTING}"


def merged(kept: Mapping[str, Any], at: str) -> document.Document:
    """kept: file -> what it says. Of a host that is in several the newest report counts."""
    newest = sorted(kept, key=lambda where: str(require(kept[where], where)["generated"]))
    by_name: dict[str, hosts.Host] = {}
    changes: dict[str, Any] = {}
    for where in newest:
        by_name.update(kept[where]["hosts"])
        changes.update(kept[where]["changes"])
    playbooks = sorted({str(data["run"]["playbook"]) for data in kept.values()})
    check = any(data["run"]["check"] for data in kept.values())
    return document.whole(by_name, changes, document.About(", ".join(playbooks), at, check))


def require(data: Any, where: str) -> Mapping[str, Any]:
    """The first thing that is wrong with a file is said, and nothing of it is shown."""
    if not isinstance(data, dict) or not isinstance(data.get("hosts"), dict) or not isinstance(data.get("changes"), dict):
        raise PlanError("this is no report", where=where, why=f"{SETTING} names it", next=STEP)
    if "run" not in data and "generated" not in data:  # it has hosts and changes as well, and a schema of its own
        why = "it says of no run; a plan that gpufleet_rollout_plan_file has written looks like this"
        raise PlanError("this is no report", where=where, why=why, next=STEP)
    if data.get("schema") != document.SCHEMA:
        why = f"this collection reads schema {document.SCHEMA}"
        raise PlanError(f"this report has schema {data.get('schema')!r}", where=where, why=why, next="Make the report again")
    run = data.get("run")
    sound = isinstance(run, dict) and isinstance(run.get("check"), bool) and texts(run, ("playbook",)) and texts(data, ("generated",))
    wrong = [] if sound else ["run"]
    wrong += [f"hosts.{name}" for name, host in data["hosts"].items() if not is_host(host, data["changes"])]
    wrong += [f"changes.{digest}" for digest, change in data["changes"].items() if not is_change(change)]
    if wrong:
        raise PlanError(f"this report is damaged at {wrong[0]}", where=where, why="a value there is not what the schema says", next=STEP)
    return data


def is_host(host: Any, changes: Mapping[str, Any]) -> bool:
    if not isinstance(host, dict) or not texts(host, hosts.TEXTS) or host["outcome"] not in document.KEYS:
        return False
    known = host["change"] in changes or not host["change"]
    return known and all(is_list(host.get(name), keys) for name, keys in hosts.LISTS.items())


def is_list(value: Any, keys: Sequence[str]) -> bool:
    if not isinstance(value, list):
        return False
    return all(isinstance(item, dict) and texts(item, keys) for item in value) if keys else all(isinstance(item, str) for item in value)


def is_change(change: Any) -> bool:
    if not isinstance(change, dict) or not is_list(change.get("restarts"), ()) or not isinstance(change.get("differences"), list):
        return False
    return all(isinstance(d, dict) and texts(d, ("what", "path", "why")) for d in change["differences"])


def texts(value: Mapping[str, Any], keys: Sequence[str]) -> bool:
    return all(isinstance(value.get(key), str) for key in keys)
