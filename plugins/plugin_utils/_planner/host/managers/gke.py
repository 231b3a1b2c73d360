# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""GKE's nodes with Ubuntu: a script writes the configuration of the plain containerd at each boot.

kube-node-configuration.service runs configure-helper.sh, which writes /etc/containerd/config.toml
from its own text (cluster/gce/gci of kubernetes/kubernetes, and GKE's variant of it). Nodes with
Container-Optimized OS have the same unit, and are known by their id.
"""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers import messages
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers.manager import (
    Manager,
)

UNIT = "kube-node-configuration.service"

GKE = Manager(
    "gke",
    "GKE",
    messages.GKE.fill(),
    units=(UNIT,),
    own_engine=False,
    boot_units=(f"/etc/systemd/system/{UNIT}",),
)
