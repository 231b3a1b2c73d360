# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List the sentences about systems that write an engine's configuration."""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Sentence,
)

# ---------------------------------------------------------------- systems that are left alone

BOTTLEROCKET = Sentence(
    "manager.bottlerocket",
    "Bottlerocket writes this engine's configuration",
    next="Use its NVIDIA variant and the settings of its API. Its files are read-only. "
    "See https://bottlerocket.dev/en/os/1.34.x/api/settings/kubelet-device-plugins",
)
COS = Sentence(
    "manager.cos",
    "Container-Optimized OS makes the files below /etc again at each boot",
    next="Use the provider's GPU driver installer. Its files are read-only. "
    "See https://cloud.google.com/container-optimized-os/docs/how-to/run-gpus",
)
DECKHOUSE = Sentence(
    "manager.deckhouse",
    "Deckhouse's bashible writes this containerd's configuration again every few minutes",
    next="Set spec.gpu in the NodeGroup, and have a NodeGroupConfiguration write settings of yours "
    "into /etc/containerd/conf.d (conf2.d with containerd 2). See https://deckhouse.io/products/"
    "kubernetes-platform/documentation/v1/admin/configuration/platform-scaling/node/node-customization.html",
)
DOCKER = Sentence(
    "manager.docker",
    "Docker started this containerd for itself and writes its configuration",
    next="Configure Docker instead",
)
EKS = Sentence(
    "manager.eks",
    "EKS nodeadm writes this containerd's configuration",
    next="Put the handler into the NodeConfig (spec.containerd.config) or /etc/eks/nodeadm.d and boot the node again",
)
FLATCAR = Sentence(
    "manager.flatcar",
    "Flatcar writes this containerd's configuration",
    next="Copy /usr/share/containerd/config.toml to /etc/containerd/config.toml, have the unit "
    "start it by a drop-in (ExecStart=/usr/bin/containerd), and run again. /usr is read-only "
    "there. See https://www.flatcar.org/docs/latest/setup/customization/using-nvidia/",
)
GKE = Sentence(
    "manager.gke",
    "GKE writes this containerd's configuration again at each boot",
    next="Use GKE's own management of GPUs, or NVIDIA's GPU Operator, whose toolkit writes its part again after a boot. "
    "See https://docs.cloud.google.com/kubernetes-engine/docs/how-to/gpu-operator",
)
KOPS = Sentence(
    "manager.kops",
    "kOps writes this containerd's configuration again at each boot, and it imports no other file",
    next="Set spec.containerd.nvidiaGPU.enabled in the cluster's spec, with settings of yours in "
    "spec.containerd.configAdditions, and replace the nodes (kops update cluster --yes, "
    "then kops rolling-update cluster --yes). "
    "See https://kops.sigs.k8s.io/gpu/",
)
RHCOS = Sentence(
    "manager.rhcos",
    "OpenShift's Machine Config Operator writes this host's files",
    next="Use NVIDIA's GPU Operator there, or a MachineConfig with the drop-in for CRI-O. "
    "See https://docs.nvidia.com/datacenter/cloud-native/openshift/latest/",
)
# From Talos 1.13 on its guide has the GPU Operator install the toolkit. The driver lies beside a
# glibc of its own (/usr/local/glibc), with its programs elsewhere: no driver root has all of it.
TALOS = Sentence(
    "manager.talos",
    "Talos Linux writes this engine's configuration",
    next="Use its NVIDIA system extensions and a machine config patch, and NVIDIA's GPU Operator with driver.enabled=false and "
    "the paths that the guide for your release has. Its files are read-only, and gpufleet_cdi_driver_root does not fit there. "
    "See https://docs.siderolabs.com/talos/v1.13/configure-your-talos-cluster/hardware-and-drivers/nvidia-gpu",
)
SERVES_DOCKER_ONLY = Sentence(
    "manager.containerd-serves-docker-only",
    "This containerd serves Docker only: {where} switches CRI off. It is left alone, since Docker has a configuration of its own",
    next='For Kubernetes, remove "{entry}" from disabled_plugins, restart containerd and run again',
)
MICROK8S_STRICT = Sentence(
    "manager.microk8s-strict",
    "this MicroK8s is a strictly confined snap, whose containerd sees neither this host's NVIDIA runtime nor its driver",
    next="Move it to a channel in classic confinement (snap refresh microk8s --classic --channel=CHANNEL), "
    "or leave this host out",
)

# ---------------------------------------------------------------- steps for releases that read no
# drop-ins

UPDATE_K0S = Sentence(
    "manager.update-k0s",
    "Update k0s to 1.36 or later, whose containerd reads /etc/k0s/containerd.d by its own "
    "imports, and run again. Until then put the handler there by hand, in a file of version 2 that "
    "you remove before that update",
)
UPDATE_RANCHER = Sentence(
    "manager.update-k3s-or-rke2",
    "Update {title} to a release whose generated file imports such a directory "
    "(from spring 2026 on) and run again. Without that, install the toolkit's packages and restart "
    "{units}: {title} finds the NVIDIA runtime at its start and adds the handler nvidia by itself. "
    "Put further settings into a template in the directory of the generated file",
)

# ---------------------------------------------------------------- what the GPU Operator's toolkit
# needs

OPERATOR_K0S = Sentence(
    "manager.operator-writes-k0s-drop-in",
    "k0s writes its main file again at each start, and reads the files of /etc/k0s/containerd.d",
)
OPERATOR_MICROK8S = Sentence(
    "manager.operator-reads-microk8s-result",
    "MicroK8s makes its configuration from a template, which becomes TOML only when it is filled in",
)
OPERATOR_RANCHER = Sentence(
    "manager.operator-needs-socket-only",
    "k3s and RKE2 find the toolkit's programs at their start, so it needs their socket alone",
)
