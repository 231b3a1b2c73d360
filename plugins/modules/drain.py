#!/usr/bin/python
# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation only: the action plugin of the same name decides on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: drain
short_description: Take a host out of service before a change, and back after its verification
version_added: 0.1.0
author:
  - The gpufleet.nvidia contributors (@gpufleet)
description:
  - Drains a host where a change would end containers or other work on its GPUs, waits until the work has ended, and puts the host back
    into service on request. Kubernetes, Slurm and commands of your own can drain it.
  - What is drained carries a mark with O(rollout), an annotation of the Kubernetes node or the reason of the Slurm node. By it a later
    run recognises what an interrupted one left drained. No file keeps that.
  - A node that someone else drained or cordoned, and one that does not work, is left as it is. Then the task fails with
    RV(outcome=left_out).
  - The task runs where C(delegate_to) says, normally on the controller. The host itself is not asked, its result of
    M(gpufleet.nvidia.host_info) is read.
notes:
  - Kubernetes needs the collection C(kubernetes.core) and the Python library C(kubernetes), and Slurm the program C(scontrol), each on the
    machine where the task runs. Commands of your own need C(timeout) of the GNU coreutils there.
  - The Kubernetes account needs C(get), C(list) and C(patch) of nodes, C(get) and C(list) of pods, and C(list) of C(daemonsets) in the
    group C(apps) for the lock of kured; with O(method=evict) also C(create) of C(pods/eviction).
extends_documentation_fragment:
  - gpufleet.nvidia.rollout
  - gpufleet.nvidia.kubernetes
  - gpufleet.nvidia.attributes
attributes:
  check_mode:
    support: full
    details:
      - A Kubernetes API judges the change of the node (dry run) and discards it. No command of yours is run, other than C(marked).
  diff_mode:
    support: none
  idempotent:
    support: full
options:
  state:
    description:
      - V(drained) decides whether the host has to be drained, and drains it.
      - V(in_service) takes the drain of this rollout back, and none of anybody else.
      - V(kept) leaves the host out of service and puts O(reason) into the mark, for a host that a change has broken.
      - V(checked) finds the node, asks how it stands, and changes nothing.
    type: str
    choices: [drained, in_service, kept, checked]
    default: drained
  policy:
    description:
      - Whether to drain the host before a change.
      - V(auto) drains where the planned restart would end containers, or where O(driver_changes) is set and processes use the GPUs.
      - V(always) drains in any case, V(never) in none.
    type: str
    choices: [auto, always, never]
    default: auto
  driver_changes:
    description:
      - Whether to treat the change as one of the driver, the compute mode or MPS, which ends every process that uses a GPU.
      - If it is unset, a rollout does so when C(gpufleet_rollout_tasks) has a file C(change), which may load a driver
        or reboot the host.
    type: bool
  unknown:
    description:
      - The reaction of O(policy=auto) and O(driver_changes) if it is not known whether processes use the GPUs, because some cannot be
        looked into, or have more files open than one look reads.
      - V(drain) drains the host, so that the change ends no work unseen. V(go_on) does not drain it for that reason, for
        hosts on which users without work on GPUs could hold up every rollout.
    type: str
    choices: [drain, go_on]
    default: drain
  by:
    description:
      - Who drains the host.
      - V(auto) takes Kubernetes where a kubelet runs on the host, Slurm where C(slurmd) does, and O(commands) where they are set. A host
        with none of them is not drained, which the result says.
    type: list
    elements: str
    choices: [auto, commands, slurm, kubernetes]
    default: [auto]
  method:
    description:
      - V(wait) lets no new work onto the host and waits until the work on its GPUs has ended by itself.
      - V(evict) has Kubernetes evict the pods, as far as their disruption budgets allow. One eviction ends a job that runs on many hosts.
        Slurm jobs are never cancelled.
    type: str
    choices: [wait, evict]
    default: wait
  timeout:
    description:
      - Seconds that the work may take to end.
    type: int
    default: 3600
  interval:
    description:
      - Seconds between two looks at what is still running.
    type: int
    default: 10
  on_timeout:
    description:
      - V(give_back) puts the host back into service as it was, and leaves it out of the rollout.
      - V(keep) leaves it drained, so its work ends some time; the next run of the rollout continues with it.
    type: str
    choices: [give_back, keep]
    default: give_back
  commands:
    description:
      - Commands of your own, each a list of words that no shell reads.
      - C(before) takes the host out of service and C(after) puts it back; both have to succeed, and may be run again.
      - C(wait), if given, is run every O(interval) seconds until it succeeds. Exit status 0 says that the work has ended.
      - C(marked), if given, succeeds where C(before) has been run by this rollout and C(after) has not. Without it, only the run that
        drained a host puts it back.
      - They get C(GPUFLEET_HOST), the host's name in the inventory, C(GPUFLEET_ROLLOUT), which is O(rollout), and C(GPUFLEET_REASON) in
        their environment.
    type: dict
    default: {}
  rollout:
    description:
      - The rollout's id. Runs with the same id take up each other's drains.
    type: str
    default: default
  reason:
    description:
      - The text that people read next to the mark, a ticket for example. Empty takes the reason for which the host is drained.
    type: str
    default: ''
  kubernetes_node:
    description:
      - The host's name as a Kubernetes node. Empty takes the host's own name in small letters, with or without its domain, else its name
        in the inventory.
    type: str
    default: ''
  kubernetes_hold:
    description:
      - How new pods are kept off the node. V(cordon) makes it unschedulable. V(taint) adds the taint C(gpufleet.nvidia/rollout) with the
        effect C(NoSchedule), which pods may tolerate. O(method=evict) takes V(cordon) only, since an eviction cordons the node.
    type: str
    choices: [cordon, taint]
    default: cordon
  kubernetes_force:
    description:
      - Whether O(method=evict) evicts pods that no controller would start again. Otherwise such a pod is a reason not to drain the node.
    type: bool
    default: false
  kubernetes_delete_emptydir_data:
    description:
      - Whether O(method=evict) evicts pods with an C(emptyDir), whose data are lost then. Otherwise such a pod is a reason not to drain
        the node.
    type: bool
    default: false
  slurm_node:
    description:
      - The host's name as a Slurm node. Empty takes the host's own name, with or without its domain, else its name in the inventory.
    type: str
    default: ''
  drained:
    description:
      - Name of the variable that holds the result of the task that has drained the host. Read with O(state=in_service) and O(commands)
        without C(marked).
    type: str
    default: gpufleet_drain_result
seealso:
  - module: gpufleet.nvidia.host_info
  - name: kubernetes.core.k8s_drain
    description: The program that evicts the pods.
    link: https://docs.ansible.com/ansible/latest/collections/kubernetes/core/k8s_drain_module.html
"""

EXAMPLES = r"""
- name: Look at the host
  gpufleet.nvidia.host_info:
  register: gpufleet_host_info

- name: Take the host out of service where the change would end containers
  gpufleet.nvidia.drain:
    rollout: docker-cdi-2026-03
    timeout: 7200
  delegate_to: localhost
  become: false
  register: gpufleet_drain_result

- name: Change the host
  gpufleet.nvidia.host:

- name: Put it back
  gpufleet.nvidia.drain:
    state: in_service
    rollout: docker-cdi-2026-03
  delegate_to: localhost
  become: false
"""

RETURN = r"""
outcome:
  description:
    - V(drained) - the host is out of service, and its work has ended.
    - V(not_needed) - nothing had to be done, RV(why) says the reason.
    - V(in_service) - the host is in service, and was before or is again.
    - V(left_out) - the host was not drained, RV(why) says the reason. It is as it was found, or could not be put back into service, which
      RV(why) says as well. The task fails.
    - V(pending) - the host is still out of service and its work has not ended. The task fails.
    - V(kept) - the host stays out of service.
    - V(ready) - it could be drained (O(state=checked)).
  returned: always
  type: str
  sample: drained
why:
  description: The reason, one sentence.
  returned: always
  type: str
  sample: "the restart ends 2 containers (web, db)"
by:
  description: Who drains the host.
  returned: always
  type: list
  elements: str
  sample: [kubernetes]
nodes:
  description: How each of them sees the host's node, before this task.
  returned: always
  type: dict
  sample:
    kubernetes: {state: in_service, text: "", node: gpu1}
seconds:
  description: How long the work took to end.
  returned: always
  type: int
  sample: 312
"""
