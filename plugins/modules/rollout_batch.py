#!/usr/bin/python
# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation only: the action plugin of the same name works on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: rollout_batch
short_description: Begin or end one batch of a rollout
version_added: 0.1.0
author:
  - The gpufleet.nvidia contributors (@gpufleet)
description:
  - The gate of a rollout, as the first and as the last task of each batch. It counts the hosts that failed, were rolled back or were lost
    over all batches so far.
  - Never fails because of them. It says whether the play should end, and which hosts of the batch must not start, since a canary of their
    class did not come through.
  - Runs on the controller only. Use it with C(run_once).
extends_documentation_fragment:
  - gpufleet.nvidia.rollout.settings
  - gpufleet.nvidia.rollout.plan
  - gpufleet.nvidia.attributes
  - gpufleet.nvidia.attributes.info
  - gpufleet.nvidia.attributes.once
options:
  point:
    description:
      - Whether the batch begins or ends.
      - V(ready) says whether it could begin now, and tells nobody, so that a person can be asked before.
    type: str
    choices: [ready, begin, end]
    required: true
  declined:
    description: Whether a person who was asked does not want the batch. Then the rollout ends as C(paused).
    type: bool
    default: false
  refused:
    description:
      - Why no further batch may start, as M(gpufleet.nvidia.rollout_cluster) says it. Empty where one may.
      - At O(point=begin) no host of the batch starts, either.
    type: str
    default: ''
seealso:
  - module: gpufleet.nvidia.rollout_plan
  - module: gpufleet.nvidia.rollout_gate
"""

EXAMPLES = r"""
- name: Begin the batch
  gpufleet.nvidia.rollout_batch:
    point: begin
    settings: "{{ gpufleet_rollout_settings.settings }}"
    plan: "{{ gpufleet_rollout_plan }}"
  run_once: true
  register: gpufleet_rollout_step
"""

RETURN = r"""
point:
  description: Which point of the batch this is the result of.
  returned: success
  type: str
  sample: begin
held:
  description: Hosts of the batch that must not start, each with the reason.
  returned: success
  type: dict
  sample: {}
ended:
  description: Why no batch starts any more, empty where one may.
  returned: success
  type: str
  sample: ''
soaks:
  description: Whether the hosts of the batch are looked at a second time. Only at the beginning of a batch.
  returned: success
  type: bool
  sample: false
clusters:
  description: Whether objects are applied to a cluster before and after the change of its hosts. Only at the beginning of a batch.
  returned: success
  type: bool
  sample: false
looks:
  description: Whether hosts are looked at once more, for either of the two. Only at the beginning of a batch.
  returned: success
  type: bool
  sample: false
files:
  description: The files of tasks that the hosts of the batch take, by their point. Only at the beginning of a batch.
  returned: success
  type: dict
  sample: {change: [tasks/rollout/converge.yml], held: [], last: []}
verifies:
  description: Whether a host of the batch has an image for its verification. Only at the beginning of a batch.
  returned: success
  type: bool
  sample: false
progress:
  description: How far the rollout has come.
  returned: success
  type: dict
  sample:
    done: 12
    bad: {}
    stopped: {}
    ended: ''
    paused: false
"""
