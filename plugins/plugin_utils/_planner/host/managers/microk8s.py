# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""MicroK8s: a containerd in a snap, whose configuration is made from a template at each start.

run-containerd-with-args puts the snap's directories and three values into
args/containerd-template.toml with sed and starts containerd with the result, by the path of the
snap's revision. So the template is read and edited here, below the link `current`, which the next
start reads. snapd copies the snap's data, and the template in it, to the new revision at a refresh.
Hooks of the snap edit single lines of the template, and replace it only if a release with Docker is
upgraded (snap/hooks/configure). admin_groups.py finds who may write there besides root.

A strictly confined MicroK8s (its channels with -strict) has the root of its base snap. That root
has neither /usr/bin/nvidia-container-runtime nor the driver's libraries, and its own NVIDIA addon
is for classic confinement alone.
"""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import Refusal
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers import messages
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers.manager import (
    Confinement,
    Manager,
    ManagerPlace,
    OperatorToolkit,
)

UNIT, KUBELET = "snap.microk8s.daemon-containerd.service", "snap.microk8s.daemon-kubelite.service"

MICROK8S = Manager(
    "microk8s",
    "MicroK8s",
    config="/var/snap/microk8s/current/args/containerd-template.toml",
    socket="/var/snap/microk8s/common/run/containerd.sock",
    homes=("/var/snap/microk8s/", "/snap/microk8s/"),
    units=(UNIT, KUBELET),
    place=ManagerPlace(
        units=(UNIT,),
        drop_ins=(),
        filled_in={"${RUNTIME}": "runc", "${RUNTIME_TYPE}": "io.containerd.runc.v2"},
        confined=Confinement(
            "/snap/microk8s/current/meta/snap.yaml",
            "confinement: strict",
            Refusal(messages.MICROK8S_STRICT.fill(), kind="unfit"),
        ),
        kubelet=True,
        kubelet_units=(KUBELET,),
        kubelet_directory="/var/snap/microk8s/common/var/lib/kubelet",  # in its args/kubelet
        kubelet_flags="/var/snap/microk8s/current/args/kubelet",
        variables={
            "SNAP": "/snap/microk8s/current",
            "SNAP_COMMON": "/var/snap/microk8s/common",
            "SNAP_DATA": "/var/snap/microk8s/current",
        },
        load_image="microk8s ctr images import FILE.tar",
    ),
    operator=OperatorToolkit(
        source="/var/snap/microk8s/current/args/containerd.toml",
        why=messages.OPERATOR_MICROK8S.fill(),
    ),
)
