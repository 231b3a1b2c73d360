# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""EKS: nodeadm renders the configuration of the plain containerd at each boot, so nodes are
replaced and not converged.

It writes /etc/containerd/config.toml from its own text, which imports nothing, and merges
spec.containerd.config of the NodeConfig into it (nodeadm/internal/containerd/config.go). The
NodeConfig is that of the user data, and from October 2025 on those in /etc/eks/nodeadm.d, which
take precedence. If /usr/bin/nvidia-container-runtime exists, its handler `nvidia` replaces runc
(runtime_config_nvidia.go). If a file there does not decode, nodeadm-run ends and the node does not
join. A field that it does not know is passed over (bridge/decode.go).
"""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers import messages
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers.manager import (
    Boot,
    Manager,
)

# nodeadm/internal/api/types.go, July 2026
FIELDS = {
    "": frozenset(("apiVersion", "kind", "metadata", "spec")),
    "spec": frozenset(("cluster", "containerd", "instance", "kubelet", "featureGates")),
    "spec.cluster": frozenset(
        ("name", "apiServerEndpoint", "certificateAuthority", "cidr", "enableOutpost", "id")
    ),
    "spec.containerd": frozenset(("config", "baseRuntimeSpec")),
    "spec.kubelet": frozenset(("config", "flags", "maxPodsExpression")),
    "spec.instance": frozenset(("localStorage", "environment", "network")),
}

UNIT_FILE = "/etc/systemd/system/nodeadm-run.service"

EKS = Manager(
    "eks",
    "EKS nodeadm",
    messages.EKS.fill(),
    units=("nodeadm-config.service", "nodeadm-run.service"),
    own_engine=False,
    boot_units=(UNIT_FILE,),
    boot=Boot(
        unit=UNIT_FILE,
        directory="/etc/eks/nodeadm.d",
        reads="file:///etc/eks/nodeadm.d",
        elsewhere="the NodeConfig of the user data",
        program="/usr/bin/nvidia-container-runtime",
        handler="nvidia",
        head=(("apiVersion", "node.eks.aws/v1alpha1"), ("kind", "NodeConfig")),
        fields=FIELDS,
    ),
)
