# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Edit a containerd's files, so that they give the settings that its CRI table needs."""

from __future__ import annotations

import dataclasses as dc
import posixpath
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import (
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
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
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
    cri_settings,
    releases,
    watched,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd.config import (
    FileSet,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd.messages import (
    about_files,
    about_rendered,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers import known
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers.manager import (
    Manager,
    ManagerPlace,
)

FIRST_LINE = containerd_places.FIRST_LINE


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


# ---------------------------------------------------------------- edits


def edit_root_file(
    files: FileSet, names: Path, wanted: list[cri_settings.CriSetting], version: Version
) -> list[FileChange]:
    """Return the change that puts the keys in the root file itself, which is made if there is none.
    [] if nothing changes.
    """
    root = files.root
    if root is None:
        doc = toml.build_own_toml(
            files.root_path,
            render_own_head(releases.get_release_facts(version).new_file),
            cri_settings.list_setting_values(wanted, names),
        )
        return [FileChange(files.root_path, files.root_path, None, None, doc, whole=True)]
    said = toml.look_up_toml(root.doc.data, names, {})
    missing = [w for w in wanted if toml.look_up_toml(said, w.path) != w.value]
    versioned = (
        [VERSION_2]
        if missing and names != containerd_places.V1_NAMES and config.takes_version(files)
        else []
    )
    after = toml.set_values(
        root.doc, [*versioned, *cri_settings.list_setting_values(missing, names)]
    )
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


def require_allowed(
    policy: Policy,
    manager: Manager,
    files: FileSet,
    wanted: list[cri_settings.CriSetting],
    version: Version,
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
    refusal = watched.refuse_files_of_others(manager, files)
    if refusal:
        return refusal.what
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
    refusal = watched.refuse_files_of_others(manager, files)
    if refusal:
        return refusal
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
    facts: config.ConfigFacts,
    files: FileSet,
    path: str,
    names: Path,
    wanted: list[cri_settings.CriSetting],
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
        cri_settings.list_setting_values(wanted, names if declared else containerd_places.V2_NAMES),
    )
    present = facts.files.get(path)
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
    imported = _import_drop_in(facts, files, path, version)
    if imported:
        changes.append(imported)
    return changes


def _import_drop_in(
    facts: config.ConfigFacts, files: FileSet, path: str, version: Version
) -> FileChange | None:
    root = files.root
    pattern = posixpath.join(posixpath.dirname(path), "*.toml")
    if root is None:
        imported = toml.dump_toml_value(_choose_import_pattern(facts, files, path, pattern))
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
    after = toml.append(root.doc, ("imports",), _choose_import_pattern(facts, files, path, pattern))
    return FileChange(root.path, root.real, root.doc, root.sha256, after, whole=False)


def _choose_import_pattern(
    facts: config.ConfigFacts, files: FileSet, path: str, pattern: str
) -> str:
    """Return the import of our file: a glob, which is kinder to others, unless it would bring in
    files that no file imports today.
    """
    if not path.endswith(".toml"):
        return path
    sleeping = [
        f
        for f in facts.folders.get(pattern)
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
