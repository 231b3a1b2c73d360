#!/usr/bin/python
# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation only: the action plugin of the same name works on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: rollout_asked
short_description: Say which hosts of a rollout have somebody who takes them out of service
version_added: 0.1.0
author:
  - The gpufleet.nvidia contributors (@gpufleet)
description:
  - Names the hosts of the play for which M(gpufleet.nvidia.drain) has somebody to ask before the rollout is planned. These are hosts with a
    kubelet or C(slurmd), those with commands of yours (C(gpufleet_drain_commands)), and those with C(gpufleet_drain=always), whatever
    C(gpufleet_drain_by) says. It names none with C(gpufleet_drain=never), and none that could not be looked at.
  - The other hosts then take no task. Of 400 hosts without a kubelet none does.
  - Runs on the controller only. Use it with C(run_once).
extends_documentation_fragment:
  - gpufleet.nvidia.rollout
  - gpufleet.nvidia.attributes
  - gpufleet.nvidia.attributes.info
  - gpufleet.nvidia.attributes.once
options: {}
seealso:
  - module: gpufleet.nvidia.drain
  - module: gpufleet.nvidia.rollout_plan
"""

EXAMPLES = r"""
- name: See which hosts have somebody who takes them out of service
  gpufleet.nvidia.rollout_asked:
  run_once: true
  register: gpufleet_rollout_asked
"""

RETURN = r"""
pattern:
  description: Those hosts, as a pattern for C(hosts) of a play. It matches no host where there is none.
  returned: success
  type: list
  elements: str
  sample: [gpu3, gpu7]
"""
