#!/usr/bin/python
# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation only: the action plugin of the same name plans on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: cdi_spec
short_description: Write or remove the CDI specs that name a host's GPUs
version_added: 0.1.0
author:
  - The gpufleet.nvidia contributors (@gpufleet)
description:
  - Writes C(/etc/cdi/nvidia.yaml), by which container engines know the GPUs of a host under the names C(nvidia.com/gpu=0),
    C(nvidia.com/gpu=GPU-...) and C(nvidia.com/gpu=all), and what a container needs for each of them.
  - A GPU in MIG mode is named by its MIG devices, C(nvidia.com/gpu=0:1) and C(nvidia.com/gpu=MIG-...), each with the capability nodes of
    its instance. A host may have GPUs of both modes. A GPU in MIG mode without an instance has no name, since no container can use it.
  - The spec holds the device nodes of the GPUs, their DRM nodes, and the control nodes of the driver as far as they are there.
  - NVSwitches and IMEX channels are kinds of their own, in files of their own, see O(cdi_nvswitch) and O(cdi_imex_channels). A
    container asks for them beside its GPU.
  - The version of the spec is the lowest that its content allows, since an engine ignores a whole file whose version it does not know.
  - Numbers of device nodes are recorded only if they cannot change. The kernel may assign another major number to C(nvidia-uvm) at every
    boot.
  - The GPUs are read from C(/proc) and C(/sys). Only if the spec on the host is missing or cannot be right, NVML is asked, once, in a
    process of its own with a time limit. If NVML cannot be asked, C(nvidia-smi) is; if both fail, what C(/proc) has is used. The result
    says which of them named the devices.
  - A file with other order and equal content is left as it is.
  - WSL and Jetson, and GPUs that were given away to virtual machines, are recognised and refused.
  - Of specs that others wrote only what is judged leaves a host. Values of C(env), arguments that hooks of NVIDIA's do not know,
    annotations, unknown fields and comments are C((hidden)) in messages; equal ones are known to be equal.
extends_documentation_fragment:
  - gpufleet.nvidia.attributes
  - gpufleet.nvidia.attributes.changes
  - gpufleet.nvidia.attributes.actiongroup_host
  - gpufleet.nvidia.common
  - gpufleet.nvidia.common.root
  - gpufleet.nvidia.common.state
  - gpufleet.nvidia.common.adopt
  - gpufleet.nvidia.common.cdi_owner
  - gpufleet.nvidia.common.cdi_refresh
  - gpufleet.nvidia.cdi_devices
  - gpufleet.nvidia.cdi_fabric
  - gpufleet.nvidia.common.cdi_roots
  - gpufleet.nvidia.common.cdi_files
options:
  cdi_version:
    description:
      - The highest version of a CDI spec that every consumer on the host accepts, V(0.5.0) for example.
      - What needs more is left out or refused, see O(cdi_above_cap). Devices are called C(gpu0) instead of C(0) where it is below V(0.5.0).
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
  cdi_above_cap:
    description:
      - What becomes of content that needs a newer version than O(cdi_version) and that a container can do without, such as group ids.
      - V(drop) leaves it out and says so, V(refuse) fails. Content that cannot be left out always fails.
    type: str
    choices: [drop, refuse]
    default: drop
  cdi_layout:
    description:
      - V(gpu) is for workloads.
      - V(management) is for agents that configure or watch GPUs, under the vendor C(management.nvidia.com) and in a file of its own. Its
        device C(all) has every node of the driver, and each GPU has a device of its own with its MIG instances, whatever its mode.
    type: str
    choices: [gpu, management]
    default: gpu
  cdi_vendor:
    description:
      - The vendor in the kind of the spec. Empty means C(nvidia.com), and C(management.nvidia.com) with O(cdi_layout=management).
      - The file is called by vendor and class where the kind is not C(nvidia.com/gpu).
    type: str
    default: ""
  cdi_class:
    description:
      - The class in the kind of the spec.
    type: str
    default: gpu
  cdi_model_class:
    description:
      - The class of a second kind, in a second file, that names the same devices by model.
      - With V(model) for example, C(nvidia.com/model=h100-80gb-hbm3) is every GPU of that model, C(nvidia.com/model=h100-80gb-hbm3-0) the
        first GPU of the host, and C(nvidia.com/model=h100-80gb-hbm3-mig-1g.10gb-0:1) a MIG device.
      - Empty makes none. A file that was made before is removed by O(state=absent) with the same class.
    type: str
    default: ""
  cdi_missing_nodes:
    description:
      - What to do where a device node is missing on the host, without which a container would start with a GPU that does not work.
      - V(fail) changes nothing, V(allow) leaves the node out of the spec. The result tells the missing nodes either way.
      - In a tree (O(root)) that has no C(/dev/nvidia*) no node counts as missing. The spec then has the nodes that the driver would
        make, with advice that says so.
    type: str
    choices: [fail, allow]
    default: fail
notes:
  - Whether a GPU without any MIG instance is in MIG mode is known to NVML only. Where someone turns the mode on after the spec was
    written, the GPU keeps its name until it has an instance.
seealso:
  - module: gpufleet.nvidia.cdi_spec_info
  - module: gpufleet.nvidia.host
"""

EXAMPLES = r"""
- name: Write the spec of this host's GPUs
  gpufleet.nvidia.cdi_spec:

- name: Write it for an old Podman, which reads version 0.5.0 and nothing newer
  gpufleet.nvidia.cdi_spec:
    cdi_version: 0.5.0

- name: Name the GPUs by UUID only, and by model in a second kind
  gpufleet.nvidia.cdi_spec:
    cdi_device_names: [uuid]
    cdi_model_class: model

- name: Write the spec for monitoring agents
  gpufleet.nvidia.cdi_spec:
    cdi_layout: management

- name: Let containers ask for IMEX channel 0, as nvidia.com/imex-channel=0
  gpufleet.nvidia.cdi_spec:
    cdi_imex_channels: [0]

- name: Add a kind nvidia.com/gpu-nodes, for images that bring their own driver
  gpufleet.nvidia.cdi_spec:
    cdi_class: gpu-nodes
    cdi_profile: devices

- name: Take the file over from the toolkit's own unit
  gpufleet.nvidia.cdi_spec:
    cdi_owner: collection

- name: Remove it
  gpufleet.nvidia.cdi_spec:
    state: absent
"""

RETURN = r"""
differences:
  description: Differences between the current and the desired state, before this run; in check mode what a run would change.
  returned: success, and with C(-v) also after a failure
  type: list
  elements: dict
  sample:
    - what: file
      path: /etc/cdi/nvidia.yaml
      key: nvidia.com/gpu
      before: null
      after: "CDI 0.5.0: 0, GPU-2d3b0f5e-8b4c-5a4f-9d0e-6a1f5f0e7c11, all"
      why: devices according to nvml; no consumer on this host is too old for CDI 0.5.0
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
devices:
  description:
    - The qualified names that the specs of this module define, empty where it leaves the spec to others or removes it.
  returned: always
  type: list
  elements: str
  sample: ["nvidia.com/gpu=0", "nvidia.com/gpu=GPU-2d3b0f5e-8b4c-5a4f-9d0e-6a1f5f0e7c11", "nvidia.com/gpu=all"]
source:
  description:
    - Which source listed the devices, V(nvml), V(nvidia-smi) or V(procfs). V(procfs) also where the spec on the host is still right, so
      no other program had to be asked.
  returned: always
  type: str
  sample: nvml
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
    - remove /var/run/cdi/nvidia.yaml
    - write /etc/cdi/nvidia.yaml
restarted:
  description: Always empty, since no engine has to be restarted for what this module writes.
  returned: always
  type: list
  elements: str
  sample: []
profile:
  description: The profile by which the driver's files are in the spec, empty where no spec of this collection is wanted.
  returned: always
  type: str
  sample: full
missing:
  description:
    - Device nodes and files of the driver that the host ought to have and does not. The wanted capabilities need these files,
      or the driver's own list names them.
  returned: always
  type: list
  elements: str
  sample: [libnvidia-ptxjitcompiler.so.550.163.01]
left_out:
  description: Files of the driver that are on the host and not in the spec, because of the options.
  returned: always
  type: list
  elements: str
  sample: [/run/nvidia-persistenced/socket]
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
freshness:
  description:
    - Whether the CDI specs on the host are still true, before this run, judged from the same look at the host as all else.
    - One entry for each file that is there, this collection's and that of C(nvidia-cdi-refresh).
    - A spec is judged by what it names. Facts that only the driver's own library could tell are not judged, for example whether a MIG
      instance of the same number still has the same UUID.
  returned: always
  type: list
  elements: dict
  sample:
    - path: /var/run/cdi/nvidia.yaml
      writer: toolkit
      state: stale
      version: 0.5.0
      reasons:
        - what: nodes
          recorded: "/dev/nvidia-uvm 511:0"
          found: "/dev/nvidia-uvm 510:0"
          why: records /dev/nvidia-uvm as 511:0, but it is 510:0 now
          code: cdi.node-changed
  contains:
    path:
      description: The file.
      type: str
      returned: always
    writer:
      description: Who wrote it, V(collection), V(toolkit) for its C(nvidia-cdi-refresh), or V(other).
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
        - Each entry that is not true any more, empty for a fresh spec. Every entry has C(what), C(recorded), C(found) and C(why).
        - C(what) is V(driver), V(kernel), V(gpus), V(mig), V(nodes), V(files), V(cap) (newer than the oldest reader accepts), V(toolkit),
          or V(content) for a file that is not a CDI spec.
      type: list
      elements: dict
      returned: always
"""
