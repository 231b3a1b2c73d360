#!/usr/bin/python
# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation only: the action plugin of the same name works on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: rollout_cluster
short_description: Apply to clusters what the hosts of a rollout's batch need before and after their change
version_added: 0.1.0
author:
  - The gpufleet.nvidia contributors (@gpufleet)
description:
  - Does for some hosts of a rollout what M(gpufleet.nvidia.kubernetes_objects) does for all of a play, where their
    C(gpufleet_kubernetes_apply) is true. Nodes of other hosts stay as they are, and no files are written.
  - Where the device plugin has to change first, or has to use both ways meanwhile, so that no pod loses its GPU, that is done before the
    hosts are changed. Where the hosts change first, it is done after them.
  - Never fails because of a cluster. It says why something could not be applied to one, so that the gate ends the rollout with its report.
notes:
  - The variables of hosts are those of M(gpufleet.nvidia.kubernetes_objects).
extends_documentation_fragment:
  - gpufleet.nvidia.rollout
  - gpufleet.nvidia.rollout.settings
  - gpufleet.nvidia.rollout.plan
  - gpufleet.nvidia.kubernetes.applies
  - gpufleet.nvidia.attributes
  - gpufleet.nvidia.attributes.once
options:
  point:
    description:
      - V(before) and V(after) are for the hosts of the batch, before the first of them is changed and after they were looked at once more.
        A host that has failed, was rolled back or was lost is left out of V(after).
      - V(end) is for all hosts of the rollout that are as desired, unless its gate has stopped it, it pauses, or its window is closed.
    type: str
    choices: [before, after, end]
    required: true
seealso:
  - module: gpufleet.nvidia.kubernetes_objects
  - module: gpufleet.nvidia.rollout_batch
"""

EXAMPLES = r"""
- name: Apply to the clusters what has to be there before the change
  gpufleet.nvidia.rollout_cluster:
    point: before
    plan: "{{ gpufleet_rollout_plan }}"
    settings: "{{ gpufleet_rollout_settings.settings }}"
  delegate_to: localhost
  become: false
  run_once: true
  register: gpufleet_rollout_applied_before
"""

RETURN = r"""
refused:
  description: Why something could not be applied to a cluster, empty where all was.
  returned: success
  type: str
  sample: ''
waits:
  description: Whether the device plugin of a node has to take up what was applied before its host is changed.
  returned: success
  type: bool
  sample: true
differences:
  description: What was changed in the clusters, or would be, each with its reason.
  returned: success
  type: list
  elements: dict
  sample:
    - what: object
      path: Node gpu1
      key: labels
      before: nvidia.com/device-plugin.config=legacy-0f8e6d2a
      after: nvidia.com/device-plugin.config=native-cdi-4b1f6a90
      why: the label nvidia.com/device-plugin.config chooses the node's group, and others read the decision
lines:
  description: What was done, line by line.
  returned: success
  type: list
  elements: str
  sample: ["cluster north, before the change: write the ConfigMap, label the nodes"]
"""
