# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Talos Linux: an image whose files are rendered from a machine configuration."""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers import messages
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers.manager import (
    Manager,
)

TALOS = Manager(
    "talos",
    "Talos Linux",
    messages.TALOS.fill(),
    os_ids=("talos",),
    driver_in_one_root=False,
    own_engine=False,
)
