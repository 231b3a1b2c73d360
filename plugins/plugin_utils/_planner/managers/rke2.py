# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""RKE2: a containerd of its own, whose configuration is rendered at each start."""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.managers.manager import Manager

RKE2 = Manager(
    "rke2",
    "RKE2",
    "Install the toolkit's packages and restart rke2-server or rke2-agent: it finds the NVIDIA runtime at start and "
    "adds the handler nvidia by itself; put further settings into config-v3.toml.tmpl in the directory of the generated file.",
    config="/var/lib/rancher/rke2/agent/etc/containerd/config.toml",
    socket="/run/k3s/containerd/containerd.sock",
    homes=("/var/lib/rancher/rke2/",),
    units=("rke2-server.service", "rke2-agent.service"),
    servers=("rke2-server.service",),
)
