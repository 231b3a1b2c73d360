# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge whether a drop-in of another tool can go: without it, the same has to be in force, except
for what that tool does.

With it, the CRI table is the merge of all files; without it, the merge of the others and of our
edits. Every key in which the two differ has to be one that the tool is known to set, or one of this
collection's. An edit of the copy, a later edit of the root file and a file that the copy hides are
differences like any other.
"""

from __future__ import annotations

import dataclasses as dc
import posixpath
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import host_paths
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import toml
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    CDI_DIRS,
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
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import low_level
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.adoption import (
    nvidia_ctk,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    base as containerd_base,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    config,
    leaves,
    releases,
    verify,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd.adoption import (
    PROGRAM,
    SWITCH,
    FoundDropIn,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd.config import (
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
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd.leaves import (
    Leaf,
    Leaves,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd.messages import (
    about_adoption,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd.releases import (
    DEFAULT,
    RUNTIMES,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers import known

CDI_SPEC_DIRS = ("cdi_spec_dirs",)
NAMED = 3  # differences in a sentence


@dc.dataclass(frozen=True)
class Sides:
    """The CRI tables to compare. now: with the tool's file. then: without it, our edits included.

    rest: without it and without our edits. One of those may set a default that hides the one that
    the tool copied.
    own: our edits. release: what containerd takes by itself, {} if it was not asked.
    bare: the tool found no handler in the main file, which it reads under the table's name of the
    file's own version only.
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


def judge_tool_drop_in(
    policy: Policy,
    facts: ContainerdFacts,
    instance: Instance,
    files: FileSet,
    staying: FileSet,
    found: FoundDropIn,
    wanted: list[CriSetting],
    version: Version,
) -> Leftover:
    """Judge whether the drop-in goes; if it stays, name the keys that nothing explains. May raise
    NeedMore.

    A drop-in of this collection explains nothing: it has copies of its neighbours from the time
    when it was written, and is written again.
    """
    leaves.require_cri_leaves(facts.tags, files)
    own = {w.path: w.value for w in wanted}
    now, rest = (
        leaves.merge_leaves(facts.tags, _drop_own_files(it), version) for it in (files, staying)
    )
    then = {**rest, **{path: Leaf(value) for path, value in own.items()}}
    merged = leaves.merge_leaves(facts.tags, files, version)
    if not _is_loaded(facts.serving, instance, merged, found):
        unloaded = about_adoption.NOT_LOADED_YET.fill(unit=instance.unit or "containerd")
        return found.report_kept(unloaded.drop_step(), unloaded.next)
    sides = Sides(
        found,
        now,
        then,
        rest,
        own,
        {},
        _has_no_handler(staying),
        {h.name: h.chosen for h in policy.handlers},
    )
    if policy.root == "/" and any(
        _is_one_sided(sides, path) for path in _list_differing_keys(sides)
    ):
        sides = dc.replace(sides, release=leaves.list_release_leaves(facts.tags, files, instance))
    left = [
        *(path for path in _list_differing_keys(sides) if not _is_release_default(sides, path)),
        *_list_unexplained_handler_keys(sides),
    ]
    left += [
        path
        for path in _list_gone_handlers(found, then, staying)
        if not any(known[: len(path)] == path for known in left)
    ]
    if not left:
        return found.report_taken(wanted)
    named = "; ".join(_name_key(sides, path) for path in left[:NAMED])
    keys = tuple(_name(sides, path) for path in left)
    root = files.root_path
    place = (
        root
        if known.get_manager_place(instance.manager).main_edited
        else f"another file in {posixpath.dirname(found.file.path)}"
    )
    values = {"keys": named, "place": place, "path": found.file.path}
    if len(left) > NAMED:
        why = about_adoption.UNEXPLAINED_MORE.fill(**values, count=len(left) - NAMED)
    else:
        why = about_adoption.UNEXPLAINED.fill(**values)
    return found.report_kept(why.drop_step(), why.next, keys)


def _list_gone_handlers(found: FoundDropIn, then: Leaves, staying: FileSet) -> list[Path]:
    """Return the handlers that would be gone, even if nothing in them has an effect: pods may name
    them.
    """
    there = {path[2] for path in then if path[:2] == RUNTIMES} | {
        name for f in staying.files for name in config.list_file_handlers(f.doc.data)
    }
    names = (
        name
        for name in config.list_file_handlers(found.file.doc.data)
        if name not in found.handlers
    )
    return [(*RUNTIMES, name) for name in names if name not in there]


def _drop_own_files(files: FileSet) -> FileSet:
    return dc.replace(
        files,
        files=tuple(
            f for f in files.files if f is files.root or not f.doc.text.startswith(FIRST_LINE)
        ),
    )


def _is_loaded(
    facts: verify.ServingFacts, instance: Instance, now: Leaves, found: FoundDropIn
) -> bool:
    if not instance.running:
        return True
    paths = [(*RUNTIMES, name, *PROGRAM) for name in found.handlers]
    known = [CriSetting(path, now[path].value, "") for path in (*paths, DEFAULT) if path in now]
    return verify.is_containerd_status_current(facts, instance, known)


def _list_differing_keys(sides: Sides) -> list[Path]:
    """Return the keys in which the two tables differ, except the tool's own and this collection's
    own.
    """
    every = dict.fromkeys((*sides.now, *sides.then))
    return [
        p
        for p in every
        if not _has_same_value(p, sides.now.get(p), sides.then.get(p))
        and not _is_decided_here(sides, p)
        and not _is_of_tool(sides, p)
    ]


def _is_decided_here(sides: Sides, path: Path) -> bool:
    """Tell whether this collection sets the value of a key.

    A handler that the policy does not ask for gets what is built in (1.x), never over its own
    value.
    """
    return path in sides.own and (
        path[:2] != RUNTIMES or path[2] in sides.asked or path not in sides.now
    )


def _has_same_value(path: Path, now: Leaf | None, then: Leaf | None) -> bool:
    one, other = now.value if now else None, then.value if then else None
    if path[:2] == RUNTIMES:
        return nvidia_ctk.is_same_value(path[3:], one, other)
    if path == CDI_SPEC_DIRS:
        one, other = (
            list(host_paths.clean_directories(value)) if isinstance(value, list) else value
            for value in (one, other)
        )
    usual = {
        DEFAULT: "runc",
        CDI_SPEC_DIRS: list(CDI_DIRS),
        ("systemd_cgroup",): False,
        ("containerd", "no_pivot"): False,
    }.get(path)
    return one == other or (one in (None, "", usual) and other in (None, "", usual))


def _is_of_tool(sides: Sides, path: Path) -> bool:
    if path[:2] == RUNTIMES:
        return path[2] in sides.found.handlers  # judged as a whole
    now = sides.now.get(path)
    if path == DEFAULT:
        return now is not None and now.value in sides.found.handlers
    return path == SWITCH and now is not None and now.value is True


def _is_one_sided(sides: Sides, path: Path) -> bool:
    return leaves.is_hidden(path) and (path in sides.now) != (path in sides.then)


def _is_release_default(sides: Sides, path: Path) -> bool:
    """Tell whether only one table has a key, with the value that containerd takes anyway: `config
    dump` prints all of those.
    """
    leaf = sides.now.get(path) or sides.then.get(path)
    usual = sides.release.get(path, Leaf(leaves.ZERO))
    return bool(sides.release) and _is_one_sided(sides, path) and usual == leaf


def _list_unexplained_handler_keys(sides: Sides) -> list[Path]:
    """Return the keys of the tool's handlers that are not copied, or would be lost."""
    left: list[Path] = []
    for name in sides.found.handlers:
        entry = leaves.get_handler_leaves(sides.now, name)
        if _is_handler_unchanged(sides, name):
            continue
        strange = _list_strange_keys(sides, name, entry)
        goes = name in sides.found.free and not leaves.get_handler_leaves(sides.then, name)
        lost = (
            path
            for path, value in entry.items()
            if not goes and path not in strange and _is_property_lost(sides, name, path, value)
        )
        left += [(*RUNTIMES, name, *path) for path in (*strange, *lost)]
    return left


def _list_strange_keys(sides: Sides, name: str, entry: nvidia_ctk.Entry) -> tuple[Path, ...]:
    """Return the keys of a handler that no handler explains as their copy.

    If the tool's file has nothing to copy from, the tool had nothing: the keys of the others came
    later, or are from this collection.
    From 2.0 on a handler of this name in another file lends it properties that the tool's file does
    not set.
    """
    every = (sides.now, sides.then, sides.rest)
    there, *others = (
        [e for c in _list_copy_candidates(side) for e in _list_sources(side, c)] for side in every
    )
    at = {path: sides.now[(*RUNTIMES, name, *path)].file for path in entry}
    elsewhere = frozenset(
        path for path, file in at.items() if file and file.path != sides.found.file.path
    )
    strange = nvidia_ctk.list_unexplained_ctk_properties(
        entry, [*there, *(e for side in others for e in side)], elsewhere
    )
    return (
        strange
        if there and not sides.bare
        else min(strange, nvidia_ctk.list_unexplained_ctk_properties(entry, (), elsewhere), key=len)
    )


def _list_sources(side: Leaves, name: str) -> list[nvidia_ctk.Entry]:
    """Return a handler in each form that the tool may have copied: as containerd has it, and as the
    files alone set it, without what containerd has built in.
    """
    written = {path: leaf for path, leaf in side.items() if leaf.file}
    forms = (leaves.get_handler_leaves(table, name) for table in (side, written))
    return [form for form in forms if form]


def _has_no_handler(staying: FileSet) -> bool:
    """Tell whether the tool found no handler in the main file.

    A version 2 file may have its handlers under the names of version 3, which the tool does not
    read (toolkit: pkg/config/engine).
    """
    root = staying.root
    table = (
        releases.NATURAL_NAMES.get(root.declared or 1, containerd_places.V3_NAMES)
        if root
        else containerd_places.V3_NAMES
    )
    return not root or not any(
        toml.look_up_toml(root.doc.data, (*table, *RUNTIMES, name))
        for name in nvidia_ctk.CANDIDATES
    )


def _is_handler_unchanged(sides: Sides, name: str) -> bool:
    one, other = (
        leaves.get_handler_leaves(sides.now, name),
        leaves.get_handler_leaves(sides.then, name),
    )
    return all(
        nvidia_ctk.is_same_value(path, one.get(path), other.get(path)) for path in (*one, *other)
    )


def _list_copy_candidates(side: Leaves) -> tuple[str, ...]:
    default = side.get(DEFAULT)
    return nvidia_ctk.list_ctk_candidates(str(default.value) if default else "")


def _is_property_lost(sides: Sides, name: str, path: Path, value: Any) -> bool:
    """Tell whether a property works now, and our handler of this name would not have it.

    The policy decides which of NVIDIA's programs the handler runs. A program around it, of the
    site's own, goes only if the user named one.
    """
    if leaves.is_hidden(path) or nvidia_ctk.is_same_value(path, value, None):
        return False
    after = sides.then.get((*RUNTIMES, name, *path))
    if path == ("options", "BinaryName") and (
        not low_level.is_foreign_runtime(str(value)) or sides.asked.get(name)
    ):
        return False
    if (
        path == ("runtime_type",)
        and after
        and {value, after.value} <= set(containerd_base.RUNC_TYPES)
    ):
        return False  # one of runc's is made with the type of today, whatever it is copied from
    if path == ("container_annotations",) and after:
        return not set(value) <= set(after.value)
    return after is None or after.value != value


# ---------------------------------------------------------------- words


def _name(sides: Sides, path: Path) -> str:
    if not leaves.is_hidden(path):
        return toml.write_dotted_path(path)
    leaf = sides.now.get(path) or sides.then.get(path)
    above = toml.write_dotted_path(path[:-1]) if path[:-1] else "its CRI table"
    return f"a key of {above} in line {leaf.line}" if leaf else above


def _name_key(sides: Sides, path: Path) -> Message:
    now, then = sides.now.get(path), sides.then.get(path)
    if leaves.is_hidden(path) and now and then:
        return about_adoption.PLACES_DIFFER.fill(one=now.place, other=then.place)
    if leaves.is_hidden(path):
        leaf = now or then
        return about_adoption.ONLY_IN_ONE.fill(place=leaf.place if leaf else "")
    if len(path) == len(RUNTIMES) + 1:
        return about_adoption.HANDLER_ONLY_THERE.fill(handler=path[-1], path=sides.found.file.path)
    has = about_adoption.PLACE_HAS
    here, there = (
        about_adoption.PLACE_LACKS.fill(place=sides.found.file.path),
        about_adoption.NO_OTHER.fill(),
    )
    if now:
        here = has.fill(place=now.place, value=toml.dump_toml_value(now.value))
    if then and then.file:
        there = has.fill(place=then.place, value=toml.dump_toml_value(then.value))
    return about_adoption.VALUES_DIFFER.fill(
        key=toml.write_dotted_path(path), here=here, there=there
    )
