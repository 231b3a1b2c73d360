# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""RKE2: k3s' way of rendering the configuration of a containerd of its own, with programs that are
files of their own.
"""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers import (
    k3s,
    messages,
    rancher,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers.manager import (
    Manager,
    ManagerPlace,
)

RKE2 = Manager(
    "rke2",
    "RKE2",
    config=f"/var/lib/rancher/rke2/{k3s.GENERATED}",
    socket=k3s.SOCKET,
    homes=("/var/lib/rancher/rke2/",),
    ends=f"/rke2/{k3s.GENERATED}",
    units=("rke2-server.service", "rke2-agent.service"),
    servers=("rke2-server.service",),
    place=ManagerPlace(
        units=("rke2-server.service", "rke2-agent.service"),
        drop_ins=k3s.DROP_INS,
        main_edited=False,
        not_imported=messages.UPDATE_RANCHER.fill(title="RKE2", units="rke2-server or rke2-agent"),
        kubelet=True,
        detection=rancher.describe_detection(
            "rke2", "/etc/default/{}", "/etc/sysconfig/{}", "/usr/local/lib/systemd/system/{}.env"
        ),
        load_image=f"/var/lib/rancher/rke2/bin/ctr --address {k3s.SOCKET} -n k8s.io images import FILE.tar",
        log=k3s.LOG,
    ),
    operator=rancher.OPERATOR,
)
