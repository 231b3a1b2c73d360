#!/usr/bin/python
# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation only: the action plugin of the same name works on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: image_choice_info
short_description: Find the image of a catalogue that fits a host
version_added: 0.1.0
author:
  - The gpufleet.nvidia contributors (@gpufleet)
description:
  - Compares each image of a catalogue with the host, which has a driver, the CUDA that it brings, GPUs and a CPU. Returns the image to
    run there, by digest, and the reason for every other one.
  - An image is left out where anything that it needs is missing, or is not known.
  - Of the images that fit, code that was compiled for the GPU comes before code for an earlier one of its major version, and that before
    PTX. Then the one for the more specific CPU counts, then the newest CUDA that needs no libcuda of the image's own, then the
    weight, then the name.
  - Changes nothing, and pulls nothing.
extends_documentation_fragment:
  - gpufleet.nvidia.attributes
  - gpufleet.nvidia.attributes.info
  - gpufleet.nvidia.attributes.actiongroup_host
  - gpufleet.nvidia.common
  - gpufleet.nvidia.common.root
options:
  catalogue:
    description:
      - The images and what each of them needs, as a dictionary or as the name of a YAML file on the controller.
      - All of it is judged before anything else. A field that is not known, a version that is none and a range that no version is in are
        errors with file and line.
    type: raw
    required: true
  facts:
    description:
      - What the host offers. Without this option the host is looked at, in one operation that reads procfs, sysfs and what this collection
        has decided there, and asks neither the driver nor the GPUs.
      - Its fields are C(driver), C(cuda), C(gpus), C(cpu), C(glibc) and C(engines), each of which may be left out. A value that is left out
        is not known, and satisfies nothing.
      - C(cuda) follows from the driver by a table. Of a GPU, C(compute_capability) follows from its PCI device id (C(device)), and
        C(memory) and C(brand) from its name (C(model)), as far as they are known.
      - C(cpu) has C(arch), C(vendor), C(flags), C(level) and C(march). The level follows from the flags, and the microarchitectures from
        vendor and flags where archspec is installed on the controller.
    type: dict
  gpus:
    description:
      - V(all) wants one image that runs on all GPUs of the host. V(each) chooses one for each of them.
    type: str
    choices: [all, each]
    default: all
  nothing_fits:
    description:
      - V(fail) fails where no image fits, and names the nearest one with what is missing. V(report) returns the same as RV(problem).
    type: str
    choices: [fail, report]
    default: fail
  registry:
    description:
      - Whether the registry of each image is asked what the image says of itself. Its digest, the architectures and the variant of its
        index, C(NVIDIA_REQUIRE_*) and C(CUDA_VERSION) then count where the catalogue says nothing of them. No layer is pulled.
      - Read once for a run. An image with C(inspected) in the catalogue is not asked for.
    type: bool
    default: false
  registry_auth_file:
    description:
      - The file of credentials, as C(podman login) writes it. Empty takes E(REGISTRY_AUTH_FILE), then the usual ones of podman and docker.
      - Programs that keep credentials are not asked.
    type: path
    default: ""
  registry_plain_http:
    description: Registries that are asked without TLS, as C(localhost:5000).
    type: list
    elements: str
    default: []
seealso:
  - plugin: gpufleet.nvidia.image_choice_info
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Choose the image for each host
  gpufleet.nvidia.image_choice_info:
    catalogue: catalogue.yml
  register: image

- name: Run it
  community.docker.docker_container:
    name: trainer
    image: "{{ image.choices.0.chosen.reference }}"
    env: "{{ image.choices.0.engines.0.environment }}"
    devices: ["nvidia.com/gpu=all"]

- name: Choose from facts that are at hand
  gpufleet.nvidia.image_choice_info:
    catalogue: catalogue.yml
    facts:
      driver: 550.54.14
      gpus:
        - model: NVIDIA A100-SXM4-80GB
          device: "0x20b2"
      cpu:
        arch: x86_64
        level: x86-64-v3
  register: image

- name: Show it
  ansible.builtin.debug:
    msg: "{{ image.choices.0.chosen.reference }}"
"""

RETURN = r"""
facts:
  description: The host's facts, in the form of O(facts). A value that is not known is null, or not there.
  returned: always
  type: dict
  sample:
    driver: 550.54.14
    cuda: "12.4"
    gpus:
      - name: "0000:17:00.0"
        model: NVIDIA A100-SXM4-80GB
        compute_capability: "8.0"
        memory: 76293
        mig: false
        forward_compat: true
    cpu:
      arch: x86_64
      level: x86-64-v3
      flags: [avx2, sse2]
    glibc: "2.36"
    engines:
      - engine: containerd
        injection: native-cdi
without_gpu:
  description: Whether it is certain that the host has no GPU. M(gpufleet.nvidia.fleet_image_report) then counts no failure.
  returned: always
  type: bool
  sample: false
fits:
  description: Whether each choice found an image.
  returned: always
  type: bool
  sample: true
problem:
  description: The reason where one did not, empty where all did.
  returned: always
  type: str
  sample: ""
choices:
  description: One entry for the host, or one for each GPU with O(gpus=each).
  returned: always
  type: list
  elements: dict
  sample:
    - gpus: ["0000:17:00.0"]
      chosen:
        name: trainer-cuda12
        image: registry.example.org/team/trainer:1.4-cuda12.4
        digest: sha256:6d6c3f1f9e3d1f3a6a2b6bba2f7d06d3a9a1d1a8f0f7c8c6f3a1b2c3d4e5f607
        reference: registry.example.org/team/trainer@sha256:6d6c3f1f9e3d1f3a6a2b6bba2f7d06d3a9a1d1a8f0f7c8c6f3a1b2c3d4e5f607
        code: native
        cuda: "12.4"
        cuda_support: native
      engines:
        - engine: containerd
          injection: native-cdi
          environment: {}
          inject: driver
          notes: []
      rejected:
        - name: trainer-cuda11
          image: registry.example.org/team/trainer:1.4-cuda11.8
          fits: true
          reasons: ["it fits, and trainer-cuda12 is preferred: its CUDA is older"]
      nearest: {}
  contains:
    gpus:
      description: The GPUs that this choice is about.
      type: list
      elements: str
      returned: always
    chosen:
      description: >-
        The image, with its name (C(name)), its reference without and with the digest (C(image), C(reference)), and its CUDA (C(cuda)).
        C(code) is the code that it has for the GPU that it suits worst, C(native), C(same-major), C(ptx) or C(unstated).
        C(cuda_support) is how the driver serves its CUDA, C(native), C(minor) for the compatibility of minor versions, or C(forward) for
        a libcuda of the image's own. Empty if no image fits.
      type: dict
      returned: always
    engines:
      description: >-
        What a container of this image needs with each engine. C(environment) has variables to set. C(inject) says whether the host's
        driver is handed in (C(driver)) or device nodes alone (C(device-nodes)). C(notes) has what a person has to see to.
      type: list
      elements: dict
      returned: always
    rejected:
      description: All other images with their reasons. Those that fit come first.
      type: list
      elements: dict
      returned: always
    nearest:
      description: Where no image fits, the one with the fewest reasons against it.
      type: dict
      returned: always
"""
