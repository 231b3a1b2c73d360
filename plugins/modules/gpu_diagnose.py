#!/usr/bin/python
# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation only: the action plugin of the same name asks the host and judges on the
controller.
"""

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_diagnose
short_description: Run NVIDIA's short diagnosis of a host's GPUs
version_added: 0.1.0
author:
  - The gpufleet.nvidia contributors (@gpufleet)
description:
  - Runs C(dcgmi diag -r 1), if it is installed on the host. It is ended after five minutes.
  - Runs it only if an C(nv-hostengine) that the host's systemd has started as root is the one listener at port 5555 of the host. Any user
    may listen there while it does not run, and a container may have that port. The listener has to be the same afterwards.
  - Changes nothing of the host's configuration, but occupies the GPUs for that time. Run it on a host that is out of service, since work on
    the GPUs can make it fail.
  - The task fails if a test of the diagnosis fails. A diagnosis that could not be made is reported as not known.
  - If C(gpufleet_rollout_soak) is set, the playbook C(gpufleet.nvidia.rollout) runs it on a drained host, before the host is put back into
    service.
extends_documentation_fragment:
  - gpufleet.nvidia.attributes
  - gpufleet.nvidia.attributes.actiongroup_host
  - gpufleet.nvidia.common
  - gpufleet.nvidia.common.root
options: {}
attributes:
  check_mode:
    support: none
    details:
      - The diagnosis is not run in check mode, since it occupies the GPUs.
  diff_mode:
    support: N/A
    details:
      - This action does not modify state.
  idempotent:
    support: full
    details:
      - The diagnosis is run each time. It changes nothing.
seealso:
  - module: gpufleet.nvidia.gpu_health_info
  - module: gpufleet.nvidia.drain
"""

EXAMPLES = r"""
- name: Diagnose the GPUs of a host that is out of service
  gpufleet.nvidia.gpu_diagnose:
  register: health

- name: Say if they could not be diagnosed
  ansible.builtin.debug:
    msg: "{{ health.diagnosis.why }}"
  when: not health.diagnosis.known | default(true)
"""

RETURN = r"""
diagnosis:
  description: The outcome of C(dcgmi diag -r 1). It is empty with another O(root) than V(/), where nothing is run.
  returned: always
  type: dict
  sample: {known: true, why: "", code: "", failed: []}
  contains:
    known:
      description: Whether it was run and came to an end.
      type: bool
      returned: if O(root=/)
    why:
      description: Why not.
      type: str
      returned: if O(root=/)
    code:
      description: The code of RV(diagnosis.why), V("") if there is none.
      type: str
      returned: if O(root=/)
    failed:
      description: The tests that failed.
      type: list
      elements: str
      returned: if O(root=/)
"""
