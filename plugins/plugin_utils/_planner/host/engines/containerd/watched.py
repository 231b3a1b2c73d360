# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plan for a manager that watches its drop-ins and restarts its containerd by itself.

The plan waits for that restart. Files that would prevent it are refused.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import transaction
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    PlanError,
    Refusal,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import toml
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Instance,
    Plan,
    Policy,
    Restart,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections import (
    containerd_places,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines import (
    restarts,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    config,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd.config import (
    ConfigFile,
    FileSet,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd.messages import (
    about_rendered,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers import known
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers.manager import (
    Manager,
    ManagerPlace,
)


def is_restarted_by_manager(policy: Policy, instance: Instance, changing: bool) -> bool:
    """Tell whether the manager restarts this daemon for our change, which cannot be prevented.

    Raise PlanError if gpufleet_restart is never, unless the state is absent.
    """
    if not (
        known.get_manager_place(instance.manager).takes_up
        and changing
        and instance.running
        and policy.root == "/"
    ):
        return False
    if restarts.is_restart_left(policy) and policy.state != "absent":
        title = known.get_manager(instance.manager).title
        raise PlanError(about_rendered.WATCHED.fill(title=title), where=instance.config_path)
    return True


def await_manager_restart(instance: Instance, health: transaction.Cri) -> Plan:
    """Return the restart of the manager's that is waited for, and its health check. This collection
    restarts nothing.

    An answer as before comes from the old process until the manager has ended it, so only another
    process counts.
    """
    title = known.get_manager(instance.manager).title
    health = {**health, "replaces": instance.pid}
    waited = Restart(instance.unit, "wait", about_rendered.TAKEN_UP.fill(title=title))
    return restarts.act_on_engine(instance, waited, (health,))


# ---------------------------------------------------------------- files with which it would not
# start


def refuse_files_of_others(manager: Manager, files: FileSet) -> Refusal:
    """Return the refusal of an instance if files of others keep our drop-in from being read, or the
    manager from starting again. Return an empty refusal otherwise.
    """
    place, root = manager.place, files.root
    if place is None or root is None:
        return Refusal()
    if place.first_line and not root.doc.text.startswith(f"{place.first_line}\n"):
        made = get_merged_file(place, root)
        if made:
            return Refusal(
                about_rendered.OF_PERSON_MERGED.fill(
                    path=root.path, line=place.first_line, title=manager.title, merged=made
                )
            )
        return Refusal(
            about_rendered.OF_PERSON.fill(
                path=root.path, line=place.first_line, title=manager.title
            )
        )
    return Refusal(next(_find_wrong_drop_ins(manager.title, place, files, root), ""))


def get_merged_file(place: ManagerPlace, root: ConfigFile) -> str:
    """Return the file that an older release imports instead of the drop-ins and makes of them, ''
    if there is none.
    """
    made = (
        path
        for path in config.imports(root)
        if place.merges and posixpath.basename(path) == place.merges
    )
    return next(made, "")


def _find_wrong_drop_ins(
    title: str, place: ManagerPlace, files: FileSet, root: ConfigFile
) -> Iterator[Message]:
    """Yield a message for each drop-in that the manager's own check refuses."""
    for file in files.files if place.strict and root.declared > 2 else ():
        if file is not root and file.declared not in (0, root.declared):
            yield about_rendered.DROP_IN_OTHER_VERSION.fill(
                place=_find_at(file, ("version",)),
                found=file.declared,
                wanted=root.declared,
                title=title,
            )
        if (
            file is not root
            and toml.look_up_toml(file.doc.data, containerd_places.V2_NAMES) is not None
        ):
            table = containerd_places.V2_NAMES
            yield about_rendered.DROP_IN_OLD_TABLE.fill(
                place=_find_at(file, table),
                table=toml.write_dotted_path(table),
                wanted=root.declared,
                title=title,
            )


def _find_at(file: ConfigFile, key: tuple[str, ...]) -> str:
    """Return the path of a file with the line of a key."""
    line = toml.find_key_line(file.doc, key)
    return f"{file.path}:{line}" if line else file.path
