# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The distribution's package, or a program next to a unit: a person writes the configuration. It is
the manager if no other is known.
"""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers.manager import (
    Manager,
    ManagerPlace,
)

PLACE = ManagerPlace(units=("containerd.service",))
PACKAGE = Manager(
    "package", "the distribution's package", own_engine=False, kubernetes=False, place=PLACE
)
