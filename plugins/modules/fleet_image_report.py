#!/usr/bin/python
# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation only: the action plugin of the same name works on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: fleet_image_report
short_description: Show which image each host gets, and write it for programs and for Kubernetes
version_added: 0.1.0
author:
  - The gpufleet.nvidia contributors (@gpufleet)
description:
  - Prints a table of what M(gpufleet.nvidia.image_choice_info) has chosen for each host, hosts without an image first.
  - Writes F(images.json), which has the hosts, the matrix of hosts and images, and few images that serve all hosts.
  - Writes F(labels.yml), which has a Kubernetes node for each host, with a label for each image that runs there.
  - Writes F(affinity.yml), which has the affinity for each image, so that a pod runs on those nodes.
  - Hosts with the variable C(gpufleet_cluster) are in a file F(labels-NAME.yml) of their cluster instead.
  - Runs on the controller only, and does the same in check mode, since the files are what the run is for. Use it with C(run_once).
extends_documentation_fragment:
  - gpufleet.nvidia.attributes
  - gpufleet.nvidia.attributes.report
  - gpufleet.nvidia.attributes.once
options:
  results:
    description: Name of the variable in which each host's result was registered.
    type: str
    default: gpufleet_image
  directory:
    description: Where the files are written. It is made where it is missing. Empty writes nothing.
    type: path
    default: ""
  width:
    description: Width of the table in characters. 0 takes that of the terminal.
    type: int
    default: 0
seealso:
  - module: gpufleet.nvidia.image_choice_info
"""

EXAMPLES = r"""
- name: Choose
  gpufleet.nvidia.image_choice_info:
    catalogue: images.yml
    nothing_fits: report
  register: gpufleet_image

- name: Show it
  gpufleet.nvidia.fleet_image_report:
    directory: images
  run_once: true
"""

RETURN = r"""
lines:
  description: The table.
  returned: always
  type: list
  elements: str
  sample:
    - "HOST  DRIVER                  GPUS              CPU        IMAGE           WHY"
    - "gpu1  550.54.14 (CUDA 12.4)  1x A100-SXM4-80GB x86-64-v3  trainer-cuda12  code for this GPU; CUDA 12.4"
    - ""
    - "1 host, 1 with an image"
files:
  description: The files that were written.
  returned: always
  type: list
  elements: str
  sample: [images/images.json, images/labels.yml, images/affinity.yml]
totals:
  description: How many hosts there are, and what became of them.
  returned: always
  type: dict
  sample:
    hosts: 1
    with_an_image: 1
    without_an_image: 0
    without_a_gpu: 0
    not_looked_at: 0
cover:
  description: Images so that at least one of them runs on each host that any image runs on.
  returned: always
  type: list
  elements: str
  sample: [trainer-cuda12]
problem:
  description: Why this is not a success, and empty where each host has an image.
  returned: always
  type: str
  sample: ""
"""
