#!/usr/bin/python
# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation only: the action plugin of the same name plans on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: fleet_table
short_description: Print one table of the fleet
version_added: 0.1.0
author:
  - The gpufleet.nvidia contributors (@gpufleet)
description:
  - Prints one line for every host of the play from results that M(gpufleet.nvidia.host) or M(gpufleet.nvidia.host_info) left in a variable.
    Host, engine and version, GPUs and driver, injection, changed, restarted, why. The totals come first, then hosts that need a person.
  - Three or more hosts with the same line share it. A column with one value on all hosts is a line below the table.
  - With O(details) the differences follow, once for each group of hosts with equal differences. Then follows what people should know or do,
    the C(advice) of the results, each sentence once with its hosts.
  - Reports totals as C(set_stats) does, under the name C(gpufleet_totals), so that AWX and callbacks can use them.
  - Prints nothing if the stdout callback writes JSON. The lines are in the result in any case.
  - Runs on the controller only. Use it with C(run_once).
extends_documentation_fragment:
  - gpufleet.nvidia.attributes
  - gpufleet.nvidia.attributes.info
options:
  results:
    description:
      - Name of the variable that holds each host's result.
      - A name that no host has is an error, unless it is one that a role of this collection registers.
    type: str
    required: true
  also:
    description:
      - Names of variables with other results of the same run. A host where one of them failed is shown as failed, with its message.
    type: list
    elements: str
    default: []
  view:
    description:
      - What is shown. V(hosts) is the table of the fleet, V(verification) what M(gpufleet.nvidia.host_verify) has shown on each host,
        V(journal) the journals as M(gpufleet.nvidia.host_info) returns them, and V(cdi) what M(gpufleet.nvidia.cdi_spec) found of the
        CDI specs. V(reached) shows nothing, and counts the hosts that gave no answer, or whose plan is refused.
    type: str
    choices: [hosts, verification, journal, cdi, reached]
    default: hosts
  details:
    description: Also list every difference with its reason, below the table.
    type: bool
    default: false
  columns:
    description:
      - Columns to show after the host's name, instead of the built-in ones.
    type: list
    elements: dict
    default: []
    suboptions:
      title:
        description: The column's title.
        type: str
        required: true
      path:
        description:
          - Where the value is in the host's result, as a JMESPath expression.
          - The built-in cells are there as C(table), for example C(table.engine), C(table.gpus), C(table.injection), C(table.changed),
            C(table.restarted) and C(table.why).
          - Names with dots between them need no library; anything else needs the Python library C(jmespath) on the controller.
        type: str
        required: true
  fail_on_drift:
    description: Whether RV(problem) also speaks of hosts that would change, or that a run would refuse.
    type: bool
    default: false
  max_lost:
    description:
      - How many hosts may be lost before RV(problem) speaks of them, as a number or as a percentage such as V(10%), rounded up.
      - A large fleet always has some hosts that do not answer.
    type: raw
    default: 0
  playbook:
    description: The playbook that ends with this table. The last line then has the command that comes next.
    type: str
    default: ""
  width:
    description: Columns of text; V(0) takes E(COLUMNS), else the terminal's width, else 120.
    type: int
    default: 0
seealso:
  - module: gpufleet.nvidia.host
  - module: gpufleet.nvidia.host_info
"""

EXAMPLES = r"""
- name: Show the fleet
  gpufleet.nvidia.fleet_table:
    results: gpufleet_host_result
  run_once: true

- name: Show the fleet with columns of one's own
  gpufleet.nvidia.fleet_table:
    results: gpufleet_host_result
    columns:
      - title: changed
        path: table.changed
      - title: isolation
        path: decision.isolation
      - title: why
        path: table.why
  register: fleet
  run_once: true

- name: Fail where hosts failed or were lost
  ansible.builtin.fail:
    msg: "{{ fleet.problem }}"
  when: fleet.problem | length > 0
  run_once: true
"""

RETURN = r"""
lines:
  description: The table, line by line.
  returned: always
  type: list
  elements: str
  sample:
    - HOST  ENGINE             GPUS                 INJECTION   CHANGED  RESTARTED   WHY
    - gpu1  containerd 1.7.24  2 x L4, 550.163.01   native-cdi  yes      containerd  containerd 1.7.24 resolves CDI devices itself
totals:
  description:
    - How many hosts there are, how many of them came to which end, and the names of the hosts that need a person. Also reported as
      C(set_stats) does, under C(gpufleet_totals).
    - The keys are those of the sample for O(view=hosts).
    - For O(view=verification) they are C(verified), C(not_verified), C(nothing_to_verify), C(lost) and C(not_reached), for O(view=cdi)
      C(fresh), C(written), C(would_be_written), C(stale), C(none), C(failed), C(rolled_back), C(lost) and C(not_reached), for
      O(view=journal) C(failed), C(lost) and C(not_reached), each in addition to C(hosts) and C(needs_person).
  returned: always
  type: dict
  sample:
    hosts: 3
    failed: 0
    rolled_back: 0
    lost: 1
    refused: 0
    not_reached: 0
    left_out: 0
    pending: 0
    not_managed: 0
    would_change: 0
    changed: 1
    unchanged: 1
    needs_person: [gpu3]
problem:
  description:
    - Why the run should not end as a success, in one sentence, empty where it may. Hosts that failed, were rolled back, were lost or not
      reached, more of them lost than O(max_lost) allows; with O(fail_on_drift) also hosts that would change or be refused.
  returned: always
  type: str
  sample: "of 3 hosts: 1 lost: gpu3"
failures:
  description: The hosts that need attention, each with its outcome and the cause. Empty if RV(problem) is.
  returned: always
  type: dict
  sample:
    gpu3: "lost: Failed to connect to the host"
"""
