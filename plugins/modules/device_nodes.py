#!/usr/bin/python
# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation only: the action plugin of the same name plans on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: device_nodes
short_description: Create the device nodes of NVIDIA's driver, now and at every boot
version_added: 0.1.0
author:
  - The gpufleet.nvidia contributors (@gpufleet)
description:
  - Loads the modules V(nvidia) and V(nvidia-uvm), and creates C(/dev/nvidiactl), C(/dev/nvidia-uvm), C(/dev/nvidia-uvm-tools), one node for
    each GPU, C(/dev/nvidia-modeset) where its module is loaded, and the capability nodes of the MIG instances that exist.
  - The kernel assigns the major numbers (C(/proc/devices)), and the driver reports the minor numbers. A node with other
    numbers, or something else in its place, is replaced. Nodes for NVSwitch, IMEX and GPUDirect are left alone.
  - Mode, owner and group come from the parameters of the module (C(NVreg_DeviceFileMode) and so on), modes of capability nodes from the
    driver.
  - Creates the links in C(/dev/char) by which systemd finds devices. Without them a C(systemctl daemon-reload) takes devices away from
    containers on some hosts.
  - Nodes are gone after a reboot. So a small unit stays on the host that creates them at every boot, before anything starts containers. It
    is installed without a reload of systemd.
  - The differences are known from looking at the host, so check mode reports them exactly and runs nothing.
  - Does nothing on hosts without an NVIDIA GPU, on hosts where another driver uses the GPUs, and in containers. Fails if the driver cannot
    work, for example because of a version mismatch.
  - With O(state=absent) the unit is removed. The nodes stay until the next boot, since containers may use them.
extends_documentation_fragment:
  - gpufleet.nvidia.attributes
  - gpufleet.nvidia.attributes.changes
  - gpufleet.nvidia.attributes.actiongroup_host
  - gpufleet.nvidia.common
  - gpufleet.nvidia.common.root
  - gpufleet.nvidia.common.state
seealso:
  - module: gpufleet.nvidia.host
  - module: gpufleet.nvidia.cdi_spec
"""

EXAMPLES = r"""
- name: Make the nodes, now and at every boot
  gpufleet.nvidia.device_nodes:

- name: Take the unit back that makes them at boot
  gpufleet.nvidia.device_nodes:
    state: absent
"""

RETURN = r"""
differences:
  description: Differences between the current and the desired state, before this run; in check mode what a run would change.
  returned: success, and with C(-v) also after a failure
  type: list
  elements: dict
  sample:
    - what: node
      path: /dev/nvidia-uvm
      key: ""
      before: "511:0 0666 0:0"
      after: "510:0 0666 0:0"
      why: the kernel has nvidia-uvm as 510 now; with other numbers it is another device or none
  contains:
    what:
      description: The kind of thing, V(file), V(package), V(unit), V(module) for a kernel module, V(node), or V(mode) of a GPU.
      type: str
      returned: always
    path:
      description: The file, the package, the unit, the module, the node or the link to it, the UUID of the GPU.
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
    code:
      description: The code of the reason. It stays the same when the sentence changes.
      type: str
      returned: always
    cause:
      description:
        - Why something is less afterwards, null where nothing is taken away. A stopped or silent component is never a cause.
        - V(policy), the options ask for it. V(uninstalled), package, program and unit of a component are absent. V(hardware_gone),
          neither PCI nor a device node has the GPU any more. V(adoption), this collection takes over what another tool left, or the
          reverse. V(safety), a documented correction.
      type: str
      returned: always
leftovers:
  description: Files and settings of other tools on the host, as far as they concern this module. See M(gpufleet.nvidia.host) for the
    keys.
  returned: always
  type: list
  elements: dict
  sample: []
actions:
  description: Each file that is written and each command that is run, in order.
  returned: always
  type: list
  elements: str
  sample:
    - write /etc/gpufleet/device-nodes.json
    - start gpufleet-device-nodes.service
restarted:
  description: Always empty, since no engine has to be restarted for what this module writes.
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
  sample: /var/lib/gpufleet/journal/n0000000001-20261121T120000Z-0a1b2c3d
advice:
  description: Facts that a person should know, and steps to take.
  returned: always
  type: list
  elements: str
  sample: []
evidence:
  description: Evidence from the host if something went wrong. The words of its programs stay on the host, and codes of known causes stand
    for them.
  returned: failure
  type: dict
  sample: {}
error:
  description: The failure, in parts. C(msg) is the same as one text, with the code in brackets at its end.
  returned: failure, if a message with a code explains it
  type: dict
  sample:
    code: restore.not-regular
    what: this is not a regular file but a dir
    where: /etc/example
    line: null
    why: ''
    next: Remove it, then run again
  contains:
    code:
      description: The code of the message. It stays the same when a sentence changes.
      type: str
      returned: always
    what:
      description: The problem.
      type: str
      returned: always
    where:
      description: The file or the place, empty if there is none.
      type: str
      returned: always
    line:
      description: The line in the file, null if it is not known.
      type: int
      returned: always
    why:
      description: The cause, empty if C(what) tells it.
      type: str
      returned: always
    next:
      description: The next step for a person.
      type: str
      returned: always
"""
