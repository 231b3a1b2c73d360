# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find out whether another containerd of the host reads a file that is to go: a second daemon, or a configuration without a daemon now.

A daemon does not start if a file is gone that its configuration imports by name. One that imports
the directory would lose the file's settings. What can be known: the configurations of the
containerds that run, and the files next to the main one.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner import host_paths, processes, queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.engines.containerd import config, daemons, releases
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.engines.containerd.config import ConfigFile, FileSet
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.engines.containerd.messages import about_adoption
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.formats import toml_file
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.model import Instance, Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.observation import File, Observation
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.versions import Version

NEWEST = Version(2, 0)  # how another daemon resolves its imports; the oldest differ in relative patterns alone


def question(files: FileSet) -> queries.Question:
    return queries.glob(posixpath.join(posixpath.dirname(files.root_path), "*.toml"), files.keep)


def reads(policy: Policy, obs: Observation, files: FileSet, instance: Instance, path: str) -> str:
    """Return why another configuration needs this file, '' if nothing shows that. May raise NeedMore."""
    every = (*_of_daemons(policy, obs, files, instance, path), *_not_running(obs, files, path))
    return next(iter(every), "")


def _of_daemons(policy: Policy, obs: Observation, files: FileSet, instance: Instance, path: str) -> Iterator[str]:
    for process in (*obs.processes(), *obs.unverified()) if policy.root == "/" else ():
        root = host_paths.as_opened(processes.flag(process.get("argv") or (), *daemons.CONFIG)) or releases.CONFIG
        if processes.program(process) != "containerd" or process.get("pid") == instance.pid or root == files.root_path:
            continue
        if not root.startswith("/"):
            yield about_adoption.OTHER_AT_UNKNOWN_PLACE.fill(path=root)
            continue
        try:
            imported = config.load(obs, root, NEWEST)
        except PlanError as unread:
            yield about_adoption.OTHER_UNREADABLE.fill(path=root, trouble=unread.what)
            continue
        if imported.get(path):
            yield about_adoption.OTHER_READS.fill(path=root)


def _not_running(obs: Observation, files: FileSet, path: str) -> Iterator[str]:
    for file in obs.glob(question(files)["pattern"]):
        if files.get(file.path):
            continue
        for pattern in _imports(file):
            if path == pattern:
                yield about_adoption.OTHER_IMPORTS.fill(path=file.path)


def _imports(file: File) -> list[str]:
    """Return the paths that a file imports, [] if it is not a configuration."""
    try:
        found = ConfigFile(file.path, file.place, file.sha256 or "", toml_file.read(file, file.path))
        return [config.absolute(found, pattern) for pattern in config.imports(found)]
    except PlanError:
        return []
