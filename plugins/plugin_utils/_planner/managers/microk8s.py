# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""MicroK8s: a containerd in a snap, whose configuration is made from a template at each start.

snapd copies the snap's data, and the template in it, to the new revision at a refresh; hooks of the snap edit single lines of it, and
replace it only where a release with Docker is upgraded (snap/hooks/configure). By the same hook the members of a group may write it.
"""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.managers.manager import Manager

MICROK8S = Manager(
    "microk8s",
    "MicroK8s",
    "Use `microk8s enable nvidia`, or edit args/containerd-template.toml, from which it generates the file at every start: the handler "
    "nvidia-container-runtime is there already. Then restart snap.microk8s.daemon-containerd. A refresh of the snap takes the template "
    "over, `snap revert` brings back the one from before.",
    config="/var/snap/microk8s/current/args/containerd.toml",
    socket="/var/snap/microk8s/common/run/containerd.sock",
    homes=("/var/snap/microk8s/", "/snap/microk8s/"),
    units=("snap.microk8s.daemon-containerd.service",),
)
