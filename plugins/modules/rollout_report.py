#!/usr/bin/python
# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation only: the action plugin of the same name works on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: rollout_report
short_description: Print what a rollout came to
version_added: 0.1.0
author:
  - The gpufleet.nvidia contributors (@gpufleet)
description:
  - Prints the table that M(gpufleet.nvidia.fleet_table) prints, with the hosts that were left out and those that are still to do, and why.
  - Reports totals as C(set_stats) does, under the names C(gpufleet_rollout_totals) and C(gpufleet_totals), and how the
    rollout ended under C(gpufleet_rollout_result).
  - Runs on the controller only. Use it with C(run_once).
extends_documentation_fragment:
  - gpufleet.nvidia.rollout.plan
  - gpufleet.nvidia.attributes
  - gpufleet.nvidia.attributes.info
  - gpufleet.nvidia.attributes.once
options:
  settings:
    description: What M(gpufleet.nvidia.rollout_settings) returned, for the event of the end.
    type: dict
    default: {}
  refused:
    description: Why objects could not be applied to clusters for hosts that are as desired, as M(gpufleet.nvidia.rollout_cluster) says.
    type: str
    default: ''
seealso:
  - module: gpufleet.nvidia.rollout_plan
  - module: gpufleet.nvidia.fleet_table
"""

EXAMPLES = r"""
- name: Report
  gpufleet.nvidia.rollout_report:
    plan: "{{ gpufleet_rollout_plan }}"
  run_once: true
  register: gpufleet_rollout_end
"""

RETURN = r"""
lines:
  description: The table, line by line.
  returned: always
  type: list
  elements: str
  sample: ['2 hosts: 2 changed']
status:
  description: How the rollout ended, V(done), V(paused), V(stopped) by its gate, or V(failed) where hosts failed within
    the budget. In check mode V(predicted).
  returned: always
  type: str
  sample: done
totals:
  description: How many hosts there are, and how many of them came to which end.
  returned: always
  type: dict
  sample:
    hosts: 2
    changed: 2
change:
  description: The ticket (C(gpufleet_change_ref)), empty where there is none.
  returned: always
  type: str
  sample: CHG0012345
user:
  description: Who has started the job in AWX, empty elsewhere.
  returned: always
  type: str
  sample: alice
problem:
  description: Why the run should not end as a success, in one sentence, empty where it may.
  returned: always
  type: str
  sample: ''
failures:
  description: The hosts that need attention, each with its outcome and the cause. Empty if RV(problem) is.
  returned: always
  type: dict
  sample:
    gpu3: "lost: Failed to connect to the host"
"""
