#!/usr/bin/python
# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation only: the action plugin of the same name plans on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: cdi_spec_info
short_description: Check the CDI specs of a host, by whomever written
version_added: 0.1.0
author:
  - The gpufleet.nvidia contributors (@gpufleet)
description:
  - Reads every file in the CDI directories of a host as the reference library of CDI reads it, and checks it against the host itself.
    Changes nothing, and never fails because of what it finds.
  - RV(devices) tells what engines resolve there, RV(findings) what is wrong with a spec.
  - Of specs only what is judged leaves a host. Values of C(env), arguments that hooks of NVIDIA's do not know, annotations, unknown fields
    and comments are C((hidden)) in messages; equal ones are known to be equal.
extends_documentation_fragment:
  - gpufleet.nvidia.attributes
  - gpufleet.nvidia.attributes.info
  - gpufleet.nvidia.attributes.actiongroup_host
  - gpufleet.nvidia.common
  - gpufleet.nvidia.common.root
  - gpufleet.nvidia.common.cdi_roots
options:
  cdi_spec_dirs:
    description:
      - The directories in which the engines of the host look for CDI specs, lowest priority first. Empty means C(/etc/cdi) and
        C(/var/run/cdi), which is every engine's default.
    type: list
    elements: path
    default: []
  cdi_version:
    description:
      - The highest version of a CDI spec that every consumer on the host accepts, V(0.5.0) for example. A newer file is a finding.
    type: str
    choices: ['0.3.0', '0.4.0', '0.5.0', '0.6.0', '0.7.0', '0.8.0', '1.0.0', '1.1.0']
    default: '0.6.0'
seealso:
  - module: gpufleet.nvidia.cdi_spec
  - module: gpufleet.nvidia.host_info
"""

EXAMPLES = r"""
- name: Look at all CDI specs of the host
  gpufleet.nvidia.cdi_spec_info:
  register: checked

- name: Stop where one of them loses a device or breaks a container
  ansible.builtin.assert:
    that: checked.findings | selectattr('level', 'eq', 'error') | length == 0
    fail_msg: "{{ checked.findings | map(attribute='message') | join('; ') }}"
"""

RETURN = r"""
findings:
  description: Problems of the CDI specs of the host, and notes on them, by file and line.
  returned: always
  type: list
  elements: dict
  sample:
    - file: /etc/cdi/nvidia.yaml
      line: 12
      device: nvidia.com/gpu=0
      rule: stale-numbers
      code: cdi-lint.stale-numbers
      level: error
      message: /dev/nvidia-uvm is 511:0 on this host, recorded is 510:0 [cdi-lint.stale-numbers]
      effect: The recorded ones win, so a container gets a node that leads nowhere (CUDA error 999, no devices found)
      remedy: Generate the file again, without the numbers that the kernel hands out at run time
  contains:
    file:
      description: The file or directory.
      type: str
      returned: always
    line:
      description: The line in the file, null where it is about the file as a whole.
      type: int
      returned: always
    device:
      description: The qualified name of the device, empty where it is about the whole file.
      type: str
      returned: always
    rule:
      description: The rule's name, which does not change between releases.
      type: str
      returned: always
    code:
      description: The code of the message, C(cdi-lint.) with the rule's name.
      type: str
      returned: always
    level:
      description: >-
        V(error) where a device is lost or a container with it does not work, V(warning) where it works with a risk,
        V(note) where it is worth knowing.
      type: str
      returned: always
    message:
      description: The problem that was found. It ends with the code.
      type: str
      returned: always
    effect:
      description: The effect on an engine.
      type: str
      returned: always
    remedy:
      description: The next step for a person.
      type: str
      returned: always
devices:
  description:
    - The qualified names that an engine with the newest release of the reference library resolves on this host, sorted.
  returned: always
  type: list
  elements: str
  sample: ["nvidia.com/gpu=0", "nvidia.com/gpu=GPU-2d3b0f5e-8b4c-5a4f-9d0e-6a1f5f0e7c11", "nvidia.com/gpu=all"]
advice:
  description: Facts that a person should know, and steps to take.
  returned: always
  type: list
  elements: str
  sample: []
"""
