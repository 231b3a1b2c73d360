# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""k3s: a containerd of its own, whose configuration is rendered at each start. RKE2 is built on it,
and has the same files elsewhere.

At each start it looks for the NVIDIA runtime on the PATH of its service, and adds the handler
`nvidia` for it (pkg/agent/containerd/runtimes.go). Releases from spring 2026 on import a directory
of drop-ins, which is named after the version of the file (k3s-io/k3s#13680).
"""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers import (
    messages,
    rancher,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers.manager import (
    Manager,
    ManagerPlace,
)

DROP_INS = ("config-v3.toml.d", "config.toml.d")
GENERATED = "agent/etc/containerd/config.toml"  # below the data directory
SOCKET = "/run/k3s/containerd/containerd.sock"
# nodeConfig.Containerd.Log in k3s, pkg/agent/config/config.go; RKE2 has the same agent
LOG = "../../containerd/containerd.log"


K3S = Manager(
    "k3s",
    "k3s",
    config=f"/var/lib/rancher/k3s/{GENERATED}",
    socket=SOCKET,
    homes=("/var/lib/rancher/k3s/",),
    ends=f"/{GENERATED}",
    units=("k3s.service", "k3s-agent.service"),
    servers=("k3s.service",),
    place=ManagerPlace(
        units=("k3s.service", "k3s-agent.service"),
        drop_ins=DROP_INS,
        main_edited=False,
        not_imported=messages.UPDATE_RANCHER.fill(title="k3s", units="k3s (k3s-agent on agents)"),
        executable="k3s",  # one file of all its programs, to which `containerd` is a link
        kubelet=True,
        detection=rancher.describe_detection(
            "k3s", "/etc/default/{}", "/etc/sysconfig/{}", "/etc/systemd/system/{}.service.env"
        ),
        load_image="k3s ctr -n k8s.io images import FILE.tar",
        log=LOG,
    ),
    operator=rancher.OPERATOR,
)
