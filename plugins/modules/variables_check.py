#!/usr/bin/python
# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation only: the action plugin of the same name works on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: variables_check
short_description: Find misspelt variables and settings that a run would ignore
version_added: 0.1.0
author:
  - The gpufleet.nvidia contributors (@gpufleet)
description:
  - Reads the names of all variables of all hosts of the play that begin with C(gpufleet_). Fails if the roles and playbooks of this
    collection do not know one of them; the message suggests the nearest name that they know.
  - Fails if a setting of the whole run (C(gpufleet_hosts), C(gpufleet_serial), C(gpufleet_max_failed), C(gpufleet_fleet_policy),
    C(gpufleet_fail_on_drift), C(gpufleet_table_columns)) is set in the inventory. Ansible reads C(hosts) and C(serial) of a play before it
    knows any host, so it would silently ignore the setting there.
  - Fails if the roles accept no such value, or if the settings of the drain cannot be used together, for all hosts in one
    message.
  - Fails if the archive of packages that C(gpufleet_bundle_file) names cannot be read on this controller.
  - Fails if a playbook of this collection is run with C(--tags) or C(--skip-tags), since their tasks have no tags.
  - Every playbook of this collection begins with this task. It runs once, on the controller only, whatever the number of hosts.
extends_documentation_fragment:
  - gpufleet.nvidia.attributes
  - gpufleet.nvidia.attributes.info
  - gpufleet.nvidia.attributes.once
options:
  own:
    description:
      - Names of your own variables that begin with C(gpufleet_), results that your tasks register among them.
      - The playbooks take them from the variable C(gpufleet_own_variables).
    type: list
    elements: str
    default: []
  written:
    description:
      - Names of variables that say which file this run writes. Without them, C(gpufleet_bundle_file) has to be a file that can be read.
    type: list
    elements: str
    default: []
seealso:
  - module: gpufleet.nvidia.failed_hosts_check
"""

EXAMPLES = r"""
- name: Check the variables
  gpufleet.nvidia.variables_check:

- name: Check the variables, with one of our own
  gpufleet.nvidia.variables_check:
    own: [gpufleet_site]
"""

RETURN = r"""
msg:
  description: Each problem, and where the value is to be set instead.
  returned: failure
  type: str
  sample: There is no variable gpufleet_isolaton (did you mean gpufleet_isolation?), and it is set for gpu1. Nothing was done
"""
