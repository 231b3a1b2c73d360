# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check the configuration file that the user names in another root directory, where no process
shows which file the engine reads.
"""

from __future__ import annotations

from collections.abc import Callable

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    ObservedFile,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines import messages


def require_named_file(policy: Policy, read: Callable[[str], ObservedFile], usual: str) -> None:
    """Raise PlanError if the file that the user names does not exist in another root directory, but
    the usual one does.

    read: returns a file by its path. usual: the path that the engine reads if none is named.

    A typing error would make a second file next to the one that the engine reads, and no later run
    would find it.
    """
    named = policy.config_path
    if policy.root == "/" or policy.state == "absent" or named in ("", usual):
        return
    if not read(named).exists and read(usual).exists:
        raise PlanError(
            messages.CONFIG_PATH_MISSING.fill(path=named, root=policy.root, usual=usual)
        )
