# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The decision on a host, and the time when it changed, as a text file for Prometheus (node_exporter's textfile collector reads *.prom).

The file holds points in time instead of ages, so it changes only with the host. Only the file itself knows the time of the last change. The
time is kept while nothing else changes; otherwise it becomes the host's own time at the look from which the change was planned.
"""

from __future__ import annotations

import dataclasses as dc
import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner import originals, owned_file, queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.lowering import caused
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.message_types import Message
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.model import Driver, HostDecision, Plan, Policy, merge
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.observation import File, Observation
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.projections.file_places import OWN_UNIT
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.report import journal
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.resources import messages

NAME = "gpufleet.prom"
MODE = "0644"  # the collector has a user of its own
MARK = "# Written by gpufleet.nvidia.\n"
DECISION, STALE, PENDING = "gpufleet_decision_info", "gpufleet_cdi_specs_stale", "gpufleet_restart_pending"
CHANGED, BACK = "gpufleet_last_change_timestamp_seconds", "gpufleet_last_rollback_timestamp_seconds"
HELP = {
    DECISION: "How GPUs get into containers on this host, by engine.",
    STALE: "CDI specs that were not true any more when this host was last converged.",
    PENDING: "Units that run with the configuration from before until somebody restarts them.",
    CHANGED: "When this host was last changed.",
    BACK: "When a change of this host was last rolled back, 0 for never.",
}
SAMPLE = re.compile(r"(?m)^(\w+) ([0-9]{1,19})$")
WHY = messages.METRICS_WANTED.fill()


def questions(policy: Policy) -> list[queries.Question]:
    if not policy.metrics_dir:
        return []
    return [queries.file(path_of(policy), keep=OWN_UNIT), queries.file(policy.metrics_dir, content=False)]


def path_of(policy: Policy) -> str:
    return posixpath.join(policy.metrics_dir, NAME)


def plan(policy: Policy, obs: Observation, record: HostDecision, driver: Driver, stale: Iterable[str], others: Plan) -> Plan:
    """Plan the file of metrics. others: all else that this run does; stale: CDI specs that were found stale."""
    wanted = bool(policy.metrics_dir and record.decisions)
    elsewhere = messages.METRICS_MOVED.fill()
    moved = caused(withdraw(obs, elsewhere, but=path_of(policy) if wanted else ""), "policy")
    if not wanted:
        return moved
    why = left_out(policy, obs)
    if why:
        return merge([moved, Plan(advice=(why,))])
    file = own(policy, obs)
    known = parsed(file)
    now = int(float(obs.host.get("epoch") or 0))
    acts = others.acts or bool(moved.changes)
    left = set(stale) - {str(change["path"]) for change in others.changes}
    text = written(
        {
            DECISION: decisions(record, driver),
            STALE: [("", len(left))],
            PENDING: [(labels(unit=unit), 1) for unit in pending(policy, obs, others)],
            CHANGED: [("", now if acts or CHANGED not in known else known[CHANGED])],
            BACK: [("", max(known.get(BACK, 0), rolled_back(obs)))],
        }
    )
    put_there = put(file, text)
    # Times and what is pending are measured by each run, so an approval binds the decisions alone.
    of_decisions = {file.path: written({DECISION: decisions(record, driver)})} if put_there.changes else {}
    return merge([moved, dc.replace(put_there, lasting=of_decisions)])


def put(file: File, text: str) -> Plan:
    if file.content == text and owned_file.right_mode(file, MODE):
        return Plan()
    before = "other values" if file.exists else None
    return owned_file.write(file, text, why=WHY, key="metrics", before=before, after="the values of this run", mode=MODE)


def after_rollback(policy: Policy, obs: Observation) -> Plan:
    """Plan the file for the case that the plan is rolled back, and this file with it: as before, but with the time of the rollback.

    The plan is empty if the file cannot be written. Whether that is an error was decided when the plan was made: it is not an error with
    `state: absent`, or on a host without GPUs.
    """
    if not policy.metrics_dir or left_out(policy, obs):
        return Plan()
    try:
        file = own(policy, obs)
    except PlanError:
        return Plan()
    now = int(float(obs.host.get("epoch") or 0))
    before = (file.content or MARK) if file.exists else MARK
    kept = "".join(line for line in before.splitlines(keepends=True) if BACK not in line)
    return put(file, kept + block(BACK, [("", now)]))


def plan_absent(policy: Policy, obs: Observation) -> Plan:
    return withdraw(obs, messages.METRICS_WITHDRAWN.fill(), asked=(path_of(policy),) if policy.metrics_dir else ())


def withdraw(obs: Observation, why: str, *, but: str = "", asked: Sequence[str] = ()) -> Plan:
    """Plan to give back the files of earlier runs, by the journal: metrics that are not updated any more would be believed forever."""
    known = [o.path for o in originals.kept(obs) if posixpath.basename(o.path) == NAME and o.path != but]
    files = [obs.file(path, OWN_UNIT) for path in sorted({*known, *asked})]
    return merge([owned_file.give_back(obs, file, why=why, own=is_own(file)) for file in files])


def left_out(policy: Policy, obs: Observation) -> Message | None:
    """Return why nothing is written to a directory that users besides root can change; None if only root can.

    This is advice, and not a reason to leave a host as it is.
    """
    problem = obs.raw(queries.file(policy.metrics_dir, content=False)).get("untrusted")
    return messages.METRICS_UNTRUSTED.fill(path=policy.metrics_dir, problem=problem) if problem else None


def own(policy: Policy, obs: Observation) -> File:
    """Return the file. Raise PlanError if it may not be written."""
    place = obs.raw(queries.file(policy.metrics_dir, content=False))
    if not place.get("exists") or place.get("type") != "dir":
        row = messages.METRICS_NOT_A_DIRECTORY if place.get("exists") else messages.NO_METRICS_DIRECTORY
        raise PlanError(row.fill(), where=policy.metrics_dir)
    file = owned_file.readable(obs.file(path_of(policy), OWN_UNIT))
    if file.exists and not is_own(file):
        raise PlanError(messages.METRICS_OF_OTHERS.fill(), where=file.path)
    return file


def is_own(file: File) -> bool:
    return bool(file.content and file.content.startswith(MARK))


def parsed(file: File) -> Mapping[str, int]:
    """Return the values without labels; {} for a file that does not exist."""
    return {name: int(value) for name, value in SAMPLE.findall(file.content or "")}


def decisions(record: HostDecision, driver: Driver) -> list[tuple[str, int]]:
    found = {
        labels(engine=d.engine, engine_version=d.engine_version, injection=d.injection, driver=driver.version): 1 for d in record.decisions
    }
    return sorted(found.items())


def pending(policy: Policy, obs: Observation, others: Plan) -> list[str]:
    """List the units whose restart is left to a person once this run is over."""
    due = others.interrupts("auto") if policy.restart == "never" and policy.root == "/" else []
    left = {str(entry.get("unit")) for entry in journal.journal(obs).get("pending") or ()}
    return sorted((left - set(others.interrupts(policy.restart))) | set(others.pending) | set(due))


def rolled_back(obs: Observation) -> int:
    """Return the time of the newest rollback that no run has reported yet; 0 if there is none."""
    times = [str(entry.get("time") or "") for entry in journal.journal(obs).get("outcomes") or ()]
    return max((journal.seconds(time) for time in times), default=0)


def labels(**values: str) -> str:
    escaped = (f'{name}="{value.translate({92: chr(92) * 2, 34: chr(92) + chr(34), 10: chr(92) + "n"})}"' for name, value in values.items())
    return "{" + ",".join(escaped) + "}"


def written(values: Mapping[str, Sequence[tuple[str, int]]]) -> str:
    return MARK + "".join(block(name, samples) for name, samples in values.items())


def block(name: str, samples: Sequence[tuple[str, int]]) -> str:
    head = f"# HELP {name} {HELP[name]}\n# TYPE {name} gauge\n" if samples else ""
    return head + "".join(f"{name}{label} {value}\n" for label, value in samples)
