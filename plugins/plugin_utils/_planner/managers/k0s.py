# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""k0s: a containerd of its own, which it restarts by itself when a drop-in changes."""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.managers.manager import Manager

K0S = Manager(
    "k0s",
    "k0s",
    "Put a drop-in with the handler into /etc/k0s/containerd.d; k0s restarts its containerd by itself.",
    config="/etc/k0s/containerd.toml",
    socket="/run/k0s/containerd.sock",
    homes=("/etc/k0s/", "/var/lib/k0s/", "/run/k0s/"),
    units=("k0scontroller.service", "k0sworker.service"),
    servers=("k0scontroller.service",),
)
