# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the files of one containerd's configuration, in the order in which they are applied, and
merge them.
"""

from __future__ import annotations

import collections
import dataclasses as dc
import fnmatch
import functools
import posixpath
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import (
    host_paths,
    queries,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    NeedMore,
    PlanError,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.facts import Lookup
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import (
    toml,
    toml_file,
    toml_types,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Handler
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
    ObservedFile,
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
    options,
    releases,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd.messages import (
    about_files,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers import known

T = TypeVar("T")
MAX_CHAIN, MAX_FILES = 32, 256  # of imports


@dc.dataclass(frozen=True)
class ConfigFile:
    """One file of a set.

    path: what the daemon opens. real: the path that the bytes are at. parents: the files that it
    was imported through.
    """

    path: str
    real: str
    sha256: str
    doc: toml.TomlDocument
    parents: tuple[str, ...] = ()

    @property
    def declared(self) -> int:
        """The `version` that the file declares, 0 if it declares none."""
        version = self.doc.data.get("version", 0)
        return version if isinstance(version, int) and not isinstance(version, bool) else 0


@dc.dataclass(frozen=True)
class FileSet:
    """The files of one configuration, in the order in which the daemon applies them.

    The root file comes first, an import after all siblings of its parent.
    """

    root_path: str
    files: tuple[ConfigFile, ...]
    keep: file_places.Keep = dc.field(default_factory=containerd_places.keep_containerd_places)

    @property
    def root(self) -> ConfigFile | None:
        return self.files[0] if self.files and self.files[0].path == self.root_path else None

    @property
    def schema(self) -> int:
        """The config version of the root file: 1 if it declares none, as containerd reads it, 0
        without a root file.
        """
        return (self.root.declared or 1) if self.root else 0

    @functools.cached_property
    def _made(self) -> dict[Any, Any]:
        """The results that were made of this set: a plan asks several times for the same."""
        return {}

    def compute_once(self, key: Any, make: Callable[[], T]) -> T:
        if key not in self._made:
            self._made[key] = make()
        made: T = self._made[key]
        return made

    def drop_file(self, path: str) -> FileSet:
        return self.compute_once(
            path,
            lambda: dc.replace(
                self, files=tuple(f for f in self.files if path not in (f.path, f.real))
            ),
        )

    def get(self, path: str) -> ConfigFile | None:
        return next((f for f in self.files if path in (f.path, f.real)), None)


@dc.dataclass(frozen=True)
class ConfigFacts:
    """The files that make up configurations, as the host has them.

    files: by path. folders: the files of a pattern. keep: the list of what of them may travel.
    """

    files: Lookup[str, ObservedFile]
    folders: Lookup[str, tuple[ObservedFile, ...]]
    keep: file_places.Keep

    @functools.cached_property
    def _loaded(self) -> dict[tuple[str, Version], FileSet]:
        """The configurations by main file and version: a plan asks several times for the same."""
        return {}

    def load(self, root_path: str, version: Version) -> FileSet:
        key = (root_path, version)
        if key not in self._loaded:
            self._loaded[key] = _walk_imports(Sight(self), root_path, version)
        return self._loaded[key]


def read_config_facts(obs: Observation, handlers: Iterable[Handler] = ()) -> ConfigFacts:
    """Return the files of configurations. handlers: those whose values may travel."""
    keep = containerd_places.keep_containerd_places(handlers)
    return obs.compute_once(
        ("containerd", id(keep)),
        lambda: ConfigFacts(
            Lookup(lambda path: obs.get_file(path, keep)),
            Lookup(lambda pattern: obs.list_glob_files(pattern, keep)),
            keep,
        ),
    )


@dc.dataclass(frozen=True)
class Sight:
    """Files as they are, or as they would be after changes. ahead: the files that are about to be
    written, or to go.
    """

    facts: ConfigFacts
    ahead: Mapping[str, ObservedFile] = dc.field(default_factory=dict)

    def get_file(self, path: str) -> ObservedFile:
        return self.ahead.get(path) or self.facts.files.get(path)

    def list_files(self, pattern: str) -> list[ObservedFile]:
        files = {f.path: f for f in self.facts.folders.get(pattern) if f.exists}
        files.update(
            {path: file for path, file in self.ahead.items() if matches_import_glob(pattern, path)}
        )
        return [files[path] for path in sorted(files) if files[path].exists]


def load_containerd_files(
    facts: ConfigFacts,
    root_path: str,
    version: Version,
    ahead: Mapping[str, ObservedFile] | None = None,
) -> FileSet:
    """Walk the imports as the daemon does: breadth first, globs only for a pattern with an
    asterisk.

    Raise PlanError for what the daemon would refuse, NeedMore for files that no look has shown yet.
    ahead: files as they would be after changes.
    """
    if ahead:
        return _walk_imports(Sight(facts, ahead), root_path, version)
    return facts.load(root_path, version)


def _walk_imports(sight: Sight, root_path: str, version: Version) -> FileSet:
    first = sight.get_file(root_path)
    if not first.exists:
        return FileSet(root_path, (), sight.facts.keep)
    root = _read_config_file(first, root_path, ())
    files = {root_path: root}
    queue = collections.deque([root])
    unknown: list[
        queries.Question
    ] = []  # for all files known so far: one more look, not one for each
    while queue:
        current = queue.popleft()
        for pattern in imports(current):
            try:
                resolved = _resolve(sight, current, pattern, version)
            except NeedMore as need:
                unknown += need.questions
                continue
            for path, file in resolved:
                # containerd loads a file once, and so files may import each other (LoadConfig)
                if path in files:
                    continue
                _check_import_bounds(current, len(files))
                files[path] = _read_config_file(file, path, (*current.parents, current.path))
                queue.append(files[path])
    if unknown:
        raise NeedMore(unknown)
    return FileSet(root_path, tuple(files.values()), sight.facts.keep)


def _check_import_bounds(current: ConfigFile, files: int) -> None:
    """Raise PlanError if a chain of imports is too long or the files are too many: no real
    configuration has as many.

    Every link of a chain costs one more look at the host, and every file costs time.
    """
    if len(current.parents) < MAX_CHAIN and files < MAX_FILES:
        return
    deep = len(current.parents) >= MAX_CHAIN
    message = (
        about_files.TOO_DEEP.fill(limit=MAX_CHAIN)
        if deep
        else about_files.TOO_MANY.fill(limit=MAX_FILES)
    )
    raise PlanError(message, where=current.path, line=toml.find_key_line(current.doc, ("imports",)))


def imports(file: ConfigFile) -> list[str]:
    value = file.doc.data.get("imports", [])
    if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
        line = toml.find_key_line(file.doc, ("imports",))
        raise PlanError(about_files.IMPORTS_NO_LIST.fill(), where=file.path, line=line)
    return value


def resolve_import(file: ConfigFile, pattern: str) -> str:
    """Return an import as the daemon reads it: cleaned, and beside the file that names it unless it
    is absolute.
    """
    return host_paths.clean_host_path(posixpath.join(posixpath.dirname(file.path), pattern))


def matches_import_glob(pattern: str, path: str) -> bool:
    """Tell whether a glob matches a path. Asterisks do not cross directories, and a pattern without
    one matches nothing.
    """
    return (
        "*" in pattern
        and posixpath.dirname(pattern) == posixpath.dirname(path)
        and fnmatch.fnmatchcase(
            posixpath.basename(path), posixpath.basename(pattern).replace("[", "[[]")
        )
    )


def _resolve(
    sight: Sight, current: ConfigFile, pattern: str, version: Version
) -> list[tuple[str, ObservedFile]]:
    if "*" in pattern:
        if not pattern.startswith("/") and not releases.can_use_relative_glob(version):
            return []
        return [(f.path, f) for f in sight.list_files(resolve_import(current, pattern))]
    path = resolve_import(current, pattern)
    file = sight.get_file(path)
    line = toml.find_key_line(current.doc, ("imports",))
    if not file.exists and known.makes((*current.parents, current.path)[0], path):
        return []  # beneath another root directory, or if the main file is a person's
    if not file.exists:
        # dump swallows this on 2.x and exits 0, yet the daemon does not start.
        raise PlanError(about_files.IMPORT_MISSING.fill(path=path), where=current.path, line=line)
    if file.type == "dir":
        message = about_files.IMPORT_IS_DIRECTORY.fill(
            path=path, pattern=f"{path.rstrip('/')}/*.toml"
        )
        raise PlanError(message, where=current.path, line=line)
    return [(path, file)]


def _read_config_file(file: ObservedFile, path: str, parents: tuple[str, ...]) -> ConfigFile:
    if file.error or (file.content is None and not file.fault):
        raise PlanError(about_files.UNREADABLE.fill(trouble=file.trouble), where=path)
    doc = toml_file.read_toml_file(file, path)
    toml_types.check_toml_types(doc, releases.SHAPES, about_files.NOT_LOADED.fill(), file.withheld)
    file_places.require_shown(path, file.withheld, containerd_places.OF_HANDLERS)
    return ConfigFile(path, file.place, file.sha256 or "", doc, parents)


def load_alone(facts: ConfigFacts, path: str) -> ConfigFile:
    """Load a file that no other file has to import. Raise PlanError if it cannot be read."""
    return _read_config_file(facts.files.get(path), path, ())


def check_schema(files: FileSet, version: Version) -> None:
    """Raise PlanError for a declared version that the daemon rejects or ignores, and (2.x) for an
    encoding that it refuses.
    """
    schemas = releases.get_release_facts(version).schemas
    for file in files.files:
        declared = file.declared or 1
        written = file.doc.data.get("version", 1)
        if not isinstance(written, int) or isinstance(written, bool):
            line = toml.find_key_line(file.doc, ("version",))
            raise PlanError(about_files.VERSION_NO_NUMBER.fill(), where=file.path, line=line)
        # 1.x takes other bytes in strings and comments
        if releases.get_release_facts(version).merge == "deep":
            toml_types.check_encoding(
                file.doc, about_files.REFUSED_BY_RELEASE.fill(version=str(version))
            )
        if declared not in schemas:
            raise PlanError(
                about_files.VERSION_UNSUPPORTED.fill(
                    declared=declared, version=str(version), supported=_join_numbers(schemas)
                ),
                where=file.path,
                line=toml.find_key_line(file.doc, ("version",)),
            )


def _join_numbers(numbers: tuple[int, ...]) -> str:
    return (
        " and ".join(str(n) for n in numbers)
        if len(numbers) < 3
        else ", ".join(map(str, numbers[:-1])) + f" and {numbers[-1]}"
    )


def get_cri_table_path(files: FileSet, version: Version) -> Path:
    """Return the path of the CRI table that this set uses: the root's own first, never two names in
    one set.
    """
    schema = get_schema_in_force(files, version) or releases.get_release_facts(version).new_file
    if schema < 2 and takes_version(files):
        schema = 2
    if schema < 2:
        return containerd_places.V1_NAMES
    natural = releases.NATURAL_NAMES[schema]
    if (
        schema == 2
        and 3 in releases.get_release_facts(version).schemas
        and any(uses(f.doc.data, containerd_places.V3_NAMES) for f in files.files)
    ):
        # if both are there, the settings migrated from the older name lose
        return containerd_places.V3_NAMES
    lost = schema > 2 and releases.get_release_facts(version).v2_names_in_v3_lost
    for file in files.files:
        if uses(file.doc.data, natural):
            return natural
        other = (
            containerd_places.V3_NAMES
            if natural == containerd_places.V2_NAMES
            else containerd_places.V2_NAMES
        )
        if (
            uses(file.doc.data, other)
            and not lost
            and (
                other == containerd_places.V2_NAMES
                or 3 in releases.get_release_facts(version).schemas
            )
        ):
            return other
    return natural


def get_schema_in_force(files: FileSet, version: Version) -> int:
    """Return the config version by which the set is read: on 1.x that of the last file which names
    one, else the root's.
    """
    if releases.get_release_facts(version).merge == "replace":
        return next(
            (file.declared for file in reversed(files.files) if file.declared), files.schema
        )
    return files.schema


# By which version 1 and version 2 name plugins differently: `cri` and `io.containerd.grpc.v1.cri`.
NAMES_PLUGINS = ("plugins", "disabled_plugins", "required_plugins")


def takes_version(files: FileSet) -> bool:
    """Tell whether a root file without a version can get `version = 2` with no other effect, since
    no file names a plugin.

    A file without a version counts as version 1, whose CRI table containerd 2.0 to 2.2 drop.
    """
    root = files.root
    if root is None or "version" in root.doc.data:
        return False
    return not any(file.doc.data.get(key) for file in files.files for key in NAMES_PLUGINS)


def uses(data: Mapping[str, Any], table: Path) -> bool:
    table_data = toml.look_up_toml(data, table)
    if not isinstance(table_data, Mapping):
        return False
    return (
        bool(set(table_data) - containerd_places.SERVER_KEYS)
        if table == containerd_places.V2_NAMES
        else True
    )


def list_file_handlers(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the handlers that one file declares, under any name of the CRI table."""
    every = (
        toml.look_up_toml(data, (*table, *releases.RUNTIMES)) for table in containerd_places.TABLES
    )
    return {
        name: entry
        for runtimes in every
        if isinstance(runtimes, Mapping)
        for name, entry in runtimes.items()
    }


def list_handler_programs(runtimes: Mapping[str, Any]) -> dict[str, str]:
    """Return the program that each of these handlers names, '' if it names none."""
    return {
        name: str(toml.look_up_toml(entry, ("options", "BinaryName")) or "")
        for name, entry in runtimes.items()
    }


def build_effective_cri_table(
    files: FileSet, version: Version, *, built_in: bool = True
) -> Mapping[str, Any]:
    """Return the CRI table that the files give. It has the version's built-in runc, unless built_in
    is false.
    """
    return files.compute_once(
        (version, built_in), lambda: _merge_cri_tables(files, version, built_in)
    )


def _merge_cri_tables(files: FileSet, version: Version, built_in: bool) -> Mapping[str, Any]:
    facts, schema = releases.get_release_facts(version), get_schema_in_force(files, version)
    cri: dict[str, Any] = {}
    for file in files.files:
        for table in containerd_places.TABLES:
            part = toml.look_up_toml(file.doc.data, table)
            if isinstance(part, Mapping) and is_table_read(table, file, schema, facts):
                cri = (
                    toml.copy_toml_value(dict(part))
                    if facts.merge == "replace"
                    else merge_cri_tables(cri, part)
                )
    cri = _fill_template_values(cri, known.get_filled_in_values(files.root_path))
    containerd = cri.setdefault("containerd", {})
    runtimes = containerd.get("runtimes") or {}
    if built_in and (facts.keeps_runc or not runtimes):
        runtimes = merge_cri_tables(toml.copy_toml_value(dict(releases.BUILTIN_RUNTIMES)), runtimes)
    if facts.merge == "replace":
        runtimes = _add_older_tables(cri, runtimes)
    containerd["runtimes"] = options.read_options_of_handlers(runtimes, version)
    containerd.setdefault("default_runtime_name", "runc")
    if not containerd["default_runtime_name"]:
        containerd["default_runtime_name"] = "runc"
    return cri


def _add_older_tables(cri: dict[str, Any], runtimes: Mapping[str, Any]) -> Mapping[str, Any]:
    """Add the two older tables that 1.x reads as handlers if they have a type. `default_runtime` is
    then the default one.
    """
    older = {
        name: toml.look_up_toml(cri, table)
        for name, table in containerd_places.OLDER_TABLES.items()
    }
    older = {
        name: entry
        for name, entry in older.items()
        if isinstance(entry, Mapping) and entry.get("runtime_type")
    }
    if "default" in older:
        cri["containerd"]["default_runtime_name"] = "default"
    return {**runtimes, **older}


def _fill_template_values(cri: dict[str, Any], values: Mapping[str, str]) -> dict[str, Any]:
    """Return a template's table as the daemon gets it, with the values that its manager puts in."""
    if not values:
        return cri
    return {
        k: _fill_template_values(v, values)
        if isinstance(v, dict)
        else values.get(v, v)
        if isinstance(v, str)
        else v
        for k, v in cri.items()
    }


def is_table_read(
    table: Path, file: ConfigFile, schema: int, facts: releases.ContainerdRelease
) -> bool:
    """Tell whether this release reads a table of this name in this file at all.

    schema: the version by which the set is read, 0 without a root file.
    """
    if table == containerd_places.V1_NAMES:
        return schema < 2 and not facts.v1_lost
    if table == containerd_places.V3_NAMES:
        return 3 in facts.schemas
    if facts.merge == "replace" and schema == 1:
        return False  # 1.x looks a plugin up by its short name then
    return not (facts.v2_names_in_v3_lost and (file.declared or schema) > 2)


def merge_cri_tables(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two tables as 2.x does: tables merge, and everything else of the later file wins,
    arrays as a whole.
    """
    result = dict(below)
    for key, value in above.items():
        old = result.get(key)
        # Dictionaries, as parsers make them: an abstract class takes longer to say no.
        result[key] = (
            merge_cri_tables(old, value)
            if isinstance(value, dict) and isinstance(old, dict)
            else toml.copy_toml_value(value)
        )
    return result


def find_disabled_cri(files: FileSet) -> tuple[str, int | None] | None:
    """Return (file, line) of the entry in `disabled_plugins` that turns CRI off, None if there is
    none.

    The lists of several files add up.
    """
    for file in files.files:
        value = file.doc.data.get("disabled_plugins", [])
        if isinstance(value, list) and releases.CRI_PLUGINS & {
            v for v in value if isinstance(v, str)
        }:
            return file.path, toml.find_key_line(file.doc, ("disabled_plugins",))
    return None


def get_configured_socket(files: FileSet) -> str:
    """Return the socket that the files name, '' if they leave the default. A version 4 root ignores
    [grpc].
    """
    for file in reversed(files.files):
        path = (
            containerd_places.GRPC_V4
            if (file.declared or files.schema) >= 4
            else ("grpc", "address")
        )
        address = toml.look_up_toml(file.doc.data, path)
        if isinstance(address, str) and address:
            return host_paths.keep_as_opened(address)
    return ""
