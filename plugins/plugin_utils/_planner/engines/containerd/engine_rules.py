# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules of containerd about keys beside ours: what stops the daemon or its CRI, and what outranks what we write.

`containerd config dump` judges few of them, since the daemon holds them only when it loads its plugins. A unit whose CRI does not load
stays active. So each rule is held against the files as they are and as they would be.

Sources: `ValidateV2` (services/server/config) and `ValidatePluginConfig` (pkg/cri/config) of 1.6 and 1.7, `ValidateVersion`
(cmd/containerd/server/config), `ValidateRuntimeConfig` and `ValidateImageConfig` (internal/cri/config) of 2.x. Not held: what depends on
values that stay on the host (durations, TLS of registries, directories of CNI plugins), on other files, or on the kernel.
"""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.engines.containerd import config, releases
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.engines.containerd.config import ConfigFile, FileSet
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.engines.containerd.messages import about_rules
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.formats import toml
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.message_types import Message, Sentence
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.projections import containerd_places
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.projections.containerd_places import Path
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.versions import Version

ALL_DEVICES, NO_HOST_DEVICES = "privileged_without_host_devices_all_devices_allowed", "privileged_without_host_devices"
IO_TYPES = ("", "fifo", "streaming")

# does-not-start: the daemon ends. no-cri: it runs and serves no CRI.
Effect = Literal["does-not-start", "no-cri"]
AS_IT_IS: Mapping[Effect, Sentence] = {"does-not-start": about_rules.DOES_NOT_START, "no-cri": about_rules.NO_CRI}
CHANGED: Mapping[Effect, Sentence] = {"does-not-start": about_rules.WOULD_NOT_START, "no-cri": about_rules.WOULD_LOSE_CRI}


@dc.dataclass(frozen=True)
class View:
    """One containerd's files as a release reads them."""

    files: FileSet
    version: Version

    @property
    def cri(self) -> Mapping[str, Any]:
        return config.effective(self.files, self.version)

    @property
    def runtimes(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = toml.lookup(self.cri, releases.RUNTIMES, {})
        return found

    @property
    def default(self) -> str:
        return str(toml.lookup(self.cri, releases.DEFAULT, ""))

    @property
    def default_type(self) -> str:
        return str(toml.lookup(self.runtimes, (self.default, "runtime_type"), ""))

    @property
    def names_plugins_in_full(self) -> bool:
        return config.schema_in_force(self.files, self.version) >= 2

    def said(self, path: Path) -> Spot | None:
        """Find a key below a CRI table that the release reads, None if no file has it.

        The last file that has it counts, on 1.x the last table alone.
        """
        facts, schema = releases.facts(self.version), config.schema_in_force(self.files, self.version)
        for file in reversed(self.files.files):
            tables = [t for t in containerd_places.TABLES if toml.lookup(file.doc.data, t) and config.read_by(t, file, schema, facts)]
            for table in tables:
                if toml.lookup(file.doc.data, (*table, *path)) is not None:
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
        return toml.line_of(self.file.doc, self.key)


@dc.dataclass(frozen=True)
class Rule:
    """One rule. first, before: the releases that have it. finds: the keys that break it.

    sentence: what the rule asks for, and the step for the user. In it, {key} is the last part of
    the key, {default} and {type} are the default handler and its type, {linux} is the type that
    the rule asks for, and {needed} is a plugin that CRI needs.
    ours: the step instead if only our change breaks it.
    """

    sentence: Sentence
    effect: Effect
    finds: Callable[[View], Iterator[Spot]]
    ours: Sentence | None = None
    first: tuple[int, ...] = (1, 0)
    before: tuple[int, ...] | None = None

    @property
    def code(self) -> str:
        """The rule's own part of its message's code."""
        return self.sentence.code.removeprefix("containerd.rule-")

    def applies(self, version: Version) -> bool:
        return self.first <= version.release and (self.before is None or version.release < self.before)


@dc.dataclass(frozen=True)
class Broken:
    """A rule that a configuration breaks, and the key that breaks it."""

    rule: Rule
    spot: Spot
    view: View

    def message(self, *, already: bool) -> Message:
        """Return the message, whose next step is that for the engine's own file. already: see `error`."""
        named = (str(name) for name in self.spot.file.doc.data.get("disabled_plugins") or ())
        needed = next((name for name in named if needed_by_cri(name, self.view.version)), "")
        values = {
            "effect": (AS_IT_IS if already else CHANGED)[self.rule.effect].fill(version=str(self.view.version)),
            "key": self.spot.key[-1],
            "default": self.view.default,
            "type": self.view.default_type or about_rules.NO_TYPE.fill(),
            "linux": releases.LINUX_TYPE,
            "needed": needed,
        }
        return self.rule.sentence.fill(**{name: values[name] for name in self.rule.sentence.fields})

    def error(self, before: FileSet, *, already: bool) -> PlanError:
        """Make the refusal, with the line as it is now. already: the engine would refuse the file as it is, before any change."""
        message, ours = self.message(already=already), self.rule.ours
        step = about_rules.STEP.fill(step=message.next)
        if ours and not already:
            step = about_rules.STEP_OR_OWN.fill(step=message.next, other=ours.fill())
        file = before.get(self.spot.file.path)
        return PlanError(
            message,
            where=self.spot.file.path,
            line=(toml.line_of(file.doc, self.spot.key) if file else None) or self.spot.line,
            next=step,
        )


# ---------------------------------------------------------------- what breaks a rule


def _named_in_full(name: str, version: Version) -> bool:
    """Tell whether a release takes this for a plugin's name of version 2: `io.containerd.x.vx` and one part more."""
    if version.series >= (2, 0):
        return "." in name
    return name.count(".") >= 3 and (version.series < (1, 7) or name.startswith("io.containerd."))


def _tables_by_short_names(view: View) -> Iterator[Spot]:
    for file in view.files.files if view.names_plugins_in_full else ():
        for name in ("cri", *containerd_places.NAMES_OF_V1):  # others are not sent from the host
            if name in (file.doc.data.get("plugins") or {}):
                yield Spot(file, ("plugins", name))


def _plugins_by_short_names(view: View) -> Iterator[Spot]:
    for file in view.files.files if view.names_plugins_in_full else ():
        for key in ("disabled_plugins", "required_plugins"):
            full = view.version.series < (2, 0) or (file.declared or view.files.schema) >= 2  # 2.x migrates each file of version 1
            if full and any(not _named_in_full(name, view.version) for name in _list(file, key)):
                yield Spot(file, (key,))


def _list(file: ConfigFile, key: str) -> list[str]:
    return [str(name) for name in file.doc.data.get(key) or ()]


def _required_and_disabled(view: View) -> Iterator[Spot]:
    disabled = {name for file in view.files.files for name in _list(file, "disabled_plugins")}
    for file in view.files.files:
        if disabled & set(_list(file, "required_plugins")):
            yield Spot(file, ("required_plugins",))


def needed_by_cri(name: str, version: Version) -> bool:
    """Tell whether a release's CRI does not load without this plugin."""
    first, before = releases.CRI_NEEDS.get(name, ((version.major, version.minor + 1), None))
    return first <= version.series and (before is None or version.series < before)


def _needed_and_disabled(view: View) -> Iterator[Spot]:
    for file in view.files.files:
        if any(needed_by_cri(name, view.version) for name in _list(file, "disabled_plugins")):
            yield Spot(file, ("disabled_plugins",))


def _untrusted_twice(view: View) -> Iterator[Spot]:
    older = toml.lookup(view.cri, (*containerd_places.UNTRUSTED_RUNTIME, "runtime_type"))
    spot = view.said(containerd_places.UNTRUSTED_RUNTIME)
    if older and spot and view.said((*releases.RUNTIMES, "untrusted")):
        yield spot


def _default_empty(view: View) -> Iterator[Spot]:
    spot = view.said(releases.DEFAULT)
    if spot and toml.lookup(spot.file.doc.data, spot.key) == "" and not _older_default(view):
        yield spot


def _older_default(view: View) -> bool:
    older = toml.lookup(view.cri, (*containerd_places.DEFAULT_RUNTIME, "runtime_type"))
    return bool(older) and view.version.series < (2, 0)


def _default_missing(view: View) -> Iterator[Spot]:
    spot = view.said(releases.DEFAULT) or view.said(releases.RUNTIMES)
    if spot and view.default not in view.runtimes:
        yield spot


def _only_of_linux_as_default(*path: str) -> Callable[[View], Iterator[Spot]]:
    """Find a switch of the plugin that works only while the default handler has the old type."""

    def finds(view: View) -> Iterator[Spot]:
        spot = view.said(path)
        if spot and toml.lookup(view.cri, path) is True and view.default_type != releases.LINUX_TYPE:
            yield spot

    return finds


def _keys_of_linux(view: View) -> Iterator[Spot]:
    for name, entry in view.runtimes.items():
        older = containerd_places.OLDER_TABLES.get(name, ("",))
        for key in releases.OF_LINUX:
            spot = view.said((*releases.RUNTIMES, name, key)) or view.said((*older, key))
            if spot and entry.get(key) and entry.get("runtime_type", "") != releases.LINUX_TYPE:
                yield spot


def _all_devices_alone(view: View) -> Iterator[Spot]:
    for name, entry in view.runtimes.items():
        spot = view.said((*releases.RUNTIMES, name, ALL_DEVICES))
        if spot and entry.get(ALL_DEVICES) is True and entry.get(NO_HOST_DEVICES) is not True:
            yield spot


def _other_io_type(view: View) -> Iterator[Spot]:
    for name, entry in view.runtimes.items():
        spot = view.said((*releases.RUNTIMES, name, "io_type"))
        if spot and entry.get("io_type") not in (None, *IO_TYPES):
            yield spot


def _registries(view: View) -> list[tuple[Spot, Mapping[str, Any]]]:
    """List the tables of registries that the release reads. In 1.x the last CRI table of all files takes the place of the others."""
    facts, schema = releases.facts(view.version), config.schema_in_force(view.files, view.version)
    found: list[tuple[Spot, Mapping[str, Any]]] = []
    for file in view.files.files:
        for table in (containerd_places.V1_NAMES, containerd_places.V2_NAMES, containerd_places.IMAGES_V3):
            part = toml.lookup(file.doc.data, table)
            of_images = table == containerd_places.IMAGES_V3
            if isinstance(part, Mapping) and (3 in facts.schemas if of_images else config.read_by(table, file, schema, facts)):
                found = [] if facts.merge == "replace" else found
                found.append((Spot(file, (*table, "registry")), part.get("registry") or {}))
    return found


def _mirrors_beside_path(view: View) -> Iterator[Spot]:
    path: Any = None
    for spot, registry in _registries(view):
        path = registry.get("config_path", path)
        if path and registry.get("mirrors"):
            yield Spot(spot.file, (*spot.key, "mirrors"))


def _mirrors_without_path(view: View) -> Iterator[Spot]:
    """Find mirrors beside a config_path that these releases set themselves.

    They set it if no file has one, and if one of an older version has an empty one.
    """
    found = _registries(view)
    paths = [(entry["config_path"], spot.key[:-1]) for spot, entry in found if "config_path" in entry]
    if not paths or paths[-1] == ("", containerd_places.V2_NAMES):
        yield from (Spot(spot.file, (*spot.key, "mirrors")) for spot, entry in found if entry.get("mirrors"))


# ---------------------------------------------------------------- the table

_OUT = about_rules.SET_NOT_DEFAULT

RULES: tuple[Rule, ...] = (
    Rule(about_rules.TABLE_NAME, "does-not-start", _tables_by_short_names, before=(2, 0)),
    Rule(about_rules.PLUGIN_NAME, "does-not-start", _plugins_by_short_names),
    Rule(about_rules.REQUIRED_DISABLED, "does-not-start", _required_and_disabled),
    Rule(about_rules.NEEDED_DISABLED, "no-cri", _needed_and_disabled),
    Rule(about_rules.UNTRUSTED_TWICE, "no-cri", _untrusted_twice, ours=about_rules.OTHER_NAME, before=(2, 0)),
    Rule(about_rules.DEFAULT_EMPTY, "no-cri", _default_empty),
    Rule(about_rules.DEFAULT_MISSING, "no-cri", _default_missing),
    Rule(about_rules.SYSTEMD_CGROUP, "no-cri", _only_of_linux_as_default("systemd_cgroup"), ours=_OUT, before=(2, 0)),
    Rule(about_rules.NO_PIVOT, "no-cri", _only_of_linux_as_default("containerd", "no_pivot"), ours=_OUT, before=(2, 0)),
    Rule(about_rules.KEYS_OF_LINUX, "no-cri", _keys_of_linux, before=(2, 0)),
    Rule(about_rules.ALL_DEVICES_ALONE, "no-cri", _all_devices_alone, first=(1, 7)),
    Rule(about_rules.IO_TYPE, "no-cri", _other_io_type, first=(2, 0)),
    Rule(about_rules.MIRRORS_AND_PATH, "no-cri", _mirrors_beside_path),
    # issue 12612 of containerd; its request 12617 ended it
    Rule(about_rules.MIRRORS_AND_DEFAULT_PATH, "no-cri", _mirrors_without_path, first=(2, 2, 0), before=(2, 2, 2)),
)


def broken(files: FileSet, version: Version) -> list[Broken]:
    """Return every rule that these files break on this release."""
    if not files.root:
        return []
    view = View(files, version)
    return [Broken(rule, spot, view) for rule in RULES if rule.applies(version) for spot in rule.finds(view)]


def require(before: FileSet, after: FileSet, version: Version) -> None:
    """Refuse a change after which containerd or its CRI would not load, by the rule and the key."""
    found = broken(after, version)
    if not found:
        return
    was = {(one.rule.code, one.spot.file.path, one.spot.key) for one in broken(before, version)}
    first = found[0]
    raise first.error(before, already=(first.rule.code, first.spot.file.path, first.spot.key) in was)


def unread(files: FileSet, version: Version) -> list[str]:
    """Return advice for each CRI table under the name of version 1, which 2.x passes over without a word. 1.x does not start with it."""
    if version.series < (2, 0):
        return []
    spots = [
        Spot(file, containerd_places.V1_NAMES)
        for file in files.files
        if (file.declared or files.schema) >= 2 and toml.lookup(file.doc.data, containerd_places.V1_NAMES) is not None
    ]
    return [
        about_rules.CRI_TABLE_UNREAD.fill(
            place=f"{spot.file.path}:{spot.line}",
            version=str(version),
            table=toml.key(releases.NATURAL_NAMES[spot.file.declared or files.schema][-1]),
        )
        for spot in spots
    ]


# ---------------------------------------------------------------- what outranks our keys


def require_counting(after: FileSet, version: Version, unmet: list[Path]) -> None:
    """Refuse wanted settings that a table of 1.x outranks. unmet: the keys that the files would not give."""
    view = View(after, version)
    for path in unmet:
        name = "default" if path == releases.DEFAULT else path[2] if path[:2] == releases.RUNTIMES and len(path) > 2 else ""
        table = containerd_places.OLDER_TABLES.get(name)
        spot = view.said(table) if table and version.series < (2, 0) else None
        if spot is None or not toml.lookup(view.cri, (*(table or ()), "runtime_type")):
            continue
        row = about_rules.DEFAULT_OUTRANKED if path == releases.DEFAULT else about_rules.OUTRANKED
        message = row.fill(setting=toml.dotted(path), version=str(version), table=spot.key[-1], handler=name)
        raise PlanError(message, where=spot.file.path, line=spot.line)
