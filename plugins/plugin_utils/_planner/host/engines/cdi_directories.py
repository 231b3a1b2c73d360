# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The directories of CDI specs that an engine's file names for its next start."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import host_paths
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import CDI_DIRS
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections import (
    file_places,
)


def list_named_cdi_directories(value: Any) -> tuple[str, ...] | None:
    """Return the directories by the value in a file. Every release has the same ones if its file
    names none.

    value: None if the file names none. Return None if the value is not known, because it was not
    sent from the host.
    """
    if value is None:
        return CDI_DIRS
    if not isinstance(value, list | tuple) or not all(
        isinstance(d, str) and not file_places.is_hidden_value(d) for d in value
    ):
        return None
    return host_paths.clean_directories(d for d in value if d)
