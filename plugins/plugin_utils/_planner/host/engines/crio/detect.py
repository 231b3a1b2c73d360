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
    NeedMore,
    PlanError,
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
    earlier_runs,
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
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.crio import (
    adoption,
    base,
    config,
    left_alone,
    messages,
    releases,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.crio import (
    plan as crio_plan,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.lowering import (
    add_cause,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers import known
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.unit_files import start

# What NVIDIA's packages bring.
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


def read_facts(policy: Policy, obs: Observation) -> Observation:
    """Return what the functions of this engine take."""
    return obs


def find_instances(policy: Policy, obs: Observation) -> tuple[Instance, ...]:
    if policy.root != "/":
        return _own(policy, obs)
    foreign = (
        ()
        if processes.is_everything_declared(policy)
        else processes.list_unverified_processes(obs, "crio")
    )
    own = () if foreign and not config.find_crio_process(obs) else _own(policy, obs)
    return (*own, *(processes.build_untrusted_instance("crio", "CRI-O", p) for p in foreign))


def _own(policy: Policy, obs: Observation) -> tuple[Instance, ...]:
    """Return the host's own CRI-O: the verified process, the one that the options describe, or one
    that is only installed.
    """
    where = config.find_crio_paths(policy, obs)
    by_options = processes.is_everything_declared(policy) and bool(
        processes.list_unverified_processes(obs, "crio")
    )
    running = (bool(config.find_crio_process(obs)) or by_options) and policy.root == "/"
    binary = str(config.find_crio_process(obs).get("exe") or "") or str(
        obs.get_answer(queries.ask_for_program(["crio"]))["found"].get("crio") or ""
    )
    if not (
        running
        or binary
        or get_crio_package_version(obs)
        or has_unit(policy, obs)
        or is_crio_wanted_in_tree(policy)
    ):
        return ()
    named_file.require_named_engine_file(policy, obs, releases.CONFIG, where.keep)
    unit = policy.service or str(config.find_crio_process(obs).get("unit") or "") or releases.UNIT
    version = get_crio_version(policy, obs, where, binary, running)
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
        invocation_id=obs.get_unit(unit).get("InvocationID", ""),
        pid=config.get_crio_pid(obs),
        ticks=int(config.find_crio_process(obs).get("ticks") or 0),
    )
    owner = known.find_image_manager(obs)
    if owner:
        return (dc.replace(instance, manager=owner.name, refusal=owner.refusal),)
    if policy.root == "/" and not running:
        return (dc.replace(instance, refusal=left_alone.refuse_stopped_crio(obs, where, unit)),)
    if running and config.find_crio_process(obs):
        other = refusals.refuse_other_file(
            policy, "CRI-O", config.find_crio_paths(dc.replace(policy, config_path=""), obs).config
        )
        if other:
            return (dc.replace(instance, refusal=other),)
    if running and not left_alone.has_crio_answered(obs, where):
        return (dc.replace(instance, refusal=left_alone.refuse_silent_crio(obs, where, unit)),)
    force = config.read_settings_in_force(
        policy, obs, where, instance.binary, config.parse_crio_minor(version)
    )
    instance = dc.replace(
        instance,
        cdi=dc.replace(
            describe_crio_cdi(
                config.parse_crio_minor(version), force.cdi_dirs, force.source, version
            ),
            next_dirs=config.list_next_crio_cdi_dirs(obs, where),
        ),
        default_handler=force.default,
        handlers={
            name: str(table.get("runtime_path") or "") for name, table in force.handlers.items()
        },
    )
    found = left_alone.find_crio_leftover_files(policy, obs, where, force, instance)
    instance = dc.replace(
        instance,
        low_level=find_crio_low_level_runtime(
            policy, obs, where, adoption.list_taken_layers(found), config.parse_crio_minor(version)
        ),
    )
    tool, refusal = left_alone.find_overriding_configurator(policy, obs, where, found, instance)
    return (dc.replace(instance, manager=tool or instance.manager, refusal=refusal),)


def find_crio_low_level_runtime(
    policy: Policy,
    obs: Observation,
    where: config.CrioPaths,
    gone: tuple[config.Layer, ...],
    version: tuple[int, int],
) -> str:
    """Return the low-level program behind the handlers of others. '' if a file cannot be read,
    which the plan will report.

    gone: the files that are taken over.
    """
    try:
        layers = [layer for layer in config.read_crio_layers(obs, where) if layer not in gone]
    except PlanError:
        return ""
    others = [layer.data for layer in layers if layer.path != where.drop_in]
    return base.find_crio_base_program(
        config.merge_crio_tables(others, version, "files"), next(iter(policy.handlers), Handler())
    )


def get_crio_package_version(obs: Observation) -> str:
    return next((v for v in (obs.get_package(name) for name in releases.PACKAGES) if v), "")


def has_unit(policy: Policy, obs: Observation) -> bool:
    """Tell whether systemd knows CRI-O's unit. It may even if neither the program nor the package
    is seen.
    """
    return policy.root == "/" and bool(obs.get_unit(policy.service or releases.UNIT))


def is_crio_wanted_in_tree(policy: Policy) -> bool:
    """Tell whether the options name CRI-O and its version for a tree. A bare tree contains no
    engine, so the options decide.
    """
    return policy.root != "/" and "crio" in policy.engines and bool(policy.engine_version)


def get_crio_version(
    policy: Policy, obs: Observation, where: config.CrioPaths, binary: str, running: bool
) -> str:
    """Return the version from the running daemon, otherwise from the binary, otherwise from the
    package.

    In a tree: from the option, otherwise from the package. Raise PlanError if none has it.
    """
    if running:
        # One that does not answer is refused, as one that does not run: another number will do for
        # a report.
        said = parse_crio_version(
            str(
                obs.try_cri(where.socket, "Version", pid=config.get_crio_pid(obs)).get(
                    "runtime_version"
                )
                or ""
            )
        )
        if said:
            return said
    if policy.root == "/" and binary:
        said = parse_crio_version(obs.try_command([binary, "--version"], config.handle(obs)).stdout)
        if said:
            return said
    found = policy.engine_version or parse_crio_version(get_crio_package_version(obs))
    if not found:
        raise PlanError(messages.CRIO_VERSION_UNKNOWN.fill(), where=policy.root)
    return found


def parse_crio_version(text: str) -> str:
    found = VERSION.search(text)
    return found.group() if found else ""


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
    policy: Policy, obs: Observation, instance: Instance
) -> tuple[Leftover, ...]:
    """List what others left in the configuration of an instance that is left alone."""
    if instance.manager not in (nvidia_ctk_crio.TOOL, nvidia_ctk_crio.OPERATOR):
        return ()
    where = config.find_crio_paths(policy, obs)
    force = config.read_settings_in_force(
        policy, obs, where, instance.binary, config.parse_crio_minor(instance.version)
    )
    return adoption.list_crio_leftovers(
        left_alone.find_crio_leftover_files(policy, obs, where, force, instance)
    )


def plan_instance(policy: Policy, obs: Observation, instance: Instance, decision: Decision) -> Plan:
    """Plan the way from what is there to the decision.

    The plan writes nothing but our drop-in, and removes nothing but nvidia-ctk's files.
    """
    where = config.find_crio_paths(policy, obs)
    config.check_drop_in(policy, where)
    layers = config.read_crio_layers(obs, where)
    force = config.read_settings_in_force(
        policy, obs, where, instance.binary, config.parse_crio_minor(instance.version)
    )
    found = adoption.find_ctk_drop_ins(policy, obs, where, layers, force, instance)
    staying = list_kept_crio_programs(policy, obs, where, layers) if decision.handler else {}
    kept = programs.keep_programs_in_policy(policy, staying)
    after = {handler.name: handler.binary for handler in kept.handlers} if decision.handler else {}
    edited = (
        adoption.list_edited_crio_handlers(policy, where, layers, found, force, after)
        if decision.handler
        else ()
    )
    planned = _plan(kept, obs, instance, decision, where, layers, force, found)
    planned = dc.replace(
        planned, advice=(*planned.advice, *programs.explain_kept_programs(policy, staying))
    )
    return adoption.complete_adoption_plan(planned, found, edited, after)


def _plan(
    policy: Policy, obs: Observation, instance: Instance, decision: Decision, where: config.CrioPaths, layers: tuple[config.Layer, ...],
    force: config.Effective, found: tuple[adoption.FoundFile, ...],
) -> Plan:  # fmt: skip
    """Plan the drop-in.

    policy: with the programs that handlers keep.
    """
    gone = adoption.list_taken_layers(found)
    rest = tuple(layer for layer in layers if layer not in gone)
    desired = crio_plan.derive_desired_crio(policy, obs, instance, decision, where, rest)
    crio_plan.check_shadow(where, rest, desired)
    crio_plan.check_arguments(where, desired)
    check_crio_binaries(policy, obs, decision)
    adoption.require_same_place(
        obs, instance, found, desired, config.parse_crio_minor(instance.version), force
    )
    before = (
        crio_plan.read_own_crio_drop_in(obs.get_file(where.drop_in, where.keep))
        if any(layer.path == where.drop_in for layer in layers)
        else None
    )
    text = crio_plan.render_crio_drop_in(desired)
    own = crio_plan.own_layer(layers, where)
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
        + crio_plan.advise_on_tree_binaries(policy, obs, decision)
    )
    lost = sorted(set(own.handlers if own else ()) - set(desired.handlers)) if changes else []
    advice += warn_of_hanging_pods(obs, instance, lost)
    if policy.root != "/":
        return Plan(
            differences,
            changes=changes,
            expect_files=list_expected_checksums(obs, where, layers),
            diffs=diffs,
            advice=advice,
        )
    acts = bool(changes or gone)
    return Plan(
        differences=differences
        or (() if served else (build_unserved_difference(instance, desired),)),
        changes=changes,
        expect_files=list_expected_checksums(obs, where, layers),
        expect_units=get_expected_unit(instance),
        stage_files=crio_plan.stage_crio_files(obs, where) if acts else (),
        validate=crio_plan.validate_staged_crio(
            obs, instance, where, layers, desired, adoption.list_adoption_patterns(gone)
        )
        if acts
        else (),
        restarts=list_crio_restarts(policy, instance, served),
        health=()
        if served or policy.restart == "never"
        else crio_plan.build_crio_health_check(
            instance, config.parse_crio_minor(instance.version), desired
        ),
        advice=advice
        if served or policy.restart != "never"
        else (*advice, messages.CRIO_RESTART_LEFT.fill(unit=instance.unit)),
        diffs=diffs,
    )


def list_kept_crio_programs(
    policy: Policy, obs: Observation, where: config.CrioPaths, layers: tuple[config.Layer, ...]
) -> dict[str, str]:
    """Return the programs that handlers keep, by the files of others and by our own."""
    now, mine = (
        {
            name: table.get("runtime_path")
            for layer in some
            for name, table in layer.handlers.items()
            if isinstance(table, Mapping)
        }
        for some in (
            [la for la in layers if la.path != where.drop_in],
            [la for la in layers if la.path == where.drop_in],
        )
    )
    return programs.list_kept_programs(policy, programs.read_program_facts(obs), now, mine)


def plan_absent(policy: Policy, obs: Observation, instance: Instance) -> Plan:
    """Plan to remove our drop-in, or to give back the bytes that were there before our first
    change.
    """
    where = config.find_crio_paths(policy, obs)
    file = obs.get_file(where.drop_in, where.keep)
    back = owned_file.plan_owned_file_restore(
        earlier_runs.read_earlier_runs(obs),
        file,
        why=messages.ABSENT.fill(),
        own=is_own_crio_drop_in(obs, where),
    )
    if not instance.running or policy.root != "/":
        return back
    layers = config.read_crio_layers(obs, where) if back.changes else ()
    own = crio_plan.own_layer(layers, where)
    if own is None:
        return dc.replace(
            back, expect_files=list_expected_checksums(obs, where, layers) if back.changes else {}
        )
    force = config.read_settings_in_force(
        policy, obs, where, instance.binary, config.parse_crio_minor(instance.version)
    )
    served = not (
        set(own.handlers) & set(force.handlers)
        or "cdi_spec_dirs" in own.runtime
        or "default_runtime" in own.runtime
    )
    # CRI-O cannot stop a container whose handler it does not know any more
    # (nvidia-container-toolkit PR 1360).
    hanging = (
        ()
        if adoption.is_ctk_drop_in_restored(obs, where)
        else warn_of_hanging_pods(obs, instance, tuple(own.handlers))
    )
    return dc.replace(
        back,
        expect_files=list_expected_checksums(obs, where, layers),
        expect_units=get_expected_unit(instance),
        restarts=list_crio_restarts(policy, instance, served),
        health=()
        if served or policy.restart == "never"
        else crio_plan.build_crio_health_check(
            instance, config.parse_crio_minor(instance.version), None
        ),
        advice=(*back.advice, *hanging),
    )


def warn_of_hanging_pods(
    obs: Observation, instance: Instance, handlers: Sequence[str]
) -> tuple[str, ...]:
    """Warn of pods that hang in Terminating once their handlers are gone. Pods have names here if
    CRI-O reports them.
    """
    if not handlers or not instance.running:
        return ()
    question = queries.ask_for_pods(
        instance.socket, handlers, traits.get_traits(traits.CRIO).pod_note
    )
    if not obs.was_asked(question):
        raise NeedMore([question])
    answer = obs.get_socket_answer(question, instance.pid)
    names = ", ".join(answer.get("pods") or ())
    if not names and "error" not in answer:
        return ()
    started = ", ".join(handlers)
    if names:
        return (messages.PODS_HANG.fill(pods=names, handlers=started),)
    return (messages.PODS_MAY_HANG.fill(handlers=started),)


def is_own_crio_drop_in(obs: Observation, where: config.CrioPaths) -> bool:
    """Tell whether the drop-in is ours, by its mark or by a copy from before."""
    file = obs.get_file(where.drop_in, where.keep)
    return (
        crio_plan.BEGINNING in (file.content or "")
        or where.drop_in in earlier_runs.read_earlier_runs(obs).originals
    )


def find_remnant(policy: Policy, obs: Observation) -> Instance | None:
    """Return the instance for the drop-in of a CRI-O that has been removed. None if there is no
    drop-in.
    """
    where = config.find_crio_paths_or_usual(policy, obs)
    if not obs.get_file(where.drop_in, where.keep).exists:
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


def get_main_file(policy: Policy, obs: Observation) -> str:
    return config.find_crio_paths_or_usual(policy, obs).drop_in


def list_marked_files(policy: Policy, obs: Observation) -> tuple[str, ...]:
    where = config.find_crio_paths_or_usual(policy, obs)
    file = obs.get_file(where.drop_in, where.keep)
    return (file.path,) if file.content and crio_plan.BEGINNING in file.content else ()


def owns_file(policy: Policy, obs: Observation, path: str) -> bool:
    where = config.find_crio_paths_or_usual(policy, obs)
    return path in (where.config, where.drop_in) or path.startswith(
        (f"{where.directory}/", "/etc/crio/")
    )


def build_unserved_difference(instance: Instance, desired: crio_plan.DesiredCrio) -> Difference:
    names = ", ".join(desired.handlers) or "no handler of this collection"
    why = messages.CRIO_NOT_LOADED.fill()
    return Difference("unit", instance.unit, "", "runs with an older configuration", names, why)


def list_crio_restarts(policy: Policy, instance: Instance, served: bool) -> tuple[Restart, ...]:
    """Return the restart that is needed. Empty if none is.

    A reload is never enough: it shows the new handler in the status and still does not serve it
    (cri-o#10202).
    """
    if served or policy.restart == "never" or policy.root != "/":
        return ()
    return (Restart(instance.unit, "restart", messages.READS_AT_START.fill()),)


def list_expected_checksums(
    obs: Observation, where: config.CrioPaths, layers: tuple[config.Layer, ...]
) -> dict[str, str | None]:
    """Return the checksums of all of CRI-O's files as the look saw them. The plan is right only for
    these.
    """
    seen: dict[str, str | None] = {
        where.config: obs.get_file(where.config, where.keep).sha256,
        where.drop_in: None,
    }
    return {**seen, **{layer.path: layer.file.sha256 for layer in layers}}


def get_expected_unit(instance: Instance) -> dict[str, str]:
    return {instance.unit: instance.invocation_id} if instance.invocation_id else {}


def check_crio_binaries(policy: Policy, obs: Observation, decision: Decision) -> None:
    """Raise PlanError if the binary of a handler is missing, before anything is touched.

    Without it CRI-O does not start if the handler is the default one, and ignores any other
    handler.
    """
    programs.require_handler_programs(
        policy, programs.read_program_facts(obs), decision, messages.CRIO_PROGRAM_NEEDED.fill()
    )
