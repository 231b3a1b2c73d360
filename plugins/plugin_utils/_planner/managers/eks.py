# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""EKS: nodeadm renders the configuration of the plain containerd at each boot."""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.managers.manager import Manager

EKS = Manager(
    "eks",
    "EKS nodeadm",
    "Put the handler into the NodeConfig (spec.containerd.config) or /etc/eks/nodeadm.d and boot the node again.",
    units=("nodeadm-config.service", "nodeadm-run.service"),
    own_engine=False,
)
