# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the files of a unit beneath a directory where no systemd runs: its own file, and its
drop-ins in the order in which they are read.

The rules are those of systemd.unit(5), "Unit File Load Path", and of unit_file_find_fragment() and
unit_file_find_dropin_paths() in systemd 252.
"""

from __future__ import annotations

import dataclasses as dc
import posixpath
import re
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    NeedMore,
    PlanError,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.unit_files import (
    messages,
)

# The load path of the system's manager, the first directory with a name counts; /lib if it is not
# merged with /usr/lib.
FOLDERS = (
    "/etc/systemd/system.control", "/run/systemd/system.control", "/run/systemd/transient", "/run/systemd/generator.early",
    "/etc/systemd/system", "/etc/systemd/system.attached", "/run/systemd/system", "/run/systemd/system.attached",
    "/run/systemd/generator", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system",
    "/run/systemd/generator.late",
)  # fmt: skip
# `systemctl enable` makes the links of a unit's Alias= here
_ALIASES = (
    "/etc/systemd/system",
    "/run/systemd/system",
)
_MOST_NAMES = 8  # of one unit that are followed; each has more than a hundred places for drop-ins
# VALID_CHARS in basic/unit-name.c: without the signs of a pattern
_VALID = re.compile(r"[A-Za-z0-9:_.\\@-]{1,255}")


@dc.dataclass(frozen=True)
class UnitFiles:
    """The files of one unit. own: '' if there is no file, or a link masks the unit.

    name: its own name, if it was asked for by an alias. alias: it has several names.
    """

    name: str
    own: str = ""
    drop_ins: tuple[str, ...] = ()
    alias: bool = False

    @property
    def paths(self) -> tuple[str, ...]:
        return (self.own, *self.drop_ins) if self.own else ()


def ask_for(unit: str) -> queries.Question:
    """Ask where the files of a unit are. Nothing is read."""
    names = [unit, *_list_templates(unit)]
    files = [f"{folder}/{name}" for folder in FOLDERS for name in names]
    aliases = [f"{folder}/*.{_get_kind(unit)}" for folder in _ALIASES]
    return queries.ask_for_paths(
        f"unit {unit}",
        [*files, *(f"{folder}/*.conf" for folder in _drop_in_folders(unit)), *aliases],
    )


def find_files(obs: Observation, unit: str) -> UnitFiles:
    """Find the files of a unit, by its other names as well."""
    names, entries = [unit], dict(_list_entries(obs, unit))
    name, own = unit, None
    while own is None:
        own = _find_first(entries, (name, *_list_templates(name)))
        if own is None:
            return UnitFiles(unit)
        real = str(own.get("real") or "")
        target = posixpath.basename(real)
        # an alias
        if posixpath.dirname(real) in FOLDERS and target not in (
            name,
            *_list_templates(name),
        ):
            if target in names or not _VALID.fullmatch(target):
                return UnitFiles(unit)
            _require_few([*names, target], str(own["path"]))
            # drop-ins of its own name outrank those of aliases
            names, name, own = (
                [target, *names],
                target,
                None,
            )
            entries.update(_list_entries(obs, target))
    if not own.get("real") or own.get("type") != "file":
        return UnitFiles(unit)
    known = (*names, *(template for one in names for template in _list_templates(one)))
    links = {
        posixpath.basename(path): str(entry.get("real"))
        for path, entry in entries.items()
        if posixpath.dirname(path) in _ALIASES
    }
    places = _places(known)
    linked = (
        other
        for other, real in links.items()
        if other not in known and posixpath.split(real) in places
    )
    others = [other for other in linked if _VALID.fullmatch(other)]
    _require_few([*names, *others], str(own["path"]))
    missing = [ask_for(other) for other in others if not obs.was_asked(ask_for(other))]
    if missing:
        raise NeedMore(missing)
    for other in others:
        entries.update(_list_entries(obs, other))
    names += others
    return UnitFiles(name, str(own["path"]), _drop_ins(entries, names), alias=len(names) > 1)


def _require_few(names: list[str], where: str) -> None:
    if len(names) > _MOST_NAMES:
        row, directories = messages.TOO_MANY_NAMES, " and ".join(_ALIASES)
        raise PlanError(row.fill(limit=_MOST_NAMES, directories=directories), where=where)


def _places(names: Iterable[str]) -> set[tuple[str, str]]:
    return {(folder, name) for folder in FOLDERS for name in names}


def _list_entries(obs: Observation, unit: str) -> Mapping[str, Mapping[str, Any]]:
    return {str(entry["path"]): entry for entry in obs.get_answer(ask_for(unit)).get("files") or ()}


def _find_first(
    entries: Mapping[str, Mapping[str, Any]], names: Iterable[str]
) -> Mapping[str, Any] | None:
    """Find the entry of the first name that any folder has, in the first folder that has it."""
    return next(
        (
            entries[path]
            for name in names
            for folder in FOLDERS
            if (path := f"{folder}/{name}") in entries
        ),
        None,
    )


def _drop_ins(entries: Mapping[str, Mapping[str, Any]], names: Iterable[str]) -> tuple[str, ...]:
    """Sort drop-ins by the names of their files; for each name the first folder counts.

    A link to nothing or to a device sets nothing.
    """
    folders = dict.fromkeys(folder for name in names for folder in _own_folders(name))
    kinds = dict.fromkeys(f"{folder}/{_get_kind(name)}.d" for name in names for folder in FOLDERS)
    inside: dict[str, list[str]] = {}
    for path in entries:
        inside.setdefault(posixpath.dirname(path), []).append(path)
    drop_ins: dict[str, str] = {}
    for folder in (*folders, *kinds):
        for path in inside.get(folder, ()):
            if path.endswith(".conf"):
                drop_ins.setdefault(posixpath.basename(path), path)
    there = (
        drop_ins[name]
        for name in sorted(drop_ins, key=lambda name: name.encode("utf-8", "surrogateescape"))
    )
    return tuple(
        path for path in there if entries[path].get("real") and entries[path].get("type") == "file"
    )


def _drop_in_folders(unit: str) -> list[str]:
    return [*_own_folders(unit), *(f"{folder}/{_get_kind(unit)}.d" for folder in FOLDERS)]


def _own_folders(unit: str) -> list[str]:
    """List the folders for drop-ins of a unit, without those of its kind, in the order of their
    rank.
    """
    return [
        f"{folder}/{name}.d"
        for folder in FOLDERS
        for name in (unit, *_list_templates(unit), *_list_prefixes(unit))
    ]


def _get_kind(unit: str) -> str:
    return unit.rpartition(".")[2]


def _list_templates(unit: str) -> tuple[str, ...]:
    """Return `name@.service` for `name@instance.service`; () for other names."""
    name, at, instance = unit.rpartition(".")[0].partition("@")
    return (f"{name}@.{_get_kind(unit)}",) if at and instance else ()


def _list_prefixes(unit: str) -> list[str]:
    """Return `a-b-.service` and `a-.service` for `a-b-c.service`, the longest first."""
    name, at, _instance = unit.rpartition(".")[0].partition("@")
    parts = name.split("-")
    shorter = ["-".join(parts[:count]) + "-" for count in range(len(parts) - 1, 0, -1)]
    return [
        f"{prefix}{at}.{_get_kind(unit)}"
        for prefix in shorter
        if prefix != name and prefix.strip("-")
    ]
