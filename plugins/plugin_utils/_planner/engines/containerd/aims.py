# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Derive the settings that one containerd is to have, from the files as they are, without our own file and without one that goes."""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner import queries, transaction
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.adoption import programs
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.engines.containerd import (
    adoption,
    cgroup_choice,
    config,
    edit,
    releases,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.engines.containerd import base as containerd_base
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.engines.containerd.base import Base
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.engines.containerd.config import ConfigFile, FileSet
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.engines.containerd.edit import Setting
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.engines.containerd.messages import about_adoption
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.formats import toml
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.managers import known
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.model import (
    JOURNAL_DIR,
    Decision,
    Difference,
    Handler,
    Instance,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.observation import Observation
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.projections import containerd_places
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.projections.containerd_places import Path
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.versions import Version


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
    wanted: list[Setting]
    bases: Mapping[str, Base]
    going: Going | None = None
    staying: Mapping[str, str] = dc.field(default_factory=dict)  # programs that handlers keep


@dc.dataclass(frozen=True)
class Going:
    """A file of another tool that goes. allowed: keys that may have another value without it."""

    file: ConfigFile
    allowed: tuple[Setting, ...] = ()
    restarts: bool = False  # our keys differ from what is in force with it; not all of them are in the engine's status
    default: tuple[Difference, ...] = ()

    def as_change(self) -> transaction.Change:
        return {"path": self.file.real, "op": "remove", "expect": self.file.sha256}

    @property
    def differences(self) -> tuple[Difference, ...]:
        why = about_adoption.GOES.fill()
        return (Difference("file", self.file.path, "", "present", None, why, "adoption"), *self.default)


def of(
    policy: Policy, obs: Observation, instance: Instance, decision: Decision, files: FileSet, version: Version,
    going: ConfigFile | None = None,
) -> Aim:  # fmt: skip
    mine = own_drop_in(policy, obs, files)
    base = files.without(mine) if mine else files
    cri = config.effective(base, version)
    decision = dc.replace(decision, enable_cdi=decision.enable_cdi or _switched_on(policy, files.get(mine)))
    reset_to = _default_in(_original(obs, files))
    bases, plain = _bases(policy, obs, instance, decision, files, base, version)
    staying = _staying(policy, obs, files, cri, files.get(mine), going) if decision.handler else {}
    wanted = edit.settings(programs.with_kept(policy, staying), decision, base, cri, version, reset_to, bases)
    cgroup_choice.require_kept(policy, instance.config_path, plain, edit.granted(cri, wanted), version, bases)
    wanted = edit.joined(wanted, adoption.carried_before(obs, files.get(mine), wanted))
    return Aim(files, base, config.names(base, version), cri, wanted, bases, staying=staying)


def _staying(
    policy: Policy, obs: Observation, files: FileSet, cri: Mapping[str, Any], mine: ConfigFile | None, going: ConfigFile | None
) -> dict[str, str]:
    """Return the programs that handlers keep, by handler. A file that is taken over now names some as well."""
    own, taken_over = (config.handlers(file.doc.data) if file else {} for file in (mine, going))
    now = config.programs({**toml.lookup(cri, releases.RUNTIMES, {}), **taken_over})
    return programs.kept(policy, obs, now, config.programs(own), _written(policy, _original(obs, files)))


def _switched_on(policy: Policy, mine: ConfigFile | None) -> bool:
    """Tell whether our drop-in turns CDI on: no observation of the engine shows that. False if CDI is to be disabled."""
    data = mine.doc.data if mine and policy.cdi != "disabled" else {}
    return any(toml.lookup(data, (*table, "enable_cdi")) is True for table in (containerd_places.V2_NAMES, containerd_places.V3_NAMES))


def without(
    policy: Policy, obs: Observation, instance: Instance, decision: Decision, files: FileSet, found: adoption.FoundDropIn, version: Version
) -> Aim:  # fmt: skip
    """Return the aim once a file of another tool is gone: as if it had never been there, plus what others may rely on in it."""
    staying = files.without(found.file.path)
    now, then = config.effective(files, version), config.effective(staying, version)
    decision = dc.replace(decision, enable_cdi=decision.enable_cdi or adoption.enables_cdi(now, then, version))
    aim = of(policy, obs, instance, decision, staying, version, found.file)
    default = str(toml.lookup(now, releases.DEFAULT, ""))
    more = [*adoption.completed(found, now, aim.wanted), *adoption.carried(found, now, aim.wanted, default)]
    wanted = edit.joined(aim.wanted, more)
    granted = edit.granted(aim.cri, wanted)
    shown = adoption.default_going(found, now, granted, wanted, aim.names)
    going = Going(found.file, adoption.changing(found, now, granted), bool(edit.unmet(now, wanted)), shown)
    return dc.replace(aim, wanted=wanted, going=going)


def low_level(policy: Policy, obs: Observation, files: FileSet, version: Version) -> str:
    """Return the program that runs containers here, by the handlers of others, '' if the NVIDIA runtime can hand over to none."""
    mine = own_drop_in(policy, obs, files)
    cri = config.effective(files.without(mine) if mine else files, version, built_in=False)
    before, handler = _original(obs, files), next(iter(policy.handlers), Handler())
    written = handler.name in _written(policy, before)
    return containerd_base.runs(cri, handler, written=written, default_before=_default_in(before), made=_made(before))


def own_drop_in(policy: Policy, obs: Observation, files: FileSet) -> str:
    """Return the path of this collection's drop-in in this set, '' if there is none."""
    for file in files.files[1:]:
        if file.doc.text.startswith(edit.FIRST_LINE) and file.path != files.root_path:
            return file.path
    return ""


def _original(obs: Observation, files: FileSet) -> Mapping[str, Any] | None:
    """Return the root file's data from before our first change, {} if there was no file.

    Return None if we never changed it, or if the copy cannot be read.
    """
    question = queries.originals(JOURNAL_DIR)
    kept = (obs.raw(question).get("originals") or {}).get(files.root.real) if obs.asked(question) and files.root else None
    if kept is None or not files.root:
        return None
    try:
        return toml.parse(kept.get("content") or "", files.root.path).data
    except PlanError:
        return None


def _default_in(before: Mapping[str, Any] | None) -> str:
    """Return the default handler that this data names, the engine's own if it names none, '' if nothing is known."""
    for table in containerd_places.TABLES:
        name = toml.lookup(before or {}, (*table, *releases.DEFAULT))
        if isinstance(name, str) and name:
            return name
    return "" if before is None else "runc"


def _written(policy: Policy, before: Mapping[str, Any] | None) -> frozenset[str]:
    """Return the wanted handlers that were not in the file before our first change, none if that is not known."""
    if before is None:
        return frozenset()
    return frozenset(h.name for h in policy.handlers if h.name not in config.handlers(before))


def _made(before: Mapping[str, Any] | None) -> frozenset[str]:
    """Name the handler runc if others were in the file before our first change, and it was not: 1.x has no built-in one then."""
    there = config.handlers(before or {})
    return frozenset({"runc"} if there and "runc" not in there else ())


def _bases(
    policy: Policy, obs: Observation, instance: Instance, decision: Decision, files: FileSet, base: FileSet, version: Version
) -> tuple[dict[str, Base], Mapping[str, Any]]:
    """Return what each wanted handler is copied from, by handler, and the CRI table without what we wrote."""
    before = _original(obs, files)
    reset_to, written = _default_in(before), _written(policy, before)
    declared = config.effective(base, version, built_in=False)
    plain = cgroup_choice.before_us(config.effective(base, version), written, reset_to)
    every = policy.handlers if decision.handler else ()
    own = written | _detected(instance.manager, base)
    made = _made(before)
    bases = {h.name: containerd_base.choose(declared, h, written=h.name in own, default_before=reset_to, made=made) for h in every}
    return cgroup_choice.settled(policy, obs, instance, decision, plain, version, bases), plain


def _detected(manager: str, base: FileSet) -> frozenset[str]:
    """Return the handlers that the manager adds by itself and no other file names: they show nothing of this node's runc."""
    others = {name for file in base.files[1:] for name in config.handlers(file.doc.data)}
    finds = known.place(manager).detection
    return frozenset(finds.programs if finds else ()) - others
