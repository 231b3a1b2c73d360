#!/usr/bin/python
# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation only: the action plugin of the same name works on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kubernetes_objects
short_description: Say to a Kubernetes cluster how its hosts give GPUs to pods
version_added: 0.1.0
author:
  - The gpufleet.nvidia contributors (@gpufleet)
description:
  - Groups the hosts of each cluster by equal decisions, and renders what follows. A configuration of NVIDIA's device plugin for each group
    in one ConfigMap, the node label C(nvidia.com/device-plugin.config) that selects it, RuntimeClass objects for the handlers,
    annotations with each node's decision, and values for NVIDIA's chart.
  - Writes them as files, one object in each, and applies them to the cluster on request.
  - A cluster is named by the variable C(gpufleet_cluster) of its hosts, else by the CA that its kubelets trust.
  - A node that no host of this run speaks of, or whose host gave no answer, stays as an earlier run has left it. A host that says that it
    has no GPU or no kubelet loses what was written for it.
  - Reads results of M(gpufleet.nvidia.host_info) for all hosts of the play. Runs once, on the controller.
notes:
  - The variables of single hosts that are read are C(gpufleet_cluster), C(gpufleet_kubernetes_node), C(gpufleet_kubernetes_device_ids),
    C(gpufleet_kubernetes_mig_strategy), C(gpufleet_kubernetes_hook), C(gpufleet_cdi_driver_root) and C(gpufleet_cdi_dev_root).
  - The hosts of a cluster can set some options for this cluster alone. They do so by a variable of the option's name with the prefix
    C(gpufleet_kubernetes_), which has the same value on all of them. These options are O(state), O(dir), O(apply), O(kubeconfig),
    O(context), O(profile), O(namespace), O(config_map), O(taints), O(values) and O(operator_environment).
extends_documentation_fragment:
  - gpufleet.nvidia.kubernetes
  - gpufleet.nvidia.kubernetes.applies
  - gpufleet.nvidia.rollout
  - gpufleet.nvidia.attributes
  - gpufleet.nvidia.attributes.once
options:
  state:
    description:
      - V(present) renders what the decisions ask for.
      - V(absent) takes back what this collection has made, in the files below O(dir) and, with O(apply), in the cluster. Nothing else goes.
    type: str
    choices: [present, absent]
    default: present
  profile:
    description:
      - Which of NVIDIA's charts runs the device plugin.
      - V(chart) is the device plugin's own. It leaves unset what differs between groups, so the ConfigMap counts.
      - V(operator) is the GPU Operator, from 25.10 on. It sets O(operator_environment) for all nodes, which ranks above the ConfigMap, so
        a host that does not fit that is refused.
    type: str
    choices: [chart, operator]
    default: chart
  namespace:
    description:
      - The namespace of the device plugin. Empty takes C(nvidia-device-plugin), with O(profile=operator) C(gpu-operator).
    type: str
    default: ''
  config_map:
    description:
      - The name of the ConfigMap.
    type: str
    default: gpufleet-device-plugin
  taints:
    description:
      - Taints that each node with GPUs gets, such as V(nvidia.com/gpu=present:NoSchedule).
      - Files cannot have them, since the API takes the taints of a node as one list. There the command is a comment.
    type: list
    elements: str
    default: []
  values:
    description:
      - More values of the chart. A value that contradicts the decision of a group of hosts is refused if it counts for the whole cluster.
        A value that contradicts O(config_map) or O(operator_environment) is refused, too.
      - They are in C(helm/values.yaml) and in the result as they are, also those from a vault. So that file is its owner's alone (0600).
        C(--diff) shows it. Better than a secret there is the name of a Secret of the cluster.
    type: dict
    default: {}
  operator_environment:
    description:
      - Variables of the device plugin's pod, if they differ from the operator's defaults with CDI on. These are the ones that the GPU
        Operator, or C(devicePlugin.env) of its chart, sets, among C(DEVICE_LIST_STRATEGY), C(CDI_ANNOTATION_PREFIX),
        C(DEVICE_ID_STRATEGY), C(PASS_DEVICE_SPECS) and C(MIG_STRATEGY). An empty value means that the variable is not set.
    type: dict
    default: {}
  fleet_policy:
    description:
      - V(per_host) lets every host have what its engine can do. V(uniform) fails where the hosts of a cluster have more than one kind of
        engine or more than one decision, and names the oldest hosts.
    type: str
    choices: [per_host, uniform]
    default: per_host
  dir:
    description:
      - A directory on the controller, in which each cluster has a directory of its name. Empty writes no files.
      - A file there that does not begin with this module's line is never written or removed.
    type: path
    default: ''
  apply:
    description:
      - Whether the objects are applied to the cluster, by the modules of C(kubernetes.core).
    type: bool
    default: false
seealso:
  - module: gpufleet.nvidia.host_info
"""

EXAMPLES = r"""
- name: Look
  gpufleet.nvidia.host_info:
  register: gpufleet_host_info

- name: Write the objects for a repository that Argo CD or Flux reads
  gpufleet.nvidia.kubernetes_objects:
    dir: clusters
  run_once: true

- name: Apply them
  gpufleet.nvidia.kubernetes_objects:
    apply: true
    kubeconfig: /etc/kubernetes/admin.conf
  delegate_to: localhost
  become: false
  run_once: true

- name: Write the values of the GPU Operator's chart
  gpufleet.nvidia.kubernetes_objects:
    profile: operator
    dir: clusters-with-operator
  run_once: true
"""

RETURN = r"""
clusters:
  description: Each cluster with its groups, the hosts that are in none, the objects and the chart's values.
  returned: always
  type: list
  elements: dict
  sample:
    - name: default
      groups:
        - name: native-cdi-4b1f6a90
          hosts: [gpu1]
          nodes: [gpu1]
          config: "version: v1\n"
      left_out:
        - {host: gpu2, node: gpu2, why: no GPU, gone: true}
      objects: []
      values: {}
differences:
  description: Each change, made or planned, in files and in the cluster, with its reason.
  returned: always
  type: list
  elements: dict
  sample:
    - what: file
      path: /srv/gitops/clusters/default/configmap.yaml
      key: ''
      before: absent
      after: present
      why: the device plugin reads for each group of hosts how pods get their GPUs
files:
  description: The files that were written, or would be.
  returned: always
  type: list
  elements: str
  sample: [/srv/gitops/clusters/default/configmap.yaml]
only_rendered:
  description: Objects that others keep in the cluster, or that are not there yet, so that they are only rendered.
  returned: always
  type: list
  elements: str
  sample: ["the node gpu1 is only rendered: its configuration is not in the ConfigMap yet"]
order:
  description: The step that comes first where a host and its plugin's way both change, so that no pod loses its GPU. One sentence for hosts
    alike.
  returned: always
  type: list
  elements: str
  sample: ["gpu[1-8]: change the hosts first (gpufleet.nvidia.rollout), then apply: they do not understand cdi-cri yet"]
lines:
  description: The groups and the hosts in none, line by line.
  returned: always
  type: list
  elements: str
  sample: ["cluster default: 1 host in 1 group"]
"""
