# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Explain a main file that its manager renders again at each start: the part of the decision that
it has, and the place of the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import toml
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Policy,
    Reason,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    cri_settings,
    edit,
    releases,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd.config import (
    FileSet,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd.cri_settings import (
    CriSetting,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd.messages import (
    about_rendered,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers import known
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers.manager import (
    Manager,
)


def explain_drop_in_place(
    policy: Policy,
    manager: Manager,
    handler: str,
    files: FileSet,
    cri: Mapping[str, Any],
    wanted: list[CriSetting],
) -> list[Reason]:
    """Return the reason for the place of our drop-in, [] if this collection edits the main file or
    there is none.

    cri: what is in force without our own drop-in.
    """
    place = known.get_manager_place(manager.name)
    if place.main_edited or not files.root:
        return []
    missing = cri_settings.list_unmet_settings(cri, wanted)
    if not missing:
        return [Reason("drop_in", "none", about_rendered.NOTHING_MISSING.fill(title=manager.title))]
    own = handler if toml.look_up_toml(cri, (*releases.RUNTIMES, handler)) is not None else ""
    keys = ", ".join(sorted({setting.path[-1] for setting in missing}))
    values = {"title": manager.title, "path": files.root_path}
    if own:
        why = about_rendered.DROP_IN_FOR_KEYS_OF_HANDLER.fill(**values, handler=own, keys=keys)
    elif handler:
        why = about_rendered.DROP_IN_FOR_HANDLER.fill(**values, handler=handler)
    else:
        why = about_rendered.DROP_IN_FOR_KEYS.fill(**values, keys=keys)
    return [Reason("drop_in", edit.drop_in_path(policy, place, files), why)]


def explain_manager_detection(manager: Manager, files: FileSet, why: str) -> list[Reason]:
    """Return the reason for writing no drop-in: the manager finds the handlers. why: what keeps
    drop-ins from being read.
    """
    said = about_rendered.FINDS_BY_ITSELF.fill(title=manager.title, path=files.root_path, cause=why)
    return [Reason("drop_in", "none", said)]
