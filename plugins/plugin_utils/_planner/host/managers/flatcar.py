# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Flatcar: the configuration in its read-only /usr. A copy of it below /etc is a configuration like
any other.
"""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers import messages
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers.manager import (
    Manager,
)

FLATCAR = Manager(
    "flatcar",
    "Flatcar",
    messages.FLATCAR.fill(),
    homes=("/usr/share/containerd/",),
    own_engine=False,
    kubernetes=False,
)
