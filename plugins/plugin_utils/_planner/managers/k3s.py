# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""k3s: a containerd of its own, whose configuration is rendered at each start."""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.managers.manager import Manager

K3S = Manager(
    "k3s",
    "k3s",
    "Install the toolkit's packages and restart k3s (k3s-agent on agents): it finds the NVIDIA runtime at start and adds "
    "the handler nvidia by itself; put further settings into config-v3.toml.tmpl in the directory of the generated file.",
    config="/var/lib/rancher/k3s/agent/etc/containerd/config.toml",
    socket="/run/k3s/containerd/containerd.sock",
    homes=("/var/lib/rancher/k3s/",),
    units=("k3s.service", "k3s-agent.service"),
    servers=("k3s.service",),
)
