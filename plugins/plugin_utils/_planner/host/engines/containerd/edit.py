# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Derive the settings that a containerd's CRI table needs, and the lines of the files that give
them.
"""

from __future__ import annotations

import dataclasses as dc
import posixpath
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import (
    host_paths,
    transaction,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    PlanError,
    Refusal,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import (
    toml,
    toml_file,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    CDI_DIRS,
    Decision,
    Handler,
    Policy,
)
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
    config,
    releases,
    watched,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd.base import (
    Base,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd.config import (
    FileSet,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd.messages import (
    about_files,
    about_handlers,
    about_rendered,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers import known
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers.manager import (
    Manager,
    ManagerPlace,
)

FIRST_LINE = containerd_places.FIRST_LINE
ANNOTATIONS = "container_annotations"
_NOTHING: tuple[Any, ...] = ("", 0, False, [])


@dc.dataclass(frozen=True)
class CriSetting:
    """One key below the CRI table. An explicit one is written even if the key has that value
    anyway.
    """

    path: Path
    value: Any
    why: str
    explicit: bool = False


def join_settings(wanted: list[CriSetting], more: list[CriSetting]) -> list[CriSetting]:
    """Join two lists of settings, each key once. The later one counts."""
    return list({s.path: s for s in (*wanted, *more)}.values())


def list_settings_beyond(wanted: list[CriSetting], more: list[CriSetting]) -> list[CriSetting]:
    """Return the settings of `more` that are not wanted yet.

    The annotations that a handler passes on add up. For any other key, the wanted setting counts.
    """
    said = {w.path: w.value for w in wanted}
    found = [s for s in more if s.path not in said]
    lists = [
        s
        for s in more
        if s.path in said and s.path[-1] == ANNOTATIONS and not set(s.value) <= set(said[s.path])
    ]
    return [
        *found,
        *(dc.replace(s, value=list(dict.fromkeys((*s.value, *said[s.path])))) for s in lists),
    ]


def intersect_setting(setting: CriSetting, entry: Mapping[str, Any]) -> CriSetting | None:
    """Return the part of a setting that another entry of its handler has as well, None if they
    differ.

    Of annotations, keep the ones in both.
    """
    value = toml.look_up_toml(entry, setting.path[3:])
    if setting.path[-1] == ANNOTATIONS and isinstance(value, list):
        return dc.replace(setting, value=[item for item in value if item in setting.value])
    return setting if value == setting.value else None


@dc.dataclass(frozen=True)
class FileChange:
    """A file as it is and as it shall be. before: None for a new file."""

    path: str
    real: str
    before: toml.TomlDocument | None
    sha256: str | None
    after: toml.TomlDocument
    whole: bool  # the file belongs to this collection alone
    forget: bool = False  # the journal's copy from before has served

    def build_change(self) -> transaction.Change:
        if self.before is None or self.whole:
            written: transaction.Write = {
                "path": self.real,
                "op": "write",
                "content": self.after.text,
                "expect": self.sha256,
            }
            if self.before is None:
                written["mode"] = "0644"
            return written
        change = toml_file.edit(self.real, self.sha256, self.after)
        return transaction.forget_original(change) if self.forget else change


# ---------------------------------------------------------------- settings


def derive_containerd_settings(
    policy: Policy,
    decision: Decision,
    files: FileSet,
    cri: Mapping[str, Any],
    version: Version,
    reset_to: str,
    bases: Mapping[str, Base],
) -> list[CriSetting]:
    """Return all settings that the decision asks of the CRI table.

    cri: what is in force without our own drop-in. reset_to: the default handler from before our
    first change.
    bases: what each wanted handler is copied from.
    """
    default = _list_default_settings(policy, decision, cri, reset_to)
    default_after = str(
        default[0].value
        if default
        else toml.look_up_toml(cri, ("containerd", "default_runtime_name"), "")
    )
    found: list[CriSetting] = []
    if decision.handler:
        if not releases.get_release_facts(version).keeps_runc:
            found += _list_runc_settings(files, cri, version, default_after, bases)
        for handler in policy.handlers_by_name:
            found += _list_handler_settings(handler, decision, bases[handler.name])
        found += _list_successor_settings(default, bases)
    found += default
    found += _list_cdi_settings(policy, decision, cri, version)
    # the properties of a replaced handler count before built-in ones
    return list({setting.path: setting for setting in found}.values())


def _list_handler_settings(handler: Handler, decision: Decision, base: Base) -> list[CriSetting]:
    origin, entry = base.origin, base.entry
    at: Path = ("containerd", "runtimes", handler.name)
    found = [
        CriSetting(
            (*at, "runtime_type"),
            releases.RUNC_TYPE,
            about_handlers.TYPE_NEEDED.fill(handler=origin),
        )
    ]
    if entry.get("runtime_type", "") not in ("", releases.RUNC_TYPE):
        why = about_handlers.TYPE_RENAMED.fill(type=entry["runtime_type"], handler=origin)
        found = [CriSetting((*at, "runtime_type"), releases.RUNC_TYPE, why)]
    found += [
        CriSetting((*at, k), v, about_handlers.COPIED.fill(handler=origin))
        for k, v in _list_copied_settings(entry).items()
    ]
    # containerd hands no annotation on to an OCI runtime that its handler does not list.
    annotations = [
        *(entry.get(ANNOTATIONS) or []),
        *(f"{prefix.rstrip('/')}/*" for prefix in decision.annotation_prefixes),
    ]
    if annotations:
        why = about_handlers.ANNOTATIONS_READ.fill()
        found.append(CriSetting((*at, ANNOTATIONS), list(dict.fromkeys(annotations)), why))
    copied = {k: v for k, v in base.options.items() if k != "BinaryName"}
    options = {"BinaryName": handler.binary, **copied, **handler.options}
    return found + [
        CriSetting((*at, "options", key), value, _explain_option(handler, base, key))
        for key, value in options.items()
    ]


def _list_copied_settings(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the properties other than type, annotations and options. Empty ones are left out: they
    are the engine's own.
    """
    known = {
        k: v
        for k, v in entry.items()
        if (k,) in containerd_places.HANDLER and not isinstance(v, Mapping)
    }
    # our type has the values of the last two in its options
    left = (
        "runtime_type",
        ANNOTATIONS,
        *releases.OF_LINUX,
    )
    return {k: v for k, v in known.items() if k not in left and v not in _NOTHING}


def _explain_option(handler: Handler, base: Base, key: str) -> str:
    if key in handler.options:
        return about_handlers.SET_BY_USER.fill()
    if key == "BinaryName":
        return about_handlers.RUNS_NVIDIA.fill()
    return (
        base.cgroup_why
        if key == "SystemdCgroup"
        else about_handlers.COPIED.fill(handler=base.origin)
    )


def _list_runc_settings(
    files: FileSet,
    cri: Mapping[str, Any],
    version: Version,
    default_after: str,
    bases: Mapping[str, Base],
) -> list[CriSetting]:
    """Return settings that keep runc on 1.5 to 1.7, [] if it needs none.

    As soon as a file names any runtime, the built-in runc is gone, and a partial one has no type.
    One that was gone already gets the cgroup driver of the handlers that are there.
    """
    named = [
        f
        for f in files.files
        for t in (containerd_places.V1_NAMES, containerd_places.V2_NAMES)
        if toml.look_up_toml(f.doc.data, (*t, "containerd", "runtimes"))
    ]
    entry = toml.look_up_toml(cri, ("containerd", "runtimes", "runc"))
    if named and entry is None and default_after != "runc":
        return []
    at: Path = ("containerd", "runtimes", "runc")
    why = about_handlers.RUNC_KEPT.fill(version=str(version))
    found = []
    if not named or entry is None or not entry.get("runtime_type"):
        found.append(CriSetting((*at, "runtime_type"), releases.RUNC_TYPE, why, explicit=True))
    if not named or entry is None:
        base = next(iter(bases.values()), None) if named else None
        driver = (
            (base.systemd, base.cgroup_why)
            if base
            else (False, about_handlers.RUNC_DRIVER_KEPT.fill(version=str(version)))
        )
        found.append(CriSetting((*at, "options", "SystemdCgroup"), *driver, explicit=True))
    return found


def _list_successor_settings(
    default: list[CriSetting], bases: Mapping[str, Base]
) -> list[CriSetting]:
    """Return settings that give runc the properties of the handler that it replaces as the default.

    Return [] unless runc becomes the default and no file declares its properties.
    """
    base = next(iter(bases.values()), None)
    if (
        not default
        or default[0].value != "runc"
        or base is None
        or base.origin == "runc"
        or base.runc_declared
    ):
        return []
    at: Path = ("containerd", "runtimes", "runc")
    why = about_handlers.REPLACES_DEFAULT.fill(handler=base.origin)
    values: dict[Path, Any] = {
        ("runtime_type",): releases.RUNC_TYPE,
        **{(k,): v for k, v in _list_copied_settings(base.entry).items()},
    }
    if base.entry.get(ANNOTATIONS):
        values[(ANNOTATIONS,)] = base.entry[ANNOTATIONS]
    values.update({("options", k): v for k, v in base.options.items() if k != "BinaryName"})
    return [CriSetting((*at, *key), value, why, explicit=True) for key, value in values.items()]


def _list_default_settings(
    policy: Policy, decision: Decision, cri: Mapping[str, Any], reset_to: str
) -> list[CriSetting]:
    at: Path = ("containerd", "default_runtime_name")
    if decision.default and decision.handler:
        why = next(
            (r.why for r in decision.reasons if r.what == "default"), about_handlers.DECIDED.fill()
        )
        return [CriSetting(at, decision.handler, why)]
    now = toml.look_up_toml(cri, at)
    if now not in [h.name for h in policy.handlers]:
        return []
    others = [
        n
        for n in toml.look_up_toml(cri, ("containerd", "runtimes"), {})
        if n not in [h.name for h in policy.handlers]
    ]
    before = (
        reset_to
        if reset_to in others
        else ("runc" if "runc" in others else (others[0] if others else "runc"))
    )
    return [CriSetting(at, before, about_handlers.NOT_DEFAULT.fill(handler=now))]


def _list_cdi_settings(
    policy: Policy, decision: Decision, cri: Mapping[str, Any], version: Version
) -> list[CriSetting]:
    """Return settings for CDI. The switch exists in 1.7 (off) and 2.0 to 2.3 (on); 1.6 has none,
    2.4 warns of an unknown key.
    """
    kind = releases.get_release_facts(version).cdi
    found = []
    if decision.enable_cdi and (kind == "off" or (kind == "on" and cri.get("enable_cdi") is False)):
        why = about_handlers.CDI_OFF_IN_1_7 if kind == "off" else about_handlers.CDI_SWITCHED_OFF
        found.append(CriSetting(("enable_cdi",), True, why.fill()))
    dirs = host_paths.clean_directories(cri.get("cdi_spec_dirs", CDI_DIRS))
    if policy.cdi_spec_dirs and kind != "none" and dirs != policy.cdi_spec_dirs:
        found.append(
            CriSetting(
                ("cdi_spec_dirs",), list(policy.cdi_spec_dirs), about_handlers.SPEC_DIRS_SET.fill()
            )
        )
    return found


def list_unmet_settings(
    cri: Mapping[str, Any], wanted: list[CriSetting], explicit: Mapping[str, Any] | None = None
) -> list[CriSetting]:
    """Return the settings that are not in force. Explicit ones are looked up in `explicit`, the
    files' own data, if it is given.
    """
    return [
        w
        for w in wanted
        if toml.look_up_toml(explicit if w.explicit and explicit is not None else cri, w.path)
        != w.value
    ]


def get_final_default(cri: Mapping[str, Any], wanted: list[CriSetting]) -> CriSetting:
    """Return the default handler that the files give in the end, desired or not."""
    at: Path = ("containerd", "default_runtime_name")
    return CriSetting(
        at,
        toml.look_up_toml(apply_settings_to_table(cri, wanted), at, "runc"),
        about_handlers.AS_IN_FILES.fill(),
    )


def apply_settings_to_table(cri: Mapping[str, Any], wanted: list[CriSetting]) -> dict[str, Any]:
    """Return the CRI table with the settings made, and nothing else changed."""
    result: dict[str, Any] = toml.copy_toml_value(dict(cri))
    for setting in wanted:
        at = result
        for key in setting.path[:-1]:
            at = at.setdefault(key, {})
        at[setting.path[-1]] = setting.value
    return result


# ---------------------------------------------------------------- edits


def edit_root_file(
    files: FileSet, names: Path, wanted: list[CriSetting], version: Version
) -> list[FileChange]:
    """Return the change that puts the keys in the root file itself, which is made if there is none.
    [] if nothing changes.
    """
    root = files.root
    if root is None:
        doc = toml.build_own_toml(
            files.root_path,
            render_own_head(releases.get_release_facts(version).new_file),
            list_setting_values(wanted, names),
        )
        return [FileChange(files.root_path, files.root_path, None, None, doc, whole=True)]
    said = toml.look_up_toml(root.doc.data, names, {})
    missing = [w for w in wanted if toml.look_up_toml(said, w.path) != w.value]
    versioned = (
        [VERSION_2]
        if missing and names != containerd_places.V1_NAMES and config.takes_version(files)
        else []
    )
    after = toml.set_values(root.doc, [*versioned, *list_setting_values(missing, names)])
    return (
        [FileChange(root.path, root.real, root.doc, root.sha256, after, whole=False)]
        if after.text != root.doc.text
        else []
    )


# Of a root file without a version that names no plugin. Ours would otherwise be the first version 1
# table in it.
VERSION_2: tuple[Path, Any] = (("version",), 2)


def render_own_head(version: int) -> str:
    """Return the first lines of a file of this collection."""
    return f"{FIRST_LINE}\nversion = {version}\n"


def list_setting_values(settings: list[CriSetting], names: Path) -> list[tuple[Path, Any]]:
    return [((*names, *setting.path), setting.value) for setting in settings]


def require_allowed(
    policy: Policy, manager: Manager, files: FileSet, wanted: list[CriSetting], version: Version
) -> None:
    """Raise PlanError, before a line is written, if the manager sets a key in another place or
    renders the file again.
    """
    why = explain_unread_drop_in(policy, manager, files, version)
    if why:
        refusal = refuse_rendered_main_file(manager, files, why)
        raise PlanError(refusal.message, where=files.root_path)
    for setting in wanted:
        for path, instead in known.get_manager_place(manager.name).never:
            if setting.path[: len(path)] == path:
                message = about_files.NOT_WRITTEN_HERE.fill(
                    setting=toml.write_dotted_path(setting.path), title=manager.title, step=instead
                )
                raise PlanError(message, where=files.root_path)


def explain_unread_drop_in(
    policy: Policy, manager: Manager, files: FileSet, version: Version
) -> str:
    """Return why no drop-in of this collection is read here and the main file may not be edited.

    Return '' if a drop-in is read, or if that file may be edited.
    """
    root, place = files.root, known.get_manager_place(manager.name)
    if place.main_edited:
        return ""
    if root is None:
        return about_rendered.NO_FILE_YET.fill()
    if watched.refuse_watched_files(manager, files):
        return watched.refuse_watched_files(manager, files).what
    merged = watched.get_merged_file(place, root)
    if merged:
        return about_rendered.MERGED.fill(path=merged)
    if releases.get_release_facts(version).merge == "replace":
        return about_rendered.REPLACED.fill(version=str(version))
    if policy.drop_in == "never":
        return about_rendered.DROP_IN_NEVER.fill()
    path = drop_in_path(policy, place, files)
    if _is_imported(root, path):
        return ""
    return about_rendered.NOT_NAMED.fill(
        imports=", ".join(config.imports(root)) or "none", path=path
    )


def refuse_rendered_main_file(manager: Manager, files: FileSet, why: str) -> Refusal:
    if watched.refuse_watched_files(manager, files):
        return watched.refuse_watched_files(manager, files)
    step = manager.place.not_imported if manager.place else ""
    return Refusal(
        about_rendered.NO_DROP_IN_READ.fill(
            title=manager.title, path=files.root_path, cause=why, step=step
        )
    )


def _is_imported(root: config.ConfigFile, path: str) -> bool:
    return any(
        one == path or config.matches_import_glob(one, path)
        for one in (config.resolve_import(root, p) for p in config.imports(root))
    )


def drop_in_path(policy: Policy, place: ManagerPlace, files: FileSet) -> str:
    """Return the path of our file: the user's, else one that the root file's glob covers, else one
    in the manager's directory.
    """
    if policy.drop_in_path:
        return policy.drop_in_path
    root = files.root
    candidates = [
        posixpath.join(posixpath.dirname(files.root_path), name, releases.DROP_IN)
        for name in place.drop_ins
    ]
    if root is None:
        return candidates[0]
    globs = [config.resolve_import(root, p) for p in config.imports(root)]
    places = [
        (g, posixpath.join(posixpath.dirname(g), releases.DROP_IN))
        for g in globs
        if "*" not in posixpath.dirname(g)
    ]
    fitting = [place for g, place in places if config.matches_import_glob(g, place)]
    return next(
        (path for path in candidates if path in fitting), fitting[0] if fitting else candidates[0]
    )


def write_own_drop_in(
    obs: Observation,
    files: FileSet,
    path: str,
    names: Path,
    wanted: list[CriSetting],
    version: Version,
) -> list[FileChange]:
    """Return the changes that write our own file with the keys, and import it in the root file if
    nothing does yet.

    Raise PlanError if the path is in use.
    """
    root = files.root
    changes = []
    declared = root.declared if root else releases.get_release_facts(version).new_file
    # A root file without `version` accepts version 2 here on every 2.x. For any other, only its own
    # version is right everywhere.
    doc = toml.build_own_toml(
        path,
        render_own_head(declared or 2),
        list_setting_values(wanted, names if declared else containerd_places.V2_NAMES),
    )
    present = obs.get_file(path, files.keep)
    text = file_places.show_own_text(doc.text, present.keep) if present.keep else doc.text
    if present.exists and present.content is None:
        raise PlanError(about_files.DROP_IN_PATH_IN_USE.fill(trouble=present.trouble), where=path)
    if (
        present.exists
        and present.content is not None
        and FIRST_LINE not in present.content
        and present.content != text
    ):
        raise PlanError(about_files.DROP_IN_OF_OTHERS.fill(), where=path)
    if present.content != text:
        before = (
            toml.parse_toml(present.content, path)
            if present.exists and present.content is not None
            else None
        )
        changes.append(
            FileChange(
                path,
                present.place,
                before,
                present.sha256 if present.exists else None,
                doc,
                whole=True,
            )
        )
    imported = _import_drop_in(obs, files, path, version)
    if imported:
        changes.append(imported)
    return changes


def _import_drop_in(
    obs: Observation, files: FileSet, path: str, version: Version
) -> FileChange | None:
    root = files.root
    pattern = posixpath.join(posixpath.dirname(path), "*.toml")
    if root is None:
        imported = toml.dump_toml_value(_choose_import_pattern(obs, files, path, pattern))
        text = f"{FIRST_LINE}\nversion = {releases.get_release_facts(version).new_file}\nimports = [{imported}]\n"
        return FileChange(
            files.root_path,
            files.root_path,
            None,
            None,
            toml.parse_toml(text, files.root_path),
            whole=True,
        )
    if _is_imported(root, path):
        return None
    after = toml.append(root.doc, ("imports",), _choose_import_pattern(obs, files, path, pattern))
    return FileChange(root.path, root.real, root.doc, root.sha256, after, whole=False)


def _choose_import_pattern(obs: Observation, files: FileSet, path: str, pattern: str) -> str:
    """Return the import of our file: a glob, which is kinder to others, unless it would bring in
    files that no file imports today.
    """
    if not path.endswith(".toml"):
        return path
    sleeping = [
        f
        for f in obs.list_glob_files(pattern, files.keep)
        if f.exists and f.path != path and not files.get(f.path)
    ]
    return path if sleeping else pattern


# ---------------------------------------------------------------- looking ahead


def get_changed_files(changes: list[FileChange]) -> dict[str, ObservedFile]:
    """Return the changed files as the next look would see them, by path."""
    return {
        c.path: ObservedFile(c.path, True, "file", c.after.text, "", c.after.keep, c.real)
        for c in changes
    }
