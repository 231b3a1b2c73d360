#!/usr/bin/python
# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation only: the action plugin of the same name works on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: rollout_plan
short_description: Plan a rollout from the look at all of its hosts
version_added: 0.1.0
author:
  - The gpufleet.nvidia contributors (@gpufleet)
description:
  - Says for each host of the play whether it has something to do, is as desired already, or is left out, and in which batch it is changed.
    Canaries of each class come first, then waves, spread over failure domains.
  - The order follows from the hosts' names alone, so that a rollout that goes on after an interruption is the same one.
  - Plans no batch when more hosts would be left out than may be, and says so in C(ended).
  - Runs on the controller only. Use it with C(run_once).
extends_documentation_fragment:
  - gpufleet.nvidia.rollout
  - gpufleet.nvidia.rollout.settings
  - gpufleet.nvidia.attributes
  - gpufleet.nvidia.attributes.info
  - gpufleet.nvidia.attributes.once
options:
  approvals:
    description:
      - Whether the run only plans, for somebody to approve. Then the changes of each class are set as statistics, as C(set_stats) does,
        under the name C(gpufleet_rollout_approved_changes), and the plan is printed only where it is also written to a file, without
        batches. In check mode the statistics are set in any case.
    type: bool
    default: false
  fleet_policy:
    description:
      - V(per_host) lets every host have the engine that it has. V(uniform) fails, before the first host is changed, when the hosts in
        O(results) have more than one kind of container engine or more than one decision, and names the oldest hosts.
    type: str
    choices: [per_host, uniform]
    default: per_host
seealso:
  - module: gpufleet.nvidia.rollout_settings
  - module: gpufleet.nvidia.rollout_batch
"""

EXAMPLES = r"""
- name: Plan the rollout
  gpufleet.nvidia.rollout_plan:
    settings: "{{ gpufleet_rollout_settings.settings }}"
  run_once: true
  register: gpufleet_rollout_plan
"""

RETURN = r"""
ended:
  description: Why no host is changed, since more hosts would be left out than may be. Empty otherwise.
  returned: success
  type: str
  sample: ''
clusters:
  description: Whether a host has C(gpufleet_kubernetes_apply), so that objects are applied to its cluster before and after its change.
  returned: success
  type: bool
  sample: false
rendered:
  description: Whether this collection keeps the objects of a cluster, in its API or as files (C(gpufleet_kubernetes_dir)).
  returned: success
  type: bool
  sample: false
plain:
  description: Whether no batch needs anything around the change of its hosts, as a drain, a soak, a cluster, or tasks of the user's.
  returned: success
  type: bool
  sample: true
pattern:
  description: The hosts to change, in their order, as a pattern for C(hosts) of a play. It matches no host where there is nothing to do.
  returned: success
  type: list
  elements: str
  sample: [gpu7, gpu3]
sizes:
  description: The sizes of the batches, for C(serial) of a play.
  returned: success
  type: list
  elements: int
  sample: [1, 1]
batches:
  description: Each batch with the number of its wave, V(0) for canaries, and its hosts.
  returned: success
  type: list
  elements: dict
  sample:
    - wave: 0
      hosts: [gpu7]
hosts:
  description: What was planned for each host. C(approved) is what the plan of a rollout that is bound to an approval lets the host do,
    for O(gpufleet.nvidia.host#module:approved_change).
  returned: success
  type: dict
  sample:
    gpu7:
      state: do
      why: ''
      class: containerd 1.7 (package), native-cdi, L4, 550, debian 12
      domain: ''
      change: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
      approved: ''
      gpus: 8
      running: ['containerd:/etc/containerd/config.toml']
limits:
  description: How many hosts of a group may be out of service at once, and the groups of each host that is changed. A group that has no
    number has no limit.
  returned: success
  type: dict
  sample:
    allowed: {partition gpu: 1}
    groups:
      gpu7: [partition gpu]
approved_changes:
  description: The digests of the changes that each class has, for O(gpufleet.nvidia.rollout_settings#module:approved_changes).
  returned: success
  type: dict
  sample:
    containerd 1.7 (package), native-cdi, L4, 550, debian 12: [9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08]
lines:
  description: The plan for people, line by line.
  returned: success
  type: list
  elements: str
  sample: ['2 hosts: 2 to change in 2 batches, 0 already as desired, 0 left out']
"""
