# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the drop-ins of other tools, the obstacles that keep one regardless of its content, and the
settings that our own takes over.

The module `explained` judges whether everything in one is explained, so that it can go.
"""

from __future__ import annotations

import dataclasses as dc
import functools
import posixpath
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    PlanError,
    QueryFailed,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import toml
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Difference,
    Instance,
    Leftover,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections import (
    containerd_places,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections.containerd_places import (
    Path,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.versions import Version
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import owned_file
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.adoption import (
    gpu_operator,
    nvidia_ctk,
    sandboxes,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.earlier_runs import (
    EarlierRuns,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines import (
    messages as engine_messages,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    config,
    cri_settings,
    leaves,
    other_roots,
    releases,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd.config import (
    ConfigFile,
    FileSet,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd.cri_settings import (
    CriSetting,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd.edit import (
    FIRST_LINE,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd.facts import (
    ContainerdFacts,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd.messages import (
    about_adoption,
    about_handlers,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd.releases import (
    DEFAULT,
    RUNTIMES,
)

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
        return dc.replace(self, obstacle=obstacle.drop_step(), next=obstacle.next)

    def report_kept(
        self, why: str, step: str, keys: tuple[str, ...] = (), *, exact: bool = False
    ) -> Leftover:
        return Leftover(self.tool, self.file.path, keys, exact, "kept", why, step)

    @property
    def programs(self) -> dict[str, str]:
        programs = config.list_handler_programs(config.list_file_handlers(self.file.doc.data))
        return {name: programs[name] for name in self.handlers}

    def report_taken(self, wanted: list[CriSetting]) -> Leftover:
        row = (
            about_adoption.EXPLAINED_BY_CTK
            if self.tool == nvidia_ctk.TOOL
            else about_adoption.EXPLAINED_BY_OPERATOR
        )
        after = {
            w.path[2]: w.value for w in wanted if w.path[:2] == RUNTIMES and w.path[3:] == PROGRAM
        }
        why = row.fill(note=nvidia_ctk.note_program_mode(self.programs, after))
        return Leftover(self.tool, self.file.path, (), True, "adopted", why)


def find_adoptable_drop_ins(
    policy: Policy, facts: ContainerdFacts, files: FileSet, instance: Instance
) -> tuple[FoundDropIn, ...]:
    """Find the drop-ins that another tool made, by their form. If there are several, each of them
    gets an obstacle.
    """
    drop_ins = [f for f in (_drop_in(file) for file in files.files if file is not files.root) if f]
    if len(drop_ins) > 1:
        both = about_adoption.TWO_TOOLS.fill(paths=" and ".join(f.file.path for f in drop_ins))
        return tuple(f.block(both) for f in drop_ins)
    return tuple(
        _judge_operator_drop_in(
            policy, facts, instance, _judge_found_drop_in(policy, facts, files, f, instance)
        )
        for f in drop_ins
    )


def _judge_operator_drop_in(
    policy: Policy, facts: ContainerdFacts, instance: Instance, found: FoundDropIn
) -> FoundDropIn:
    """Add an obstacle to the drop-in of a GPU Operator's toolkit, or its free handlers if the
    toolkit is proven to be gone.

    No handler is free if the engine does not report its pods, since they may use any of them.
    """
    if found.tool != gpu_operator.TOOL or found.obstacle:
        return found
    state = gpu_operator.judge_operator_state(
        policy, facts.operator, [instance], (found.file.path,)
    )
    if state.fate != "dead":
        return dc.replace(
            found,
            obstacle=about_adoption.TOOL_MAY_RUN.fill(cause=state.why),
            next=gpu_operator.HAND_OVER,
        )
    try:
        used = sandboxes.count_pods_by_handler(facts.operator.sandboxes, instance, found.handlers)
    except QueryFailed:  # it does not say, so pods may use any of them
        return found
    return dc.replace(found, free=frozenset(found.handlers) - set(used))


def list_unread_tool_files(facts: ContainerdFacts, files: FileSet) -> tuple[Leftover, ...]:
    """List the tool's files that containerd does not read, because no import leads to them."""
    directory = posixpath.join(posixpath.dirname(files.root_path), "conf.d")
    paths = [
        *facts.unread.get(directory),
        *([nvidia_ctk.MISPLACED] if facts.misplaced.value else []),
    ]
    said = [(p, about_adoption.NOT_IMPORTED.fill(path=p)) for p in paths if not files.get(p)]
    return tuple(
        Leftover(nvidia_ctk.TOOL, p, (), False, "kept", why.drop_step(), why.next)
        for p, why in said
    )


def _drop_in(file: ConfigFile) -> FoundDropIn | None:
    if file.doc.text.startswith(FIRST_LINE):
        return None
    for table in containerd_places.TABLES:
        runtimes = toml.look_up_toml(file.doc.data, (*table, *RUNTIMES), {})
        programs = config.list_handler_programs(runtimes)
        names = tuple(
            n
            for n, program in programs.items()
            if nvidia_ctk.runs_nvidia(program) or gpu_operator.is_its(program)
        )
        tool = (
            gpu_operator.TOOL
            if any(gpu_operator.is_its(programs[n]) for n in names)
            else nvidia_ctk.TOOL
        )
        why = (
            nvidia_ctk.explain_not_ctk_drop_in(file.doc.text, file.doc.data, table) if names else ""
        )
        if names and (not why or file.path.endswith(nvidia_ctk.DROP_IN)):
            drop_in = FoundDropIn(file, names, tool=tool)
            return (
                drop_in.block(about_adoption.NOT_BY_CTK.fill(key=why, path=file.path))
                if why
                else drop_in
            )
    return None


def _judge_found_drop_in(
    policy: Policy, facts: ContainerdFacts, files: FileSet, found: FoundDropIn, instance: Instance
) -> FoundDropIn:
    """Add the obstacle that keeps a file from being taken over, apart from its content. May raise
    NeedMore.
    """
    file = found.file
    named = next(
        (
            f
            for f in files.files
            for p in config.imports(f)
            if config.resolve_import(f, p) == file.path
        ),
        None,
    )
    known = facts.earlier.originals_if_asked.get(file.real)
    if policy.adopt == "never":
        return found.block(about_adoption.ADOPT_NEVER.fill())
    if found.obstacle:
        return found
    if named:
        return found.block(
            about_adoption.IMPORTED_BY_NAME.fill(
                root=named.path, directory=file.path.rpartition("/")[0]
            )
        )
    if file.real != file.path:
        return found.block(engine_messages.FILE_OF_TOOL_IS_LINK.fill(target=file.real))
    if known and owned_file.was_taken_away(known):
        return found.block(about_adoption.CAME_BACK.fill())
    others = facts.others
    leaves.require_cri_leaves(
        facts.tags, files, functools.partial(others.beside.get, files.root_path)
    )
    needed = other_roots.explain_other_reader(policy, others, files, instance, file.path)
    if needed:
        return dc.replace(
            found, obstacle=needed, next=about_adoption.USE_OWN_FILE.fill(path=file.path)
        )
    return found


# ---------------------------------------------------------------- what the rest has to say


def enables_cdi(with_it: Mapping[str, Any], without: Mapping[str, Any], version: Version) -> bool:
    """Tell whether CDI is on only by the tool's switch, so that this collection's drop-in has to
    set it.
    """
    on = releases.get_release_facts(version).cdi == "on"
    return with_it.get("enable_cdi") is True and without.get("enable_cdi", on) is not True


def list_changing_tool_keys(
    found: FoundDropIn, with_it: Mapping[str, Any], then: Mapping[str, Any]
) -> tuple[CriSetting, ...]:
    """Return the tool's keys that have another value afterwards, or none. For a handler that goes,
    its runtime_type stands for all keys.
    """
    gone = [
        (*RUNTIMES, name, "runtime_type")
        for name in found.handlers
        if toml.look_up_toml(then, (*RUNTIMES, name)) is None
    ]
    switches = [
        at
        for at in (DEFAULT, SWITCH)
        if toml.look_up_toml(with_it, at) != toml.look_up_toml(then, at)
    ]
    return tuple(CriSetting(at, toml.look_up_toml(then, at), "") for at in (*switches, *gone))


def report_default_removal(
    found: FoundDropIn,
    with_it: Mapping[str, Any],
    then: Mapping[str, Any],
    wanted: list[CriSetting],
    names: Path,
) -> tuple[Difference, ...]:
    """Return the difference for a default handler that goes with the file, () if the default stays
    or a default is wanted.

    From then on, each pod that names no handler runs with another one.
    """
    before, after = toml.look_up_toml(with_it, DEFAULT), toml.look_up_toml(then, DEFAULT)
    if before == after or any(w.path == DEFAULT for w in wanted):
        return ()  # the edit of our own file shows a default that is wanted
    why = about_handlers.NOT_DEFAULT_UNLESS_ASKED.fill(handler=before)
    return (
        Difference(
            "file", found.file.path, toml.write_dotted_path((*names, *DEFAULT)), before, after, why
        ),
    )


def carry_tool_handlers(
    found: FoundDropIn, with_it: Mapping[str, Any], wanted: list[CriSetting], default: str
) -> list[CriSetting]:
    """Return settings that keep the tool's handlers that the policy does not ask for: a
    RuntimeClass or the default may name them.
    """
    asked = {w.path[2] for w in wanted if w.path[:2] == RUNTIMES}
    names = [name for name in found.handlers if name not in asked and name not in found.free]
    return _keep_handlers_as_they_are(with_it, names, default, wanted)


def carry_missing_settings(
    found: FoundDropIn, with_it: Mapping[str, Any], wanted: list[CriSetting]
) -> list[CriSetting]:
    """Return settings that the tool's handlers have now, and the handler that we copy has not: the
    tool copied another one.

    If the main file has a handler of that name as well, our handler is made like it, and the tool's
    like the default one.
    """
    asked = {w.path[2] for w in wanted if w.path[:2] == RUNTIMES}
    every = [
        s
        for name in found.handlers
        if name in asked
        for s in keep_handler_settings(
            name, toml.look_up_toml(with_it, (*RUNTIMES, name), {}), COPIED
        )
    ]
    return cri_settings.list_settings_beyond(wanted, every)


def carry_adopted_settings(
    earlier: EarlierRuns, mine: ConfigFile | None, wanted: list[CriSetting]
) -> list[CriSetting]:
    """Return what `carry_tool_handlers` and `carry_missing_settings` return, for files taken over
    earlier.

    The journal knows those files. Keep what our drop-in has from them. Return [] if there is no
    drop-in of our own, or if the journal was not asked.
    """
    if not mine or not earlier.asked:
        return []
    removed = [o for o in earlier.originals.values() if _was_removed(o)]
    asked = {w.path[2] for w in wanted if w.path[:2] == RUNTIMES}
    known = {
        name: entry
        for o in removed
        for name, entry in _read_handlers_of_text(str(o.get("content") or "")).items()
    }
    carried: list[CriSetting] = []
    for table in containerd_places.TABLES if known else ():
        own = toml.look_up_toml(mine.doc.data, table, {})
        there = [name for name in toml.look_up_toml(own, RUNTIMES, {}) if name in known]
        carried += _keep_handlers_as_they_are(
            own,
            [n for n in there if n not in asked],
            str(toml.look_up_toml(own, DEFAULT, "")),
            wanted,
        )
        both = [
            s
            for n in there
            if n in asked
            for s in keep_handler_settings(n, toml.look_up_toml(own, (*RUNTIMES, n), {}), COPIED)
        ]
        carried += cri_settings.list_settings_beyond(
            wanted,
            [s for s in (cri_settings.intersect_setting(s, known[s.path[2]]) for s in both) if s],
        )
    return carried


def _keep_handlers_as_they_are(
    cri: Mapping[str, Any], names: list[str], default: str, wanted: list[CriSetting]
) -> list[CriSetting]:
    """Return settings for these handlers of a CRI table, and for the default if it is one of them
    and nothing else is wanted.
    """
    settings = [
        setting
        for name in names
        for setting in keep_handler_settings(
            name, toml.look_up_toml(cri, (*RUNTIMES, name), {}), CARRIED
        )
    ]
    if default in names and not any(w.path == DEFAULT for w in wanted):
        settings.append(CriSetting(DEFAULT, default, CARRIED_DEFAULT))
    return settings


def _was_removed(original: Mapping[str, Any]) -> bool:
    return owned_file.was_taken_away(original) and original.get("now") is None


def _read_handlers_of_text(text: str) -> Mapping[str, Any]:
    try:
        data = toml.parse_toml(text, nvidia_ctk.DROP_IN).data
    except PlanError:
        return {}
    return config.list_file_handlers(data)


def keep_handler_settings(name: str, entry: Mapping[str, Any], why: str) -> list[CriSetting]:
    """Return the settings of a handler as it is, without values that mean the same as a missing
    key.
    """
    values = {path: toml.look_up_toml(entry, path) for path in containerd_places.HANDLER}
    values = {
        path: v
        for path, v in values.items()
        if v is not None and not nvidia_ctk.is_same_value(path, v, None)
    }
    return [
        CriSetting((*RUNTIMES, name, *path), v, why)
        for path, v in {("runtime_type",): releases.RUNC_TYPE, **values}.items()
    ]
