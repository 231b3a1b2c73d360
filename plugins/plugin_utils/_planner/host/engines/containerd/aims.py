# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Derive the settings that one containerd is to have, from the files as they are, without our own
file and without one that goes.
"""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import (
    transaction,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import toml
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Decision,
    Difference,
    Handler,
    Instance,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections import (
    containerd_places,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections.containerd_places import (
    Path,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.versions import Version
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.adoption import programs
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.earlier_runs import (
    EarlierRuns,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    adoption,
    cgroup_choice,
    config,
    cri_settings,
    edit,
    releases,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    base as containerd_base,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd.base import (
    Base,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd.config import (
    ConfigFile,
    FileSet,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd.cri_settings import (
    CriSetting,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd.facts import (
    ContainerdFacts,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd.messages import (
    about_adoption,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers import known


@dc.dataclass(frozen=True)
class Aim:
    """The settings that are wanted of the files that stay.

    base: the files without our own drop-in.
    cri: the CRI table that base gives, without our edits.
    """

    files: FileSet
    base: FileSet
    names: Path
    cri: Mapping[str, Any]
    wanted: list[CriSetting]
    bases: Mapping[str, Base]
    going: Going | None = None
    staying: Mapping[str, str] = dc.field(default_factory=dict)  # programs that handlers keep


@dc.dataclass(frozen=True)
class Going:
    """A file of another tool that goes. allowed: keys that may have another value without it."""

    file: ConfigFile
    allowed: tuple[CriSetting, ...] = ()
    # our keys differ from what is in force with it; not all of them are in the engine's status
    restarts: bool = False
    default: tuple[Difference, ...] = ()

    def build_change(self) -> transaction.Change:
        return {"path": self.file.real, "op": "remove", "expect": self.file.sha256}

    def list_retired_handlers(self, instance: str) -> tuple[tuple[str, str, str], ...]:
        """List the handlers that go with the file, as a plan names them."""
        gone = (
            one.path[2]
            for one in self.allowed
            if one.path[:2] == releases.RUNTIMES and one.value is None
        )
        return tuple((instance, name, self.file.path) for name in gone)

    @property
    def differences(self) -> tuple[Difference, ...]:
        why = about_adoption.GOES.fill()
        return (
            Difference("file", self.file.path, "", "present", None, why, "adoption"),
            *self.default,
        )


def derive_aim(
    policy: Policy,
    facts: ContainerdFacts,
    instance: Instance,
    decision: Decision,
    files: FileSet,
    version: Version,
    going: ConfigFile | None = None,
) -> Aim:
    mine = own_drop_in(files)
    base = files.drop_file(mine) if mine else files
    cri = config.build_effective_cri_table(base, version)
    decision = dc.replace(
        decision, enable_cdi=decision.enable_cdi or _is_cdi_switched_on(policy, files.get(mine))
    )
    reset_to = _read_default_handler(_get_original_root(facts.earlier, files))
    bases, plain = _choose_bases(policy, facts, instance, decision, files, base, version)
    staying = (
        _list_kept_programs(policy, facts, files, cri, files.get(mine), going)
        if decision.handler
        else {}
    )
    wanted = cri_settings.derive_containerd_settings(
        programs.keep_programs_in_policy(policy, staying),
        decision,
        base,
        cri,
        version,
        reset_to,
        bases,
    )
    cgroup_choice.require_kept(
        policy,
        instance.config_path,
        plain,
        cri_settings.apply_settings_to_table(cri, wanted),
        version,
        bases,
    )
    wanted = cri_settings.join_settings(
        wanted, adoption.carry_adopted_settings(facts.earlier, files.get(mine), wanted)
    )
    return Aim(
        files, base, config.get_cri_table_path(base, version), cri, wanted, bases, staying=staying
    )


def _list_kept_programs(
    policy: Policy,
    facts: ContainerdFacts,
    files: FileSet,
    cri: Mapping[str, Any],
    mine: ConfigFile | None,
    going: ConfigFile | None,
) -> dict[str, str]:
    """Return the programs that handlers keep, by handler. A file that is taken over now names some
    as well.
    """
    own, taken_over = (
        config.list_file_handlers(file.doc.data) if file else {} for file in (mine, going)
    )
    now = config.list_handler_programs(
        {**toml.look_up_toml(cri, releases.RUNTIMES, {}), **taken_over}
    )
    return programs.list_kept_programs(
        policy,
        facts.programs,
        now,
        config.list_handler_programs(own),
        _list_written_handlers(policy, _get_original_root(facts.earlier, files)),
    )


def _is_cdi_switched_on(policy: Policy, mine: ConfigFile | None) -> bool:
    """Tell whether our drop-in turns CDI on: no observation of the engine shows that. False if CDI
    is to be disabled.
    """
    data = mine.doc.data if mine and policy.cdi != "disabled" else {}
    return any(
        toml.look_up_toml(data, (*table, "enable_cdi")) is True
        for table in (containerd_places.V2_NAMES, containerd_places.V3_NAMES)
    )


def derive_aim_without_file(
    policy: Policy,
    facts: ContainerdFacts,
    instance: Instance,
    decision: Decision,
    files: FileSet,
    found: adoption.FoundDropIn,
    version: Version,
) -> Aim:
    """Return the aim once a file of another tool is gone: as if it had never been there, plus what
    others may rely on in it.
    """
    staying = files.drop_file(found.file.path)
    now, then = (
        config.build_effective_cri_table(files, version),
        config.build_effective_cri_table(staying, version),
    )
    decision = dc.replace(
        decision, enable_cdi=decision.enable_cdi or adoption.enables_cdi(now, then, version)
    )
    aim = derive_aim(policy, facts, instance, decision, staying, version, found.file)
    default = str(toml.look_up_toml(now, releases.DEFAULT, ""))
    more = [
        *adoption.carry_missing_settings(found, now, aim.wanted),
        *adoption.carry_tool_handlers(found, now, aim.wanted, default),
    ]
    wanted = cri_settings.join_settings(aim.wanted, more)
    granted = cri_settings.apply_settings_to_table(aim.cri, wanted)
    shown = adoption.report_default_removal(found, now, granted, wanted, aim.names)
    going = Going(
        found.file,
        adoption.list_changing_tool_keys(found, now, granted),
        bool(cri_settings.list_unmet_settings(now, wanted)),
        shown,
    )
    return dc.replace(aim, wanted=wanted, going=going)


def find_containerd_low_level_runtime(
    policy: Policy, earlier: EarlierRuns, files: FileSet, version: Version
) -> str:
    """Return the program that runs containers here, by the handlers of others, '' if the NVIDIA
    runtime can hand over to none.
    """
    mine = own_drop_in(files)
    cri = config.build_effective_cri_table(
        files.drop_file(mine) if mine else files, version, built_in=False
    )
    before, handler = _get_original_root(earlier, files), next(iter(policy.handlers), Handler())
    written = handler.name in _list_written_handlers(policy, before)
    return containerd_base.find_containerd_base_program(
        cri,
        handler,
        written=written,
        default_before=_read_default_handler(before),
        made=_name_made_runc(before),
    )


def own_drop_in(files: FileSet) -> str:
    """Return the path of this collection's drop-in in this set, '' if there is none."""
    for file in files.files[1:]:
        if file.doc.text.startswith(edit.FIRST_LINE) and file.path != files.root_path:
            return file.path
    return ""


def _get_original_root(earlier: EarlierRuns, files: FileSet) -> Mapping[str, Any] | None:
    """Return the root file's data from before our first change, {} if there was no file.

    Return None if we never changed it, or if the copy cannot be read.
    """
    kept = earlier.originals_if_asked.get(files.root.real) if files.root else None
    if kept is None or not files.root:
        return None
    try:
        return toml.parse_toml(kept.get("content") or "", files.root.path).data
    except PlanError:
        return None


def _read_default_handler(before: Mapping[str, Any] | None) -> str:
    """Return the default handler that this data names, the engine's own if it names none, '' if
    nothing is known.
    """
    for table in containerd_places.TABLES:
        name = toml.look_up_toml(before or {}, (*table, *releases.DEFAULT))
        if isinstance(name, str) and name:
            return name
    return "" if before is None else "runc"


def find_default_program(text: str) -> tuple[str, str] | None:
    """Return the default handler that a file names, and the program that it gives this handler;
    None if it does not say both.
    """
    try:
        data = toml.parse_toml(text, "").data
    except PlanError:
        return None
    for table in containerd_places.TABLES:
        name = toml.look_up_toml(data, (*table, *releases.DEFAULT))
        handler = (*table, *releases.RUNTIMES, str(name), "options", "BinaryName")
        program = toml.look_up_toml(data, handler)
        if isinstance(name, str) and isinstance(program, str) and program:
            return name, program
    return None


def _list_written_handlers(policy: Policy, before: Mapping[str, Any] | None) -> frozenset[str]:
    """Return the wanted handlers that were not in the file before our first change, none if that is
    not known.
    """
    if before is None:
        return frozenset()
    return frozenset(
        h.name for h in policy.handlers if h.name not in config.list_file_handlers(before)
    )


def _name_made_runc(before: Mapping[str, Any] | None) -> frozenset[str]:
    """Name the handler runc if others were in the file before our first change, and it was not: 1.x
    has no built-in one then.
    """
    there = config.list_file_handlers(before or {})
    return frozenset({"runc"} if there and "runc" not in there else ())


def _choose_bases(
    policy: Policy,
    facts: ContainerdFacts,
    instance: Instance,
    decision: Decision,
    files: FileSet,
    base: FileSet,
    version: Version,
) -> tuple[dict[str, Base], Mapping[str, Any]]:
    """Return what each wanted handler is copied from, by handler, and the CRI table without what we
    wrote.
    """
    before = _get_original_root(facts.earlier, files)
    reset_to, written = _read_default_handler(before), _list_written_handlers(policy, before)
    declared = config.build_effective_cri_table(base, version, built_in=False)
    plain = cgroup_choice.remove_own_handlers_from_table(
        config.build_effective_cri_table(base, version), written, reset_to
    )
    every = policy.handlers if decision.handler else ()
    own = written | _list_manager_handlers(instance.manager, base)
    made = _name_made_runc(before)
    bases = {
        h.name: containerd_base.choose_containerd_base(
            declared, h, written=h.name in own, default_before=reset_to, made=made
        )
        for h in every
    }
    return cgroup_choice.settle_cgroup_drivers(
        policy, facts.kubelet, instance, decision, plain, version, bases
    ), plain


def _list_manager_handlers(manager: str, base: FileSet) -> frozenset[str]:
    """Return the handlers that the manager adds by itself and no other file names: they show
    nothing of this node's runc.
    """
    others = {name for file in base.files[1:] for name in config.list_file_handlers(file.doc.data)}
    finds = known.get_manager_place(manager).detection
    return frozenset(finds.programs if finds else ()) - others
