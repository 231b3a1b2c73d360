#!/usr/bin/python
# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation only: the action plugin of the same name works on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: keep_failure
short_description: Keep the message of a failed task
version_added: 0.1.0
author:
  - The gpufleet.nvidia contributors (@gpufleet)
description:
  - Keeps what the variable C(ansible_failed_result) has in a C(rescue). The playbooks C(gpufleet.nvidia.rollout) and
    C(gpufleet.nvidia.hand_over) use it.
  - Nothing of the message is rendered. C(ansible.builtin.set_fact) would render what a host has said, on an ansible-core before 2.19.
  - The task has to register the result. A fact would outlive the run in a fact cache, and C(inject_facts_as_vars) could hide it.
  - Runs on the controller only.
extends_documentation_fragment:
  - gpufleet.nvidia.attributes
  - gpufleet.nvidia.attributes.info
options:
  variable:
    description: The variable in which the task registers the result. With O(joined_by), its message stands before the new one.
    type: str
    choices: [gpufleet_rollout_failure, gpufleet_hand_over_failure]
    required: true
  otherwise:
    description: The message if the task that failed has none.
    type: str
    default: a task failed
  joined_by:
    description: Text between the message that the variable has already and the new one. If it is empty, the new message takes the place of
      the earlier one.
    type: str
    default: ""
seealso:
  - module: ansible.builtin.set_fact
"""

EXAMPLES = r"""
- name: Keep what went wrong
  gpufleet.nvidia.keep_failure:
    variable: gpufleet_rollout_failure
    otherwise: the host failed
  register: gpufleet_rollout_failure
"""

RETURN = r"""
msg:
  description: The message of the task that failed.
  returned: success
  type: str
  sample: the host failed
kept:
  description: The failure, as the result of a failed task has it, with the keys C(failed), C(timedout) and C(msg).
  returned: success
  type: dict
  sample: {failed: true, timedout: {}, msg: the host failed}
"""
