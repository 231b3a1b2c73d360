# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Advise on device nodes of the driver that not every user may open, such as SUSE's 0660
root:video.

If an engine binds the host's node (rootless, in a user namespace, by the legacy hook) or copies its
mode (CDI's library from 1.1.0 on), a container's user who is not in the group is refused.
"""

from __future__ import annotations

from collections.abc import Iterable

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.devices import (
    inventory,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.devices.inventory import (
    Hardware,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.generate import (
    layouts,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.spec import messages

EVERYONE, GROUP = 0o006, 0o060
# Most hosts give these to a group, and only programs that draw need them. Those of MIG capabilities
# are there to be read.
NOT_COUNTED = ("/dev/dri/", inventory.CAPS)
SHOWN = 3


def advise_on_closed_nodes(
    seen: Hardware, layout: str, strategies: tuple[str, ...], *, group_ids: bool
) -> tuple[str, ...]:
    """Name the nodes of a spec that are closed to some users, once for each group and mode."""
    wanted = (
        (*layouts.list_wanted_nodes(seen, layout, strategies), *layouts.OPTIONAL)
        if layouts.LAYOUTS[layout].driver
        else ()
    )
    there = [
        seen.nodes[path]
        for path in dict.fromkeys(wanted)
        if path in seen.nodes and not path.startswith(NOT_COUNTED)
    ]
    closed: dict[tuple[int, int], list[str]] = {}
    for node in there:
        if node.mode & EVERYONE != EVERYONE:
            closed.setdefault((node.gid, node.mode & 0o777), []).append(node.path)
    every = (
        _describe_closed_nodes(gid, mode, paths, group_ids=group_ids)
        for (gid, mode), paths in sorted(closed.items())
    )
    return tuple(advice for advice in every if advice)


def _describe_closed_nodes(
    gid: int, mode: int, paths: Iterable[str], *, group_ids: bool
) -> Message | None:
    first, more = [*paths][:SHOWN], len([*paths]) - SHOWN
    which = f"{', '.join(first)}{f' and {more} more' if more > 0 else ''}"
    by_group = gid != 0 and mode & GROUP == GROUP
    if by_group and group_ids:
        return None
    if by_group:
        return messages.CLOSED_TO_GROUP.fill(nodes=which, group=gid, mode=f"{mode:04o}")
    return messages.CLOSED_TO_USERS.fill(nodes=which, mode=f"{mode:04o}")
