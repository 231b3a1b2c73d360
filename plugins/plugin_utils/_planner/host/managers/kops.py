# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""kOps: nodeup renders the configuration of the plain containerd at each boot.

kops-configuration.service starts nodeup, which writes /etc/containerd/config.toml from the
cluster's spec (nodeup/pkg/model/containerd.go). That file imports nothing. From kOps 1.36 on it has
version 3, and version 4 for containerd 2.3 and later from 1.37 on.
"""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers import messages
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers.manager import (
    Manager,
)

UNIT = "kops-configuration.service"

KOPS = Manager(
    "kops",
    "kOps",
    messages.KOPS.fill(),
    units=(UNIT,),
    own_engine=False,
    # of Debian, the Red Hat family, and Flatcar (nodeup/nodetasks/service.go)
    boot_units=(
        f"/lib/systemd/system/{UNIT}",
        f"/usr/lib/systemd/system/{UNIT}",
        f"/etc/systemd/system/{UNIT}",
    ),
)
