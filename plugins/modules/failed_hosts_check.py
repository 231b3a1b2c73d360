#!/usr/bin/python
# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation only: the action plugin of the same name plans on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: failed_hosts_check
short_description: Stop a play when too many hosts failed or were lost
version_added: 0.1.0
author:
  - The gpufleet.nvidia contributors (@gpufleet)
description:
  - Fails when more hosts of the play than O(max_failed) failed or were lost, over all batches so far.
  - Ansible's own C(max_fail_percentage) and C(any_errors_fatal) do not count unreachable hosts. So a play with C(serial) continues with its
    next batch even after it lost a whole batch.
  - The playbooks C(site), C(plan), C(rollback) and C(refresh_cdi) use it. C(rollout) judges its batches by itself.
  - Use it as the first and the last task of a play with C(serial). A batch that lost all its hosts has none left to run the last task; then
    the first task of the next batch stops the play.
  - The task runs once per batch in any case. Set C(run_once) nevertheless, since in a block older releases of ansible-core otherwise stop
    only the first host of the batch and not all of them.
  - In a play without C(serial) that has looked at all hosts before the first batch, it can also stop a fleet that has several container
    engines or decisions.
  - Runs on the controller only.
notes:
  - It counts the hosts of its own play. A job that AWX has cut into slices is as many plays, each with a budget of its own, so do not slice
    jobs that change hosts.
extends_documentation_fragment:
  - gpufleet.nvidia.attributes
  - gpufleet.nvidia.attributes.info
  - gpufleet.nvidia.attributes.once
options:
  max_failed:
    description:
      - How many hosts of the whole play may fail or be lost, as a number, V(2), or as a percentage of all hosts of the play, V(10%).
      - A percentage is rounded down.
    type: str
    default: '0'
  fleet_policy:
    description:
      - V(per_host) lets every host have the engine that it has. V(uniform) fails when the hosts in O(results) have more than one kind of
        container engine or more than one decision, and names the oldest hosts.
    type: str
    choices: [per_host, uniform]
    default: per_host
  results:
    description:
      - Name of the variable that holds each host's result of M(gpufleet.nvidia.host_info). Read with O(fleet_policy=uniform), and for
        hosts that this step lost and C(ignore_unreachable) keeps in the play; hosts that later steps lost are counted in any case.
    type: str
    default: ''
seealso:
  - module: gpufleet.nvidia.host
"""

EXAMPLES = r"""
- name: Roll out in waves
  hosts: gpu_hosts
  gather_facts: false
  serial: [1, '10%', '30%']
  tasks:
    - name: Stop if too many hosts are lost already
      gpufleet.nvidia.failed_hosts_check:
        max_failed: 2%
      run_once: true

    - name: Converge the host
      gpufleet.nvidia.host:

    - name: Stop before the next wave if too many hosts are lost
      gpufleet.nvidia.failed_hosts_check:
        max_failed: 2%
      run_once: true
"""

RETURN = r"""
lost:
  description: The hosts of the play that failed or were lost so far.
  returned: always
  type: list
  elements: str
  sample: [gpu17, gpu23]
allowed:
  description: How many hosts may fail or be lost.
  returned: always
  type: int
  sample: 2
total:
  description: How many hosts the play has.
  returned: always
  type: int
  sample: 100
"""
