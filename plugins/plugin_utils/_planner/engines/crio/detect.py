# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find CRI-O by its process, plan our one drop-in for it, and prove it by its own CRI Status."""

from __future__ import annotations

import dataclasses as dc
import posixpath
import re
from collections.abc import Mapping, Sequence

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner import owned_file, processes, queries, refusals, traits
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.adoption import gpu_operator, nvidia_ctk_crio, programs
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.engines import cdi_versions, named_file
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.engines.crio import adoption, base, config, messages, releases
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.engines.crio import plan as crio_plan
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.errors import NeedMore, PlanError, Refusal
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.lowering import caused
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.managers import known
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.model import (
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
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.observation import Observation
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.projections import crio_places
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.unit_files import start

# What NVIDIA's packages bring.
VERSION = re.compile(r"\d{1,9}\.\d{1,9}(?:\.\d{1,9})?")


def questions(policy: Policy) -> list[queries.Question]:
    """List all that a CRI-O with its files in the usual places needs, in one look."""
    main = policy.config_path or releases.CONFIG
    socket = policy.socket or releases.SOCKET
    keep = crio_places.keep(policy.handlers)
    asked = [
        queries.which(["crio"]),
        queries.package(list(releases.PACKAGES)),
        queries.directory(f"{main}.d"),
        queries.glob(f"{main}.d/*", keep),
        queries.file(main, keep),
        queries.file(nvidia_ctk_crio.UNREAD, keep),
        *(queries.file(h.binary, content=False) for h in policy.handlers),
    ]
    if policy.root != "/":
        return [*asked, *start.questions(policy.root, policy.service or releases.UNIT)]
    running = queries.processes(["crio"], config.READ_FLAGS)
    return [*asked, running, queries.units([policy.service or releases.UNIT]), queries.cri(socket), queries.cri(socket, "Version")]


def find(policy: Policy, obs: Observation) -> tuple[Instance, ...]:
    if policy.root != "/":
        return _own(policy, obs)
    foreign = () if processes.declared(policy) else processes.called(obs, "crio")
    own = () if foreign and not config.process(obs) else _own(policy, obs)
    return (*own, *(processes.instance("crio", "CRI-O", p) for p in foreign))


def _own(policy: Policy, obs: Observation) -> tuple[Instance, ...]:
    """Return the host's own CRI-O: the verified process, the one that the options describe, or one that is only installed."""
    where = config.places(policy, obs)
    by_options = processes.declared(policy) and bool(processes.called(obs, "crio"))
    running = (bool(config.process(obs)) or by_options) and policy.root == "/"
    binary = str(config.process(obs).get("exe") or "") or str(obs.raw(queries.which(["crio"]))["found"].get("crio") or "")
    if not (running or binary or packaged(obs) or has_unit(policy, obs) or wanted_in_tree(policy)):
        return ()
    named_file.require(policy, obs, releases.CONFIG, where.keep)
    unit = policy.service or str(config.process(obs).get("unit") or "") or releases.UNIT
    version = version_of(policy, obs, where, binary, running)
    instance = Instance(
        engine="crio",
        version=version,
        binary=binary or "/usr/bin/crio",
        socket=where.socket,
        config_path=where.config,
        unit=unit,
        manager="package",
        running=running,
        cdi=cdi_of(config.pair(version), CDI_DIRS, "version", version),
        invocation_id=obs.unit(unit).get("InvocationID", ""),
        pid=config.pid(obs),
        ticks=int(config.process(obs).get("ticks") or 0),
    )
    owner = known.image(obs)
    if owner:
        return (dc.replace(instance, manager=owner.name, refusal=owner.refusal),)
    if policy.root == "/" and not running:
        return (dc.replace(instance, refusal=stopped(obs, where, unit)),)
    if running and not answers(obs, where):
        return (dc.replace(instance, refusal=silence(obs, where, unit)),)
    force = config.in_force(policy, obs, where, instance.binary, config.pair(version))
    instance = dc.replace(
        instance,
        cdi=dc.replace(cdi_of(config.pair(version), force.cdi_dirs, force.source, version), next_dirs=config.next_cdi_dirs(obs, where)),
        default_handler=force.default,
        handlers={name: str(table.get("runtime_path") or "") for name, table in force.handlers.items()},
    )
    found = leftover_files(policy, obs, where, force, instance)
    instance = dc.replace(instance, low_level=low_level(policy, obs, where, adoption.taken(found), config.pair(version)))
    tool, refusal = written_by_nvidias(policy, obs, where, found, instance)
    return (dc.replace(instance, manager=tool or instance.manager, refusal=refusal),)


def low_level(policy: Policy, obs: Observation, where: config.Paths, gone: tuple[config.Layer, ...], version: tuple[int, int]) -> str:
    """Return the low-level program behind the handlers of others. '' if a file cannot be read, which the plan will report.

    gone: the files that are taken over.
    """
    try:
        layers = [layer for layer in config.layers(obs, where) if layer not in gone]
    except PlanError:
        return ""
    others = [layer.data for layer in layers if layer.path != where.drop_in]
    return base.runs(config.from_tables(others, version, "files"), next(iter(policy.handlers), Handler()))


def answers(obs: Observation, where: config.Paths) -> bool:
    return all(obs.try_cri(where.socket, method, pid=config.pid(obs)) for method in ("Status", "Version"))


def silence(obs: Observation, where: config.Paths, unit: str) -> Refusal:
    """Refuse a CRI-O that does not answer: without an answer its settings, and its chances to survive a change, are unknown."""
    asked = (obs.said_by(queries.cri(where.socket, method), config.pid(obs)) for method in ("Status", "Version"))
    given = (str(a["error"].get("message") or "") for a in asked if "error" in a)
    reason = next(given, "") or "it gives no reason"
    silent = messages.CRIO_SILENT.fill(socket=where.socket, reason=reason, unit=unit)
    return Refusal(silent, kind="silent")


def packaged(obs: Observation) -> str:
    return next((v for v in (obs.package(name) for name in releases.PACKAGES) if v), "")


def has_unit(policy: Policy, obs: Observation) -> bool:
    """Tell whether systemd knows CRI-O's unit. It may even if neither the program nor the package is seen."""
    return policy.root == "/" and bool(obs.unit(policy.service or releases.UNIT))


def wanted_in_tree(policy: Policy) -> bool:
    """Tell whether the options name CRI-O and its version for a tree. A bare tree contains no engine, so the options decide."""
    return policy.root != "/" and "crio" in policy.engines and bool(policy.engine_version)


def version_of(policy: Policy, obs: Observation, where: config.Paths, binary: str, running: bool) -> str:
    """Return the version from the running daemon, otherwise from the binary, otherwise from the package.

    In a tree: from the option, otherwise from the package. Raise PlanError if none has it.
    """
    if running:
        # One that does not answer is refused, as one that does not run: another number will do for a report.
        said = version_in(str(obs.try_cri(where.socket, "Version", pid=config.pid(obs)).get("runtime_version") or ""))
        if said:
            return said
    if policy.root == "/" and binary:
        said = version_in(obs.try_command([binary, "--version"], config.handle(obs)).stdout)
        if said:
            return said
    found = policy.engine_version or version_in(packaged(obs))
    if not found:
        raise PlanError(messages.CRIO_VERSION_UNKNOWN.fill(), where=policy.root)
    return found


def version_in(text: str) -> str:
    found = VERSION.search(text)
    return found.group() if found else ""


def cdi_of(version: tuple[int, int], dirs: tuple[str, ...], source: str, text: str) -> Cdi:
    """Describe CDI in this CRI-O. CDI has no switch: it is on from 1.24 on, but finds nothing without directories."""
    able = version >= releases.CDI_SINCE
    used = tuple(d for d in dirs if d)
    evidence = Evidence(
        source, f"CRI-O {text}, CDI directories {', '.join(used) or 'none'}" if able else f"CRI-O {text} is older than 1.24"
    )
    return Cdi(
        able,
        able and bool(used),
        used if able else (),
        cdi_versions.max_cdi(traits.CRIO, f"{version[0]}.{version[1]}.0"),
        evidence,
        cri_field=version >= releases.CRI_FIELD_SINCE,
    )


def stopped(obs: Observation, where: config.Paths, unit: str) -> Refusal:
    """Refuse an installed CRI-O that does not run. If it cannot read a file, the likeliest cause, the refusal names that file."""
    try:
        config.layers(obs, where)
    except PlanError as broken:
        place = f"{broken.where}:{broken.line}" if broken.line else broken.where
        problem, step = broken.message.without_step(), broken.next
        cause = messages.STOPPED_BY_FILE.fill(place=place, problem=problem, step=step)
        return Refusal(cause, kind="stopped")
    return refusals.stopped(obs, "CRI-O", unit)


def written_by_nvidias(
    policy: Policy, obs: Observation, where: config.Paths, found: tuple[adoption.FoundFile, ...], instance: Instance
) -> tuple[str, Refusal]:
    """Return (tool, refusal) if a file of NVIDIA's own configurator overrides our drop-in and is not taken over.

    CRI-O reads that file after our drop-in, so it replaces our handler, and we leave the engine alone. ('', Refusal()) otherwise.
    """
    names = {h.name for h in policy.handlers}
    for path in config.listing(obs, where.directory):
        if not nvidia_ctk_crio.NAMES.fullmatch(posixpath.basename(path)):
            continue
        layer = config.layer_of(obs, where, path, main=False)
        if layer and (names & set(layer.handlers) or "default_runtime" in layer.runtime):
            operator = nvidia_ctk_crio.is_of_operator(layer.handlers)
            by = gpu_operator.TITLE if operator else "nvidia-ctk"
            left = next((one for one in found if one.path == path), None)
            if left and not left.why:
                continue
            toolkit = gpu_operator.state(policy, obs, [instance], (path,)) if operator and not left else None
            if toolkit and toolkit.counts_as_live:
                return nvidia_ctk_crio.OPERATOR, gpu_operator.refusal(obs, instance, toolkit)
            if left:
                reason, step = left.why.without_step(), left.why.next
                row = messages.NOT_TAKEN_OVER
                written = row.fill(path=path, tool=by, reason=reason, step=step)
            else:
                written = messages.WRITTEN_BY_TOOL.fill(path=path, tool=by)
            name = nvidia_ctk_crio.OPERATOR if operator else nvidia_ctk_crio.TOOL
            return name, Refusal(written)
    return "", Refusal()


def leftover_files(
    policy: Policy, obs: Observation, where: config.Paths, force: config.Effective, instance: Instance
) -> tuple[adoption.FoundFile, ...]:
    """Find the files that the tool wrote. Empty if a file cannot be read: nothing is taken over then, and the plan names that file."""
    try:
        return adoption.find(policy, obs, where, config.layers(obs, where), force, instance)
    except PlanError:
        return ()


def leftovers(policy: Policy, obs: Observation, instance: Instance) -> tuple[Leftover, ...]:
    """List what others left in the configuration of an instance that is left alone."""
    if instance.manager not in (nvidia_ctk_crio.TOOL, nvidia_ctk_crio.OPERATOR):
        return ()
    where = config.places(policy, obs)
    force = config.in_force(policy, obs, where, instance.binary, config.pair(instance.version))
    return adoption.leftovers(leftover_files(policy, obs, where, force, instance))


def plan(policy: Policy, obs: Observation, instance: Instance, decision: Decision) -> Plan:
    """Plan the way from what is there to the decision.

    The plan writes nothing but our drop-in, and removes nothing but nvidia-ctk's files.
    """
    where = config.places(policy, obs)
    config.check_drop_in(policy, where)
    layers = config.layers(obs, where)
    force = config.in_force(policy, obs, where, instance.binary, config.pair(instance.version))
    found = adoption.find(policy, obs, where, layers, force, instance)
    staying = kept_programs(policy, obs, where, layers) if decision.handler else {}
    kept = programs.with_kept(policy, staying)
    after = {handler.name: handler.binary for handler in kept.handlers} if decision.handler else {}
    edited = adoption.edited(policy, where, layers, found, force, after) if decision.handler else ()
    planned = _plan(kept, obs, instance, decision, where, layers, force, found)
    planned = dc.replace(planned, advice=(*planned.advice, *programs.said(policy, staying)))
    return adoption.completed(planned, found, edited, after)


def _plan(
    policy: Policy, obs: Observation, instance: Instance, decision: Decision, where: config.Paths, layers: tuple[config.Layer, ...],
    force: config.Effective, found: tuple[adoption.FoundFile, ...],
) -> Plan:  # fmt: skip
    """Plan the drop-in.

    policy: with the programs that handlers keep.
    """
    gone = adoption.taken(found)
    rest = tuple(layer for layer in layers if layer not in gone)
    desired = crio_plan.desired(policy, obs, instance, decision, where, rest)
    crio_plan.check_shadow(where, rest, desired)
    crio_plan.check_arguments(where, desired)
    check_binaries(policy, obs, decision)
    adoption.require_same_place(obs, instance, found, desired, config.pair(instance.version), force)
    before = crio_plan.own(obs.file(where.drop_in, where.keep)) if any(layer.path == where.drop_in for layer in layers) else None
    text = crio_plan.text(desired)
    own = crio_plan.own_layer(layers, where)
    served = crio_plan.served(force, desired, own)
    same = own is not None and crio_plan.flat(own.data) == crio_plan.flat(crio_plan.tree(desired))
    changes, diffs = crio_plan.change(where, before, text, crio_plan.hidden(desired), same)
    differences = crio_plan.differences(where, own, desired, bool(changes))
    if any(change["op"] == "remove" for change in changes):
        differences = caused(Plan(differences), "policy").differences
    advice = crio_plan.stray_advice(where, rest) + crio_plan.base_advice(desired) + crio_plan.tree_advice(policy, obs, decision)
    lost = sorted(set(own.handlers if own else ()) - set(desired.handlers)) if changes else []
    advice += left_hanging(obs, instance, lost)
    if policy.root != "/":
        return Plan(differences, changes=changes, expect_files=expected(obs, where, layers), diffs=diffs, advice=advice)
    acts = bool(changes or gone)
    return Plan(
        differences=differences or (() if served else (unserved(instance, desired),)),
        changes=changes,
        expect_files=expected(obs, where, layers),
        expect_units=expected_unit(instance),
        stage_files=crio_plan.stage(obs, where) if acts else (),
        validate=crio_plan.validation(obs, instance, where, layers, desired, adoption.allowed(gone)) if acts else (),
        restarts=restarts(policy, instance, served),
        health=() if served or policy.restart == "never" else crio_plan.health(instance, config.pair(instance.version), desired),
        advice=advice if served or policy.restart != "never" else (*advice, messages.CRIO_RESTART_LEFT.fill(unit=instance.unit)),
        diffs=diffs,
    )


def kept_programs(policy: Policy, obs: Observation, where: config.Paths, layers: tuple[config.Layer, ...]) -> dict[str, str]:
    """Return the programs that handlers keep, by the files of others and by our own."""
    now, mine = (
        {name: table.get("runtime_path") for layer in some for name, table in layer.handlers.items() if isinstance(table, Mapping)}
        for some in ([la for la in layers if la.path != where.drop_in], [la for la in layers if la.path == where.drop_in])
    )
    return programs.kept(policy, obs, now, mine)


def plan_absent(policy: Policy, obs: Observation, instance: Instance) -> Plan:
    """Plan to remove our drop-in, or to give back the bytes that were there before our first change."""
    where = config.places(policy, obs)
    file = obs.file(where.drop_in, where.keep)
    back = owned_file.give_back(obs, file, why=messages.ABSENT.fill(), own=is_own(obs, where))
    if not instance.running or policy.root != "/":
        return back
    layers = config.layers(obs, where) if back.changes else ()
    own = crio_plan.own_layer(layers, where)
    if own is None:
        return dc.replace(back, expect_files=expected(obs, where, layers) if back.changes else {})
    force = config.in_force(policy, obs, where, instance.binary, config.pair(instance.version))
    served = not (set(own.handlers) & set(force.handlers) or "cdi_spec_dirs" in own.runtime or "default_runtime" in own.runtime)
    # CRI-O cannot stop a container whose handler it does not know any more (nvidia-container-toolkit PR 1360).
    hanging = () if adoption.comes_back(obs, where) else left_hanging(obs, instance, tuple(own.handlers))
    return dc.replace(
        back,
        expect_files=expected(obs, where, layers),
        expect_units=expected_unit(instance),
        restarts=restarts(policy, instance, served),
        health=() if served or policy.restart == "never" else crio_plan.health(instance, config.pair(instance.version), None),
        advice=(*back.advice, *hanging),
    )


def left_hanging(obs: Observation, instance: Instance, handlers: Sequence[str]) -> tuple[str, ...]:
    """Warn of pods that hang in Terminating once their handlers are gone. Pods have names here if CRI-O reports them."""
    if not handlers or not instance.running:
        return ()
    question = queries.pods(instance.socket, handlers, traits.of(traits.CRIO).pod_note)
    if not obs.asked(question):
        raise NeedMore([question])
    answer = obs.said_by(question, instance.pid)
    names = ", ".join(answer.get("pods") or ())
    if not names and "error" not in answer:
        return ()
    started = ", ".join(handlers)
    if names:
        return (messages.PODS_HANG.fill(pods=names, handlers=started),)
    return (messages.PODS_MAY_HANG.fill(handlers=started),)


def is_own(obs: Observation, where: config.Paths) -> bool:
    """Tell whether the drop-in is ours, by its mark or by a copy from before."""
    file = obs.file(where.drop_in, where.keep)
    return crio_plan.BEGINNING in (file.content or "") or where.drop_in in owned_file.originals(obs)


def remnant(policy: Policy, obs: Observation) -> Instance | None:
    """Return the instance for the drop-in of a CRI-O that has been removed. None if there is no drop-in."""
    where = config.named_or_default(policy, obs)
    if not obs.file(where.drop_in, where.keep).exists:
        return None
    nothing = Cdi(False, False, (), "", Evidence("files", "CRI-O is not installed here"))
    return Instance("crio", policy.engine_version, "", where.socket, where.config, "", "package", False, nothing)


def main(policy: Policy, obs: Observation) -> str:
    return config.named_or_default(policy, obs).drop_in


def marked(policy: Policy, obs: Observation) -> tuple[str, ...]:
    where = config.named_or_default(policy, obs)
    file = obs.file(where.drop_in, where.keep)
    return (file.path,) if file.content and crio_plan.BEGINNING in file.content else ()


def claims(policy: Policy, obs: Observation, path: str) -> bool:
    where = config.named_or_default(policy, obs)
    return path in (where.config, where.drop_in) or path.startswith((f"{where.directory}/", "/etc/crio/"))


def unserved(instance: Instance, desired: crio_plan.Desired) -> Difference:
    names = ", ".join(desired.handlers) or "no handler of this collection"
    why = messages.CRIO_NOT_LOADED.fill()
    return Difference("unit", instance.unit, "", "runs with an older configuration", names, why)


def restarts(policy: Policy, instance: Instance, served: bool) -> tuple[Restart, ...]:
    """Return the restart that is needed. Empty if none is.

    A reload is never enough: it shows the new handler in the status and still does not serve it (cri-o#10202).
    """
    if served or policy.restart == "never" or policy.root != "/":
        return ()
    return (Restart(instance.unit, "restart", messages.READS_AT_START.fill()),)


def expected(obs: Observation, where: config.Paths, layers: tuple[config.Layer, ...]) -> dict[str, str | None]:
    """Return the checksums of all of CRI-O's files as the look saw them. The plan is right only for these."""
    seen: dict[str, str | None] = {where.config: obs.file(where.config, where.keep).sha256, where.drop_in: None}
    return {**seen, **{layer.path: layer.file.sha256 for layer in layers}}


def expected_unit(instance: Instance) -> dict[str, str]:
    return {instance.unit: instance.invocation_id} if instance.invocation_id else {}


def check_binaries(policy: Policy, obs: Observation, decision: Decision) -> None:
    """Raise PlanError if the binary of a handler is missing, before anything is touched.

    Without it CRI-O does not start if the handler is the default one, and ignores any other handler.
    """
    programs.require_all(policy, obs, decision, messages.CRIO_PROGRAM_NEEDED.fill())
