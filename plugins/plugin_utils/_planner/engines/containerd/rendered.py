# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Explain a main file that its manager renders again at each start: the part of the decision that it has, and the place of the rest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.engines.containerd import edit, releases
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.engines.containerd.config import FileSet
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.engines.containerd.edit import Setting
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.formats import toml
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.managers import known
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.managers.manager import Manager
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.model import Policy, Reason


def reason(policy: Policy, manager: Manager, handler: str, files: FileSet, cri: Mapping[str, Any], wanted: list[Setting]) -> list[Reason]:
    """Return the reason for the place of our drop-in, [] if this collection edits the main file or there is none.

    cri: what is in force without our own drop-in.
    """
    place = known.place(manager.name)
    if place.main_edited or not files.root:
        return []
    missing = edit.unmet(cri, wanted)
    if not missing:
        return [Reason("drop_in", "none", f"{manager.title}'s own configuration already has all that is decided")]
    own = handler if toml.lookup(cri, (*releases.RUNTIMES, handler)) is not None else ""
    keys = ", ".join(sorted({setting.path[-1] for setting in missing}))
    lacks = f"its own handler {own} lacks {keys}" if own else f"it has no handler {handler} yet" if handler else f"it lacks {keys}"
    path = edit.drop_in_path(policy, place, files)
    return [Reason("drop_in", path, f"{manager.title} renders {files.root_path} at each start and imports this file; {lacks}")]


def by_itself(manager: Manager, files: FileSet, why: str) -> list[Reason]:
    """Return the reason for writing no drop-in: the manager finds the handlers. why: what keeps drop-ins from being read."""
    said = f"{manager.title} renders {files.root_path} at each start, and {why}; it adds the handlers that it finds by itself"
    return [Reason("drop_in", "none", said)]
