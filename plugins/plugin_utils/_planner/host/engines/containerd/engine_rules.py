# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules of containerd about keys beside ours: what stops the daemon or its CRI, and what outranks
what we write.

`containerd config dump` judges few of them, since the daemon holds them only when it loads its
plugins. A unit whose CRI does not load stays active. So each rule is held against the files as they
are and as they would be.

Sources: `ValidateV2` (services/server/config) and `ValidatePluginConfig` (pkg/cri/config) of 1.6
and 1.7, `ValidateVersion` (cmd/containerd/server/config), `ValidateRuntimeConfig` and
`ValidateImageConfig` (internal/cri/config) of 2.x. Not held: what depends on values that stay on
the host (durations, TLS of registries, directories of CNI plugins), on other files, or on the
kernel.
"""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import toml
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
    Sentence,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections import (
    containerd_places,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections.containerd_places import (
    Path,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.versions import Version
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    config,
    releases,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd.config import (
    ConfigFile,
    FileSet,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd.messages import (
    about_rules,
)

ALL_DEVICES, NO_HOST_DEVICES = (
    "privileged_without_host_devices_all_devices_allowed",
    "privileged_without_host_devices",
)
IO_TYPES = ("", "fifo", "streaming")

# does-not-start: the daemon ends. no-cri: it runs and serves no CRI.
Effect = Literal["does-not-start", "no-cri"]
AS_IT_IS: Mapping[Effect, Sentence] = {
    "does-not-start": about_rules.DOES_NOT_START,
    "no-cri": about_rules.NO_CRI,
}
CHANGED: Mapping[Effect, Sentence] = {
    "does-not-start": about_rules.WOULD_NOT_START,
    "no-cri": about_rules.WOULD_LOSE_CRI,
}


@dc.dataclass(frozen=True)
class ContainerdView:
    """One containerd's files as a release reads them."""

    files: FileSet
    version: Version

    @property
    def cri(self) -> Mapping[str, Any]:
        return config.build_effective_cri_table(self.files, self.version)

    @property
    def runtimes(self) -> Mapping[str, Any]:
        runtimes: Mapping[str, Any] = toml.look_up_toml(self.cri, releases.RUNTIMES, {})
        return runtimes

    @property
    def default(self) -> str:
        return str(toml.look_up_toml(self.cri, releases.DEFAULT, ""))

    @property
    def default_type(self) -> str:
        return str(toml.look_up_toml(self.runtimes, (self.default, "runtime_type"), ""))

    @property
    def names_plugins_in_full(self) -> bool:
        return config.get_schema_in_force(self.files, self.version) >= 2

    def find_key(self, path: Path) -> Spot | None:
        """Find a key below a CRI table that the release reads, None if no file has it.

        The last file that has it counts, on 1.x the last table alone.
        """
        facts, schema = (
            releases.get_release_facts(self.version),
            config.get_schema_in_force(self.files, self.version),
        )
        for file in reversed(self.files.files):
            tables = [
                t
                for t in containerd_places.TABLES
                if toml.look_up_toml(file.doc.data, t)
                and config.is_table_read(t, file, schema, facts)
            ]
            for table in tables:
                if toml.look_up_toml(file.doc.data, (*table, *path)) is not None:
                    return Spot(file, (*table, *path))
            if tables and facts.merge == "replace":
                return None
        return None


@dc.dataclass(frozen=True)
class Spot:
    """A key that breaks a rule."""

    file: ConfigFile
    key: Path

    @property
    def line(self) -> int | None:
        return toml.find_key_line(self.file.doc, self.key)


@dc.dataclass(frozen=True)
class ContainerdRule:
    """One rule. first, before: the releases that have it. finds: the keys that break it.

    sentence: what the rule asks for, and the step for the user. In it, {key} is the last part of
    the key, {default} and {type} are the default handler and its type, {linux} is the type that
    the rule asks for, and {needed} is a plugin that CRI needs.
    ours: the step instead if only our change breaks it.
    """

    sentence: Sentence
    effect: Effect
    finds: Callable[[ContainerdView], Iterator[Spot]]
    ours: Sentence | None = None
    first: tuple[int, ...] = (1, 0)
    before: tuple[int, ...] | None = None

    @property
    def code(self) -> str:
        """The rule's own part of its message's code."""
        return self.sentence.code.removeprefix("containerd.rule-")

    def applies(self, version: Version) -> bool:
        return self.first <= version.release and (
            self.before is None or version.release < self.before
        )


@dc.dataclass(frozen=True)
class BrokenContainerdRule:
    """A rule that a configuration breaks, and the key that breaks it."""

    rule: ContainerdRule
    spot: Spot
    view: ContainerdView

    def message(self, *, already: bool) -> Message:
        """Return the message, whose next step is that for the engine's own file. already: see
        `error`.
        """
        named = (str(name) for name in self.spot.file.doc.data.get("disabled_plugins") or ())
        needed = next((name for name in named if is_needed_by_cri(name, self.view.version)), "")
        values = {
            "effect": (AS_IT_IS if already else CHANGED)[self.rule.effect].fill(
                version=str(self.view.version)
            ),
            "key": self.spot.key[-1],
            "default": self.view.default,
            "type": self.view.default_type or about_rules.NO_TYPE.fill(),
            "linux": releases.LINUX_TYPE,
            "needed": needed,
        }
        return self.rule.sentence.fill(**{name: values[name] for name in self.rule.sentence.fields})

    def build_error(self, before: FileSet, *, already: bool) -> PlanError:
        """Make the refusal, with the line as it is now. already: the engine would refuse the file
        as it is, before any change.
        """
        message, ours = self.message(already=already), self.rule.ours
        step = about_rules.STEP.fill(step=message.next)
        if ours and not already:
            step = about_rules.STEP_OR_OWN.fill(step=message.next, other=ours.fill())
        file = before.get(self.spot.file.path)
        return PlanError(
            message,
            where=self.spot.file.path,
            line=(toml.find_key_line(file.doc, self.spot.key) if file else None) or self.spot.line,
            next=step,
        )


# ---------------------------------------------------------------- what breaks a rule


def _is_full_plugin_name(name: str, version: Version) -> bool:
    """Tell whether a release takes this for a plugin's name of version 2: `io.containerd.x.vx` and
    one part more.
    """
    if version.series >= (2, 0):
        return "." in name
    return name.count(".") >= 3 and (version.series < (1, 7) or name.startswith("io.containerd."))


def _find_tables_by_short_names(view: ContainerdView) -> Iterator[Spot]:
    for file in view.files.files if view.names_plugins_in_full else ():
        for name in ("cri", *containerd_places.NAMES_OF_V1):  # others are not sent from the host
            if name in (file.doc.data.get("plugins") or {}):
                yield Spot(file, ("plugins", name))


def _find_plugins_by_short_names(view: ContainerdView) -> Iterator[Spot]:
    for file in view.files.files if view.names_plugins_in_full else ():
        for key in ("disabled_plugins", "required_plugins"):
            # 2.x migrates each file of version 1
            full = view.version.series < (2, 0) or (file.declared or view.files.schema) >= 2
            if full and any(
                not _is_full_plugin_name(name, view.version) for name in _list_names(file, key)
            ):
                yield Spot(file, (key,))


def _list_names(file: ConfigFile, key: str) -> list[str]:
    return [str(name) for name in file.doc.data.get(key) or ()]


def _find_required_and_disabled(view: ContainerdView) -> Iterator[Spot]:
    disabled = {name for file in view.files.files for name in _list_names(file, "disabled_plugins")}
    for file in view.files.files:
        if disabled & set(_list_names(file, "required_plugins")):
            yield Spot(file, ("required_plugins",))


def is_needed_by_cri(name: str, version: Version) -> bool:
    """Tell whether a release's CRI does not load without this plugin."""
    first, before = releases.CRI_NEEDS.get(name, ((version.major, version.minor + 1), None))
    return first <= version.series and (before is None or version.series < before)


def _find_needed_and_disabled(view: ContainerdView) -> Iterator[Spot]:
    for file in view.files.files:
        if any(
            is_needed_by_cri(name, view.version) for name in _list_names(file, "disabled_plugins")
        ):
            yield Spot(file, ("disabled_plugins",))


def _find_untrusted_twice(view: ContainerdView) -> Iterator[Spot]:
    older = toml.look_up_toml(view.cri, (*containerd_places.UNTRUSTED_RUNTIME, "runtime_type"))
    spot = view.find_key(containerd_places.UNTRUSTED_RUNTIME)
    if older and spot and view.find_key((*releases.RUNTIMES, "untrusted")):
        yield spot


def _find_empty_default(view: ContainerdView) -> Iterator[Spot]:
    spot = view.find_key(releases.DEFAULT)
    if (
        spot
        and toml.look_up_toml(spot.file.doc.data, spot.key) == ""
        and not _has_older_default(view)
    ):
        yield spot


def _has_older_default(view: ContainerdView) -> bool:
    older = toml.look_up_toml(view.cri, (*containerd_places.DEFAULT_RUNTIME, "runtime_type"))
    return bool(older) and view.version.series < (2, 0)


def _find_missing_default(view: ContainerdView) -> Iterator[Spot]:
    spot = view.find_key(releases.DEFAULT) or view.find_key(releases.RUNTIMES)
    if spot and view.default not in view.runtimes:
        yield spot


def _build_linux_switch_finder(*path: str) -> Callable[[ContainerdView], Iterator[Spot]]:
    """Find a switch of the plugin that works only while the default handler has the old type."""

    def finds(view: ContainerdView) -> Iterator[Spot]:
        spot = view.find_key(path)
        if (
            spot
            and toml.look_up_toml(view.cri, path) is True
            and view.default_type != releases.LINUX_TYPE
        ):
            yield spot

    return finds


def _find_linux_keys(view: ContainerdView) -> Iterator[Spot]:
    for name, entry in view.runtimes.items():
        older = containerd_places.OLDER_TABLES.get(name, ("",))
        for key in releases.OF_LINUX:
            spot = view.find_key((*releases.RUNTIMES, name, key)) or view.find_key((*older, key))
            if spot and entry.get(key) and entry.get("runtime_type", "") != releases.LINUX_TYPE:
                yield spot


def _find_all_devices_alone(view: ContainerdView) -> Iterator[Spot]:
    for name, entry in view.runtimes.items():
        spot = view.find_key((*releases.RUNTIMES, name, ALL_DEVICES))
        if spot and entry.get(ALL_DEVICES) is True and entry.get(NO_HOST_DEVICES) is not True:
            yield spot


def _find_other_io_type(view: ContainerdView) -> Iterator[Spot]:
    for name, entry in view.runtimes.items():
        spot = view.find_key((*releases.RUNTIMES, name, "io_type"))
        if spot and entry.get("io_type") not in (None, *IO_TYPES):
            yield spot


def _list_registry_tables(view: ContainerdView) -> list[tuple[Spot, Mapping[str, Any]]]:
    """List the tables of registries that the release reads. In 1.x the last CRI table of all files
    takes the place of the others.
    """
    facts, schema = (
        releases.get_release_facts(view.version),
        config.get_schema_in_force(view.files, view.version),
    )
    tables: list[tuple[Spot, Mapping[str, Any]]] = []
    for file in view.files.files:
        for table in (
            containerd_places.V1_NAMES,
            containerd_places.V2_NAMES,
            containerd_places.IMAGES_V3,
        ):
            part = toml.look_up_toml(file.doc.data, table)
            of_images = table == containerd_places.IMAGES_V3
            if isinstance(part, Mapping) and (
                3 in facts.schemas
                if of_images
                else config.is_table_read(table, file, schema, facts)
            ):
                tables = [] if facts.merge == "replace" else tables
                tables.append((Spot(file, (*table, "registry")), part.get("registry") or {}))
    return tables


def _mirrors_beside_path(view: ContainerdView) -> Iterator[Spot]:
    path: Any = None
    for spot, registry in _list_registry_tables(view):
        path = registry.get("config_path", path)
        if path and registry.get("mirrors"):
            yield Spot(spot.file, (*spot.key, "mirrors"))


def _mirrors_without_path(view: ContainerdView) -> Iterator[Spot]:
    """Find mirrors beside a config_path that these releases set themselves.

    They set it if no file has one, and if one of an older version has an empty one.
    """
    tables = _list_registry_tables(view)
    paths = [
        (entry["config_path"], spot.key[:-1]) for spot, entry in tables if "config_path" in entry
    ]
    if not paths or paths[-1] == ("", containerd_places.V2_NAMES):
        yield from (
            Spot(spot.file, (*spot.key, "mirrors"))
            for spot, entry in tables
            if entry.get("mirrors")
        )


# ---------------------------------------------------------------- the table

_OUT = about_rules.SET_NOT_DEFAULT

RULES: tuple[ContainerdRule, ...] = (
    ContainerdRule(
        about_rules.TABLE_NAME, "does-not-start", _find_tables_by_short_names, before=(2, 0)
    ),
    ContainerdRule(about_rules.PLUGIN_NAME, "does-not-start", _find_plugins_by_short_names),
    ContainerdRule(about_rules.REQUIRED_DISABLED, "does-not-start", _find_required_and_disabled),
    ContainerdRule(about_rules.NEEDED_DISABLED, "no-cri", _find_needed_and_disabled),
    ContainerdRule(
        about_rules.UNTRUSTED_TWICE,
        "no-cri",
        _find_untrusted_twice,
        ours=about_rules.OTHER_NAME,
        before=(2, 0),
    ),
    ContainerdRule(about_rules.DEFAULT_EMPTY, "no-cri", _find_empty_default),
    ContainerdRule(about_rules.DEFAULT_MISSING, "no-cri", _find_missing_default),
    ContainerdRule(
        about_rules.SYSTEMD_CGROUP,
        "no-cri",
        _build_linux_switch_finder("systemd_cgroup"),
        ours=_OUT,
        before=(2, 0),
    ),
    ContainerdRule(
        about_rules.NO_PIVOT,
        "no-cri",
        _build_linux_switch_finder("containerd", "no_pivot"),
        ours=_OUT,
        before=(2, 0),
    ),
    ContainerdRule(about_rules.KEYS_OF_LINUX, "no-cri", _find_linux_keys, before=(2, 0)),
    ContainerdRule(about_rules.ALL_DEVICES_ALONE, "no-cri", _find_all_devices_alone, first=(1, 7)),
    ContainerdRule(about_rules.IO_TYPE, "no-cri", _find_other_io_type, first=(2, 0)),
    ContainerdRule(about_rules.MIRRORS_AND_PATH, "no-cri", _mirrors_beside_path),
    # issue 12612 of containerd; its request 12617 ended it
    ContainerdRule(
        about_rules.MIRRORS_AND_DEFAULT_PATH,
        "no-cri",
        _mirrors_without_path,
        first=(2, 2, 0),
        before=(2, 2, 2),
    ),
)


def find_broken_containerd_rules(files: FileSet, version: Version) -> list[BrokenContainerdRule]:
    """Return every rule that these files break on this release."""
    if not files.root:
        return []
    view = ContainerdView(files, version)
    return [
        BrokenContainerdRule(rule, spot, view)
        for rule in RULES
        if rule.applies(version)
        for spot in rule.finds(view)
    ]


def require_loadable_containerd(before: FileSet, after: FileSet, version: Version) -> None:
    """Refuse a change after which containerd or its CRI would not load, by the rule and the key."""
    rules = find_broken_containerd_rules(after, version)
    if not rules:
        return
    was = {
        (one.rule.code, one.spot.file.path, one.spot.key)
        for one in find_broken_containerd_rules(before, version)
    }
    first = rules[0]
    raise first.build_error(
        before, already=(first.rule.code, first.spot.file.path, first.spot.key) in was
    )


def advise_on_unread_tables(files: FileSet, version: Version) -> list[str]:
    """Return advice for each CRI table under the name of version 1, which 2.x passes over without a
    word. 1.x does not start with it.
    """
    if version.series < (2, 0):
        return []
    spots = [
        Spot(file, containerd_places.V1_NAMES)
        for file in files.files
        if (file.declared or files.schema) >= 2
        and toml.look_up_toml(file.doc.data, containerd_places.V1_NAMES) is not None
    ]
    return [
        about_rules.CRI_TABLE_UNREAD.fill(
            place=f"{spot.file.path}:{spot.line}",
            version=str(version),
            table=toml.write_toml_key(
                releases.NATURAL_NAMES[spot.file.declared or files.schema][-1]
            ),
        )
        for spot in spots
    ]


# ---------------------------------------------------------------- what outranks our keys


def require_counting(after: FileSet, version: Version, unmet: list[Path]) -> None:
    """Refuse wanted settings that a table of 1.x outranks. unmet: the keys that the files would not
    give.
    """
    view = ContainerdView(after, version)
    for path in unmet:
        name = (
            "default"
            if path == releases.DEFAULT
            else path[2]
            if path[:2] == releases.RUNTIMES and len(path) > 2
            else ""
        )
        table = containerd_places.OLDER_TABLES.get(name)
        spot = view.find_key(table) if table and version.series < (2, 0) else None
        if spot is None or not toml.look_up_toml(view.cri, (*(table or ()), "runtime_type")):
            continue
        row = about_rules.DEFAULT_OUTRANKED if path == releases.DEFAULT else about_rules.OUTRANKED
        message = row.fill(
            setting=toml.write_dotted_path(path),
            version=str(version),
            table=spot.key[-1],
            handler=name,
        )
        raise PlanError(message, where=spot.file.path, line=spot.line)
