#!/usr/bin/python
# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation only: the action plugin of the same name works on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: fleet_report
short_description: Write a page and a JSON document about the fleet
version_added: 0.1.0
author:
  - The gpufleet.nvidia contributors (@gpufleet)
description:
  - Writes F(report.html) and F(report.json). They have the outcome of each host, the hosts that need a person, the versions of the fleet,
    each change with its reason, and each rollback with its evidence.
  - They also have the files that are no longer as this collection wrote them, stale CDI specs, and restarts that are left to a person.
  - The page is one file without outside assets. It works without JavaScript. With it, you can search, filter and sort the hosts.
  - Both files have mode C(0644) and replace those of an earlier run in one step. A directory that is missing is made. A directory that is
    reached through a symbolic link of another user is refused.
  - Runs on the controller only, and does the same in check mode, since the files are what the run is for. Use it with C(run_once).
extends_documentation_fragment:
  - gpufleet.nvidia.attributes
  - gpufleet.nvidia.attributes.report
  - gpufleet.nvidia.attributes.once
options:
  results:
    description: Name of the variable that holds each host's result, as for M(gpufleet.nvidia.fleet_table).
    type: str
    default: gpufleet_host_info
  also:
    description: Names of variables with other results of the same run, as for M(gpufleet.nvidia.fleet_table).
    type: list
    elements: str
    default: []
  plan:
    description: The plan of a rollout, as the playbook C(gpufleet.nvidia.rollout) hands it on. The report is then about that rollout, and
      O(results) is not read.
    type: dict
    default: {}
  sources:
    description:
      - Files F(report.json) of earlier runs, of other controllers for example, which are put together. No result of this run is read then.
      - Of a host that is in several the newest report counts, with a warning. A report knows a host by its name alone.
      - Name the reports if hosts of different places have one name. The hosts of V(north=north/report.json) are C(north/gpu1) and so on.
    type: list
    elements: path
    default: []
  directory:
    description: Where both files are written. Empty writes nothing, unless O(publish) takes them elsewhere.
    type: path
    default: ""
  publish:
    description:
      - Where the files go besides. An address, to which each file is sent with C(PUT) below its own name, or a command, a list of words
        that no shell reads, which gets the names of the files as further arguments.
      - A failure is a warning. It does not change how the run ends.
    type: raw
  files:
    description: More files that go where O(publish) says, the plan of a rollout for example. Those that are not there are left out.
    type: list
    elements: path
    default: []
  playbook:
    description: The name of the playbook, for the page's head.
    type: str
    default: report
  status:
    description: How a rollout ended.
    type: str
    default: ""
  change_ref:
    description: The ticket of the change, for the page's head.
    type: str
    default: ""
seealso:
  - module: gpufleet.nvidia.fleet_table
"""

EXAMPLES = r"""
- name: Look
  gpufleet.nvidia.host_info:
  register: gpufleet_host_info

- name: Write the report
  gpufleet.nvidia.fleet_report:
    directory: /srv/www/gpu-fleet
  run_once: true

- name: Put the reports of two controllers together
  gpufleet.nvidia.fleet_report:
    sources: [north=north/report.json, south=south/report.json]
    directory: fleet
  run_once: true
"""

RETURN = r"""
files:
  description: The files that were written, and that are still there.
  returned: always
  type: list
  elements: str
  sample: [/srv/www/gpu-fleet/report.json, /srv/www/gpu-fleet/report.html]
published:
  description: Whether O(publish) took them.
  returned: always
  type: bool
  sample: false
"""
