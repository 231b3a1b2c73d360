# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options of modules that go on from what others have found: the look at hosts, the settings of a
rollout, its plan.
"""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  results:
    description:
      - Name of the variable that holds the result of M(gpufleet.nvidia.host_info), of each host that the task is about.
    type: str
    default: gpufleet_host_info
"""

    SETTINGS = r"""
options:
  settings:
    description:
      - What the step C(rollout_settings) returned as C(settings).
    type: dict
    required: true
"""

    PLAN = r"""
options:
  plan:
    description:
      - What the step C(rollout_plan) returned.
    type: dict
    required: true
"""
