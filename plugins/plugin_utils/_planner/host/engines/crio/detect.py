# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find CRI-O by its process, plan our one drop-in for it, and prove it by its own CRI Status."""

from __future__ import annotations

import dataclasses as dc
import re
from collections.abc import Mapping, Sequence

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    PlanError,
    Refusal,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    CDI_DIRS,
    Cdi,
    Decision,
    Difference,
    Evidence,
    Handler,
    Instance,
    Leftover,
    Plan,
    Policy,
    Restart,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections import (
    crio_places,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import (
    owned_file,
    processes,
    refusals,
    traits,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.adoption import (
    nvidia_ctk_crio,
    programs,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines import (
    cdi_versions,
    named_file,
    restarts,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.crio import (
    adoption,
    base,
    checks,
    config,
    left_alone,
    messages,
    releases,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.crio import (
    facts as crio_facts,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.crio import (
    plan as crio_plan,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.lowering import (
    add_cause,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.unit_files import start

# The number in a version of a package, or in the words of a program.
VERSION = re.compile(r"\d{1,9}\.\d{1,9}(?:\.\d{1,9})?")


def list_questions(policy: Policy) -> list[queries.Question]:
    """List all that a CRI-O with its files in the usual places needs, in one look."""
    main = policy.config_path or releases.CONFIG
    socket = policy.socket or releases.SOCKET
    keep = crio_places.keep_crio_places(policy.handlers)
    asked = [
        queries.ask_for_program(["crio"]),
        queries.ask_for_packages(list(releases.PACKAGES)),
        queries.ask_for_directory(f"{main}.d"),
        queries.ask_for_glob(f"{main}.d/*", keep),
        queries.ask_for_file(main, keep),
        queries.ask_for_file(nvidia_ctk_crio.UNREAD, keep),
        *(queries.ask_for_file(h.binary, content=False) for h in policy.handlers),
    ]
    if policy.root != "/":
        return [
            *asked,
            *start.list_unit_start_questions(policy.root, policy.service or releases.UNIT),
        ]
    running = queries.ask_for_processes(["crio"], config.READ_FLAGS)
    return [
        *asked,
        running,
        queries.ask_for_units([policy.service or releases.UNIT]),
        queries.ask_for_cri(socket),
        queries.ask_for_cri(socket, "Version"),
    ]


def read_facts(policy: Policy, obs: Observation) -> crio_facts.CrioFacts:
    """Return what a host shows of CRI-O."""
    return crio_facts.read_crio_facts(policy, obs)


def find_instances(policy: Policy, facts: crio_facts.CrioFacts) -> tuple[Instance, ...]:
    """Return the host's CRI-O, and each process of its name that is not verified."""
    if policy.root != "/":
        return _find_own(policy, facts)
    foreign = () if processes.is_everything_declared(policy) else facts.unverified.value
    own = () if foreign and not facts.process.value else _find_own(policy, facts)
    return (*own, *(processes.build_untrusted_instance("crio", "CRI-O", p) for p in foreign))


def _find_own(policy: Policy, facts: crio_facts.CrioFacts) -> tuple[Instance, ...]:
    """Return the host's own CRI-O: the verified process, the one that the options describe, or one
    that is only installed.
    """
    where = facts.where.value
    by_options = processes.is_everything_declared(policy) and bool(facts.unverified.value)
    daemon = facts.process.value
    running = (bool(daemon) or by_options) and policy.root == "/"
    binary = str(daemon.get("exe") or "") or facts.program.value
    if not (
        running
        or binary
        or facts.packaged.value
        or has_unit(policy, facts)
        or is_crio_wanted_in_tree(policy)
    ):
        return ()
    named_file.require_named_file(policy, facts.files.by_path.get, releases.CONFIG)
    unit = policy.service or str(daemon.get("unit") or "") or releases.UNIT
    version = get_crio_version(policy, facts, binary, running)
    instance = Instance(
        engine="crio",
        version=version,
        binary=binary or "/usr/bin/crio",
        socket=where.socket,
        config_path=where.config,
        unit=unit,
        manager="package",
        running=running,
        cdi=describe_crio_cdi(config.parse_crio_minor(version), CDI_DIRS, "version", version),
        invocation_id=facts.units.get(unit).get("InvocationID", ""),
        pid=facts.pid,
        ticks=int(daemon.get("ticks") or 0),
    )
    owner = facts.image_manager.value
    if owner:
        return (dc.replace(instance, manager=owner.name, refusal=owner.refusal),)
    refusal = refuse_crio(policy, facts, instance)
    if refusal:
        return (dc.replace(instance, refusal=refusal),)
    return (describe_crio(policy, facts, instance),)


def refuse_crio(policy: Policy, facts: crio_facts.CrioFacts, instance: Instance) -> Refusal:
    """Refuse a CRI-O that does not run, has another file than the options name, or does not answer.
    Return an empty refusal for any other.
    """
    if policy.root != "/":
        return Refusal()
    if not instance.running:
        return left_alone.refuse_stopped_crio(facts, instance.unit)
    if facts.process.value:
        other = refusals.refuse_other_file(policy, "CRI-O", facts.started_with.value)
        if other:
            return other
    if not left_alone.has_crio_answered(facts):
        return left_alone.refuse_silent_crio(facts, instance.unit)
    return Refusal()


def describe_crio(policy: Policy, facts: crio_facts.CrioFacts, instance: Instance) -> Instance:
    """Return the instance with the settings in force. It is refused if another tool has the last
    word in its files.
    """
    version = config.parse_crio_minor(instance.version)
    force = crio_facts.get_settings_in_force(facts, instance)
    instance = dc.replace(
        instance,
        cdi=dc.replace(
            describe_crio_cdi(version, force.cdi_dirs, force.source, instance.version),
            next_dirs=crio_facts.list_next_crio_cdi_dirs(facts),
        ),
        default_handler=force.default,
        handlers={
            name: str(table.get("runtime_path") or "") for name, table in force.handlers.items()
        },
    )
    files = left_alone.find_crio_leftover_files(policy, facts, force, instance)
    gone = adoption.list_taken_layers(files)
    instance = dc.replace(
        instance, low_level=find_crio_low_level_runtime(policy, facts, gone, version)
    )
    tool, refusal = left_alone.find_overriding_configurator(policy, facts, files, instance)
    return dc.replace(instance, manager=tool or instance.manager, refusal=refusal)


def find_crio_low_level_runtime(
    policy: Policy,
    facts: crio_facts.CrioFacts,
    gone: tuple[config.Layer, ...],
    version: tuple[int, int],
) -> str:
    """Return the low-level program behind the handlers of others. '' if a file cannot be read,
    which the plan will report.

    gone: the files that are taken over.
    """
    try:
        layers = [layer for layer in facts.files.loaded.value if layer not in gone]
    except PlanError:
        return ""
    others = [layer.data for layer in layers if layer.path != facts.where.value.drop_in]
    return base.find_crio_base_program(
        config.merge_crio_tables(others, version, "files"), next(iter(policy.handlers), Handler())
    )


def has_unit(policy: Policy, facts: crio_facts.CrioFacts) -> bool:
    """Tell whether systemd knows CRI-O's unit. It may even if neither the program nor the package
    is seen.
    """
    return policy.root == "/" and bool(facts.units.get(policy.service or releases.UNIT))


def is_crio_wanted_in_tree(policy: Policy) -> bool:
    """Tell whether the options name CRI-O and its version for a tree. A bare tree contains no
    engine, so the options decide.
    """
    return policy.root != "/" and "crio" in policy.engines and bool(policy.engine_version)


def get_crio_version(
    policy: Policy, facts: crio_facts.CrioFacts, binary: str, running: bool
) -> str:
    """Return the version from the running daemon, otherwise from the binary, otherwise from the
    package.

    In a tree: from the option, otherwise from the package. Raise PlanError if none has it.
    """
    if running:
        # One that does not answer is refused, as one that does not run: another number will do for
        # a report.
        answer = facts.answers.get("Version")
        said = "" if "error" in answer else parse_crio_version(answer.get("runtime_version"))
        if said:
            return said
    if policy.root == "/" and binary:
        said = parse_crio_version(facts.banner.get(binary))
        if said:
            return said
    version = policy.engine_version or parse_crio_version(facts.packaged.value)
    if not version:
        raise PlanError(messages.CRIO_VERSION_UNKNOWN.fill(), where=policy.root)
    return version


def parse_crio_version(text: object) -> str:
    """Return the number in a version's text; '' if there is none."""
    match = VERSION.search(str(text or ""))
    return match.group() if match else ""


def describe_crio_cdi(
    version: tuple[int, int], dirs: tuple[str, ...], source: str, text: str
) -> Cdi:
    """Describe CDI in this CRI-O. CDI has no switch: it is on from 1.24 on, but finds nothing
    without directories.
    """
    able = version >= releases.CDI_SINCE
    used = tuple(d for d in dirs if d)
    since = ".".join(map(str, releases.CDI_SINCE))
    evidence = Evidence(
        source,
        messages.RELEASE_AND_CDI_DIRECTORIES.fill(
            version=text, directories=", ".join(used) or "none"
        )
        if able
        else messages.CRIO_BEFORE_CDI.fill(version=text, since=since),
    )
    return Cdi(
        able=able,
        enabled=able and bool(used),
        dirs=used if able else (),
        max_version=cdi_versions.get_max_cdi_version(traits.CRIO, f"{version[0]}.{version[1]}.0"),
        evidence=evidence,
        cri_field=version >= releases.CRI_FIELD_SINCE,
    )


def list_left_alone_leftovers(
    policy: Policy, facts: crio_facts.CrioFacts, instance: Instance
) -> tuple[Leftover, ...]:
    """List what others left in the configuration of an instance that is left alone."""
    if instance.manager not in (nvidia_ctk_crio.TOOL, nvidia_ctk_crio.OPERATOR):
        return ()
    force = crio_facts.get_settings_in_force(facts, instance)
    return adoption.list_crio_leftovers(
        left_alone.find_crio_leftover_files(policy, facts, force, instance)
    )


def plan_instance(
    policy: Policy, facts: crio_facts.CrioFacts, instance: Instance, decision: Decision
) -> Plan:
    """Plan the way from what is there to the decision.

    The plan writes nothing but our drop-in, and removes nothing but nvidia-ctk's files. Raise
    PlanError if there is no such way.
    """
    config.check_drop_in(policy, facts.where.value)
    layers = facts.files.loaded.value
    force = crio_facts.get_settings_in_force(facts, instance)
    drop_ins = adoption.find_ctk_drop_ins(policy, facts, force, instance)
    staying = list_kept_crio_programs(policy, facts) if decision.handler else {}
    kept = programs.keep_programs_in_policy(policy, staying)
    after = {handler.name: handler.binary for handler in kept.handlers} if decision.handler else {}
    edited = (
        adoption.list_edited_crio_handlers(
            policy, facts.where.value, layers, drop_ins, force, after
        )
        if decision.handler
        else ()
    )
    planned = _plan_drop_in(kept, facts, instance, decision, force, drop_ins)
    planned = dc.replace(
        planned, advice=(*planned.advice, *programs.explain_kept_programs(policy, staying))
    )
    taken = (facts.where.value.drop_in, *(one.path for one in drop_ins if not one.why))
    left = {name for layer in layers if layer.path not in taken for name in layer.handlers}
    return adoption.complete_adoption_plan(planned, drop_ins, edited, after, instance, left)


def _plan_drop_in(
    policy: Policy, facts: crio_facts.CrioFacts, instance: Instance, decision: Decision,
    force: config.Effective, found: tuple[adoption.FoundFile, ...],
) -> Plan:  # fmt: skip
    """Plan the drop-in.

    policy: with the programs that handlers keep.
    """
    where, layers = facts.where.value, facts.files.loaded.value
    gone = adoption.list_taken_layers(found)
    rest = tuple(layer for layer in layers if layer not in gone)
    desired = crio_plan.derive_desired_crio(policy, facts, instance, decision, rest)
    crio_plan.check_shadow(where, rest, desired)
    crio_plan.check_arguments(where, desired)
    check_crio_binaries(policy, facts, decision)
    adoption.require_same_place(facts, instance, found, desired, force)
    own = crio_plan.own_layer(layers, where)
    before = crio_plan.read_own_crio_drop_in(own.file) if own else None
    text = crio_plan.render_crio_drop_in(desired)
    served = crio_plan.serves_desired_settings(force, desired, own)
    same = own is not None and crio_plan.flatten_crio_tree(own.data) == crio_plan.flatten_crio_tree(
        crio_plan.build_crio_tree(desired)
    )
    changes, diffs = crio_plan.build_crio_change(
        where, before, text, crio_plan.list_hidden_crio_values(desired), same
    )
    differences = crio_plan.list_crio_differences(where, own, desired, bool(changes))
    if any(change["op"] == "remove" for change in changes):
        differences = add_cause(Plan(differences), "policy").differences
    advice = (
        crio_plan.advise_on_stray_files(where, rest)
        + crio_plan.advise_on_base_program(desired)
        + crio_plan.advise_on_tree_binaries(policy, facts, decision)
    )
    lost = sorted(set(own.handlers if own else ()) - set(desired.handlers)) if changes else []
    advice += warn_of_hanging_pods(facts, instance, lost)
    if policy.root != "/":
        return Plan(
            differences,
            changes=changes,
            expect_files=list_expected_checksums(facts),
            diffs=diffs,
            advice=advice,
        )
    acts = bool(changes or gone)
    done = plan_crio_restart(policy, instance, served, desired)
    return Plan(
        differences=differences
        or (() if served else (build_unserved_difference(instance, desired),)),
        changes=changes,
        expect_files=list_expected_checksums(facts),
        expect_units=get_expected_unit(instance),
        stage_files=checks.stage_crio_files(facts) if acts else (),
        validate=checks.validate_staged_crio(
            facts, instance, desired, adoption.list_adoption_patterns(gone)
        )
        if acts
        else (),
        restarts=done.restarts,
        pending=done.pending,
        health=done.health,
        advice=(*advice, *done.advice),
        diffs=diffs,
    )


def list_kept_crio_programs(policy: Policy, facts: crio_facts.CrioFacts) -> dict[str, str]:
    """Return the programs that handlers keep, by the files of others and by our own."""
    layers, drop_in = facts.files.loaded.value, facts.where.value.drop_in
    now, mine = (
        {
            name: table.get("runtime_path")
            for layer in some
            for name, table in layer.handlers.items()
            if isinstance(table, Mapping)
        }
        for some in (
            [la for la in layers if la.path != drop_in],
            [la for la in layers if la.path == drop_in],
        )
    )
    return programs.list_kept_programs(policy, facts.programs, now, mine)


def plan_absent(policy: Policy, facts: crio_facts.CrioFacts, instance: Instance) -> Plan:
    """Plan to remove our drop-in, or to give back the bytes that were there before our first
    change.
    """
    file = facts.files.by_path.get(facts.where.value.drop_in)
    back = owned_file.plan_owned_file_restore(
        facts.earlier, file, why=messages.ABSENT.fill(), own=is_own_crio_drop_in(facts)
    )
    if not instance.running or policy.root != "/" or not back.changes:
        return back
    own = crio_plan.own_layer(facts.files.loaded.value, facts.where.value)
    if own is None:
        return dc.replace(back, expect_files=list_expected_checksums(facts))
    force = crio_facts.get_settings_in_force(facts, instance)
    served = not (
        set(own.handlers) & set(force.handlers)
        or "cdi_spec_dirs" in own.runtime
        or "default_runtime" in own.runtime
    )
    # CRI-O cannot stop a container whose handler it does not know any more
    # (nvidia-container-toolkit PR 1360).
    hanging = (
        ()
        if adoption.is_ctk_drop_in_restored(facts)
        else warn_of_hanging_pods(facts, instance, tuple(own.handlers))
    )
    done = plan_crio_restart(policy, instance, served, None)
    return dc.replace(
        back,
        expect_files=list_expected_checksums(facts),
        expect_units=get_expected_unit(instance),
        restarts=done.restarts,
        pending=done.pending,
        health=done.health,
        advice=(*back.advice, *hanging),
    )


def warn_of_hanging_pods(
    facts: crio_facts.CrioFacts, instance: Instance, handlers: Sequence[str]
) -> tuple[str, ...]:
    """Warn of pods that hang in Terminating once their handlers are gone. Pods have names here if
    CRI-O reports them. Raise NeedMore if it was not asked.
    """
    if not handlers or not instance.running:
        return ()
    answer = crio_facts.get_pods_answer(facts, instance, handlers)
    names = ", ".join(answer.get("pods") or ())
    if not names and "error" not in answer:
        return ()
    started = ", ".join(handlers)
    if names:
        return (messages.PODS_HANG.fill(pods=names, handlers=started),)
    return (messages.PODS_MAY_HANG.fill(handlers=started),)


def is_own_crio_drop_in(facts: crio_facts.CrioFacts) -> bool:
    """Tell whether the drop-in is ours, by its mark or by a copy from before."""
    path = facts.where.value.drop_in
    content = facts.files.by_path.get(path).content or ""
    return crio_plan.BEGINNING in content or path in facts.earlier.originals


def find_remnant(policy: Policy, facts: crio_facts.CrioFacts) -> Instance | None:
    """Return the instance for the drop-in of a CRI-O that has been removed. None if there is no
    drop-in.
    """
    where = crio_facts.get_crio_paths_or_usual(policy, facts)
    if not facts.files.by_path.get(where.drop_in).exists:
        return None
    nothing = Cdi(
        able=False,
        enabled=False,
        dirs=(),
        max_version="",
        evidence=Evidence("files", messages.CRIO_NOT_INSTALLED.fill()),
    )
    return Instance(
        "crio", policy.engine_version, "", where.socket, where.config, "", "package", False, nothing
    )


def get_main_file(policy: Policy, facts: crio_facts.CrioFacts) -> str:
    return crio_facts.get_crio_paths_or_usual(policy, facts).drop_in


def list_marked_files(policy: Policy, facts: crio_facts.CrioFacts) -> tuple[str, ...]:
    where = crio_facts.get_crio_paths_or_usual(policy, facts)
    file = facts.files.by_path.get(where.drop_in)
    return (file.path,) if file.content and crio_plan.BEGINNING in file.content else ()


def owns_file(policy: Policy, facts: crio_facts.CrioFacts, path: str) -> bool:
    where = crio_facts.get_crio_paths_or_usual(policy, facts)
    return path in (where.config, where.drop_in) or path.startswith(
        (f"{where.directory}/", "/etc/crio/")
    )


def build_unserved_difference(instance: Instance, desired: crio_plan.DesiredCrio) -> Difference:
    names = ", ".join(desired.handlers) or "no handler of this collection"
    why = messages.CRIO_NOT_LOADED.fill()
    return Difference("unit", instance.unit, "", "runs with an older configuration", names, why)


def plan_crio_restart(
    policy: Policy, instance: Instance, served: bool, desired: crio_plan.DesiredCrio | None
) -> Plan:
    """Return the restart that is needed, or that it is left to a person. Nothing if none is needed.

    A reload is never enough: it shows the new handler in the status and still does not serve it
    (cri-o#10202).
    """
    if served:
        return Plan()
    return restarts.plan_engine_restart(
        policy,
        instance,
        Restart(instance.unit, "restart", messages.READS_AT_START.fill()),
        checks.build_crio_health_check(
            instance, config.parse_crio_minor(instance.version), desired
        ),
        left=messages.CRIO_RESTART_LEFT.fill(unit=instance.unit),
    )


def list_expected_checksums(facts: crio_facts.CrioFacts) -> dict[str, str | None]:
    """Return the checksums of all of CRI-O's files as the look saw them. The plan is right only for
    these.
    """
    where = facts.where.value
    checksums: dict[str, str | None] = {
        where.config: facts.files.by_path.get(where.config).sha256,
        where.drop_in: None,
    }
    return {**checksums, **{layer.path: layer.file.sha256 for layer in facts.files.loaded.value}}


def get_expected_unit(instance: Instance) -> dict[str, str]:
    return {instance.unit: instance.invocation_id} if instance.invocation_id else {}


def check_crio_binaries(policy: Policy, facts: crio_facts.CrioFacts, decision: Decision) -> None:
    """Raise PlanError if the binary of a handler is missing, before anything is touched.

    Without it CRI-O does not start if the handler is the default one, and ignores any other
    handler.
    """
    programs.require_handler_programs(
        policy, facts.programs, decision, messages.CRIO_PROGRAM_NEEDED.fill()
    )


find_default_program = config.find_default_program
