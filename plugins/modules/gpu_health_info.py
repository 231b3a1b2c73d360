#!/usr/bin/python
# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation only: the action plugin of the same name asks the host and judges on the
controller.
"""

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_health_info
short_description: Read what the kernel log of a host tells of its GPUs
version_added: 0.1.0
author:
  - The gpufleet.nvidia contributors (@gpufleet)
description:
  - Reads what the kernel log tells of GPUs since the host's last boot. These are the Xid errors of the NVIDIA driver, GPUs that are lost
    without one, and fatal errors of NVSwitches. Only the number of an error, the PCI address of its device, the word for its severity and
    its time leave the host.
  - Each line has the step that it asks for. Of an Xid, that is the immediate action of NVIDIA's catalogue
    (U(https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html)). This collection takes none of these steps.
  - Changes nothing. A value that cannot be read is reported as not known.
  - The playbook C(gpufleet.nvidia.rollout) runs it before a host is changed and after C(gpufleet_rollout_soak), and compares the two.
extends_documentation_fragment:
  - gpufleet.nvidia.attributes
  - gpufleet.nvidia.attributes.info
  - gpufleet.nvidia.attributes.actiongroup_host
  - gpufleet.nvidia.common
  - gpufleet.nvidia.common.root
options:
  nvml:
    description:
      - Whether NVML is asked as well for the state of the GPUs. It tells of lost GPUs, memory that waits for a reset or is beyond repair,
        NVLinks that are down, and the NVLink fabric. It also tells of brakes for power and heat that are there in each of three samples.
      - It is asked in a child that is killed after 40 seconds, and only where each GPU has its device node, since NVML makes missing ones.
        A child that does not answer in time is a finding of its own.
    type: bool
    default: false
seealso:
  - module: gpufleet.nvidia.gpu_diagnose
  - module: gpufleet.nvidia.host_info
"""

EXAMPLES = r"""
- name: Look for errors of the GPUs
  gpufleet.nvidia.gpu_health_info:
  register: health

- name: Ask the driver as well
  gpufleet.nvidia.gpu_health_info:
    nvml: true
  register: asked
  failed_when: asked.nvml.findings | selectattr('stops') | list | length > 0

- name: Show them
  ansible.builtin.debug:
    msg: "{{ health.kernel_log.errors if health.kernel_log.known else health.kernel_log.why }}"
"""

RETURN = r"""
nvml:
  description: The state of the GPUs that NVML reports.
  returned: when O(nvml=true)
  type: dict
  sample:
    known: true
    why: ""
    code: ""
    gpus:
      - {index: 0, bus_id: "0000:17:00.0", name: NVIDIA H100 80GB HBM3, lost: null, pages_pending: null, rows_pending: true,
         rows_failed: false, links: [true, true], fabric: {state: 3, status: 0, health: 0}, slowdown: 0, recovery: 0,
         unread: []}
    findings:
      - code: gpu-health.rows-pending
        what: rows of the memory of the GPU 0000:17:00.0 are remapped at its next reset
        gpu: "0000:17:00.0"
        step: reset
        next: stop what uses the GPU and reset it (nvidia-smi --gpu-reset -i ADDRESS), or reboot the host
        source: nvml
        stops: false
        accepted: false
  contains:
    known:
      description: Whether NVML has answered.
      type: bool
      returned: always
    why:
      description: Why it has not, V("") if it has.
      type: str
      returned: always
    code:
      description: The code of RV(nvml.why), V("") if NVML has answered.
      type: str
      returned: always
    gpus:
      description: Each GPU as NVML's numbers and flags tell. A value is null where the GPU or the driver does not have it.
      type: list
      elements: dict
      returned: always
    findings:
      description: Each thing that is wrong, as M(gpufleet.nvidia.host_info) has them in C(health).
      type: list
      elements: dict
      returned: always
kernel_log:
  description: The lines of the kernel log since the last boot that tell of GPUs, as far as the kernel still has them.
  returned: always
  type: dict
  sample:
    known: true
    why: ""
    code: ""
    boot: 7b3ad1cf-53c2-4a9e-9c0e-0f6a3f5a4f0b
    first: 0
    last: 2311
    complete: true
    errors:
      - xid: 79
        pci: "0000:41:00"
        step: reboot
        time: "2026-01-31T16:58:44Z"
        sequence: 2290
    lines: []
  contains:
    known:
      description: Whether the kernel log could be read.
      type: bool
      returned: always
    why:
      description: Why the log could not be read, V("") if it was read.
      type: str
      returned: always
    code:
      description: The code of RV(kernel_log.why), V("") if the log was read.
      type: str
      returned: always
    boot:
      description: The kernel's number of this boot.
      type: str
      returned: when known
    first:
      description:
        - The number of the oldest line that the kernel still has. The first one of a boot has the number 0.
        - With more than 1000 errors and other lines, the number of the line from which on they are listed.
      type: int
      returned: when known
    last:
      description: The number of the newest line, -1 where there is none.
      type: int
      returned: when known
    complete:
      description: Whether all lines between those two were read.
      type: bool
      returned: when known
    errors:
      description:
        - The Xid errors, oldest first. Of those with the same number on the same GPU, the newest 10.
        - RV(kernel_log.errors[].step) is V(none), V(application), V(update), V(reset), V(reboot), V(replace) or V(support). With
          the first two, the GPU is as healthy as before.
      type: list
      elements: dict
      returned: always
      contains:
        xid:
          description: The number of the error.
          type: int
          returned: always
        pci:
          description: The PCI address of the GPU, without its function.
          type: str
          returned: always
        step:
          description: The step that the error asks for.
          type: str
          returned: always
        time:
          description: When the driver wrote it.
          type: str
          returned: always
        sequence:
          description: The number of the line in the kernel log.
          type: int
          returned: always
    lines:
      description: Other lines that tell of a sick GPU or NVSwitch, oldest first. Of those of one kind and device, the newest 10.
      type: list
      elements: dict
      returned: always
      contains:
        kind:
          description:
            - V(off_bus) is a GPU that does not answer the driver's first question.
            - V(fell_off) is one that has fallen off the bus.
            - V(not_started) is one that the driver could not start.
            - V(not_probed) is one that the driver did not take.
            - V(reset_due) is one that serves nothing before its reset.
            - V(switch) is a fatal error (SXid) of an NVSwitch.
          type: str
          returned: always
        sxid:
          description: The number of the NVSwitch's error.
          type: int
          returned: for an NVSwitch
        pci:
          description: The PCI address of the device, without its function. V("") where the line has none.
          type: str
          returned: always
        step:
          description: The step that the line asks for.
          type: str
          returned: always
        time:
          description: When it was written.
          type: str
          returned: always
        sequence:
          description: The number of the line in the kernel log.
          type: int
          returned: always
"""
