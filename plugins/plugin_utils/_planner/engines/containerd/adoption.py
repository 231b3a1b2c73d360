# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the drop-ins of other tools, the obstacles that keep one regardless of its content, and the settings that our own takes over.

The module `explained` judges whether everything in one is explained, so that it can go.
"""

from __future__ import annotations

import dataclasses as dc
import posixpath
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner import owned_file, queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.adoption import gpu_operator, nvidia_ctk, sandboxes
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.engines.containerd import (
    config,
    edit,
    leaves,
    other_roots,
    releases,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.engines.containerd.config import ConfigFile, FileSet
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.engines.containerd.edit import FIRST_LINE, Setting
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.engines.containerd.messages import about_adoption, about_handlers
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.engines.containerd.releases import DEFAULT, RUNTIMES
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.errors import PlanError, QueryFailed
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.formats import toml
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.message_types import Message
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.model import Difference, Instance, Leftover, Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.observation import Observation
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.projections import containerd_places
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.projections.containerd_places import Path
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.versions import Version

SWITCH: Path = ("enable_cdi",)
PROGRAM: Path = ("options", "BinaryName")
CARRIED = about_adoption.CARRIED.fill(command=nvidia_ctk.COMMAND)
COPIED = about_adoption.COPIED_BY_TOOL.fill(command=nvidia_ctk.COMMAND)
CARRIED_DEFAULT = about_adoption.DEFAULT_OF_TOOL.fill(command=nvidia_ctk.COMMAND)


@dc.dataclass(frozen=True)
class FoundDropIn:
    """The drop-in of another tool in a set of files.

    obstacle: why it stays regardless of its content, '' if nothing keeps it.
    free: handlers that may go with it, no matter who made them: their toolkit container is gone,
    and no pod was started with them.
    """

    file: ConfigFile
    handlers: tuple[str, ...]
    obstacle: str = ""
    next: str = ""
    tool: str = nvidia_ctk.TOOL
    free: frozenset[str] = frozenset()

    def block(self, obstacle: Message) -> FoundDropIn:
        """Return a copy with an obstacle. Its next step is kept apart."""
        return dc.replace(self, obstacle=obstacle.without_step(), next=obstacle.next)

    def stays(self, why: str, step: str, keys: tuple[str, ...] = (), *, exact: bool = False) -> Leftover:
        return Leftover(self.tool, self.file.path, keys, exact, "kept", why, step)

    @property
    def programs(self) -> dict[str, str]:
        found = config.programs(config.handlers(self.file.doc.data))
        return {name: found[name] for name in self.handlers}

    def goes(self, wanted: list[Setting]) -> Leftover:
        row = about_adoption.EXPLAINED_BY_CTK if self.tool == nvidia_ctk.TOOL else about_adoption.EXPLAINED_BY_OPERATOR
        after = {w.path[2]: w.value for w in wanted if w.path[:2] == RUNTIMES and w.path[3:] == PROGRAM}
        why = row.fill(note=nvidia_ctk.mode_note(self.programs, after))
        return Leftover(self.tool, self.file.path, (), True, "adopted", why)


def find(policy: Policy, obs: Observation, files: FileSet, instance: Instance) -> tuple[FoundDropIn, ...]:
    """Find the drop-ins that another tool made, by their form. If there are several, each of them gets an obstacle."""
    found = [f for f in (_drop_in(file) for file in files.files if file is not files.root) if f]
    if len(found) > 1:
        both = about_adoption.TWO_TOOLS.fill(paths=" and ".join(f.file.path for f in found))
        return tuple(f.block(both) for f in found)
    return tuple(_of_operator(policy, obs, instance, _judged(policy, obs, files, f, instance)) for f in found)


def _of_operator(policy: Policy, obs: Observation, instance: Instance, found: FoundDropIn) -> FoundDropIn:
    """Add an obstacle to the drop-in of a GPU Operator's toolkit, or its free handlers if the toolkit is proven to be gone.

    No handler is free if the engine does not report its pods, since they may use any of them.
    """
    if found.tool != gpu_operator.TOOL or found.obstacle:
        return found
    state = gpu_operator.state(policy, obs, [instance], (found.file.path,))
    if state.fate != "dead":
        return dc.replace(found, obstacle=about_adoption.TOOL_MAY_RUN.fill(cause=state.why), next=gpu_operator.HAND_OVER)
    try:
        used = sandboxes.in_use(obs, instance, found.handlers)
    except QueryFailed:  # it does not say, so pods may use any of them
        return found
    return dc.replace(found, free=frozenset(found.handlers) - set(used))


def unread(obs: Observation, files: FileSet) -> tuple[Leftover, ...]:
    """List the tool's files that containerd does not read, because no import leads to them."""
    directory = posixpath.join(posixpath.dirname(files.root_path), "conf.d")
    listed = queries.glob(posixpath.join(directory, "*.toml"), files.keep)
    known = [f.path for f in obs.glob(listed["pattern"])] if obs.asked(listed) else []
    paths = [path for path in known if posixpath.basename(path) == nvidia_ctk.DROP_IN]
    paths += (
        [nvidia_ctk.MISPLACED] if obs.asked(queries.file(nvidia_ctk.MISPLACED, content=False)) and obs.exists(nvidia_ctk.MISPLACED) else []
    )
    said = [(p, about_adoption.NOT_IMPORTED.fill(path=p)) for p in paths if not files.get(p)]
    return tuple(Leftover(nvidia_ctk.TOOL, p, (), False, "kept", why.without_step(), why.next) for p, why in said)


def _drop_in(file: ConfigFile) -> FoundDropIn | None:
    if file.doc.text.startswith(FIRST_LINE):
        return None
    for table in containerd_places.TABLES:
        runtimes = toml.lookup(file.doc.data, (*table, *RUNTIMES), {})
        programs = config.programs(runtimes)
        names = tuple(n for n, program in programs.items() if nvidia_ctk.runs_nvidia(program) or gpu_operator.is_its(program))
        tool = gpu_operator.TOOL if any(gpu_operator.is_its(programs[n]) for n in names) else nvidia_ctk.TOOL
        why = nvidia_ctk.wrote(file.doc.text, file.doc.data, table) if names else ""
        if names and (not why or file.path.endswith(nvidia_ctk.DROP_IN)):
            found = FoundDropIn(file, names, tool=tool)
            return found.block(about_adoption.NOT_BY_CTK.fill(key=why, path=file.path)) if why else found
    return None


def _judged(policy: Policy, obs: Observation, files: FileSet, found: FoundDropIn, instance: Instance) -> FoundDropIn:
    """Add the obstacle that keeps a file from being taken over, apart from its content. May raise NeedMore."""
    file = found.file
    named = next((f for f in files.files for p in config.imports(f) if config.absolute(f, p) == file.path), None)
    known = owned_file.originals(obs).get(file.real) if obs.asked(owned_file.ORIGINALS) else None
    if policy.adopt == "never":
        return found.block(about_adoption.ADOPT_NEVER.fill())
    if found.obstacle:
        return found
    if named:
        return found.block(about_adoption.IMPORTED_BY_NAME.fill(root=named.path, directory=file.path.rpartition("/")[0]))
    if file.real != file.path:
        return found.block(about_adoption.IS_LINK.fill(path=file.real))
    if known and owned_file.taken_away(known):
        return found.block(about_adoption.CAME_BACK.fill())
    leaves.require(obs, files, other_roots.question(files))  # in one look
    needed = other_roots.reads(policy, obs, files, instance, file.path)
    if needed:
        return dc.replace(found, obstacle=needed, next=about_adoption.USE_OWN_FILE.fill(path=file.path))
    return found


# ---------------------------------------------------------------- what the rest has to say


def enables_cdi(with_it: Mapping[str, Any], without: Mapping[str, Any], version: Version) -> bool:
    """Tell whether CDI is on only by the tool's switch, so that this collection's drop-in has to set it."""
    on = releases.facts(version).cdi == "on"
    return with_it.get("enable_cdi") is True and without.get("enable_cdi", on) is not True


def changing(found: FoundDropIn, with_it: Mapping[str, Any], then: Mapping[str, Any]) -> tuple[Setting, ...]:
    """Return the tool's keys that have another value afterwards, or none. For a handler that goes, its runtime_type stands for all keys."""
    gone = [(*RUNTIMES, name, "runtime_type") for name in found.handlers if toml.lookup(then, (*RUNTIMES, name)) is None]
    switches = [at for at in (DEFAULT, SWITCH) if toml.lookup(with_it, at) != toml.lookup(then, at)]
    return tuple(Setting(at, toml.lookup(then, at), "") for at in (*switches, *gone))


def default_going(
    found: FoundDropIn, with_it: Mapping[str, Any], then: Mapping[str, Any], wanted: list[Setting], names: Path
) -> tuple[Difference, ...]:  # fmt: skip
    """Return the difference for a default handler that goes with the file, () if the default stays or a default is wanted.

    From then on, each pod that names no handler runs with another one.
    """
    before, after = toml.lookup(with_it, DEFAULT), toml.lookup(then, DEFAULT)
    if before == after or any(w.path == DEFAULT for w in wanted):
        return ()  # the edit of our own file shows a default that is wanted
    why = about_handlers.NOT_DEFAULT_UNLESS_ASKED.fill(handler=before)
    return (Difference("file", found.file.path, toml.dotted((*names, *DEFAULT)), before, after, why),)


def carried(found: FoundDropIn, with_it: Mapping[str, Any], wanted: list[Setting], default: str) -> list[Setting]:
    """Return settings that keep the tool's handlers that the policy does not ask for: a RuntimeClass or the default may name them."""
    asked = {w.path[2] for w in wanted if w.path[:2] == RUNTIMES}
    names = [name for name in found.handlers if name not in asked and name not in found.free]
    return _as_they_are(with_it, names, default, wanted)


def completed(found: FoundDropIn, with_it: Mapping[str, Any], wanted: list[Setting]) -> list[Setting]:
    """Return settings that the tool's handlers have now, and the handler that we copy has not: the tool copied another one.

    If the main file has a handler of that name as well, our handler is made like it, and the tool's
    like the default one.
    """
    asked = {w.path[2] for w in wanted if w.path[:2] == RUNTIMES}
    every = [s for name in found.handlers if name in asked for s in handler(name, toml.lookup(with_it, (*RUNTIMES, name), {}), COPIED)]
    return edit.beyond(wanted, every)


def carried_before(obs: Observation, mine: ConfigFile | None, wanted: list[Setting]) -> list[Setting]:
    """Return the settings of `carried` and `completed` for files that were taken over earlier, as the journal knows them.

    Keep what our drop-in has from those files. Return [] if there is no drop-in of our own, or if
    the journal was not asked.
    """
    if not mine or not obs.asked(owned_file.ORIGINALS):
        return []
    removed = [o for o in owned_file.originals(obs).values() if _was_removed(o)]
    asked = {w.path[2] for w in wanted if w.path[:2] == RUNTIMES}
    known = {name: entry for o in removed for name, entry in _handlers_in(str(o.get("content") or "")).items()}
    found: list[Setting] = []
    for table in containerd_places.TABLES if known else ():
        own = toml.lookup(mine.doc.data, table, {})
        there = [name for name in toml.lookup(own, RUNTIMES, {}) if name in known]
        found += _as_they_are(own, [n for n in there if n not in asked], str(toml.lookup(own, DEFAULT, "")), wanted)
        both = [s for n in there if n in asked for s in handler(n, toml.lookup(own, (*RUNTIMES, n), {}), COPIED)]
        found += edit.beyond(wanted, [s for s in (edit.in_both(s, known[s.path[2]]) for s in both) if s])
    return found


def _as_they_are(cri: Mapping[str, Any], names: list[str], default: str, wanted: list[Setting]) -> list[Setting]:
    """Return settings for these handlers of a CRI table, and for the default if it is one of them and nothing else is wanted."""
    found = [setting for name in names for setting in handler(name, toml.lookup(cri, (*RUNTIMES, name), {}), CARRIED)]
    if default in names and not any(w.path == DEFAULT for w in wanted):
        found.append(Setting(DEFAULT, default, CARRIED_DEFAULT))
    return found


def _was_removed(original: Mapping[str, Any]) -> bool:
    return owned_file.taken_away(original) and original.get("now") is None


def _handlers_in(text: str) -> Mapping[str, Any]:
    try:
        data = toml.parse(text, nvidia_ctk.DROP_IN).data
    except PlanError:
        return {}
    return config.handlers(data)


def handler(name: str, entry: Mapping[str, Any], why: str) -> list[Setting]:
    """Return the settings of a handler as it is, without values that mean the same as a missing key."""
    values = {path: toml.lookup(entry, path) for path in containerd_places.HANDLER}
    values = {path: v for path, v in values.items() if v is not None and not nvidia_ctk.same(path, v, None)}
    return [Setting((*RUNTIMES, name, *path), v, why) for path, v in {("runtime_type",): releases.RUNC_TYPE, **values}.items()]
