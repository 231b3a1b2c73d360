# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The decision as it stays on the host for later readers: a file, and the same as a local fact of Ansible.

It holds what was decided and why. Evidence and reasons may change once the decision is in force, so they do not count as a change.
"""

from __future__ import annotations

import dataclasses as dc
import json
from collections.abc import Iterable
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner import originals, owned_file, queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.formats import json_bounds
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.lowering import Decided, by_policy, caused
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.model import (
    JOURNAL_DIR,
    Decision,
    Driver,
    HostDecision,
    Plan,
    Policy,
    merge,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.observation import File, Observation
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.projections.file_places import OWN_RECORD

SCHEMA = 1
DECISION_PATH = f"{JOURNAL_DIR}/decision.json"
# Ansible's setup module runs facts that are executable and parses the others: 0644 makes it data (`ansible_local.gpufleet`).
FACT_PATH = "/etc/ansible/facts.d/gpufleet.fact"
MODE = "0644"
WRITER = "gpufleet.nvidia"
# Keys that describe how a host looked at the time of the decision; all others hold before and after a run alike.
RECORDED_ONLY = ("reasons", "why")


def questions(policy: Policy) -> list[queries.Question]:
    return [queries.file(DECISION_PATH, keep=OWN_RECORD), queries.file(FACT_PATH, keep=OWN_RECORD), owned_file.ORIGINALS]


def plan(
    policy: Policy, obs: Observation, host: HostDecision, driver: Driver, going: Iterable[str] = (), decided: Decided = by_policy
) -> Plan:
    """Plan the two files of the decision. going: files of other tools that this run takes over."""
    if host.skipped:
        return Plan()
    if not host.decisions:
        gone = withdraw(obs, "this host has no decision any more")
        return caused(gone, decided()) if gone.changes else gone
    files = taken_over(obs, going)
    wanted = {**record(host, driver), **({"taken_over": list(files)} if files else {})}
    return merge([write(obs, path, wanted) for path in (DECISION_PATH, FACT_PATH)])


def plan_absent(policy: Policy, obs: Observation) -> Plan:
    return withdraw(obs, "state: absent")


def was_here(obs: Observation) -> bool:
    """Tell whether this collection has converged the whole host, by the fact that it leaves.

    The fact counts even if the journal is gone.
    """
    return parsed(obs.file(FACT_PATH, OWN_RECORD)).get("writer") == WRITER


def engines(obs: Observation) -> frozenset[str]:
    """Return the engines that this collection has configured on this host, as its record lists them."""
    found = parsed(obs.file(FACT_PATH, OWN_RECORD)).get("engines")
    known = [e for e in found if isinstance(e, dict)] if isinstance(found, list) else []
    return frozenset(str(e.get("engine")) for e in known)


def plugin_source(obs: Observation) -> str:
    """Return how the last run knew the device plugin's strategies: declared, seen or default.

    Return '' if there is no record.
    """
    found = parsed(obs.file(FACT_PATH, OWN_RECORD)).get("device_plugin")
    return str(found.get("source") or "") if isinstance(found, dict) else ""


def spec_place(obs: Observation) -> str:
    """Return the directory that the last run recorded for the CDI specs of a host whose engines have directories of their own.

    Return '' if none is recorded.
    """
    if not obs.asked(queries.file(FACT_PATH, keep=OWN_RECORD)):
        return ""
    found = parsed(obs.file(FACT_PATH, OWN_RECORD)).get("cdi")
    place = found.get("place") if isinstance(found, dict) else None
    return place if isinstance(place, str) and place.startswith("/") else ""


def taken_over(obs: Observation, going: Iterable[str] = ()) -> tuple[str, ...]:
    """List the files of other tools that this collection has removed, by the journal, or by the record if the journal is gone."""
    known = [o.path for o in originals.kept(obs) if o.existed and o.after is None] if originals.journal_is_there(obs) else recorded(obs)
    return tuple(sorted({*known, *going}))


def recorded(obs: Observation) -> list[str]:
    found = parsed(obs.file(FACT_PATH, OWN_RECORD)).get("taken_over")
    return [path for path in found if isinstance(path, str)] if isinstance(found, list) else []


def withdraw(obs: Observation, why: str) -> Plan:
    files = [obs.file(path, OWN_RECORD) for path in (DECISION_PATH, FACT_PATH)]
    return merge([owned_file.give_back(obs, f, why=why, own=parsed(f).get("writer") == WRITER) for f in files])


def write(obs: Observation, path: str, wanted: dict[str, Any]) -> Plan:
    file = owned_file.readable(obs.file(path, OWN_RECORD))
    before = parsed(file)
    if owned_file.right_mode(file, MODE) and lasting(before) == lasting(wanted):
        return Plan()
    why = "other programs on the host can read how containers get GPUs here"
    after = headline(wanted)
    written = owned_file.write(file, text(wanted), why=why, key="decision", before=headline(before) or None, after=after, mode=MODE)
    found = written.differences
    if before and headline(before) == after:  # what both begin with, so the values that differ are shown
        # Not the reasons beside them, which read otherwise once a decision is in force.
        now, will = (dict(owned_file.leaves(lasting(record))) for record in (before, wanted))
        keys = [key for key in dict.fromkeys((*will, *now)) if now.get(key) != will.get(key)]
        rows = [dc.replace(found[0], key=key, before=now.get(key), after=will.get(key)) for key in keys[: owned_file.VALUES]]
        found = tuple(rows) or (dc.replace(found[0], key="mode", before=f"{file.mode & 0o7777:04o}", after=MODE),)
    return dc.replace(written, differences=found, lasting={file.path: text(lasting(wanted))})


def text(wanted: dict[str, Any]) -> str:
    """Return the record as JSON. It holds no time and no run ID, so equal decisions give equal bytes."""
    return json.dumps(wanted, indent=2, sort_keys=True) + "\n"


def record(host: HostDecision, driver: Driver) -> dict[str, Any]:
    """Return the public form of a decision (schema 1)."""
    placed = bool(host.cdi_place) and host.cdi_owner == "collection"
    return {
        "schema": SCHEMA,
        "writer": WRITER,
        "engines": [engine(d) for d in host.decisions],
        "refused": [{"instance": key, "why": why} for key, why in host.refused],
        "runtime_mode": host.runtime_mode,
        "annotation_prefixes": list(host.annotation_prefixes),
        "isolation": host.isolation,
        "device_plugin": {"strategies": list(host.plugin_strategies), "source": host.plugin_source},
        "cdi": {"owner": host.cdi_owner, "version_cap": host.cdi_version_cap, **({"place": host.cdi_place} if placed else {})},
        # UUIDs are left out: the driver reports them only after the first use of a GPU, which is not a change of the host.
        "driver": {"version": driver.version, "gpus": [{"index": g.index, "bus_id": g.bus_id, "model": g.model} for g in driver.gpus]},
        "reasons": [dc.asdict(r) for r in host.reasons],
    }


def engine(decision: Decision) -> dict[str, Any]:
    """Return one instance's part of the record.

    The record leaves out `enable_cdi`: once the switch is written, it describes nothing about the host.
    """
    fields = {f.name: getattr(decision, f.name) for f in dc.fields(Decision) if f.name not in ("enable_cdi", "reasons")}
    plain = {name: list(value) if isinstance(value, tuple) else value for name, value in fields.items()}
    return {**plain, "reasons": [dc.asdict(r) for r in decision.reasons]}


def lasting(value: Any) -> Any:
    """Return a record without the values that describe only the moment (RECORDED_ONLY), for comparison with another record."""
    if isinstance(value, dict):
        return {k: lasting(v) for k, v in value.items() if k not in RECORDED_ONLY}
    return [lasting(v) for v in value] if isinstance(value, list) else value


def parsed(file: File) -> dict[str, Any]:
    """Return the record in a file; {} if the file holds no record. Such a file is replaced."""
    try:
        value = json_bounds.loads(file.content or "{}")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def headline(recorded: dict[str, Any]) -> str:
    engines = recorded.get("engines")
    known = [e for e in engines if isinstance(e, dict)] if isinstance(engines, list) else []
    return "; ".join(f"{e.get('engine')} {e.get('engine_version') or ''}".strip() + f": {e.get('injection')}" for e in known)
