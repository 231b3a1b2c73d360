# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""RHEL CoreOS of OpenShift: an image whose files the Machine Config Operator writes."""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers import messages
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers.manager import (
    Manager,
)

RHCOS = Manager(
    "rhcos",
    "OpenShift's Machine Config Operator",
    messages.RHCOS.fill(),
    os_ids=("rhcos", "scos"),
    own_engine=False,
)
