# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The decision on a host, and the time when it changed, as a text file for Prometheus
(node_exporter's textfile collector reads *.prom).

The file holds points in time instead of ages, so it changes only with the host. Only the file
itself knows the time of the last change. The time is kept while nothing else changes; otherwise it
becomes the host's own time at the look from which the change was planned.
"""

from __future__ import annotations

import dataclasses as dc
import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.facts import (
    Fact,
    Lookup,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
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
    OWN_UNIT,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import (
    earlier_runs,
    originals,
    owned_file,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.lowering import (
    add_cause,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import (
    messages,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.results import journal

NAME = "gpufleet.prom"
MODE = "0644"  # the collector has a user of its own
MARK = "# Written by gpufleet.nvidia.\n"
DECISION, STALE, PENDING = (
    "gpufleet_decision_info",
    "gpufleet_cdi_specs_stale",
    "gpufleet_restart_pending",
)
CHANGED, BACK = "gpufleet_last_change_timestamp_seconds", "gpufleet_last_rollback_timestamp_seconds"
HELP = {
    DECISION: "How GPUs get into containers on this host, by engine.",
    STALE: "CDI specs that were not true any more when this host was last converged.",
    PENDING: "Units that run with the configuration from before until a person restarts them.",
    CHANGED: "When this host was last changed.",
    BACK: "When a change of this host was last rolled back, 0 for never.",
}
SAMPLE = re.compile(r"(?m)^(\w+) ([0-9]{1,19})$")
WHY = messages.METRICS_WANTED.fill()


def list_questions(policy: Policy) -> list[queries.Question]:
    if not policy.metrics_dir:
        return []
    return [
        queries.ask_for_file(get_metrics_path(policy), keep=OWN_UNIT),
        queries.ask_for_file(policy.metrics_dir, content=False),
    ]


def get_metrics_path(policy: Policy) -> str:
    return posixpath.join(policy.metrics_dir, NAME)


@dc.dataclass(frozen=True)
class MetricsFacts:
    """A host's facts about metrics. place: the directory's answer. files: by path. epoch: the
    host's time, in seconds since 1970.
    """

    place: Fact[Mapping[str, Any]]
    files: Lookup[str, ObservedFile]
    epoch: int
    earlier: earlier_runs.EarlierRuns


def read_metrics_facts(policy: Policy, obs: Observation) -> MetricsFacts:
    directory = queries.ask_for_file(policy.metrics_dir, content=False)
    return MetricsFacts(
        Fact(lambda: obs.get_answer(directory)),
        Lookup(lambda path: obs.get_file(path, OWN_UNIT)),
        int(float(obs.host.get("epoch") or 0)),
        earlier_runs.read_earlier_runs(obs),
    )


def plan_metrics(
    policy: Policy,
    facts: MetricsFacts,
    record: HostDecision,
    driver: Driver,
    stale: Iterable[str],
    others: Plan,
) -> Plan:
    """Plan the file of metrics. others: all else that this run does; stale: CDI specs that were
    found stale.
    """
    wanted = bool(policy.metrics_dir and record.decisions)
    elsewhere = messages.METRICS_MOVED.fill()
    moved = add_cause(
        plan_metrics_withdrawal(facts, elsewhere, but=get_metrics_path(policy) if wanted else ""),
        "policy",
    )
    if not wanted:
        return moved
    why = explain_no_metrics(policy, facts)
    if why:
        return merge_plans([moved, Plan(advice=(why,))])
    file = read_own_metrics(policy, facts)
    known = parse_metrics(file)
    now = facts.epoch
    acts = others.acts or bool(moved.changes)
    left = set(stale) - {str(change["path"]) for change in others.changes}
    text = write_samples(
        {
            DECISION: list_decision_samples(record, driver),
            STALE: [("", len(left))],
            PENDING: [
                (format_labels(unit=unit), 1) for unit in list_pending_units(policy, facts, others)
            ],
            CHANGED: [("", now if acts or CHANGED not in known else known[CHANGED])],
            BACK: [("", max(known.get(BACK, 0), get_unreported_rollback(facts)))],
        }
    )
    put_there = plan_metrics_text(file, text)
    # Times and what is pending are measured by each run, so an approval binds the decisions alone.
    of_decisions = (
        {file.path: write_samples({DECISION: list_decision_samples(record, driver)})}
        if put_there.changes
        else {}
    )
    return merge_plans([moved, dc.replace(put_there, lasting=of_decisions)])


def plan_metrics_text(file: ObservedFile, text: str) -> Plan:
    if file.content == text and owned_file.has_right_mode(file, MODE):
        return Plan()
    before = "other values" if file.exists else None
    return owned_file.plan_owned_file(
        file, text, why=WHY, key="metrics", before=before, after="the values of this run", mode=MODE
    )


def plan_metrics_after_rollback(policy: Policy, facts: MetricsFacts) -> Plan:
    """Plan the file for the case that the plan is rolled back, and this file with it: as before,
    but with the time of the rollback.

    The plan is empty if the file cannot be written. Whether that is an error was decided when the
    plan was made: it is not an error with `state: absent`, or on a host without GPUs.
    """
    if not policy.metrics_dir or explain_no_metrics(policy, facts):
        return Plan()
    try:
        file = read_own_metrics(policy, facts)
    except PlanError:
        return Plan()
    now = facts.epoch
    before = (file.content or MARK) if file.exists else MARK
    kept = "".join(line for line in before.splitlines(keepends=True) if BACK not in line)
    return plan_metrics_text(file, kept + write_metric_block(BACK, [("", now)]))


def plan_absent(policy: Policy, facts: MetricsFacts) -> Plan:
    return plan_metrics_withdrawal(
        facts,
        messages.METRICS_WITHDRAWN.fill(),
        asked=(get_metrics_path(policy),) if policy.metrics_dir else (),
    )


def plan_metrics_withdrawal(
    facts: MetricsFacts, why: str, *, but: str = "", asked: Sequence[str] = ()
) -> Plan:
    """Plan to give back the files of earlier runs, by the journal: metrics that are not updated any
    more would be believed forever.
    """
    known = [
        o.path
        for o in originals.list_originals(facts.earlier)
        if posixpath.basename(o.path) == NAME and o.path != but
    ]
    files = [facts.files.get(path) for path in sorted({*known, *asked})]
    return merge_plans(
        [
            owned_file.plan_owned_file_restore(
                facts.earlier, file, why=why, own=is_own_metrics_file(file)
            )
            for file in files
        ]
    )


def explain_no_metrics(policy: Policy, facts: MetricsFacts) -> Message | None:
    """Return why nothing is written to a directory that users besides root can change; None if only
    root can.

    This is advice, and not a reason to leave a host as it is.
    """
    problem = facts.place.value.get("untrusted")
    return (
        messages.METRICS_UNTRUSTED.fill(path=policy.metrics_dir, problem=problem)
        if problem
        else None
    )


def read_own_metrics(policy: Policy, facts: MetricsFacts) -> ObservedFile:
    """Return the file. Raise PlanError if it may not be written."""
    place = facts.place.value
    if not place.get("exists") or place.get("type") != "dir":
        row = (
            messages.METRICS_NOT_A_DIRECTORY
            if place.get("exists")
            else messages.NO_METRICS_DIRECTORY
        )
        raise PlanError(row.fill(), where=policy.metrics_dir)
    file = owned_file.require_readable(facts.files.get(get_metrics_path(policy)))
    if file.exists and not is_own_metrics_file(file):
        raise PlanError(messages.METRICS_OF_OTHERS.fill(), where=file.path)
    return file


def is_own_metrics_file(file: ObservedFile) -> bool:
    return bool(file.content and file.content.startswith(MARK))


def parse_metrics(file: ObservedFile) -> Mapping[str, int]:
    """Return the values without labels; {} for a file that does not exist."""
    return {name: int(value) for name, value in SAMPLE.findall(file.content or "")}


def list_decision_samples(record: HostDecision, driver: Driver) -> list[tuple[str, int]]:
    samples = {
        format_labels(
            engine=d.engine,
            engine_version=d.engine_version,
            injection=d.injection,
            driver=driver.version,
        ): 1
        for d in record.decisions
    }
    return sorted(samples.items())


def list_pending_units(policy: Policy, facts: MetricsFacts, others: Plan) -> list[str]:
    """List the units whose restart is left to a person once this run is over."""
    done = others.list_interrupted_units(policy.restart)
    return sorted(
        facts.earlier.pending_units.difference(done).union(others.list_left_units(policy))
    )


def get_unreported_rollback(facts: MetricsFacts) -> int:
    """Return the time of the newest rollback that no run has reported yet; 0 if there is none."""
    times = [
        str(entry.get("time") or "")
        for entry in facts.earlier.journal_if_asked.get("outcomes") or ()
    ]
    return max((journal.convert_journal_time(time) for time in times), default=0)


def format_labels(**values: str) -> str:
    escaped = (
        f'{name}="{value.translate({92: chr(92) * 2, 34: chr(92) + chr(34), 10: chr(92) + "n"})}"'
        for name, value in values.items()
    )
    return "{" + ",".join(escaped) + "}"


def write_samples(values: Mapping[str, Sequence[tuple[str, int]]]) -> str:
    return MARK + "".join(write_metric_block(name, samples) for name, samples in values.items())


def write_metric_block(name: str, samples: Sequence[tuple[str, int]]) -> str:
    head = f"# HELP {name} {HELP[name]}\n# TYPE {name} gauge\n" if samples else ""
    return head + "".join(f"{name}{label} {value}\n" for label, value in samples)
