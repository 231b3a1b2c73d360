#!/usr/bin/python
# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation only: the action plugin of the same name plans on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: cdi_spec
short_description: Write or remove the CDI spec that names a host's GPUs
version_added: 0.1.0
author:
  - The gpufleet.nvidia contributors (@gpufleet)
description:
  - Writes C(/etc/cdi/nvidia.yaml), which tells container engines the GPUs of a host by the names C(nvidia.com/gpu=0),
    C(nvidia.com/gpu=GPU-...) and C(nvidia.com/gpu=all), and what a container needs of each.
  - The kind is always C(nvidia.com/gpu). The spec holds the device nodes of the GPUs and the control nodes of the driver.
  - The version of the spec is the lowest that its content allows, since an engine that does not know a version loses the whole file.
  - Numbers of device nodes are recorded only where they cannot change. The kernel hands out the major of C(nvidia-uvm) anew at every boot.
  - The GPUs are read from C(/proc) and C(/sys). Only where the driver does not tell the UUID of a GPU that was never used, NVML is asked,
    once, in a process of its own with a time limit.
  - A file with other order and equal content is left as it is.
extends_documentation_fragment:
  - gpufleet.nvidia.attributes
  - gpufleet.nvidia.attributes.changes
  - gpufleet.nvidia.attributes.actiongroup_node
  - gpufleet.nvidia.common
  - gpufleet.nvidia.common.state
  - gpufleet.nvidia.common.cdi_owner
options:
  cdi_version:
    description:
      - The highest version of a CDI spec that every consumer on the host accepts, V(0.5.0) for example.
      - The module fails if the content needs more. Devices are called C(gpu0) instead of C(0) where it is below V(0.5.0).
    type: str
    choices: ['0.3.0', '0.4.0', '0.5.0', '0.6.0', '0.7.0', '0.8.0', '1.0.0', '1.1.0']
    default: '0.6.0'
  cdi_spec_dirs:
    description:
      - The directories in which the engines of the host look for CDI specs, lowest priority first. The spec goes into the first
        that survives a reboot. Empty means C(/etc/cdi) and C(/var/run/cdi), which is every engine's default.
    type: list
    elements: path
    default: []
notes:
  - MIG instances are not named yet. On hosts that have some, O(cdi_owner=theirs) leaves the spec to C(nvidia-cdi-refresh).
seealso:
  - module: gpufleet.nvidia.node
"""

EXAMPLES = r"""
- name: Write the spec of this host's GPUs
  gpufleet.nvidia.cdi_spec:

- name: Write it for an old Podman, which reads version 0.5.0 and nothing newer
  gpufleet.nvidia.cdi_spec:
    cdi_version: 0.5.0

- name: Take the file over from the toolkit's own unit
  gpufleet.nvidia.cdi_spec:
    cdi_owner: ours

- name: Remove it
  gpufleet.nvidia.cdi_spec:
    state: absent
"""

RETURN = r"""
differences:
  description: What differs from the wish, before this run; with C(--check) what a run would change.
  returned: always
  type: list
  elements: dict
  sample:
    - what: file
      path: /etc/cdi/nvidia.yaml
      key: nvidia.com/gpu
      before: null
      after: "CDI 0.5.0: 0, GPU-2d3b0f5e-8b4c-5a4f-9d0e-6a1f5f0e7c11, all"
      why: CDI 0.5.0 with 0, GPU-2d3b0f5e-8b4c-5a4f-9d0e-6a1f5f0e7c11, all; no consumer on this host is too old for it
  contains:
    what:
      description: The kind of thing, V(file), V(package), V(unit) or V(node).
      type: str
      returned: always
    path:
      description: The file, package or unit.
      type: str
      returned: always
    key:
      description: The key in the file, where there is one.
      type: str
      returned: always
    before:
      description: The value found, null where there was none.
      type: raw
      returned: always
    after:
      description: The value wanted, null where it goes.
      type: raw
      returned: always
    why:
      description: The reason, one sentence.
      type: str
      returned: always
actions:
  description: What is written and run, in order.
  returned: always
  type: list
  elements: str
  sample:
    - remove /var/run/cdi/nvidia.yaml
    - write /etc/cdi/nvidia.yaml
restarted:
  description: Always empty, since engines read CDI specs anew for every container.
  returned: always
  type: list
  elements: str
  sample: []
rolled_back:
  description: Whether the host was brought back to its state before the run because the result was not healthy.
  returned: always
  type: bool
  sample: false
journal:
  description: Where the host keeps the record of this change, null when nothing changed.
  returned: always
  type: str
  sample: /var/lib/gpufleet/journal/20261121T120000Z-0a1b2c3d
advice:
  description: What a person should know or do.
  returned: always
  type: list
  elements: str
  sample: []
evidence:
  description: What the node saw when something went wrong, in the words of its programs.
  returned: failure
  type: dict
  sample: {}
freshness:
  description:
    - Whether the CDI specs on the host are still true, before this run, judged from the same look at the host as all else.
    - One entry for each file that is there, this collection's and that of C(nvidia-cdi-refresh).
    - A spec is judged by what it names. What only the driver's own library could tell is not judged, for example whether a MIG instance
      of the same number still has the same UUID.
  returned: always
  type: list
  elements: dict
  sample:
    - path: /var/run/cdi/nvidia.yaml
      writer: theirs
      state: stale
      version: 0.5.0
      reasons:
        - what: nodes
          recorded: "/dev/nvidia-uvm 511:0"
          found: "/dev/nvidia-uvm 510:0"
          why: records /dev/nvidia-uvm as 511:0, and it is 510:0 now
  contains:
    path:
      description: The file.
      type: str
      returned: always
    writer:
      description: Who wrote it, V(ours) for this collection, V(theirs) for anybody else.
      type: str
      returned: always
    state:
      description: V(fresh) or V(stale).
      type: str
      returned: always
    version:
      description: The version that the file says it has, empty when it cannot be read.
      type: str
      returned: always
    reasons:
      description:
        - What is not true any more, empty for a fresh spec. Every entry has C(what), C(recorded), C(found) and C(why).
        - C(what) is V(driver), V(kernel), V(gpus), V(mig), V(nodes), V(files), V(cap) (newer than the oldest reader accepts), V(toolkit),
          or V(content) for a file that is no CDI spec.
      type: list
      elements: dict
      returned: always
"""
