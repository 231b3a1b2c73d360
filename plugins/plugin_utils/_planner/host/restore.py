# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Take back with state: absent, in any state of the engines: stopped, removed, refused, broken, or
next to another one.

Each engine takes back what it can judge. The rest is given back from the journal, or named; if it
is named, nothing is changed at all.
"""

from __future__ import annotations

import dataclasses as dc
import re
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    PlanError,
    QueryFailed,
    Refusal,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.facts import Lookup
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Instance,
    Plan,
    Policy,
    merge_plans,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
    ObservedFile,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections import (
    file_places,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import (
    decision_file,
    host_messages,
    journal_messages,
    low_level,
    originals,
    protocols,
    refusals,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.adoption import (
    gpu_operator,
    nvidia_ctk,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.earlier_runs import (
    EarlierRuns,
    read_earlier_runs,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers import known

# The programs of all handlers that this collection has ever written by itself begin with this name.
PROGRAM = low_level.PROGRAM
# A program as a configuration names it. Anything else is hidden, or no file's name.
PROGRAM_NAME = re.compile(r"[\w.+/-]+")
# The managers whose configuration lets our part be separated from the rest. Files that other
# managers render are never edited.
JUDGED = (*(m.name for m in known.MANAGERS if m.taken_back), nvidia_ctk.TOOL, gpu_operator.TOOL)


Engines = Mapping[str, protocols.RemovableEngine]


@dc.dataclass(frozen=True)
class Search:
    """The engines that were found.

    obstacles: engine -> why it could not be looked for, or its configuration could not be judged.
    """

    instances: tuple[Instance, ...] = ()
    obstacles: Mapping[str, str] = dc.field(default_factory=dict)


@dc.dataclass(frozen=True)
class TakeBackFacts:
    """A host's facts about engines, and about earlier runs, that can be taken back.

    engines: the facts of each engine, by its name. files: the main file of a configuration, by its
    path. programs: whether a program is there, by its path, or by its name in the usual folders.
    """

    engines: Mapping[str, Any]
    files: Lookup[str, ObservedFile]
    programs: Lookup[str, bool]
    earlier: EarlierRuns


def read_take_back_facts(obs: Observation, engines: Mapping[str, Any]) -> TakeBackFacts:
    """Return what can be taken back. engines: the facts of each engine, by its name."""
    return TakeBackFacts(
        engines,
        Lookup(lambda path: obs.get_file(path, file_places.NOTHING)),
        Lookup(lambda program: _is_program_there(obs, program)),
        read_earlier_runs(obs),
    )


def _is_program_there(obs: Observation, program: str) -> bool:
    if program.startswith("/"):
        return obs.is_there(program)
    paths = obs.get_answer(queries.ask_for_program([program])).get("found") or {}
    return bool(paths.get(program))


def find_every_engine(policy: Policy, facts: Mapping[str, Any], engines: Engines) -> Search:
    """Find every engine with its instances, whatever `engines` lists: our file is taken back even
    if that option has changed since.

    facts: of each engine, by its name.
    """
    instances: list[Instance] = []
    obstacles: dict[str, str] = {}
    for name, engine in engines.items():
        own = refusals.narrow_policy_to_engine(policy, name)
        try:
            there = engine.find_instances(own, facts[name])
        except PlanError as error:
            there, obstacles[name] = (), error.placed
        if not there:
            remnant = engine.find_remnant(own, facts[name])
            there = (remnant,) if remnant else ()
        instances.extend(there)
    return Search(tuple(instances), obstacles)


def plan_take_back(
    policy: Policy, facts: TakeBackFacts, engines: Engines,
    rooms: Iterable[Plan] = (),
    covers: originals.Covers = originals.can_cover_everything,
) -> Plan:  # fmt: skip
    """Plan to take everything back in one transaction. Raise PlanError if something cannot be given
    back.
    """
    originals.require_sound(facts.earlier, covers)
    search = find_every_engine(policy, facts.engines, engines)
    plans, broken, refused = plan_instance_removals(policy, facts, engines, search)
    require_one(policy, plans)
    merged = merge_plans([*plans.values(), *rooms])
    require_copies(policy, facts, engines, merged, broken)
    context = Context(
        policy,
        facts.engines,
        engines,
        dc.replace(search, obstacles={**refused, **search.obstacles, **broken}),
    )
    done = originals.complete_whole_removal(
        facts.earlier,
        merged,
        covers=covers,
        obstacle=context.explain_obstacle,
        reader=context.plan_left_to_do,
    )
    more = (
        *advise_without_journal(policy, facts.earlier, done),
        *context.advise_on_gone_programs(facts.programs, done),
    )
    return dc.replace(done, advice=(*done.advice, *more))


def _is_gone(programs: Lookup[str, bool], program: str) -> bool:
    try:
        return not programs.get(program)
    except QueryFailed:  # only advice depends on it, and what is taken back must not wait for that
        return False


def advise_without_journal(policy: Policy, earlier: EarlierRuns, done: Plan) -> tuple[str, ...]:
    """Return advice for a host without a journal, from which no earlier file can be restored; () if
    there is a journal or no change.

    The record of a whole host still knows the names of the files.
    """
    if not done.changes or earlier.has_journal:
        return ()
    known = () if policy.single else decision_file.list_taken_over_files(earlier)
    command = nvidia_ctk.COMMAND
    if not known:
        return (journal_messages.LOST.fill(command=command),)
    return (journal_messages.LOST_WITH_FILES.fill(files=", ".join(known), command=command),)


def plan_instance_removals(
    policy: Policy, facts: TakeBackFacts, engines: Engines, found: Search
) -> tuple[dict[str, Plan], dict[str, str], dict[str, str]]:
    """Return the plan of each instance by its key; the engines that could not judge; and the
    engines that another system manages.

    The last two come with the reason.
    """
    plans: dict[str, Plan] = {}
    broken: dict[str, str] = {}
    refused: dict[str, str] = {}
    for instance in found.instances:
        if instance.refusal and instance.manager not in JUDGED:
            refused.setdefault(instance.engine, instance.refusal.message)
            continue
        try:
            own = refusals.narrow_policy_to_engine(policy, instance.engine)
            done = engines[instance.engine].plan_absent(
                own, facts.engines[instance.engine], dc.replace(instance, refusal=Refusal())
            )
            plans[instance.key] = merge_plans(
                [
                    done,
                    advise_on_unknown_engine(
                        policy,
                        instance,
                        done,
                        found.obstacles.get(instance.engine, ""),
                    ),
                ]
            )
        except PlanError as error:
            broken[instance.engine] = error.placed
    return plans, broken, refused


def advise_on_unknown_engine(policy: Policy, instance: Instance, done: Plan, why: str) -> Plan:
    """Return advice to restart an engine that could not be looked for: it may run with what is
    taken out now.
    """
    if not why or not done.changes or policy.root != "/":
        return Plan()
    row = journal_messages.ENGINE_UNKNOWN
    advice = row.fill(path=instance.config_path, engine=instance.engine, reason=why)
    return Plan(advice=(advice,))


def require_one(policy: Policy, plans: Mapping[str, Plan]) -> None:
    """Raise PlanError if several instances have something of this collection.

    A single-resource module works on one instance, which has to be named.
    """
    changing = sorted(key for key, one in plans.items() if one.changes)
    if policy.single and len(changing) > 1:
        raise PlanError(host_messages.SEVERAL_INSTANCES.fill(instances=", ".join(changing)))


def require_copies(
    policy: Policy,
    facts: TakeBackFacts,
    engines: Engines,
    merged: Plan,
    broken: Mapping[str, str],
) -> None:
    """Raise PlanError for files without a copy that could not be judged: they carry this
    collection's mark, or look like its own.
    """
    done = (
        {str(change["path"]) for change in merged.changes}
        | set(merged.released)
        | set(facts.earlier.originals)
    )
    marked = [
        (name, path)
        for name, engine in engines.items()
        for path in engine.list_marked_files(
            refusals.narrow_policy_to_engine(policy, name), facts.engines[name]
        )
        if path not in done
    ]
    row = journal_messages.MARKED_WITHOUT_COPY
    left = [
        row.fill(path=path, reason=broken.get(name) or originals.UNKNOWN) for name, path in marked
    ]
    left += [
        journal_messages.SUSPECTED.fill(reason=why)
        for name, why in broken.items()
        if may_have_own_keys(
            policy,
            facts.files.get(engines[name].get_main_file(policy, facts.engines[name])),
            facts.earlier,
        )
    ]
    originals.refuse_left_originals(left)


def may_have_own_keys(policy: Policy, file: ObservedFile, earlier: EarlierRuns) -> bool:
    """Tell whether a file that cannot be judged may contain keys of this collection that no journal
    knows.
    """
    if not file.exists or not may_be_own(policy, earlier):
        return False
    return (
        earlier.was_here
        if file.content is None
        else any(h.binary in file.content for h in policy.handlers)
    )


def may_be_own(policy: Policy, earlier: EarlierRuns) -> bool:
    """Tell whether keys that look like this collection's count as such without a copy.

    They do if there is no journal and this collection was here.
    """
    return not earlier.has_journal and (policy.single or earlier.was_here)


def build_other_handler_error(name: str, program: str, where: str, line: int | None) -> PlanError:
    """Return the error for a handler that is not among those named in the options.

    In a file that others have changed, our handlers are found by their names, so a handler that
    stays has to be reported.
    """
    other = journal_messages.OTHER_HANDLER.fill(handler=name, program=program)
    return PlanError(other, where=where, line=line)


@dc.dataclass(frozen=True)
class Context:
    """The readers of a path that no plan was made for. facts: of each engine, by its name."""

    policy: Policy
    facts: Mapping[str, Any]
    engines: Engines
    found: Search

    def find_engine(self, path: str) -> str:
        return next(
            (
                name
                for name, engine in self.engines.items()
                if engine.owns_file(self.policy, self.facts[name], path)
            ),
            "",
        )

    def explain_obstacle(self, path: str) -> str:
        return self.found.obstacles.get(self.find_engine(path), "")

    def plan_left_to_do(self, path: str) -> Plan:
        """Return advice and pending restarts for an engine that could not be inspected, whose file
        is given back.

        The engine runs with the file from before until it is restarted.
        """
        name = self.find_engine(path)
        why = self.found.obstacles.get(name)
        if not why or self.policy.root != "/":
            return Plan()
        running = [i for i in self.found.instances if i.engine == name and i.running]
        if not running and any(i.engine == name for i in self.found.instances):
            return Plan()  # in force from its next start
        units = tuple(i.unit for i in running if i.unit)
        who = " and ".join(units) or name
        advice = journal_messages.NOT_RESTARTED.fill(path=path, units=who, reason=why)
        return Plan(advice=(advice,), pending=units)

    def advise_on_gone_programs(self, programs: Lookup[str, bool], done: Plan) -> tuple[str, ...]:
        """Return advice on each default handler in a file that is given back whose program is gone.

        The engine restarts with it all the same, and starts no container. A program that could not
        be looked for is not known to be gone. May raise NeedMore.
        """
        advice = []
        for path, _before, after in done.diffs:
            engine = self.engines.get(self.find_engine(path))
            default = engine.find_default_program(after) if engine and after else None
            if default and PROGRAM_NAME.fullmatch(default[1]) and _is_gone(programs, default[1]):
                row = journal_messages.PROGRAM_GONE_BEFORE
                advice.append(row.fill(path=path, handler=default[0], program=default[1]))
        return tuple(advice)
