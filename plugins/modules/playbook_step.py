#!/usr/bin/python
# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation only: the action plugin of the same name works on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: playbook_step
short_description: Run one step of this collection's own playbooks
version_added: 0.1.0
author:
  - The gpufleet.nvidia contributors (@gpufleet)
description:
  - The playbooks C(gpufleet.nvidia.rollout), C(gpufleet.nvidia.plan) and C(gpufleet.nvidia.hand_over) are made of these steps. Do not use
    them in playbooks of your own. They are internal, and any release may change them.
  - Each step has options of its own, and refuses those of the others. F(plugins/doc_fragments/playbook_step.py) describes them.
  - Most steps run on the controller only, once for all hosts of the play. Use them with C(run_once). Such a step fails without it
    if the play has several hosts.
extends_documentation_fragment:
  - gpufleet.nvidia.attributes
attributes:
  check_mode:
    support: partial
    details:
      - Each step runs in check mode, and changes neither a host nor a cluster then. O(step=rollout_soak) does not run its command.
  diff_mode:
    support: partial
    details:
      - Of what O(step=rollout_cluster) and O(step=hand_over) change in a cluster.
  idempotent:
    support: partial
    details:
      - O(step=rollout_soak) runs its command each time.
options:
  step:
    description:
      - V(rollout_settings) judges the settings of a rollout before any host is looked at.
      - V(rollout_asked) returns the hosts whose orchestrators have to be asked before the rollout is planned.
      - V(rollout_plan) plans a rollout from the look at all of its hosts.
      - V(rollout_batch) begins or ends one batch, as the rollout's gate.
      - V(rollout_cluster) applies to clusters what the hosts of a batch need before and after their change.
      - V(rollout_driver) keeps the packages of a host's driver before your tasks change it, and judges the host afterwards.
      - V(rollout_soak) runs the check of your own on a host.
      - V(rollout_report) prints the outcome of a rollout.
      - V(keep_failure) keeps the message of a failed task.
      - V(hand_over) does the cluster's part of handing a node over between the GPU Operator's toolkit and this collection.
    type: str
    choices:
      - hand_over
      - keep_failure
      - rollout_asked
      - rollout_batch
      - rollout_cluster
      - rollout_driver
      - rollout_plan
      - rollout_report
      - rollout_settings
      - rollout_soak
    required: true
seealso:
  - module: gpufleet.nvidia.failed_hosts_check
"""

EXAMPLES = r"""
- name: Judge the settings of a rollout
  gpufleet.nvidia.playbook_step:
    step: rollout_settings
    waves: [1, 10%, 100%]
    domain: [rack]
  run_once: true
  register: gpufleet_rollout_settings
"""

RETURN = r"""
approved_changes:
  description: The digests of the changes that each class has, for the setting C(gpufleet_rollout_approved_changes).
  returned: by O(step=rollout_plan)
  type: dict
  sample:
    containerd 1.7 (package), native-cdi, L4, 550, debian 12: [9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08]
batches:
  description: Each batch with the number of its wave, V(0) for canaries, and its hosts.
  returned: by O(step=rollout_plan)
  type: list
  elements: dict
  sample:
    - wave: 0
      hosts: [gpu7]
change:
  description: The ticket (C(gpufleet_change_ref)), empty where there is none.
  returned: by O(step=rollout_report)
  type: str
  sample: CHG0012345
clusters:
  description: Whether a host has C(gpufleet_kubernetes_apply), so that objects are applied to its cluster before and after its change.
  returned: by O(step=rollout_plan) and O(step=rollout_batch)
  type: bool
  sample: false
described:
  description: In which state the node is, for people.
  returned: by O(step=hand_over)
  type: str
  sample: the node gpu1 has the label nvidia.com/gpu.deploy.container-toolkit=true
differences:
  description: Each change in the clusters, made or planned, with its reason.
  returned: by O(step=rollout_cluster)
  type: list
  elements: dict
  sample:
    - what: object
      path: Node gpu1
      key: labels
      before: nvidia.com/device-plugin.config=legacy-0f8e6d2a
      after: nvidia.com/device-plugin.config=native-cdi-4b1f6a90
      why: the label nvidia.com/device-plugin.config chooses the node's group, and others read the decision
ended:
  description: Why no batch starts any more, or why none of the plan starts since more hosts would be left out than may be. Empty otherwise.
  returned: by O(step=rollout_batch) and O(step=rollout_plan)
  type: str
  sample: ''
failures:
  description: The hosts that need attention, each with its outcome and the cause. Empty if RV(problem) is.
  returned: by O(step=rollout_report)
  type: dict
  sample:
    gpu3: "lost: Failed to connect to the host"
files:
  description: The files of tasks that the hosts of the batch take, by their point. Only at the beginning of a batch.
  returned: by O(step=rollout_batch)
  type: dict
  sample: {change: [tasks/rollout/converge.yml], held: [], last: []}
held:
  description: Hosts of the batch that must not start, each with the reason.
  returned: by O(step=rollout_batch)
  type: dict
  sample: {}
hosts:
  description: The plan of each host. C(approved) is what the plan of a rollout that is bound to an approval lets the host do,
    for O(gpufleet.nvidia.host#module:approved_change).
  returned: by O(step=rollout_plan)
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
kept:
  description: The failure, as the result of a failed task has it, with the keys C(failed), C(timedout) and C(msg).
  returned: by O(step=keep_failure)
  type: dict
  sample: {failed: true, timedout: {}, msg: the host failed}
label:
  description: The value of the label C(nvidia.com/gpu.deploy.container-toolkit), empty where there is none.
  returned: by O(step=hand_over)
  type: str
  sample: "true"
limits:
  description: How many hosts of a group may be out of service at once, and the groups of each host that is changed. A group that has no
    number has no limit.
  returned: by O(step=rollout_plan)
  type: dict
  sample:
    allowed: {partition gpu: 1}
    groups:
      gpu7: [partition gpu]
lines:
  description: The printed lines.
  returned: by O(step=rollout_plan) and O(step=rollout_cluster) and O(step=rollout_report)
  type: list
  elements: str
  sample: ['2 hosts: 2 to change in 2 batches, 0 already as desired, 0 left out']
looks:
  description: Whether hosts are looked at once more, for either of the two. Only at the beginning of a batch.
  returned: by O(step=rollout_batch)
  type: bool
  sample: false
msg:
  description: The message of the task that failed.
  returned: by O(step=keep_failure)
  type: str
  sample: the host failed
needed:
  description: Whether the node is not yet where C(to) says, or an earlier run has left it out of service.
  returned: by O(step=hand_over)
  type: bool
  sample: true
node:
  description: The node's name.
  returned: by O(step=hand_over)
  type: str
  sample: gpu1
owner:
  description: V(operator), V(collection), or V(nobody) where neither of them configures the engine.
  returned: by O(step=hand_over)
  type: str
  sample: operator
pattern:
  description: Those hosts, as a pattern for C(hosts) of a play. It matches no host where there is none.
  returned: by O(step=rollout_asked) and O(step=rollout_plan)
  type: list
  elements: str
  sample: [gpu3, gpu7]
plain:
  description: Whether no batch needs anything around the change of its hosts, as a drain, a soak, a cluster, or tasks of the user's.
  returned: by O(step=rollout_plan)
  type: bool
  sample: true
point:
  description: Which point of the batch this is the result of.
  returned: by O(step=rollout_batch)
  type: str
  sample: begin
problem:
  description: Why the run should not end as a success, in one sentence, empty where it may.
  returned: by O(step=rollout_report)
  type: str
  sample: ''
progress:
  description: How far the rollout has come.
  returned: by O(step=rollout_batch)
  type: dict
  sample:
    done: 12
    bad: {}
    stopped: {}
    ended: ''
    paused: false
rc:
  description: The command's exit status.
  returned: by O(step=rollout_soak)
  type: int
  sample: 0
refused:
  description: Why something could not be applied to a cluster, empty where all was.
  returned: by O(step=rollout_cluster)
  type: str
  sample: ''
settings:
  description: The settings as the other steps of a rollout take them.
  returned: by O(step=rollout_settings)
  type: dict
  sample:
    canaries: 1
    waves: [1, 10%, 100%]
rendered:
  description: Whether this collection keeps the objects of a cluster, in its API or as files (C(gpufleet_kubernetes_dir)).
  returned: by O(step=rollout_plan)
  type: bool
  sample: false
sizes:
  description: The sizes of the batches, for C(serial) of a play.
  returned: by O(step=rollout_plan)
  type: list
  elements: int
  sample: [1, 1]
soaks:
  description: Whether the hosts of the batch are looked at a second time. Only at the beginning of a batch.
  returned: by O(step=rollout_batch)
  type: bool
  sample: false
status:
  description: How the rollout ended, V(done), V(paused), V(stopped) by its gate, or V(failed) where hosts failed within
    the budget. In check mode V(predicted).
  returned: by O(step=rollout_report)
  type: str
  sample: done
stderr:
  description: The command's error output.
  returned: by O(step=rollout_soak)
  type: str
  sample: ''
stdout:
  description: The command's output.
  returned: by O(step=rollout_soak)
  type: str
  sample: ok
totals:
  description: How many hosts there are, and how many of them came to which end.
  returned: by O(step=rollout_report)
  type: dict
  sample:
    hosts: 2
    changed: 2
unstarted:
  description: The hosts that the gate would not have started. Only at the point C(tried).
  returned: by O(step=rollout_batch)
  type: list
  elements: str
  sample: []
user:
  description: Who has started the job in AWX, empty elsewhere.
  returned: by O(step=rollout_report)
  type: str
  sample: alice
verifies:
  description: Whether a host of the batch has an image for its verification. Only at the beginning of a batch.
  returned: by O(step=rollout_batch)
  type: bool
  sample: false
waits:
  description: Whether the device plugin of a node has to take up what was applied before its host is changed.
  returned: by O(step=rollout_cluster)
  type: bool
  sample: true
"""
