#!/usr/bin/python
# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation only: the action plugin of the same name works where the task runs."""

from __future__ import annotations

DOCUMENTATION = r"""
module: hand_over
short_description: Take a node from the GPU Operator's toolkit to this collection, or back, in the cluster
version_added: 0.1.0
author:
  - The gpufleet.nvidia contributors (@gpufleet)
description:
  - Sets the label C(nvidia.com/gpu.deploy.container-toolkit) of a Kubernetes node, by which the GPU Operator keeps its toolkit on a node
    or away from it, and waits until the toolkit's pod has ended, or is ready.
  - It is a step of the playbook C(gpufleet.nvidia.hand_over), which drains the node before, and converges and proves its host after. The
    host itself is not asked, its result of M(gpufleet.nvidia.host_info) is read.
notes:
  - It needs the collection C(kubernetes.core) and the Python library C(kubernetes) where the task runs.
  - The account needs C(get) and C(patch) of nodes, C(list) of pods, and C(list) of C(daemonsets) in the group C(apps).
extends_documentation_fragment:
  - gpufleet.nvidia.rollout
  - gpufleet.nvidia.attributes
  - gpufleet.nvidia.kubernetes
attributes:
  check_mode:
    support: full
    details:
      - The Kubernetes API judges the change of the label (dry run) and discards it. Nothing is waited for.
      - With O(step=check) the task is changed where the node would be handed over, and says by which steps.
  diff_mode:
    support: partial
    details:
      - Of the label, with O(step=check) in check mode.
  idempotent:
    support: full
options:
  to:
    description:
      - Who shall configure the node's engine. V(state) only says who does.
    type: str
    choices: [collection, operator, state]
    default: collection
  step:
    description:
      - V(check) says whether there is something to do, and fails where it cannot be done.
      - V(label) sets the label, and waits for the toolkit's pod.
      - V(converged) fails where the task whose result is O(results) has left the host as it was.
    type: str
    choices: [check, label, converged]
    default: check
  kubernetes_node:
    description: Name of the node. Empty takes the name of the host in the inventory.
    type: str
    default: ""
  rollout:
    description:
      - The id by which M(gpufleet.nvidia.drain) has taken the node out of service. A node that an earlier run has left so is handed over
        again, whoever configures its engine by now, and is put back into service by that.
    type: str
    default: default
  timeout:
    description: Seconds for the toolkit's pod to end, or to become ready.
    type: int
    default: 300
  interval:
    description: Seconds between two questions.
    type: int
    default: 5
seealso:
  - module: gpufleet.nvidia.drain
  - module: gpufleet.nvidia.host
  - module: gpufleet.nvidia.host_info
"""

EXAMPLES = r"""
- name: Say who configures the node's engine
  gpufleet.nvidia.hand_over:
    to: state
    kubeconfig: /etc/gpufleet/admin.kubeconfig
  delegate_to: localhost
"""

RETURN = r"""
needed:
  description: Whether the node is not yet where O(to) says, or an earlier run has left it out of service.
  returned: success
  type: bool
  sample: true
node:
  description: The node's name.
  returned: success
  type: str
  sample: gpu1
owner:
  description: V(operator), V(collection), or V(nobody) where neither of them configures the engine.
  returned: success
  type: str
  sample: operator
label:
  description: The value of the label C(nvidia.com/gpu.deploy.container-toolkit), empty where there is none.
  returned: success
  type: str
  sample: "true"
described:
  description: In which state the node is, for people.
  returned: success
  type: str
  sample: the node gpu1 has the label nvidia.com/gpu.deploy.container-toolkit=true
"""
