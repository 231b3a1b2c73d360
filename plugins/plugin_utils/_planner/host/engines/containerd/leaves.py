# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare the CRI table of a containerd key by key.

For keys that no host sends, the tags of key and value are compared.
"""

from __future__ import annotations

import dataclasses as dc
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.projection import (
    projector,
    selection,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.facts import (
    Lookup,
    require_together,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import toml
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Instance
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
    build_query_failure,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections import (
    containerd_places,
    file_places,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections.containerd_places import (
    Path,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.versions import Version
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    config,
    options,
    releases,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd.config import (
    ConfigFile,
    FileSet,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd.messages import (
    about_files,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd.own_program import (
    OwnProgram,
    get_own_program,
)

HIDDEN = "tag "  # begins the last part of a key that is not known here
# containerd reads the first as the second since 2.1 (plugins/cri/runtime, migrateConfig; of version
# 3 it moves none), and prints it so in `config dump`. Both names are tagged alike on every release:
# 1.x and 2.0 know the first one alone.
MOVES = tuple(
    ((*table, "cni", "bin_dir"), (*table, "cni", "bin_dirs"))
    for table in (containerd_places.V1_NAMES, containerd_places.V2_NAMES)
)
ZERO = ""  # in the place of such a key's tag: nothing, zero, false


@dc.dataclass(frozen=True)
class Leaf:
    """A value, or the tag of one, and its place."""

    value: Any
    file: ConfigFile | None = dc.field(default=None, compare=False)
    # its path in the file, or its line if that is not known
    at: Path | int = dc.field(default=0, compare=False)

    @property
    def line(self) -> int | None:
        if self.file is None:
            return None
        return self.at if isinstance(self.at, int) else toml.find_key_line(self.file.doc, self.at)

    @property
    def place(self) -> str:
        return f"{self.file.path}:{self.line}" if self.file else "containerd itself"


Leaves = Mapping[Path, Leaf]  # by the path below the CRI table


Handlers = tuple[str, ...]  # their sorted names


@dc.dataclass(frozen=True)
class TagFacts:
    """The tags of keys and values, with the tables of these handlers compared.

    of_files: those of a file, by its path. printed: those of what a program prints as its defaults.
    Reading either may raise NeedMore, or QueryFailed for a text that is not TOML.
    """

    of_files: Lookup[tuple[str, Handlers], Mapping[str, Any]]
    printed: Lookup[tuple[OwnProgram, Handlers], Mapping[str, Any]]


def read_tag_facts(obs: Observation, keep: file_places.Keep) -> TagFacts:
    """Return the tags of the keys that are not in this list."""

    def read_printed(key: tuple[OwnProgram, Handlers]) -> Mapping[str, Any]:
        program, tables = key[0], list_compared_tables(key[1])
        argv = [program.path, "config", "default"]
        return _read_tags(
            obs, queries.ask_for_printed_tags(argv, tables, keep, MOVES, program.process)
        )

    return TagFacts(
        Lookup(
            lambda key: _read_tags(
                obs, queries.ask_for_tags(key[0], list_compared_tables(key[1]), keep, MOVES)
            )
        ),
        Lookup(read_printed),
    )


def require_cri_leaves(tags: TagFacts, files: FileSet, *more: Callable[[], object]) -> None:
    """Raise NeedMore unless the tags of every file with a CRI table are there.

    more: reads further facts, so one look answers all.
    """
    names = list_sorted_handlers(files)
    require_together(
        [
            *more,
            *(
                functools.partial(tags.of_files.get, (file.path, names))
                for file in files.files
                if _list_cri_tables(file)
            ),
        ]
    )


def _list_cri_tables(file: ConfigFile) -> list[Path]:
    return [
        table
        for table in containerd_places.TABLES
        if isinstance(toml.look_up_toml(file.doc.data, table), Mapping)
    ]


def list_sorted_handlers(files: FileSet) -> Handlers:
    """Return the sorted names of all handlers in these files."""
    return tuple(
        sorted({name for file in files.files for name in config.list_file_handlers(file.doc.data)})
    )


def list_compared_tables(names: Iterable[str]) -> list[Path]:
    """Return the tables below which keys are compared: a handler's properties have the same tags as
    another handler's.
    """
    every = list(names)
    return [
        place
        for table in containerd_places.TABLES
        for place in (table, *((*table, *releases.RUNTIMES, name) for name in every))
    ]


def merge_leaves(tags: TagFacts, files: FileSet, version: Version) -> dict[Path, Leaf]:
    """Return the CRI table as this release merges it from the files."""
    facts, schema = releases.get_release_facts(version), config.get_schema_in_force(files, version)
    merged: dict[Path, Leaf] = {}
    for file in files.files:
        for table in _list_cri_tables(file):
            if config.is_table_read(table, file, schema, facts):
                part = list_file_leaves(tags, files, file, table)
                merged = part if facts.merge == "replace" else {**merged, **part}
    if facts.keeps_runc or not any(path[:2] == releases.RUNTIMES for path in merged):
        merged = {
            **{
                (*releases.RUNTIMES, *path): Leaf(value)
                for path, value in _flatten_table(releases.BUILTIN_RUNTIMES, ())
            },
            **merged,
        }
    return _own_spelling(merged, version)


def _own_spelling(found: Mapping[Path, Leaf], version: Version) -> dict[Path, Leaf]:
    """Return the table with the options of handlers by their own names. If an option stands there
    twice, keep the one that counts.
    """
    of: dict[Path, dict[str, Leaf]] = {}
    for path, leaf in found.items():
        if path[:2] == releases.RUNTIMES and path[-2:-1] == ("options",) and not is_hidden(path):
            of.setdefault(path[:-1], {})[path[-1]] = leaf
    rest = {path: leaf for path, leaf in found.items() if path[-1] not in of.get(path[:-1], {})}
    return {
        **rest,
        **{
            (*at, name): leaf
            for at, said in of.items()
            for name, leaf in options.read_handler_options(said, version).items()
        },
    }


def list_file_leaves(
    tags: TagFacts, files: FileSet, file: ConfigFile, table: Path
) -> dict[Path, Leaf]:
    """Return one file's own table, tags included."""
    places = [(list(path), shape) for path, shape in files.keep.get("places") or ()]
    leaves = {}
    for path, value in _flatten_table(toml.look_up_toml(file.doc.data, table), ()):
        shape = selection.get_listed_shape(places, [*table, *path])
        if (
            shape is not None
            and projector.fits_scanned_shape(shape, value)
            and not file_places.is_hidden_value(value)
        ):
            leaves[path] = Leaf(value, file, (*table, *path))
    answer = tags.of_files.get((file.path, list_sorted_handlers(files)))
    return {**leaves, **_add_tags(answer, table, file)}


def list_release_leaves(tags: TagFacts, files: FileSet, instance: Instance) -> dict[Path, Leaf]:
    """Return what containerd takes if no file sets anything, as its own program prints it, {} if
    there is no program to ask.
    """
    if not instance.binary:
        return {}
    answer = tags.printed.get((get_own_program(instance), list_sorted_handlers(files)))
    return {
        path: leaf
        for table in containerd_places.TABLES
        for path, leaf in _add_tags(answer, table, None).items()
    }


def _read_tags(obs: Observation, question: queries.Question) -> Mapping[str, Any]:
    """Return the answer with the tags. Raise QueryFailed for a text that is not TOML.

    Such a text has no tags, which does not mean that it has no keys.
    """
    answer = obs.get_answer(question)
    fault = answer.get("fault")
    if fault:
        raise build_query_failure(
            question["id"],
            {
                "kind": "failed",
                "message": about_files.LEAVES_NOT_TOML.fill(
                    line=fault["line"], fault=fault["code"]
                ),
            },
        )
    return answer


def _add_tags(answer: Mapping[str, Any], table: Path, file: ConfigFile | None) -> dict[Path, Leaf]:
    places = [tuple(place) for place in answer.get("prefixes") or ()]
    tagged = {}
    for number, line, key, value in answer.get("leaves") or ():
        place = places[number]
        if place[: len(table)] == table:
            tagged[(*place[len(table) :], HIDDEN + key)] = Leaf(value, file, line)
    return tagged


def _flatten_table(data: Any, at: Path) -> Iterator[tuple[Path, Any]]:
    for name, value in (data if isinstance(data, Mapping) else {}).items():
        if isinstance(value, Mapping):
            yield from _flatten_table(value, (*at, name))
        else:
            yield (*at, name), value


def get_handler_leaves(leaves: Leaves, name: str) -> dict[Path, Any]:
    """Return one handler's properties, each by its path below the handler."""
    at = (*releases.RUNTIMES, name)
    return {path[len(at) :]: leaf.value for path, leaf in leaves.items() if path[: len(at)] == at}


def is_hidden(path: Path) -> bool:
    return path[-1].startswith(HIDDEN)
