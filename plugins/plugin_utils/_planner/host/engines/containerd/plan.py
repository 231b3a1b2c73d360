# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plan for one containerd: which keys differ, which files change, whether it has to restart, and
how that is proven.
"""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import transaction
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import toml
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Decision,
    Difference,
    Instance,
    Leftover,
    Plan,
    Policy,
    Reason,
    build_refused_instance_error,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    ObservedFile,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections import (
    containerd_places,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections.containerd_places import (
    Path,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.versions import Version
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import owned_file
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.adoption import programs
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines import (
    messages as engine_messages,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines import (
    restarts,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    adoption,
    aims,
    config,
    cri_settings,
    edit,
    engine_rules,
    explained,
    in_place,
    options,
    releases,
    rendered,
    served,
    sources,
    verify,
    watched,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd.aims import (
    Aim,
    Going,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd.base import (
    Base,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd.config import (
    FileSet,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd.cri_settings import (
    CriSetting,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd.edit import (
    FileChange,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd.facts import (
    ContainerdFacts,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd.messages import (
    about_adoption,
    about_files,
    about_handlers,
    about_restarts,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers import known


class Shadowed(PlanError):
    """The error for a file that is read later and keeps one of our keys from having an effect."""


def plan_containerd(
    policy: Policy, facts: ContainerdFacts, instance: Instance, decision: Decision
) -> Plan:
    """Plan what differs from the decision, and the transaction that corrects it. May raise NeedMore
    or PlanError.
    """
    if instance.refusal:
        raise build_refused_instance_error(instance)
    version = served.parse_containerd_version(instance)
    with sources.name_main_file_source(facts, instance, version):
        files = config.load_containerd_files(facts.config, instance.config_path, version)
        served.check_containerd_files(files, version)
    left: list[Leftover] = list(adoption.list_unread_tool_files(facts, files))
    for drop_in in adoption.find_adoptable_drop_ins(policy, facts, files, instance):
        if not drop_in.obstacle and not decision.handler:
            unit = instance.unit or "containerd"
            drop_in = drop_in.block(
                about_adoption.FILE_OF_TOOL_UNWANTED.fill(path=drop_in.file.path, unit=unit)
            )
        if drop_in.obstacle:
            left.append(drop_in.report_kept(drop_in.obstacle, drop_in.next))
            continue
        aim = aims.derive_aim_without_file(
            policy, facts, instance, decision, files, drop_in, version
        )
        left.append(
            explained.judge_tool_drop_in(
                policy, facts, instance, files, aim.base, drop_in, aim.wanted, version
            )
        )
        if left[-1].fate == "adopted":
            planned = dc.replace(
                _assemble_plan(policy, facts, instance, files, aim, version), leftovers=tuple(left)
            )
            return dc.replace(
                planned,
                leftovers=(
                    *left,
                    *in_place.list_taken_over_handlers(
                        policy, instance, aim.files, planned, version
                    ),
                ),
            )
    try:
        planned = _assemble_plan(
            policy,
            facts,
            instance,
            files,
            aims.derive_aim(policy, facts, instance, decision, files, version),
            version,
        )
    except Shadowed as error:
        raise next(
            (build_hidden_file_error(one) for one in left if one.path == error.where), error
        ) from None
    planned = dc.replace(planned, leftovers=tuple(left))
    return dc.replace(
        planned,
        leftovers=(
            *left,
            *in_place.list_taken_over_handlers(policy, instance, files, planned, version),
        ),
    )


def build_hidden_file_error(left: Leftover) -> PlanError:
    """Return the error for a leftover that keeps this collection's file from having any effect."""
    return PlanError(
        about_files.SHADOWED_BY_TOOL.fill(tool=left.tool, cause=left.why, step=left.next),
        where=left.path,
    )


def _assemble_plan(
    policy: Policy,
    facts: ContainerdFacts,
    instance: Instance,
    files: FileSet,
    aim: Aim,
    version: Version,
) -> Plan:
    changes = _changes(
        policy, facts, instance, aim.files, aim.base, aim.names, aim.cri, aim.wanted, version
    )
    after = files
    if changes or aim.going:
        gone = (
            {aim.going.file.path: ObservedFile(aim.going.file.path, exists=False)}
            if aim.going
            else {}
        )
        after = config.load_containerd_files(
            facts.config,
            instance.config_path,
            version,
            {**edit.get_changed_files(changes), **gone},
        )
    engine_rules.require_loadable_containerd(files, after, version)
    _verify(
        aim.base,
        after,
        aim.cri,
        aim.wanted,
        version,
        edited=known.get_manager_place(instance.manager).main_edited,
    )
    now = config.build_effective_cri_table(files, version)
    differences = tuple(_list_differences(changes, aim.names, now, aim.wanted))
    assembled = assemble(
        policy,
        facts.serving,
        instance,
        aim.files,
        changes,
        differences,
        aim.cri,
        aim.wanted,
        version,
        going=aim.going,
    )
    return dc.replace(
        assembled,
        advice=(
            *assembled.advice,
            *programs.explain_kept_programs(policy, aim.staying),
            *_advise_on_bases(aim.bases, aim.cri, instance),
        ),
    )


def explain_containerd_decision(
    policy: Policy, facts: ContainerdFacts, instance: Instance, decision: Decision
) -> tuple[Reason, ...]:
    """Return the cgroup driver of our handler and the place of the handler, for the record.

    Return () if that cannot be planned; the plan reports why.
    """
    try:
        version = served.parse_containerd_version(instance)
        files = config.load_containerd_files(facts.config, instance.config_path, version)
        aim = aims.derive_aim(policy, facts, instance, decision, files, version)
    except PlanError:
        return ()
    base = aim.bases.get(decision.handler)
    if instance.detects:
        where = rendered.explain_manager_detection(
            known.get_manager(instance.manager), files, instance.detects
        )
    else:
        where = rendered.explain_drop_in_place(
            policy,
            known.get_manager(instance.manager),
            decision.handler,
            files,
            aim.cri,
            aim.wanted,
        )
    return (
        *(
            [Reason("cgroup_driver", "systemd" if base.systemd else "cgroupfs", base.cgroup_why)]
            if base
            else []
        ),
        *where,
    )


def _changes(
    policy: Policy,
    facts: ContainerdFacts,
    instance: Instance,
    files: FileSet,
    base: FileSet,
    names: Path,
    cri: Mapping[str, Any],
    wanted: list[CriSetting],
    version: Version,
) -> list[FileChange]:
    said: dict[str, Any] = {}
    for file in base.files:
        said = config.merge_cri_tables(said, toml.look_up_toml(file.doc.data, names) or {})
    missing = cri_settings.list_unmet_settings(cri, wanted, said)
    takes_over = base is not files
    if not missing and not takes_over:
        return []
    manager, place = known.get_manager(instance.manager), known.get_manager_place(instance.manager)
    edit.require_allowed(policy, manager, base, missing, version)
    if (
        releases.get_release_facts(version).merge == "replace"
        or (policy.drop_in == "never" and not takes_over)
        or not place.drop_ins
    ):
        # 1.x: a drop-in that names the CRI table replaces all that the root file sets there
        # (containerd#5837).
        return edit.edit_root_file(files, names, missing, version)
    # Our file carries the handlers complete, so it stands by itself, and of the rest only what the
    # others lack.
    own = [w for w in wanted if w.path[:2] == releases.RUNTIMES or w in missing]
    path = (
        aims.own_drop_in(files)
        if takes_over and not policy.drop_in_path
        else edit.drop_in_path(policy, place, files)
    )
    return edit.write_own_drop_in(facts.config, files, path, names, own, version)


def _verify(
    base: FileSet,
    after: FileSet,
    cri: Mapping[str, Any],
    wanted: list[CriSetting],
    version: Version,
    *,
    edited: bool,
) -> None:
    """Raise PlanError unless the sum of the files afterwards is the sum before and our keys. A file
    that is read later can spoil that.
    """
    effective = config.build_effective_cri_table(after, version)
    unmet = cri_settings.list_unmet_settings(effective, wanted)
    engine_rules.require_counting(after, version, [setting.path for setting in unmet])
    for setting in unmet:
        for file in reversed(after.files):
            for table in reversed(containerd_places.TABLES):
                options.require_own_spelling(
                    (base.get(file.path) or file).doc, table, setting.path, file.path
                )
                if (
                    toml.look_up_toml(file.doc.data, table) is not None
                    and toml.look_up_toml(file.doc.data, (*table, *setting.path)) != setting.value
                ):
                    raise _build_shadowed_error(file, table, setting, version, edited=edited)
    if effective != cri_settings.apply_settings_to_table(cri, wanted):
        raise PlanError(about_files.CHANGES_MORE.fill(), where=after.root_path)


def _build_shadowed_error(
    file: config.ConfigFile, table: Path, setting: CriSetting, version: Version, *, edited: bool
) -> Shadowed:
    """Return the error for a file that keeps a setting from having an effect.

    edited: the root file is a person's, and no manager renders it again.
    """
    line = toml.find_key_line(file.doc, (*table, *setting.path)) or toml.find_key_line(
        file.doc, table
    )
    replaces = releases.get_release_facts(version).merge == "replace"
    step = (about_files.MOVE_CRI_SETTINGS if edited else about_files.TAKE_SETTING_OUT).fill()
    name, value = toml.write_dotted_path(setting.path), toml.dump_toml_value(setting.value)
    if replaces and file.doc.text.startswith(edit.FIRST_LINE):
        message = about_files.SHADOWED_BY_OWN_DROP_IN.fill(version=str(version))
    elif replaces:
        message = about_files.SHADOWED_BY_TABLE.fill(setting=name, value=value, step=step)
    else:
        there = toml.dump_toml_value(toml.look_up_toml(file.doc.data, (*table, *setting.path)))
        message = about_files.SHADOWED_BY_SETTING.fill(
            setting=name, value=value, there=there, step=step
        )
    return Shadowed(message, where=file.path, line=line)


def _list_differences(
    changes: list[FileChange],
    names: Path,
    now: Mapping[str, Any],
    wanted: list[CriSetting],
) -> list[Difference]:
    differences = []
    for change in changes:
        old = change.before.data if change.before else {}
        for setting in wanted:
            key, was = (
                (*_get_changed_table(change, names), *setting.path),
                toml.look_up_toml(now, setting.path),
            )
            written = (
                toml.look_up_toml(change.after.data, key) == setting.value
                and toml.look_up_toml(old, key) != setting.value
            )
            # our drop-in repeats keys of its handlers that are in force already
            if written and was != setting.value:
                differences.append(
                    Difference(
                        "file",
                        change.path,
                        toml.write_dotted_path(key),
                        was,
                        setting.value,
                        setting.why,
                    )
                )
        before, after = old.get("imports"), change.after.data.get("imports")
        if before != after:
            differences.append(
                Difference(
                    "file",
                    change.path,
                    "imports",
                    before,
                    after,
                    about_files.IMPORTS_DROP_IN.fill(),
                )
            )
        if change.before and edit.VERSION_2[0][0] not in old and "version" in change.after.data:
            why = about_files.VERSION_NEEDED.fill()
            differences.append(
                Difference("file", change.path, "version", None, change.after.data["version"], why)
            )
        if not any(d.path == change.path for d in differences):
            was = None if change.before is None else owned_file.name_content(change.before.text)
            differences.append(
                Difference(
                    "file",
                    change.path,
                    "",
                    was,
                    owned_file.name_content(change.after.text),
                    about_files.OWNED.fill(),
                )
            )
    return differences


def _get_changed_table(change: FileChange, names: Path) -> Path:
    for table in (
        names,
        containerd_places.V2_NAMES,
        containerd_places.V3_NAMES,
        containerd_places.V1_NAMES,
    ):
        if toml.look_up_toml(change.after.data, table) is not None:
            return table
    return names


def plan_containerd_restart(
    policy: Policy,
    serving: verify.ServingFacts,
    instance: Instance,
    wanted: list[CriSetting],
    version: Version,
) -> Plan:
    """Return the restart by which the daemon takes its files up, or that it is left to a person."""
    path, unit = instance.config_path, instance.unit
    done = restarts.plan_engine_restart(
        policy,
        instance,
        known.restart(unit, about_restarts.CHANGES.fill()),
        (verify.build_containerd_health_check(instance, wanted, version),),
        left=about_restarts.RESTART_NEVER.fill(path=path, unit=unit or "containerd"),
        outside=about_restarts.OUTSIDE_SYSTEMD.fill(path=path),
    )
    if not done.restarts:
        return done
    verify.refuse_deadly_restart(serving, instance)
    if known.get_manager_place(instance.manager).takes_up:
        return done
    return dc.replace(done, advice=tuple(verify.advise_on_server_restart(serving, unit)))


def assemble(
    policy: Policy, serving: verify.ServingFacts, instance: Instance, files: FileSet,
    changes: list[FileChange], differences: tuple[Difference, ...],
    cri: Mapping[str, Any], wanted: list[CriSetting], version: Version,
    gone: tuple[transaction.Change, ...] = (), going: Going | None = None,
) -> Plan:  # fmt: skip
    """Return the plan with the transaction.

    gone: changes of `state: absent`, in addition to those of files that are edited. going: the file
    that is taken over.
    """
    advice = [
        *_advise_on_other_files(files, wanted),
        *engine_rules.advise_on_unread_tables(files, version),
    ]
    in_force = wanted if gone else [*wanted, cri_settings.get_final_default(cri, wanted)]
    removed = (*gone, *([going.build_change()] if going else []))
    differences = (*differences, *(going.differences if going else ()))
    taken_up = Plan()
    unlike = bool(going and going.restarts)
    stale = (
        instance.running
        and policy.root == "/"
        and (unlike or not verify.is_containerd_status_current(serving, instance, in_force))
    )
    if watched.is_restarted_by_manager(policy, instance, bool(changes or removed)):
        taken_up = watched.await_manager_restart(
            instance, verify.build_containerd_health_check(instance, wanted, version)
        )
    elif stale:
        taken_up = plan_containerd_restart(policy, serving, instance, wanted, version)
        if taken_up.restarts and not differences:
            differences = (verify.build_unloaded_difference(instance),)
    elif changes and not instance.running and policy.root == "/":
        advice.append(about_restarts.NOT_RUNNING.fill(path=instance.config_path))
    expect: dict[str, str | None] = (
        {f.real: f.sha256 for f in files.files} if changes or removed else {}
    )
    expect.update({c.real: c.sha256 for c in changes})
    checked = policy.root == "/" and (changes or going)
    allowed = [
        *wanted,
        *(going.allowed if going else ()),
        *_find_removed_default(changes, cri, wanted),
    ]
    texts = [(c.path, c.before.text if c.before else "", c.after.text) for c in changes]
    return Plan(
        differences=differences,
        changes=(*(c.build_change() for c in changes), *removed),
        expect_files=expect,
        expect_units=taken_up.expect_units,
        restarts=taken_up.restarts,
        health=taken_up.health,
        pending=taken_up.pending,
        advice=(*advice, *taken_up.advice),
        retired=going.list_retired_handlers(instance.key) if going else (),
        diffs=(*texts, *([(going.file.path, going.file.doc.text, "")] if going else [])),
        **(verify.validate_staged_containerd(instance, files, changes, allowed) if checked else {}),
    )


def _find_removed_default(
    changes: list[FileChange], cri: Mapping[str, Any], wanted: list[CriSetting]
) -> list[CriSetting]:
    """Return the default handler if our own file named one before and names none now: the files
    below name it again.

    The list is empty otherwise.
    """
    for change in changes:
        before = change.before.data if change.before else {}
        for table in (containerd_places.V2_NAMES, containerd_places.V3_NAMES):
            key = (*table, *releases.DEFAULT)
            if (
                toml.look_up_toml(before, key) is not None
                and toml.look_up_toml(change.after.data, key) is None
            ):
                return [cri_settings.get_final_default(cri, wanted)]
    return []


def _advise_on_other_files(files: FileSet, wanted: list[CriSetting]) -> list[str]:
    """Return advice about files of others that define our handler as well."""
    advice: list[str] = []
    for file in files.files[1:]:
        if file.doc.text.startswith(edit.FIRST_LINE):
            continue
        for table in (containerd_places.V3_NAMES, containerd_places.V2_NAMES):
            handlers = toml.look_up_toml(file.doc.data, (*table, "containerd", "runtimes"), {})
            written = {w.path[2] for w in wanted if w.path[:2] == releases.RUNTIMES} - {"runc"}
            for name in sorted(written & set(handlers)):
                advice.append(about_handlers.DEFINED_TWICE.fill(path=file.path, handler=name))
    return advice


def _advise_on_bases(
    bases: Mapping[str, Base], cri: Mapping[str, Any], instance: Instance
) -> list[str]:
    """Return advice about the handlers that this collection copies: a doubtful cgroup driver, or a
    program that is not taken over.
    """
    advice: list[str] = []
    for name, base in bases.items():
        if base.doubt:
            advice.append(
                about_handlers.DRIVER_IN_DOUBT.fill(
                    path=instance.config_path, doubt=base.doubt, handler=name
                )
            )
        if base.foreign and toml.look_up_toml(cri, ("containerd", "runtimes", name)) is None:
            # A node system's own shim as default: its properties are taken over, its program cannot
            # be.
            message = engine_messages.PROGRAM_NOT_TAKEN_OVER.fill(
                copied=base.origin, program=base.program, handler=name
            )
            advice.append(message)
    return advice
