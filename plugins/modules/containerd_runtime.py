#!/usr/bin/python
# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation only: the action plugin of the same name plans on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: containerd_runtime
short_description: Add NVIDIA runtime handlers to containerd
version_added: 0.1.0
author:
  - The gpufleet.nvidia contributors (@gpufleet)
description:
  - Configures one containerd instance as its options say, without the decision for the whole host that M(gpufleet.nvidia.host) makes.
  - Also works on a bare directory tree, with O(root) and O(engine_version); no engine is needed there.
  - containerd 1.x gets an edit in place, since a drop-in there replaces the whole CRI table. containerd 2.x gets one small drop-in.
  - Comments, order and formatting of everything else stay as they are.

extends_documentation_fragment:
  - gpufleet.nvidia.attributes
  - gpufleet.nvidia.attributes.changes
  - gpufleet.nvidia.attributes.actiongroup_host
  - gpufleet.nvidia.common
  - gpufleet.nvidia.common.root
  - gpufleet.nvidia.common.state
  - gpufleet.nvidia.common.engine_version
  - gpufleet.nvidia.common.instance
  - gpufleet.nvidia.common.drop_in
  - gpufleet.nvidia.common.drop_in_path
  - gpufleet.nvidia.common.restart
  - gpufleet.nvidia.common.handlers
  - gpufleet.nvidia.common.cdi
  - gpufleet.nvidia.common.cdi_spec_dirs
  - gpufleet.nvidia.common.adopt
options:
  annotation_prefixes:
    description:
      - Prefixes of the annotations that containerd passes on to the handler, so the NVIDIA runtime can answer them. Empty takes the
        runtime's own, C(nvidia.cdi.k8s.io/).
      - The runtime answers the prefixes that M(gpufleet.nvidia.toolkit_config) names. containerd from 1.7 on answers C(cdi.k8s.io/) itself
        if CDI is on; if you name it here as well, a request is answered twice.
    type: list
    elements: str
    default: []
seealso:
  - module: gpufleet.nvidia.host
"""

EXAMPLES = r"""
- name: Add the handler
  gpufleet.nvidia.containerd_runtime:

- name: Pass on a prefix of your own, which the NVIDIA runtime is set to answer
  gpufleet.nvidia.containerd_runtime:
    annotation_prefixes: [gpu.example.org/]

- name: Prepare an image, no engine running there
  gpufleet.nvidia.containerd_runtime:
    root: /srv/image
    engine_version: "1.7.24"
"""

RETURN = r"""
differences:
  description: Differences between the current and the desired state, before this run; in check mode what a run would change.
  returned: success, and with C(-v) also after a failure
  type: list
  elements: dict
  sample:
    - what: file
      path: /etc/containerd/conf.d/90-gpufleet.toml
      key: plugins."io.containerd.cri.v1.runtime".containerd.runtimes.nvidia
      before: null
      after: /usr/bin/nvidia-container-runtime
      why: management containers ask for this handler by RuntimeClass
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
    - write /etc/containerd/conf.d/90-gpufleet.toml
    - restart containerd.service
restarted:
  description: Units that were restarted; in check mode units that would be. A reload is none.
  returned: always
  type: list
  elements: str
  sample: [containerd.service]
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
