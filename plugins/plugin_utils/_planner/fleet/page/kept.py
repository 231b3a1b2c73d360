# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check reports that were kept before they are used, and merge several reports of a fleet into one."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.text import names
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet.page import (
    document,
    hosts,
    messages,
)

# `north=north/report.json` names one report. Its hosts may have the same names as hosts of another
# report.
STEP = messages.NAME_FILES
NAMED = re.compile(r"([A-Za-z0-9][A-Za-z0-9_.-]*)=(.+)", re.DOTALL)


def get_report_file(source: str) -> str:
    """Return the file that an entry of `sources` means."""
    match = NAMED.fullmatch(source)
    return match[2] if match else source


def list_report_hosts(source: str, report: Mapping[str, Any]) -> dict[str, hosts.Host]:
    """Return the hosts of one report by name. If the report has a name, it stands before the name
    of each host.
    """
    match = NAMED.fullmatch(source)
    return {f"{match[1]}/{name}" if match else name: host for name, host in report["hosts"].items()}


def list_hosts_in_several(kept: Mapping[str, Any]) -> list[str]:
    """List the hosts that are in more than one report. A report knows a host by its name alone."""
    counts = Counter(
        name for source, report in kept.items() for name in list_report_hosts(source, report)
    )
    return sorted(
        (name for name, times in counts.items() if times > 1), key=names.build_natural_key
    )


def warn_of_hosts_in_several(kept: Mapping[str, Any]) -> list[str]:
    """Report the hosts that are in several reports and were taken for one. Two hosts of one name
    would be one row.
    """
    repeated = list_hosts_in_several(kept)
    if not repeated:
        return []
    return [messages.HOSTS_TWICE.fill(hosts=names.show_some_runs(repeated))]


def merge_reports(kept: Mapping[str, Any], at: str) -> document.Document:
    """Merge several reports into one. If a host is in several, the newest report counts.

    kept: entry of `sources` -> the content of its file.
    """
    newest = sorted(kept, key=lambda where: str(require_report(kept[where], where)["generated"]))
    by_name: dict[str, hosts.Host] = {}
    changes: dict[str, Any] = {}
    for where in newest:
        by_name.update(list_report_hosts(where, kept[where]))
        changes.update(kept[where]["changes"])
    playbooks = sorted({str(data["run"]["playbook"]) for data in kept.values()})
    check = any(data["run"]["check"] for data in kept.values())
    return document.complete_report(
        by_name, changes, document.About(", ".join(playbooks), at, check)
    )


def require_report(data: Any, where: str) -> Mapping[str, Any]:
    """Return the data of a report. Raise PlanError for the first fault in it, with its place."""
    if (
        not isinstance(data, dict)
        or not isinstance(data.get("hosts"), dict)
        or not isinstance(data.get("changes"), dict)
    ):
        raise PlanError(messages.NOT_A_REPORT.fill(), where=where)
    # it has hosts and changes as well, and a schema of its own
    if "run" not in data and "generated" not in data:
        raise PlanError(messages.A_PLAN.fill(), where=where)
    if data.get("schema") != document.SCHEMA:
        what = messages.REPORT_SCHEMA.fill(found=repr(data.get("schema")), known=document.SCHEMA)
        raise PlanError(what, where=where)
    run = data.get("run")
    sound = (
        isinstance(run, dict)
        and isinstance(run.get("check"), bool)
        and are_texts(run, ("playbook",))
        and are_texts(data, ("generated",))
    )
    wrong = [] if sound else ["run"]
    wrong += [
        f"hosts.{name}"
        for name, host in data["hosts"].items()
        if not is_host(host, data["changes"])
    ]
    wrong += [
        f"changes.{digest}" for digest, change in data["changes"].items() if not is_change(change)
    ]
    if wrong:
        raise PlanError(messages.REPORT_DAMAGED.fill(place=wrong[0]), where=where)
    return data


def is_host(host: Any, changes: Mapping[str, Any]) -> bool:
    """Tell whether a value has the form of a host in a report."""
    if (
        not isinstance(host, dict)
        or not are_texts(host, hosts.TEXTS)
        or host["outcome"] not in document.KEYS
    ):
        return False
    known = host["change"] in changes or not host["change"]
    return known and all(is_list(host.get(name), keys) for name, keys in hosts.LISTS.items())


def is_list(value: Any, keys: Sequence[str]) -> bool:
    """Tell whether a value is a list of texts, or of mappings with texts under these keys."""
    if not isinstance(value, list):
        return False
    return (
        all(isinstance(item, dict) and are_texts(item, keys) for item in value)
        if keys
        else all(isinstance(item, str) for item in value)
    )


def is_change(change: Any) -> bool:
    """Tell whether a value has the form of a change in a report."""
    if (
        not isinstance(change, dict)
        or not is_list(change.get("restarts"), ())
        or not isinstance(change.get("differences"), list)
    ):
        return False
    return all(
        isinstance(d, dict) and are_texts(d, ("what", "path", "why")) for d in change["differences"]
    )


def are_texts(value: Mapping[str, Any], keys: Sequence[str]) -> bool:
    """Tell whether a mapping has a text under each of these keys."""
    return all(isinstance(value.get(key), str) for key in keys)
