# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plan for a manager that watches its drop-ins and restarts its containerd by itself.

The plan waits for that restart. Files that would prevent it are refused.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner import transaction
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.engines.containerd import config
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.engines.containerd.config import ConfigFile, FileSet
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.errors import PlanError, Refusal
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.formats import toml
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.managers import known
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.managers.manager import Manager, Place
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.model import Instance, Policy, Restart
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.projections import containerd_places


def by_itself(policy: Policy, instance: Instance, changing: bool) -> bool:
    """Tell whether the manager restarts this daemon for our change, which cannot be prevented.

    Raise PlanError if gpufleet_restart is never, unless the state is absent.
    """
    if not (known.place(instance.manager).takes_up and changing and instance.running and policy.root == "/"):
        return False
    if policy.restart == "never" and policy.state != "absent":
        title = known.of_name(instance.manager).title
        raise PlanError(
            "gpufleet_restart: never cannot be kept here, so nothing is written",
            where=instance.config_path,
            why=f"{title} watches its drop-ins, and restarts its containerd by itself when one changes",
            next="Run in a change window with gpufleet_restart: auto; containers go on during that restart",
        )
    return True


def waited(instance: Instance, health: transaction.Cri) -> tuple[tuple[Restart, ...], tuple[transaction.Health, ...]]:
    """Return the restart of the manager's that is waited for, and its health check. This collection restarts nothing.

    An answer as before comes from the old process until the manager has ended it, so only another
    process counts.
    """
    title = known.of_name(instance.manager).title
    health = {**health, "replaces": instance.pid}
    return (Restart(instance.unit, "wait", f"{title} takes the change up by itself and restarts its containerd"),), (health,)


# ---------------------------------------------------------------- files with which it would not start


def refusal(manager: Manager, files: FileSet) -> Refusal:
    """Return the refusal for files of others that keep ours from being read, or the manager from starting again, else an empty one."""
    place, root = manager.place, files.root
    if place is None or root is None:
        return Refusal()
    if place.first_line and not root.doc.text.startswith(f"{place.first_line}\n"):
        made = merged(place, root)
        alone = f". {manager.title} makes {made}, which it imports, for a main file of its own alone" if made else ""
        return Refusal(
            f"{root.path} does not begin with the line `{place.first_line}`, so {manager.title} takes it for a person's, and so do we"
            f"{alone}",
            f"Move it away and restart {manager.title}, which then writes its own, and run again; or put the handler into it by hand",
        )
    wrong = next(_wrong(place, files, root), None)
    if wrong is None:
        return Refusal()
    file, key, what = wrong
    line = toml.line_of(file.doc, key)
    return Refusal(
        f"{file.path}{f':{line}' if line else ''} {what}, and {manager.title} does not start again with such a drop-in",
        f"Write it for version {root.declared} (`containerd config migrate`) or remove it, and run again",
    )


def merged(place: Place, root: ConfigFile) -> str:
    """Return the file that an older release imports instead of the drop-ins and makes of them, '' if there is none."""
    made = (path for path in config.imports(root) if place.merges and posixpath.basename(path) == place.merges)
    return next(made, "")


def _wrong(place: Place, files: FileSet, root: ConfigFile) -> Iterator[tuple[ConfigFile, tuple[str, ...], str]]:
    """Yield each drop-in that the manager's own check refuses, as (file, key, what is in it)."""
    for file in files.files if place.strict and root.declared > 2 else ():
        if file is not root and file.declared not in (0, root.declared):
            yield file, ("version",), f"has version = {file.declared} and not {root.declared}"
        if file is not root and toml.lookup(file.doc.data, containerd_places.V2_NAMES) is not None:
            yield file, containerd_places.V2_NAMES, f"has the table {toml.dotted(containerd_places.V2_NAMES)} of older releases"
