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
  - Runs a command on the host as M(ansible.builtin.command) does. What the host says when it is lost in it is never a template.
extends_documentation_fragment:
  - gpufleet.nvidia.attributes
options:
  argv:
    description: The command, word by word.
    type: list
    elements: str
    required: true
"""
