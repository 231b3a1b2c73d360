# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find handlers whose program is gone, and refuse to make one.

Every pod or container that names such a handler fails, without any sign before. Such handlers stay
behind after packages were removed, after a GPU Operator's directory was cleaned, and in an image
that was built on another host.
"""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    PlanError,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.facts import (
    AskedQuestions,
    Fact,
    Lookup,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
    get_code,
    get_values,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    RUNTIME_BINARY,
    Decision,
    Instance,
    Plan,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import (
    base_package,
    earlier_runs,
    low_level,
    traits,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.adoption import (
    messages,
    sandboxes,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers import known

# Where NVIDIA's packages put them: looked at with everything else, so a converged host needs no
# second look.
PACKAGED = tuple(f"/usr/bin/{low_level.PROGRAM}{mode}" for mode in ("", ".cdi", ".legacy"))

BRING_THERE = messages.INSTALL_THERE.fill()
BRING = messages.REINSTALL_PROGRAM.fill()
LOST = (messages.HANDLER_LOST.code, messages.RENDERED_HANDLER_LOST.code)


@dc.dataclass(frozen=True)
class MissingProgram:
    """A handler in force whose program is not on the host. config: the engine's main file.
    instance: its key.
    """

    engine: str
    handler: str
    program: str
    default: bool
    config: str
    instance: str


def list_questions(policy: Policy) -> list[queries.Question]:
    named = [handler.binary for handler in policy.handlers if handler.binary.startswith("/")]
    return [
        queries.ask_for_file(path, content=False) for path in dict.fromkeys((*PACKAGED, *named))
    ]


@dc.dataclass(frozen=True)
class ProgramFacts:
    """A host's facts about the programs behind handlers.

    located: paths at which a search for programs has found one. asked: the questions that the look
    has answered. is_there: whether there is anything at a path.
    """

    located: Fact[frozenset[str]]
    asked: AskedQuestions
    is_there: Lookup[str, bool]
    packages: base_package.PackageFacts
    earlier: earlier_runs.EarlierRuns


def read_program_facts(obs: Observation) -> ProgramFacts:
    return obs.compute_once(
        "programs of handlers",
        lambda: ProgramFacts(
            Fact(obs.list_located),
            obs.get_asked(),
            Lookup(obs.is_there),
            base_package.read_package_facts(obs),
            earlier_runs.read_earlier_runs(obs),
        ),
    )


def find_missing_programs(
    facts: ProgramFacts, instances: Iterable[Instance]
) -> tuple[MissingProgram, ...]:
    """Find the missing programs of NVIDIA's handlers and of the default one.

    A bare name is looked up by the engine in its own PATH, and so not judged here.
    """
    missing = [
        MissingProgram(
            i.engine, name, i.handlers[name], name == i.default_handler, i.config_path, i.key
        )
        for i in instances
        for name in list_judged_handlers(i)
    ]
    located = facts.located.value
    named = [it for it in missing if it.program.startswith("/") and it.program not in located]
    facts.asked.require(
        queries.ask_for_file(path, content=False)
        for path in dict.fromkeys(it.program for it in named)
    )
    return tuple(it for it in named if not facts.is_there.get(it.program))


def list_judged_handlers(instance: Instance) -> Iterable[str]:
    """Name the handlers whose programs are looked for: NVIDIA's, and the default one unless the
    engine itself has checked it.

    An engine that runs only with its default handler's program has that program.
    """
    proven = instance.running and traits.get_traits(instance.engine).checks_default
    default = (
        [instance.default_handler]
        if instance.handlers.get(instance.default_handler) and not proven
        else []
    )
    return dict.fromkeys([*sandboxes.list_nvidia_handlers(instance), *default])


def describe_failing_handler(it: MissingProgram) -> Message:
    """Return the message on what fails, in the engine's words."""
    if traits.get_traits(it.engine).kubernetes:
        row = messages.DEFAULT_HANDLER_FAILS if it.default else messages.HANDLER_FAILS
    else:
        row = messages.DEFAULT_RUNTIME_FAILS if it.default else messages.RUNTIME_FAILS
    return row.fill(handler=it.handler, program=it.program)


def plan_missing_programs(
    policy: Policy,
    facts: ProgramFacts,
    instances: tuple[Instance, ...],
    decisions: Iterable[Decision],
) -> Plan:
    """Report handlers that fail now, before all that a run changes."""
    decisions = tuple(decisions)
    becoming = {d.engine: d.handler for d in decisions if d.default}
    wanted = {
        (d.engine, handler.name): handler.binary
        for d in decisions
        if d.handler
        for handler in policy.handlers
    }
    advice, beforehand = [], []
    for it in find_missing_programs(facts, instances):
        what, default = describe_failing_handler(it), becoming.get(it.engine, it.handler)
        program = wanted.get((it.engine, it.handler), "")
        if program and is_program_there_after_run(policy, facts, program):
            installed = program == it.program
            row = messages.PROGRAM_INSTALLED if installed else messages.HANDLER_REPOINTED
            beforehand.append(row.fill(failure=what))
        elif (
            it.default
            and default != it.handler
            and is_program_there_after_run(policy, facts, wanted.get((it.engine, default), "/"))
        ):
            beforehand.append(messages.DEFAULT_MOVES.fill(failure=what, handler=default))
        elif program == it.program:
            step = _bring(policy, facts, program)
            advice.append(messages.HANDLER_PROGRAM_LOST.fill(failure=what, step=step))
        else:
            advice.append(advise_on_lost_handler(it, what))
    return Plan(advice=tuple(advice), beforehand=tuple(beforehand))


def advise_on_lost_handler(it: MissingProgram, failure: Message) -> Message:
    """Return the advice about a handler whose program this run does not bring.

    A main file that its manager makes again at each start keeps no edit: what stays in it comes
    from a template.
    """
    manager = known.find_config_manager(it.config)
    detection = manager.place.detection if manager and manager.place else None
    if manager is None or detection is None:
        return messages.HANDLER_LOST.fill(failure=failure, instance=it.instance)
    return messages.RENDERED_HANDLER_LOST.fill(
        failure=failure,
        instance=it.instance,
        title=manager.title,
        templates=", ".join(sorted(detection.templates.values())),
    )


def explain_retired_handlers(plan: Plan) -> Plan:
    """Return a plan whose lost handlers ask nothing of a person if they go with a file of another
    tool in this very run.
    """
    files = {(instance, handler): path for instance, handler, path in plan.retired}
    advice, beforehand = [], []
    for said in plan.advice:
        path = None
        if get_code(said) in LOST:
            failure, instance = (get_values(said)[name] for name in ("failure", "instance"))
            path = files.get((instance, get_values(failure)["handler"]))
        if path is None:
            advice.append(said)
        else:
            beforehand.append(messages.HANDLER_RETIRED.fill(failure=failure, path=path))
    return (
        dc.replace(plan, advice=tuple(advice), beforehand=(*plan.beforehand, *beforehand))
        if beforehand
        else plan
    )


def is_program_installed_by_run(policy: Policy, facts: ProgramFacts, program: str) -> bool:
    """Tell whether this run installs a program. A package that is there already does not bring what
    was removed of it.
    """
    return program == RUNTIME_BINARY and base_package.installs(policy, facts.packages)


def is_program_there_after_run(policy: Policy, facts: ProgramFacts, program: str) -> bool:
    """Tell whether a program that is wanted is there after this run."""
    return (
        not program.startswith("/")
        or facts.is_there.get(program)
        or is_program_installed_by_run(policy, facts, program)
    )


def require_handler_programs(
    policy: Policy, facts: ProgramFacts, decision: Decision, why: str
) -> None:
    """Refuse handlers whose programs are not there after the run. why: what the engine does with
    such a handler.
    """
    if policy.root != "/" or not decision.handler:
        return
    for handler in policy.handlers:
        if not is_program_there_after_run(policy, facts, handler.binary):
            again = (
                base_package.suggest_reinstall(facts.packages)
                if handler.binary == RUNTIME_BINARY and not policy.single
                else ""
            )
            step = again or messages.INSTALL_FIRST.fill(package=base_package.NAME)
            missing = messages.HANDLER_PROGRAM_MISSING.fill(
                handler=handler.name, effect=why, step=step
            )
            raise PlanError(missing, where=handler.binary)


def require_default(
    policy: Policy,
    facts: ProgramFacts,
    instances: Iterable[Instance],
    decisions: Iterable[Decision],
) -> Plan:
    """Refuse to make a handler the default one whose program is not there after the run: no
    container would start any more.

    Beneath another root, programs may come later than the configuration. Where the handler is the
    default one already, nothing gets worse.
    """
    if policy.root != "/" or policy.single:
        return Plan()
    by_key = {i.key: i for i in instances}
    for decision in decisions:
        now = by_key[decision.instance]
        program = next((h.binary for h in policy.handlers if h.name == decision.handler), "")
        if (
            not decision.default
            or not program
            or now.default_handler == decision.handler
            or is_program_there_after_run(policy, facts, program)
        ):
            continue
        if not _keeps_present_program(facts, now.handlers.get(decision.handler, "")):
            step, row = _bring(policy, facts, program), messages.DEFAULT_WITHOUT_PROGRAM
            names = {"handler": decision.handler, "engine": decision.engine}
            raise PlanError(row.fill(**names, program=program, step=step))
    return Plan()


def _keeps_present_program(facts: ProgramFacts, program: str) -> bool:
    """Tell whether a handler keeps the program that it has, which is on the host."""
    return (
        program.startswith("/")
        and low_level.is_nvidia_runtime(program)
        and facts.is_there.get(program)
    )


def _bring(policy: Policy, facts: ProgramFacts, program: str) -> str:
    """Write a sentence on how a program comes to the host."""
    if policy.root != "/":
        return BRING_THERE
    return (
        base_package.suggest_reinstall(facts.packages) if program == RUNTIME_BINARY else ""
    ) or BRING


# ---------------------------------------------------------------- programs that stay


def list_kept_programs(
    policy: Policy,
    facts: ProgramFacts,
    now: Mapping[str, object],
    mine: Mapping[str, object],
    written: Collection[str] = (),
) -> dict[str, str]:
    """Return the programs of handlers that stay as they are if the policy does not choose one, by
    the handler's name.

    now: the programs that the files of others give. mine: those in our own drop-in. written:
    handlers that did not exist before us. A program that is on the host is never exchanged for one
    that is not. The module of one engine decides no mode. So it keeps a program that sets the
    runtime's mode by its name.
    """
    programs = {}
    for handler in policy.handlers:
        before = str(now.get(handler.name) or "")
        program = before or str(mine.get(handler.name) or "")
        if (
            handler.chosen
            or program == handler.binary
            or not program.startswith("/")
            or not low_level.is_nvidia_runtime(program)
        ):
            continue
        existed = bool(before) and handler.name not in written
        if _can_work_alone(policy, facts, handler.binary, program) or (
            policy.single and _keeps_named_mode(facts, handler.binary, program, existed)
        ):
            programs[handler.name] = program
    return programs


def _can_work_alone(policy: Policy, facts: ProgramFacts, wanted: str, program: str) -> bool:
    return (
        not facts.is_there.get(wanted)
        and not is_program_installed_by_run(policy, facts, wanted)
        and facts.is_there.get(program)
    )


def _keeps_named_mode(facts: ProgramFacts, wanted: str, program: str, existed: bool) -> bool:
    """Tell whether a program sets the mode, and another owner named it, in a file that exists or in
    one that was taken over.
    """
    kept = facts.earlier.originals_if_asked
    known = existed or any(_is_mode_named(o, program) for o in kept.values())
    return (
        sets_runtime_mode(wanted, program)
        and known
        and (facts.is_there.get(program) or not facts.is_there.get(wanted))
    )


def _is_mode_named(original: Mapping[str, Any], program: str) -> bool:
    return original.get("sha256_after") is None and f'"{program}"' in str(
        original.get("content") or ""
    )


def sets_runtime_mode(wanted: str, program: object) -> bool:
    return str(program).startswith(f"{wanted}.")


def keep_programs_in_policy(policy: Policy, staying: Mapping[str, str]) -> Policy:
    return dc.replace(
        policy,
        handlers=tuple(
            dc.replace(h, binary=staying.get(h.name, h.binary)) for h in policy.handlers
        ),
    )


def explain_kept_programs(policy: Policy, staying: Mapping[str, str]) -> tuple[str, ...]:
    """Explain each handler that runs another program than the usual one."""
    usual = {h.name: h.binary for h in policy.handlers}
    return tuple(
        messages.PROGRAM_SETS_MODE.fill(handler=name, program=program)
        if sets_runtime_mode(usual[name], program)
        else messages.PROGRAM_KEPT.fill(handler=name, program=program, usual=usual[name])
        for name, program in staying.items()
    )
