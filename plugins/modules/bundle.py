#!/usr/bin/python
# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation only: the action plugin of the same name works on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: bundle
short_description: Make one archive of the toolkit's packages, for hosts without a network
version_added: 0.1.0
author:
  - The gpufleet.nvidia contributors (@gpufleet)
description:
  - Fetches the packages of the NVIDIA Container Toolkit with the repository's own signed metadata and its key, and writes them as one tar
    archive on the controller. M(gpufleet.nvidia.host) installs from it with its option O(gpufleet.nvidia.host#module:bundle_file).
  - The signature of the metadata is verified with the key, each index and each package against the digest in the metadata. Nothing is
    written where one of them does not fit.
  - The same packages make the same archive, byte for byte, whenever and wherever it is made.
  - The archive begins with a manifest in JSON with the digest of each file, the fingerprint of the key and until when it counts, and the
    licences as the packages' own metadata says.
  - Runs on the controller only, which has to reach the repository. Use it with C(run_once).
extends_documentation_fragment:
  - gpufleet.nvidia.attributes
  - gpufleet.nvidia.attributes.once
attributes:
  check_mode:
    support: full
    details:
      - Everything is fetched and verified, and nothing is written.
  diff_mode:
    support: none
  idempotent:
    support: full
requirements:
  - C(gpgv) of GnuPG 2.2 or newer on the controller
options:
  file:
    description: The archive on the controller, which has to be named. It is replaced as a whole where it differs.
    type: path
  versions:
    description:
      - Versions of the toolkit, such as V(1.20.1) or V(1.20.1-1). Each comes with all the packages that belong to it.
      - Empty takes the newest one in the repository.
    type: list
    elements: str
    default: []
  architectures:
    description: Architectures of the hosts, as C(uname -m) prints them.
    type: list
    elements: str
    choices: [x86_64, aarch64]
    default: [x86_64]
  formats:
    description: The kinds of packages, V(apt) for Debian and Ubuntu, V(rpm) for hosts with dnf or zypper.
    type: list
    elements: str
    choices: [apt, rpm]
    default: [apt]
  url:
    description:
      - Address of the flat repository. V(nvidia) is NVIDIA's public one. V($(ARCH\)) in it stands for Debian's name of the architecture,
        V($basearch) for that of C(uname -m).
    type: str
    default: nvidia
  key:
    description:
      - The repository's public key, the armored text of one key and nothing else. It is required with an address. Empty with O(url=nvidia)
        lets the controller fetch NVIDIA's key by HTTPS.
    type: str
    default: ""
  key_fingerprint:
    description:
      - Fingerprint that the key must have. Empty accepts the key as given; with O(url=nvidia) empty means the known fingerprint of NVIDIA's
        key.
    type: str
    default: ""
seealso:
  - module: gpufleet.nvidia.host
"""

EXAMPLES = r"""
- name: Take the newest toolkit to hosts without a network
  gpufleet.nvidia.bundle:
    file: gpufleet-bundle.tar
  run_once: true

- name: Take two versions for two architectures
  gpufleet.nvidia.bundle:
    file: gpufleet-bundle.tar
    versions: [1.19.1, 1.20.1]
    architectures: [x86_64, aarch64]
  run_once: true
"""

RETURN = r"""
file:
  description: The archive.
  returned: success
  type: str
  sample: /home/operator/gpufleet-bundle.tar
sha256:
  description: The digest of the archive, to compare with C(sha256sum) where it was taken.
  returned: success
  type: str
  sample: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
size:
  description: The size of the archive in bytes.
  returned: success
  type: int
  sample: 9758720
key:
  description: The fingerprint of the key that has signed the repository, and when it expires, an empty text for never.
  returned: success
  type: dict
  sample:
    fingerprint: C95B321B61E88C1809C4F759DDCAE044F796ECB0
    expires: ""
packages:
  description: The packages in the archive. An empty list of licences means that the package does not state one in a way that can be read.
  returned: success
  type: list
  elements: dict
  sample:
    - name: nvidia-container-toolkit-base
      version: 1.20.1-1
      file: nvidia-container-toolkit-base_1.20.1-1_amd64.deb
      licences: [Apache-2.0]
      architecture: x86_64
      format: apt
"""
