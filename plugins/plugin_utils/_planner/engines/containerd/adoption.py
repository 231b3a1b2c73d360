# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a drop-in of another tool can go: what would be in force without it is what is in force with it, but for what that tool does.

With it, the CRI table is the merge of all files; without it, the merge of the others and of our edits. Every key in which the two differ
has to be one that the tool is known to set, or one of this collection's. An edit of the copy, a later edit of the root file
and a file that the copy hides are differences like any other.
"""

from __future__ import annotations

import dataclasses as dc
import posixpath
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner import low_level, owned_file, queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.adoption import gpu_operator, nvidia_ctk, sandboxes
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.engines.containerd import base as containerd_base
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.engines.containerd import (
    config,
    edit,
    leaves,
    other_roots,
    releases,
    verify,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.engines.containerd.config import ConfigFile, FileSet
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.engines.containerd.edit import FIRST_LINE, Setting
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.engines.containerd.leaves import Leaf, Leaves
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.engines.containerd.releases import DEFAULT, RUNTIMES
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.formats import toml
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.model import (
    CDI_DIRS,
    Difference,
    Instance,
    Leftover,
    PlanError,
    Policy,
    QueryFailed,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.observation import Observation
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.projections import containerd_places
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.projections.containerd_places import Path
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.versions import Version

SWITCH: Path = ("enable_cdi",)
PROGRAM: Path = ("options", "BinaryName")
NEXT = "Run `{command}` again, which copies {root} again, or move the differing settings to {root}; then run again"
CARRIED = f"the handler was created by {nvidia_ctk.COMMAND}, and pods may use it"
COPIED = f"as in the file of {nvidia_ctk.COMMAND}, which copied it from another handler"
CARRIED_DEFAULT = f"{nvidia_ctk.COMMAND} made it the default"
NAMED = 3  # differences in a sentence


@dc.dataclass(frozen=True)
class FoundDropIn:
    """The drop-in of another tool in a set of files. obstacle: why it stays, whatever is in it.

    free: handlers that may go with it, no matter who made them: of a toolkit container that is gone, and no pod was started with them.
    """

    file: ConfigFile
    handlers: tuple[str, ...]
    obstacle: str = ""
    next: str = ""
    tool: str = nvidia_ctk.TOOL
    free: frozenset[str] = frozenset()

    def stays(self, why: str, step: str, keys: tuple[str, ...] = (), *, exact: bool = False) -> Leftover:
        return Leftover(self.tool, self.file.path, keys, exact, "kept", why, step)

    @property
    def programs(self) -> dict[str, str]:
        found = config.programs(config.handlers(self.file.doc.data))
        return {name: found[name] for name in self.handlers}

    def goes(self, wanted: list[Setting]) -> Leftover:
        whose = (
            "nvidia-ctk's own rules"
            if self.tool == nvidia_ctk.TOOL
            else "the rules of the GPU Operator's toolkit, which no longer runs here,"
        )
        after = {w.path[2]: w.value for w in wanted if w.path[:2] == RUNTIMES and w.path[3:] == PROGRAM}
        why = f"every key in it is explained by {whose} and by the other files{nvidia_ctk.mode_note(self.programs, after)}"
        return Leftover(self.tool, self.file.path, (), True, "adopted", why)


def find(policy: Policy, obs: Observation, files: FileSet, instance: Instance) -> tuple[FoundDropIn, ...]:
    """The drop-ins of the tool's making, by their form."""
    found = [f for f in (_drop_in(file) for file in files.files if file is not files.root) if f]
    if len(found) > 1:
        names = " and ".join(f.file.path for f in found)
        step = "Remove the one that is not wanted, restart containerd and run again"
        both = f"{names} define NVIDIA handlers, so two tools configured this containerd"
        return tuple(dc.replace(f, obstacle=both, next=step) for f in found)
    return tuple(_of_operator(policy, obs, instance, _judged(policy, obs, files, f, instance)) for f in found)


def _of_operator(policy: Policy, obs: Observation, instance: Instance, found: FoundDropIn) -> FoundDropIn:
    """The file of a GPU Operator's toolkit is taken over once that is proven to be gone."""
    if found.tool != gpu_operator.TOOL or found.obstacle:
        return found
    state = gpu_operator.state(policy, obs, [instance], (found.file.path,))
    if state.fate != "dead":
        return dc.replace(found, obstacle=f"nothing proves that its tool no longer runs: {state.why}", next=gpu_operator.HAND_OVER)
    try:
        used = sandboxes.in_use(obs, instance, found.handlers)
    except QueryFailed:  # it does not say, so pods may use any of them
        return found
    return dc.replace(found, free=frozenset(found.handlers) - set(used))


def unread(obs: Observation, files: FileSet) -> tuple[Leftover, ...]:
    """The tool's files that containerd does not read: no import leads to them."""
    directory = posixpath.join(posixpath.dirname(files.root_path), "conf.d")
    listed = queries.glob(posixpath.join(directory, "*.toml"), files.keep)
    known = [f.path for f in obs.glob(listed["pattern"])] if obs.asked(listed) else []
    paths = [path for path in known if posixpath.basename(path) == nvidia_ctk.DROP_IN]
    paths += (
        [nvidia_ctk.MISPLACED] if obs.asked(queries.file(nvidia_ctk.MISPLACED, content=False)) and obs.exists(nvidia_ctk.MISPLACED) else []
    )
    why = "no file imports it, so it has no effect"
    return tuple(Leftover(nvidia_ctk.TOOL, p, (), False, "kept", why, f"Remove it: rm {p}") for p in paths if not files.get(p))


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
            step = f"Remove that from {file.path} and run again"
            return FoundDropIn(file, names, f"{why}, which nvidia-ctk does not write" if why else "", step, tool)
    return None


def _judged(policy: Policy, obs: Observation, files: FileSet, found: FoundDropIn, instance: Instance) -> FoundDropIn:
    """What keeps a file from being taken over, apart from what it says."""
    file = found.file
    named = next((f for f in files.files for p in config.imports(f) if config.absolute(f, p) == file.path), None)
    known = owned_file.originals(obs).get(file.real) if obs.asked(owned_file.ORIGINALS) else None
    if policy.adopt == "never":
        return dc.replace(found, obstacle="gpufleet_adopt: never leaves it in place", next="Set gpufleet_adopt: auto to have it taken over")
    if found.obstacle:
        return found
    if named:
        step = f"Import its directory by {file.path.rpartition('/')[0]}/*.toml instead, and run again"
        return dc.replace(found, obstacle=f"{named.path} imports it by name, and containerd does not start without it", next=step)
    if file.real != file.path:
        step = "Replace the link by the file itself, and run again"
        return dc.replace(found, obstacle=f"it is a symbolic link to {file.real}", next=step)
    if known and owned_file.taken_away(known):
        step = "Find out what writes it (a boot script, a configuration management, an operator), end that, remove the file and run again"
        return dc.replace(found, obstacle="it was taken over before and exists again, so something writes it", next=step)
    leaves.require(obs, files, other_roots.question(files))  # in one look
    needed = other_roots.reads(policy, obs, files, instance, file.path)
    if needed:
        step = f"Give that containerd a file of its own instead of {file.path}, restart it and run again"
        return dc.replace(found, obstacle=needed, next=step)
    return found


# ---------------------------------------------------------------- what the rest has to say


def enables_cdi(with_it: Mapping[str, Any], without: Mapping[str, Any], version: Version) -> bool:
    """Whether CDI is on only by the tool's switch, so this collection's drop-in has to say so."""
    on = releases.facts(version).cdi == "on"
    return with_it.get("enable_cdi") is True and without.get("enable_cdi", on) is not True


def changing(found: FoundDropIn, with_it: Mapping[str, Any], then: Mapping[str, Any]) -> tuple[Setting, ...]:
    """The keys of the tool that have another value afterwards, or none; of a handler that goes its first one stands for all."""
    gone = [(*RUNTIMES, name, "runtime_type") for name in found.handlers if toml.lookup(then, (*RUNTIMES, name)) is None]
    switches = [at for at in (DEFAULT, SWITCH) if toml.lookup(with_it, at) != toml.lookup(then, at)]
    return tuple(Setting(at, toml.lookup(then, at), "") for at in (*switches, *gone))


def default_going(
    found: FoundDropIn, with_it: Mapping[str, Any], then: Mapping[str, Any], wanted: list[Setting], names: Path
) -> tuple[Difference, ...]:  # fmt: skip
    """The default handler that goes with the file: from then on each pod that names no handler runs with another one."""
    before, after = toml.lookup(with_it, DEFAULT), toml.lookup(then, DEFAULT)
    if before == after or any(w.path == DEFAULT for w in wanted):
        return ()  # the edit of our own file shows a default that is wanted
    keep = "gpufleet_set_as_default: enabled keeps it"
    why = f"{before} should not be the default handler, since every container would go through it; {keep}"
    return (Difference("file", found.file.path, toml.dotted((*names, *DEFAULT)), before, after, why),)


def carried(found: FoundDropIn, with_it: Mapping[str, Any], wanted: list[Setting], default: str) -> list[Setting]:
    """Its handlers that the policy does not ask for: a RuntimeClass may name them. So may the default."""
    asked = {w.path[2] for w in wanted if w.path[:2] == RUNTIMES}
    names = [name for name in found.handlers if name not in asked and name not in found.free]
    return _as_they_are(with_it, names, default, wanted)


def completed(found: FoundDropIn, with_it: Mapping[str, Any], wanted: list[Setting]) -> list[Setting]:
    """What its handlers that we write have now, and the handler that we copy has not: the tool copied another one.

    Where a handler of that name stands in the main file as well, this collection's is made like it, the tool's like the default one.
    """
    asked = {w.path[2] for w in wanted if w.path[:2] == RUNTIMES}
    every = [s for name in found.handlers if name in asked for s in handler(name, toml.lookup(with_it, (*RUNTIMES, name), {}), COPIED)]
    return edit.beyond(wanted, every)


def carried_before(obs: Observation, mine: ConfigFile | None, wanted: list[Setting]) -> list[Setting]:
    """The same of files that were taken over earlier, as the journal knows them: what our drop-in has of them stays in it."""
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
    """These handlers of a CRI table, and the default where one of them is it and nothing else is wanted."""
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
    """A handler as it is, without what says nothing."""
    values = {path: toml.lookup(entry, path) for path in containerd_places.HANDLER}
    values = {path: v for path, v in values.items() if v is not None and not nvidia_ctk.same(path, v, None)}
    return [Setting((*RUNTIMES, name, *path), v, why) for path, v in {("runtime_type",): releases.RUNC_TYPE, **values}.items()]


# ---------------------------------------------------------------- the judgement


@dc.dataclass(frozen=True)
class Sides:
    """The CRI table with the tool's file, and without it, our edits included; and what containerd takes by itself, where it was asked.

    rest: without it and without our edits, among which a default may be that hides the one that the tool copied.
    bare: the tool found no handler in the main file, which it reads under the table's name of the file's own version only.
    asked: the handlers that the policy asks for, each with whether its program was named there.
    """

    found: FoundDropIn
    now: Leaves
    then: Leaves
    rest: Leaves
    own: Mapping[Path, Any]
    release: Leaves
    bare: bool = False
    asked: Mapping[str, bool] = dc.field(default_factory=dict)


def judge(
    policy: Policy, obs: Observation, instance: Instance, files: FileSet, staying: FileSet, found: FoundDropIn, wanted: list[Setting],
    version: Version,
) -> Leftover:  # fmt: skip
    """Whether it goes; if not, which keys nothing explains. May raise NeedMore.

    A drop-in of this collection explains nothing: it has copies of what its neighbours said when it was written, and is written again.
    """
    leaves.require(obs, files)
    own = {w.path: w.value for w in wanted}
    now, rest = (leaves.merged(obs, _of_others(it), version) for it in (files, staying))
    then = {**rest, **{path: Leaf(value) for path, value in own.items()}}
    if not _loaded(obs, instance, leaves.merged(obs, files, version), found):
        step = f"Restart {instance.unit or 'containerd'} and run again"
        return found.stays("the running containerd has not loaded it, so it is not known whether it works", step)
    sides = Sides(found, now, then, rest, own, {}, _bare(staying), {h.name: h.chosen for h in policy.handlers})
    if policy.root == "/" and any(_one_sided(sides, path) for path in _differing(sides)):
        sides = dc.replace(sides, release=leaves.of_release(obs, files, instance))
    left = [*(path for path in _differing(sides) if not _by_release(sides, path)), *_of_handlers(sides)]
    left += [path for path in _gone(found, then, staying) if not any(known[: len(path)] == path for known in left)]
    if not left:
        return found.goes(wanted)
    named = "; ".join(_said(sides, path) for path in left[:NAMED]) + (f"; and {len(left) - NAMED} more" if len(left) > NAMED else "")
    keys = tuple(_name(sides, path) for path in left)
    return found.stays(f"nothing explains {named}", NEXT.format(command=nvidia_ctk.COMMAND, root=files.root_path), keys)


def _gone(found: FoundDropIn, then: Leaves, staying: FileSet) -> list[Path]:
    """Handlers that would be gone, even where nothing that they say counts: pods may name them."""
    there = {path[2] for path in then if path[:2] == RUNTIMES} | {name for f in staying.files for name in config.handlers(f.doc.data)}
    names = (name for name in config.handlers(found.file.doc.data) if name not in found.handlers)
    return [(*RUNTIMES, name) for name in names if name not in there]


def _of_others(files: FileSet) -> FileSet:
    return dc.replace(files, files=tuple(f for f in files.files if f is files.root or not f.doc.text.startswith(FIRST_LINE)))


def _loaded(obs: Observation, instance: Instance, now: Leaves, found: FoundDropIn) -> bool:
    if not instance.running:
        return True
    paths = [(*RUNTIMES, name, *PROGRAM) for name in found.handlers]
    known = [Setting(path, now[path].value, "") for path in (*paths, DEFAULT) if path in now]
    return verify.in_force(obs, instance, known)


def _differing(sides: Sides) -> list[Path]:
    """The keys of which the two sides say different things, without those that the tool sets and those that this collection sets."""
    every = dict.fromkeys((*sides.now, *sides.then))
    return [p for p in every if not _same(p, sides.now.get(p), sides.then.get(p)) and not _decided(sides, p) and not _of_tool(sides, p)]


def _decided(sides: Sides, path: Path) -> bool:
    """A key whose value this collection sets. A handler that nobody asks for gets what is built in (1.x), never over its own value."""
    return path in sides.own and (path[:2] != RUNTIMES or path[2] in sides.asked or path not in sides.now)


def _same(path: Path, now: Leaf | None, then: Leaf | None) -> bool:
    one, other = now.value if now else None, then.value if then else None
    if path[:2] == RUNTIMES:
        return nvidia_ctk.same(path[3:], one, other)
    usual = {DEFAULT: "runc", ("cdi_spec_dirs",): list(CDI_DIRS), ("systemd_cgroup",): False}.get(path)
    return one == other or (one in (None, "", usual) and other in (None, "", usual))


def _of_tool(sides: Sides, path: Path) -> bool:
    if path[:2] == RUNTIMES:
        return path[2] in sides.found.handlers  # judged as a whole
    now = sides.now.get(path)
    if path == DEFAULT:
        return now is not None and now.value in sides.found.handlers
    return path == SWITCH and now is not None and now.value is True


def _one_sided(sides: Sides, path: Path) -> bool:
    return leaves.is_hidden(path) and (path in sides.now) != (path in sides.then)


def _by_release(sides: Sides, path: Path) -> bool:
    """A key that only one side has, with the value that containerd takes anyway: `config dump` prints all of those."""
    leaf = sides.now.get(path) or sides.then.get(path)
    usual = sides.release.get(path, Leaf(leaves.ZERO))
    return bool(sides.release) and _one_sided(sides, path) and usual == leaf


def _of_handlers(sides: Sides) -> list[Path]:
    """What of its handlers is no copy, or would be lost."""
    left: list[Path] = []
    for name in sides.found.handlers:
        entry = leaves.entry(sides.now, name)
        if _unchanged(sides, name):
            continue
        strange = _strange(sides, name, entry)
        goes = name in sides.found.free and not leaves.entry(sides.then, name)
        lost = (path for path, value in entry.items() if not goes and path not in strange and _lost(sides, name, path, value))
        left += [(*RUNTIMES, name, *path) for path in (*strange, *lost)]
    return left


def _strange(sides: Sides, name: str, entry: nvidia_ctk.Entry) -> tuple[Path, ...]:
    """Where its own file has nothing to copy from, the tool had nothing: what the others have now came later, or is from this collection.

    From 2.0 on a handler of this name in another file lends it properties that the tool's file does not say.
    """
    every = (sides.now, sides.then, sides.rest)
    there, *others = ([e for c in _candidates(side) if (e := leaves.entry(side, c))] for side in every)
    at = {path: sides.now[(*RUNTIMES, name, *path)].file for path in entry}
    elsewhere = frozenset(path for path, file in at.items() if file and file.path != sides.found.file.path)
    strange = nvidia_ctk.unexplained(entry, [*there, *(e for side in others for e in side)], elsewhere)
    return strange if there and not sides.bare else min(strange, nvidia_ctk.unexplained(entry, (), elsewhere), key=len)


def _bare(staying: FileSet) -> bool:
    """A version 2 file may have its handlers under the names of version 3, where the tool does not look (toolkit: pkg/config/engine)."""
    root = staying.root
    table = releases.NATURAL_NAMES.get(root.declared or 1, containerd_places.V3_NAMES) if root else containerd_places.V3_NAMES
    return not root or not any(toml.lookup(root.doc.data, (*table, *RUNTIMES, name)) for name in nvidia_ctk.CANDIDATES)


def _unchanged(sides: Sides, name: str) -> bool:
    one, other = leaves.entry(sides.now, name), leaves.entry(sides.then, name)
    return all(nvidia_ctk.same(path, one.get(path), other.get(path)) for path in (*one, *other))


def _candidates(side: Leaves) -> tuple[str, ...]:
    default = side.get(DEFAULT)
    return nvidia_ctk.candidates(str(default.value) if default else "")


def _lost(sides: Sides, name: str, path: Path, value: Any) -> bool:
    """A property that works now, and that our handler of this name would not have.

    Which program of NVIDIA's it runs is the policy's to say. One around it, of the site's own, goes only where another one was named.
    """
    if leaves.is_hidden(path) or nvidia_ctk.same(path, value, None):
        return False
    after = sides.then.get((*RUNTIMES, name, *path))
    if path == ("options", "BinaryName") and (not low_level.foreign(str(value)) or sides.asked.get(name)):
        return False
    if path == ("runtime_type",) and after and {value, after.value} <= set(containerd_base.RUNC_TYPES):
        return False  # one of runc's is made with the type of today, whatever it is copied from
    if path == ("container_annotations",) and after:
        return not set(value) <= set(after.value)
    return after is None or after.value != value


# ---------------------------------------------------------------- words


def _name(sides: Sides, path: Path) -> str:
    if not leaves.is_hidden(path):
        return toml.dotted(path)
    leaf = sides.now.get(path) or sides.then.get(path)
    above = toml.dotted(path[:-1]) if path[:-1] else "its CRI table"
    return f"a key of {above} in line {leaf.line}" if leaf else above


def _said(sides: Sides, path: Path) -> str:
    now, then = sides.now.get(path), sides.then.get(path)
    if leaves.is_hidden(path) and now and then:
        return f"that {now.place} and {then.place} differ"
    if leaves.is_hidden(path):
        leaf = now or then
        return f"{leaf.place if leaf else ''}, which only one of the files has"
    if len(path) == len(RUNTIMES) + 1:
        return f"the handler {path[-1]}, which only {sides.found.file.path} has"
    here = f"{now.place} has {toml.dumps(now.value)}" if now else f"{sides.found.file.path} does not set it"
    there = f"{then.place} has {toml.dumps(then.value)}" if then and then.file else "no other file does"
    return f"{toml.dotted(path)} ({here}, {there})"
