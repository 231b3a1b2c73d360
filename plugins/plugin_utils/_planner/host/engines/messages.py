# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List the sentences that several engines share."""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Sentence,
)

CONFIG_PATH_MISSING = Sentence(
    "engine.config-path-missing",
    "gpufleet_config_path is {path}, which does not exist in {root}",
    why="{usual} exists there, which the engine reads if it is started without another path",
    next="Correct the path, leave it empty, or create the file if you mean it",
)
