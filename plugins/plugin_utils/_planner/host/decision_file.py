# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The decision as it stays on the host for later readers: a file, and the same as a local fact of
Ansible.

It holds what was decided and why. Evidence and reasons may change once the decision is in force, so
they do not count as a change.
"""

from __future__ import annotations

import dataclasses as dc
import json
from collections.abc import Iterable
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.facts import Fact
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    JOURNAL_DIR,
    Decision,
    Driver,
    HostDecision,
    Plan,
    Policy,
    merge_plans,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
    ObservedFile,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections.file_places import (
    OWN_RECORD,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import (
    decision_messages,
    originals,
    owned_file,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.earlier_runs import (
    FACT_PATH,
    ORIGINALS,
    RECORD,
    WRITER,
    EarlierRuns,
    parse_decision_record,
    read_earlier_runs,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.lowering import (
    Decided,
    add_cause,
    get_policy_cause,
)

SCHEMA = 1
DECISION_PATH = f"{JOURNAL_DIR}/decision.json"
MODE = "0644"
# Keys that describe how a host looked at the time of the decision; all others hold before and after
# a run alike.
RECORDED_ONLY = ("reasons", "why")


@dc.dataclass(frozen=True)
class DecisionFacts:
    """A host's facts about an earlier decision: the two files, and the traces of earlier runs."""

    files: Fact[tuple[ObservedFile, ...]]
    earlier: EarlierRuns


def list_questions(policy: Policy) -> list[queries.Question]:  # noqa: ARG001
    return [
        queries.ask_for_file(DECISION_PATH, keep=OWN_RECORD),
        RECORD,
        ORIGINALS,
    ]


def read_decision_facts(policy: Policy, obs: Observation) -> DecisionFacts:  # noqa: ARG001
    """Return the facts of this room. The files are read when a plan needs them."""
    return DecisionFacts(
        Fact(lambda: tuple(obs.get_file(path, OWN_RECORD) for path in (DECISION_PATH, FACT_PATH))),
        read_earlier_runs(obs),
    )


def plan_decision_files(
    facts: DecisionFacts,
    host: HostDecision,
    driver: Driver,
    going: Iterable[str] = (),
    decided: Decided = get_policy_cause,
) -> Plan:
    """Plan the two files of the decision. going: files of other tools that this run takes over."""
    if host.skipped:
        return Plan()
    if not host.decisions:
        gone = plan_decision_withdrawal(facts, decision_messages.RECORD_GONE.fill())
        return add_cause(gone, decided()) if gone.changes else gone
    files = list_taken_over_files(facts.earlier, going)
    wanted = {**build_public_record(host, driver), **({"taken_over": list(files)} if files else {})}
    return merge_plans([plan_decision_write(file, wanted) for file in facts.files.value])


def plan_absent(policy: Policy, facts: DecisionFacts) -> Plan:  # noqa: ARG001
    return plan_decision_withdrawal(facts, decision_messages.RECORD_WITHDRAWN.fill())


def list_taken_over_files(earlier: EarlierRuns, going: Iterable[str] = ()) -> tuple[str, ...]:
    """List the files of other tools that this collection has removed, by the journal, or by the
    record if the journal is gone.
    """
    known = (
        [o.path for o in originals.list_originals(earlier) if o.existed and o.after is None]
        if earlier.has_journal
        else earlier.recorded_takeovers
    )
    return tuple(sorted({*known, *going}))


def plan_decision_withdrawal(facts: DecisionFacts, why: str) -> Plan:
    return merge_plans(
        [
            owned_file.plan_owned_file_restore(
                facts.earlier, f, why=why, own=parse_decision_record(f).get("writer") == WRITER
            )
            for f in facts.files.value
        ]
    )


def plan_decision_write(seen: ObservedFile, wanted: dict[str, Any]) -> Plan:
    file = owned_file.require_readable(seen)
    before = parse_decision_record(file)
    if owned_file.has_right_mode(file, MODE) and drop_momentary_values(
        before
    ) == drop_momentary_values(wanted):
        return Plan()
    why = decision_messages.RECORD_READ.fill()
    after = summarise_decision(wanted)
    written = owned_file.plan_owned_file(
        file,
        render_decision(wanted),
        why=why,
        key="decision",
        before=summarise_decision(before) or None,
        after=after,
        mode=MODE,
    )
    differences = written.differences
    # what both begin with, so the values that differ are shown
    if before and summarise_decision(before) == after:
        # Not the reasons beside them, which read otherwise once a decision is in force.
        now, will = (
            dict(owned_file.list_value_leaves(drop_momentary_values(record)))
            for record in (before, wanted)
        )
        keys = [key for key in dict.fromkeys((*will, *now)) if now.get(key) != will.get(key)]
        rows = [
            dc.replace(differences[0], key=key, before=now.get(key), after=will.get(key))
            for key in keys[: owned_file.VALUES]
        ]
        differences = tuple(rows) or (
            dc.replace(differences[0], key="mode", before=f"{file.mode & 0o7777:04o}", after=MODE),
        )
    return dc.replace(
        written,
        differences=differences,
        lasting={file.path: render_decision(drop_momentary_values(wanted))},
    )


def render_decision(wanted: dict[str, Any]) -> str:
    """Return the record as JSON. It holds no time and no run ID, so equal decisions give equal
    bytes.
    """
    return json.dumps(wanted, indent=2, sort_keys=True) + "\n"


def build_public_record(host: HostDecision, driver: Driver) -> dict[str, Any]:
    """Return the public form of a decision (schema 1)."""
    placed = bool(host.cdi_place) and host.cdi_owner == "collection"
    return {
        "schema": SCHEMA,
        "writer": WRITER,
        "engines": [build_engine_record(d) for d in host.decisions],
        "refused": [{"instance": key, "why": why} for key, why in host.refused],
        "runtime_mode": host.runtime_mode,
        "annotation_prefixes": list(host.annotation_prefixes),
        "isolation": host.isolation,
        "device_plugin": {"strategies": list(host.plugin_strategies), "source": host.plugin_source},
        "cdi": {
            "owner": host.cdi_owner,
            "version_cap": host.cdi_version_cap,
            **({"place": host.cdi_place} if placed else {}),
        },
        # UUIDs are left out: the driver reports them only after the first use of a GPU, which is
        # not a change of the host.
        "driver": {
            "version": driver.version,
            "gpus": [{"index": g.index, "bus_id": g.bus_id, "model": g.model} for g in driver.gpus],
        },
        "reasons": [dc.asdict(r) for r in host.reasons],
    }


def build_engine_record(decision: Decision) -> dict[str, Any]:
    """Return one instance's part of the record.

    The record leaves out `enable_cdi`: once the switch is written, it describes nothing about the
    host.
    """
    fields = {
        f.name: getattr(decision, f.name)
        for f in dc.fields(Decision)
        if f.name not in ("enable_cdi", "reasons")
    }
    plain = {
        name: list(value) if isinstance(value, tuple) else value for name, value in fields.items()
    }
    return {**plain, "reasons": [dc.asdict(r) for r in decision.reasons]}


def drop_momentary_values(value: Any) -> Any:
    """Return a record without the values that describe only the moment (RECORDED_ONLY), for
    comparison with another record.
    """
    if isinstance(value, dict):
        return {k: drop_momentary_values(v) for k, v in value.items() if k not in RECORDED_ONLY}
    return [drop_momentary_values(v) for v in value] if isinstance(value, list) else value


def summarise_decision(recorded: dict[str, Any]) -> str:
    engines = recorded.get("engines")
    known = [e for e in engines if isinstance(e, dict)] if isinstance(engines, list) else []
    return "; ".join(
        f"{e.get('engine')} {e.get('engine_version') or ''}".strip() + f": {e.get('injection')}"
        for e in known
    )
