# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find out whether another containerd of the host reads a file that is to go: a second daemon, or a
configuration without a daemon now.

A daemon does not start if a file is gone that its configuration imports by name. One that imports
the directory would lose the file's settings. These can be known: the configurations of the
containerds that run, and the files next to the main one.
"""

from __future__ import annotations

import dataclasses as dc
import posixpath
from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import (
    host_paths,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.facts import (
    Fact,
    Lookup,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import toml_file
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Instance,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
    ObservedFile,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.versions import Version
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import processes
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    config,
    daemons,
    releases,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd.config import (
    ConfigFile,
    FileSet,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd.messages import (
    about_adoption,
)

# how another daemon resolves its imports; the oldest differ in relative patterns alone
NEWEST = Version(2, 0)


@dc.dataclass(frozen=True)
class OtherRootFacts:
    """A host's facts about other daemons and about their configurations.

    processes: all of root's, verified or not. configurations: the files of another daemon, by its
    main file; reading them may raise NeedMore or another PlanError. beside: the files beside a main
    file, by its path.
    """

    processes: Fact[tuple[Mapping[str, Any], ...]]
    configurations: Lookup[str, FileSet]
    beside: Lookup[str, tuple[ObservedFile, ...]]


def read_other_root_facts(obs: Observation, own: config.ConfigFacts) -> OtherRootFacts:
    """Return what a host has of other daemons. own: the files as they may travel for the policy."""
    others = config.read_config_facts(obs)
    return OtherRootFacts(
        Fact(lambda: (*obs.processes(), *obs.list_unverified())),
        Lookup(lambda path: config.load_containerd_files(others, path, NEWEST)),
        Lookup(lambda path: own.folders.get(posixpath.join(posixpath.dirname(path), "*.toml"))),
    )


def explain_other_reader(
    policy: Policy, facts: OtherRootFacts, files: FileSet, instance: Instance, path: str
) -> str:
    """Return why another configuration needs this file, '' if nothing shows that. May raise
    NeedMore.
    """
    every = (
        *_find_other_daemons(policy, facts, files, instance, path),
        *_find_unstarted_configurations(facts, files, path),
    )
    return next(iter(every), "")


def _find_other_daemons(
    policy: Policy, facts: OtherRootFacts, files: FileSet, instance: Instance, path: str
) -> Iterator[str]:
    for process in facts.processes.value if policy.root == "/" else ():
        root = (
            host_paths.keep_as_opened(processes.flag(process.get("argv") or (), *daemons.CONFIG))
            or releases.CONFIG
        )
        if (
            processes.get_program_name(process) != "containerd"
            or process.get("pid") == instance.pid
            or root == files.root_path
        ):
            continue
        if not root.startswith("/"):
            yield about_adoption.OTHER_AT_UNKNOWN_PLACE.fill(path=root)
            continue
        try:
            imported = facts.configurations.get(root)
        except PlanError as unread:
            yield about_adoption.OTHER_UNREADABLE.fill(path=root, trouble=unread.what)
            continue
        if imported.get(path):
            yield about_adoption.OTHER_READS.fill(path=root)


def _find_unstarted_configurations(
    facts: OtherRootFacts, files: FileSet, path: str
) -> Iterator[str]:
    for file in facts.beside.get(files.root_path):
        if files.get(file.path):
            continue
        for pattern in _imports(file):
            if path == pattern:
                yield about_adoption.OTHER_IMPORTS.fill(path=file.path)


def _imports(file: ObservedFile) -> list[str]:
    """Return the paths that a file imports, [] if it is not a configuration."""
    try:
        main = ConfigFile(
            file.path, file.place, file.sha256 or "", toml_file.read_toml_file(file, file.path)
        )
        return [config.resolve_import(main, pattern) for pattern in config.imports(main)]
    except PlanError:
        return []
