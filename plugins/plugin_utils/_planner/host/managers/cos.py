# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Container-Optimized OS: an image of a cloud provider."""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers import messages
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers.manager import (
    Manager,
)

COS = Manager(
    "cos",
    "Container-Optimized OS",
    messages.COS.fill(),
    os_ids=("cos",),
    own_engine=False,
)
