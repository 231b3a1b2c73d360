# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Refuse every containerd and every configuration that this collection cannot change, before it is
planned.
"""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import versions
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    PlanError,
    Refusal,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.facts import Lookup
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import toml
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Instance
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
    ObservedFile,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections import (
    containerd_places,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.versions import Version
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.adoption import (
    nvidia_ctk,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    config,
    releases,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd.config import (
    ConfigFile,
    FileSet,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd.messages import (
    about_daemons,
    about_files,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers import known
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers.manager import (
    Manager,
)

# This release migrates each file by itself (github.com/containerd/containerd/pull/12891 had stopped
# that in 2.3.0).
READS_NEWER_DROP_INS = (2, 3, 5)


def read_confinement(obs: Observation) -> Lookup[str, ObservedFile]:
    """Return the files that show whether a daemon is confined, by the path of each."""
    keeps = {
        m.place.confined.file: known.keep_shown_line(m.place.confined)
        for m in known.MANAGERS
        if m.place and m.place.confined
    }
    return Lookup(lambda path: obs.get_file(path, keeps[path]))


def refuse_confined_daemon(shown: Lookup[str, ObservedFile], manager: Manager) -> Refusal:
    """Return the refusal of a daemon that does not see this host's programs and so cannot run the
    handler, else an empty one.

    A file that cannot be read ends the look. shown: the files that show it.
    """
    where = manager.place.confined if manager.place else None
    if where is None:
        return Refusal()
    file = shown.get(where.file)
    return where.refusal if where.line in file.text.splitlines() else Refusal()


def parse_containerd_version(instance: Instance) -> Version:
    version = versions.parse_engine_version(instance.version)
    if version is None:
        raise PlanError(
            about_daemons.VERSION_UNKNOWN.fill(),
            where=instance.config_path,
        )
    if version.series < releases.OLDEST:
        raise PlanError(
            about_daemons.TOO_OLD.fill(version=str(version)), where=instance.config_path
        )
    return version


def check_containerd_files(files: FileSet, version: Version) -> None:
    config.check_schema(files, version)
    _check_sleeping(files, version)
    facts = releases.get_release_facts(version)
    root = files.root
    if root and files.schema < 2 and facts.merge == "deep":
        own = config.uses(root.doc.data, containerd_places.V1_NAMES)
        if "version" in root.doc.data or (own and facts.v1_lost):
            line = toml.find_key_line(root.doc, ("version",)) or toml.find_key_line(
                root.doc, containerd_places.V1_NAMES
            )
            row = (
                about_files.VERSION_1_CRI_DROPPED
                if facts.v1_lost
                else about_files.VERSION_1_BESIDE_DROP_IN
            )
            raise PlanError(row.fill(version=str(version)), where=root.path, line=line)
    off = config.find_disabled_cri(files)
    if off:  # a daemon that serves CRI now has not read this yet, and would lose it by our restart
        raise PlanError(about_files.CRI_SWITCHED_OFF.fill(), where=off[0], line=off[1])
    if facts.merge == "deep" and not version.is_at_least(*READS_NEWER_DROP_INS):
        _check_shadow(files)


def _check_sleeping(files: FileSet, version: Version) -> None:
    """Refuse a table under the name of version 2 in a set without a version, if this release does
    not read it.

    1.x does not read it, and our table beside it would be a second one.
    """
    if (
        config.get_schema_in_force(files, version) >= 2
        or releases.get_release_facts(version).merge != "replace"
    ):
        return
    if any(config.uses(file.doc.data, containerd_places.V1_NAMES) for file in files.files):
        return  # this table counts, regardless of any other
    for file in files.files:
        if config.uses(file.doc.data, containerd_places.V2_NAMES):
            raise PlanError(
                about_files.TABLE_UNREAD.fill(version=str(version), root=files.root_path),
                where=file.path,
                line=toml.find_key_line(file.doc, containerd_places.V2_NAMES),
            )


def _check_shadow(files: FileSet) -> None:
    """Refuse a drop-in newer than its root: 2.3.0 to 2.3.4 refuse it, and the root's CRI table is
    lost on 2.0 to 2.2.
    """
    root = files.root
    for file in files.files[1:]:
        if root and root.declared and file.declared > root.declared:
            raise PlanError(
                _build_too_new(file, root),
                where=file.path,
                line=toml.find_key_line(file.doc, ("version",)),
            )


def _build_too_new(file: ConfigFile, root: ConfigFile) -> Message:
    """Return the message about a drop-in that is newer than its root, with a hint for one of
    nvidia-ctk's.

    nvidia-ctk makes such a file of what `containerd config dump` prints, which has the newest
    version.
    """
    declared, wanted = file.declared, root.declared
    if file.path.endswith(f"/{nvidia_ctk.DROP_IN}"):
        return about_files.CTK_DROP_IN_TOO_NEW.fill(
            declared=declared, root=root.path, wanted=wanted, command=nvidia_ctk.COMMAND
        )
    return about_files.DROP_IN_TOO_NEW.fill(declared=declared, root=root.path, wanted=wanted)
