# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options about a Kubernetes cluster: the way to its API, and what hosts are to be ready for."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  kubeconfig:
    description:
      - A kubeconfig on the machine where the task runs. Empty takes the environment variables C(K8S_AUTH_*), else C(~/.kube/config).
      - C(~) is the home there.
    type: path
    default: ''
  context:
    description:
      - The context in the kubeconfig. Empty takes its current one.
    type: str
    default: ''
"""

    # Modules that apply objects to clusters.
    APPLIES = r"""
options: {}
notes:
  - Objects are applied by the collection C(kubernetes.core), with the Python library C(kubernetes) on the machine where the task runs.
attributes:
  check_mode:
    support: full
    details:
      - What would be applied is judged by the API (dry run) and discarded.
  diff_mode:
    support: full
  idempotent:
    support: full
"""

    # Whether the host is ready for claims of Kubernetes.
    DRA = r"""
options:
  dra:
    description:
      - Whether the host has to be ready for NVIDIA's DRA driver, by which pods get GPUs through claims (dynamic resource allocation of
        Kubernetes). The driver's needs of the kubelet, of the engine and of NVIDIA's driver are verified, and advice names each need
        that is not met. M(gpufleet.nvidia.host_verify) fails where something is missing.
      - With V(false) the same is said on hosts where that driver has registered with the kubelet, and nothing fails.
      - Objects of Kubernetes, such as C(DeviceClass), are not made.
    type: bool
    default: false
"""

    # Whether the GPU Operator's toolkit comes back.
    OPERATOR_TOOLKIT = r"""
options:
  operator_toolkit:
    description:
      - The state of the GPU Operator's toolkit on this host, as far as the cluster knows it.
      - With V(auto) the host alone shows that it is gone, which takes a kubelet that has been active for 10 minutes. An engine that it has
        configured is left alone before that.
      - V(gone) states that none of its pods is on this node, and that its label keeps them away. A process or a pod of it that is seen on
        the host counts more. The playbook C(gpufleet.nvidia.hand_over) sets this once it has seen it.
    type: str
    choices: [auto, gone]
    default: auto
"""
