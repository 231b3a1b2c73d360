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
  - Prints one line for every host of the play from results that M(gpufleet.nvidia.node) or M(gpufleet.nvidia.node_info) left in a variable.
    Host, engine and version, injection, changed, restarted, why.
  - Below it stands what people should know or do, the C(advice) of the results, each sentence once with its hosts. A transaction that a
    host has taken back since the run before is told there.
  - Runs on the controller only. Use it with C(run_once).
extends_documentation_fragment:
  - gpufleet.nvidia.attributes
  - gpufleet.nvidia.attributes.info
  - gpufleet.nvidia.attributes.actiongroup_node
options:
  results:
    description: Name of the variable that holds each host's result.
    type: str
    required: true
  fleet_policy:
    description: V(uniform) fails on a mix of container engines, V(per_host) does not care.
    type: str
    choices: [per_host, uniform]
    default: per_host
  details:
    description: Also list every difference with its reason, below the table.
    type: bool
    default: false
seealso:
  - module: gpufleet.nvidia.node
  - module: gpufleet.nvidia.node_info
"""

EXAMPLES = r"""
- name: Show the fleet
  gpufleet.nvidia.fleet_table:
    results: gpufleet_node_result
  run_once: true
"""

RETURN = r"""
lines:
  description: The table as it was printed.
  returned: always
  type: list
  elements: str
  sample:
    - host  engine             injection   changed  restarted   why
    - gpu1  containerd 1.7.24  native-cdi  yes      containerd  containerd 1.7.24 resolves CDI devices itself
"""
