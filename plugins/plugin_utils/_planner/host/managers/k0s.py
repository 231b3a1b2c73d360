# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""k0s: a containerd of its own, which it restarts by itself when a drop-in changes.

It writes /etc/k0s/containerd.toml at each start, as long as its first line is there
(pkg/component/worker/containerd/component.go). It also watches /etc/k0s/containerd.d: three seconds
after the last change it sends SIGHUP, which ends containerd, and starts it again five seconds later
(pkg/supervisor). From 1.36 on it has containerd 2, and does not start with a drop-in whose version
is not 3, or that has the CRI table of containerd 1 (ValidateConfigFile in configurer.go). It checks
that only at its own start.

From 1.27 to 1.35 it has containerd 1.7, whose drop-ins would replace its CRI table. So it merges
their CRI settings with its own defaults and writes the sum to containerd-cri.toml in its run
directory, which the main file imports instead (handleImports in configurer.go).
"""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections.containerd_places import (
    K0S_MANAGED,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers import messages
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers.manager import (
    Manager,
    ManagerPlace,
    OperatorToolkit,
)

UNITS = ("k0scontroller.service", "k0sworker.service")

K0S = Manager(
    "k0s",
    "k0s",
    config="/etc/k0s/containerd.toml",
    socket="/run/k0s/containerd.sock",
    homes=("/etc/k0s/", "/var/lib/k0s/", "/run/k0s/"),
    units=UNITS,
    servers=("k0scontroller.service",),
    place=ManagerPlace(
        units=UNITS,
        drop_ins=("containerd.d",),
        main_edited=False,
        made_of="the files in /etc/k0s/containerd.d",
        not_imported=messages.UPDATE_K0S.fill(),
        kubelet=True,
        kubelet_directory="/var/lib/k0s/kubelet",  # docs.k0sproject.io/head/directories
        takes_up=True,
        merges="containerd-cri.toml",
        first_line=K0S_MANAGED,
        strict=True,
        load_image="k0s ctr -n k8s.io images import FILE.tar",
    ),
    operator=OperatorToolkit(  # as in nvidia-container-toolkit pull request 1016
        config="/etc/k0s/containerd.d/nvidia.toml",
        why=messages.OPERATOR_K0S.fill(),
    ),
)
