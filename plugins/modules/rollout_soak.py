#!/usr/bin/python
# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation only: the action plugin of the same name runs ansible.builtin.command on the host."""

from __future__ import annotations

DOCUMENTATION = r"""
module: rollout_soak
short_description: Run the check of your own after the soak of a rollout
version_added: 0.1.0
author:
  - The gpufleet.nvidia contributors (@gpufleet)
description:
  - Runs a command on the host as M(ansible.builtin.command) does. The playbook C(gpufleet.nvidia.rollout) runs
    C(gpufleet_rollout_soak_command) by it.
  - If the host ends the connection meanwhile, the words of that host are in the result. They are never rendered as a template.
extends_documentation_fragment:
  - gpufleet.nvidia.attributes
options:
  argv:
    description: The command, word by word.
    type: list
    elements: str
    required: true
attributes:
  check_mode:
    support: none
    details:
      - The command is not run in check mode.
  diff_mode:
    support: none
    details:
      - A command shows no difference.
  idempotent:
    support: none
    details:
      - The command is run each time.
seealso:
  - module: ansible.builtin.command
"""

EXAMPLES = r"""
- name: Ask a check of your own
  gpufleet.nvidia.rollout_soak:
    argv: [systemctl, is-active, containerd.service]
  changed_when: false
"""

RETURN = r"""
rc:
  description: The command's exit status.
  returned: if the command was run
  type: int
  sample: 0
stdout:
  description: The command's output.
  returned: if the command was run
  type: str
  sample: ok
stderr:
  description: The command's error output.
  returned: if the command was run
  type: str
  sample: ''
"""
