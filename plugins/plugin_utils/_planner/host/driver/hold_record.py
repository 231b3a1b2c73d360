# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The record of a hold on a host: the date, the reason, and the packages that this collection holds.

A package that was held before stays held, and is never ours.
"""

from __future__ import annotations

import dataclasses as dc
import datetime
import json
import re
from collections.abc import Mapping, Set
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import (
    json_bounds,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Plan,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import (
    earlier_runs,
    owned_file,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import (
    driver_packages,
    hold_facts,
    package_locks,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import (
    holding_messages as messages,
)

NAME = re.compile(r"[A-Za-z0-9][\w.+-]*(?::[a-z0-9-]+)?", re.ASCII)  # of a package
DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
MOST_RECORDED = 1 << 10  # names, or locks, of a record: an answer has so many packages at most
SPEC = re.compile(r"[A-Za-z0-9][\w.+-]*-\d+:[\w.+~^]+-[\w.+~^]+", re.ASCII)


def read_record(facts: hold_facts.HoldingFacts) -> tuple[tuple[str, ...], str]:
    """Return the packages that this collection holds, and since when; nothing without a record. The
    hold of another release than the installed one ended with it. Raise PlanError for a file of
    others in its place.
    """
    file = owned_file.require_readable(facts.record.value)
    if not file.exists:
        return (), ""
    values = parse_record(file.text)
    if not values:
        raise PlanError(messages.RECORD_OF_OTHERS.fill(), where=file.path)
    since = str(values.get("since"))
    same = values.get("release") == facts.packages.value.release and DATE.fullmatch(since)
    return list_texts(values, "packages", NAME), since if same else ""


def list_texts(values: Mapping[str, Any], key: str, form: re.Pattern[str]) -> tuple[str, ...]:
    """Return the texts of a list in a record, as far as they have their form. A record of this
    collection has at most MOST_RECORDED.
    """
    texts = values.get(key)
    every = texts[:MOST_RECORDED] if isinstance(texts, list) else ()
    return tuple(text for text in every if isinstance(text, str) and form.fullmatch(text))


def read_locked_specs(facts: hold_facts.HoldingFacts) -> frozenset[str]:
    """Return the locks that this collection has added, by its record."""
    file = owned_file.require_readable(facts.record.value)
    return frozenset(list_texts(parse_record(file.text), "locks", SPEC))


def parse_record(text: str) -> Mapping[str, Any]:
    """Return the values of a record, {} for a text that is not ours."""
    try:
        values = json_bounds.load_bounded_json(text or "{}")
    except ValueError:
        return {}
    ours = isinstance(values, dict) and values.get("writer") == earlier_runs.WRITER
    return values if ours else {}


def build_record(policy: Policy, facts: hold_facts.HoldingFacts, held: Set[str], since: str) -> str:
    """Return the text of the record. held: the packages that this collection holds."""
    values = {
        "writer": earlier_runs.WRITER,
        "schema": 1,
        "manager": facts.manager.value,
        "reason": policy.driver_hold_reason,
        "release": facts.packages.value.release,
        "since": since,
        "packages": sorted(held),
    }
    if facts.manager.value == "dnf":
        everything = facts.packages.value.packages
        values["locks"] = [write_spec(p) for p in everything if p.name in held]
    return json.dumps(values, indent=1, sort_keys=True) + "\n"


def convert_epoch(epoch: float) -> str:
    """Return the day of a time on the host, in UTC."""
    return datetime.datetime.fromtimestamp(epoch, datetime.timezone.utc).date().isoformat()


def count_days(since: str, today: str) -> int:
    """Return the days between two dates; 0 for a date that is none, or that is to come."""
    try:
        return max(
            (datetime.date.fromisoformat(today) - datetime.date.fromisoformat(since)).days, 0
        )
    except ValueError:
        return 0


def write_spec(package: driver_packages.DriverPackage) -> str:
    """Return a package of rpm as dnf takes it: with the version that is locked."""
    return f"{package.name}-{package_locks.write_evr(package.version)}"


def plan_record(facts: hold_facts.HoldingFacts, text: str) -> Plan:
    """Plan the record. An approval binds all of it but the day of the run."""
    file = facts.record.value
    if file.exists and file.text == text:
        return Plan()
    plan = owned_file.plan_owned_file(
        file, text, why=messages.RECORD.fill(), key="hold", after="as this run leaves it"
    )
    values = {
        key: value for key, value in json_bounds.load_bounded_json(text).items() if key != "since"
    }
    return dc.replace(plan, lasting={file.path: json.dumps(values, sort_keys=True)})
