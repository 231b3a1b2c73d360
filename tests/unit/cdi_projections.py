# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Send CDI specs through the projection, as a look does."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.projection import contents
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.lint import (
    projection as lint_projection,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.lint import run

LIBRARIES = "/usr/lib/x86_64-linux-gnu"
# `nvidia-ctk cdi generate` of 1.17 (sigs.k8s.io/yaml: sorted keys, lists in the column of their
# key).
NVIDIA_CTK = f"""\
---
cdiVersion: 0.5.0
containerEdits:
  deviceNodes:
  - path: /dev/nvidia-modeset
  - path: /dev/nvidia-uvm
  - path: /dev/nvidiactl
  env:
  - NVIDIA_VISIBLE_DEVICES=void
  hooks:
  - args:
    - nvidia-cdi-hook
    - create-symlinks
    - --link
    - ../libnvidia-allocator.so.1::{LIBRARIES}/gbm/nvidia-drm_gbm.so
    hookName: createContainer
    path: /usr/bin/nvidia-cdi-hook
  - args:
    - nvidia-cdi-hook
    - enable-cuda-compat
    - --host-driver-version=550.163.01
    hookName: createContainer
    path: /usr/bin/nvidia-cdi-hook
  - args:
    - nvidia-cdi-hook
    - update-ldcache
    - --folder
    - {LIBRARIES}
    env:
    - NVIDIA_CTK_DEBUG=false
    hookName: createContainer
    path: /usr/bin/nvidia-cdi-hook
  mounts:
  - containerPath: {LIBRARIES}/libcuda.so.550.163.01
    hostPath: {LIBRARIES}/libcuda.so.550.163.01
    options:
    - ro
    - nosuid
    - nodev
    - bind
devices:
- containerEdits:
    deviceNodes:
    - path: /dev/nvidia0
    - fileMode: 438
      gid: 44
      hostPath: /dev/dri/renderD128
      major: 226
      minor: 128
      path: /dev/dri/renderD128
      permissions: rw
      type: c
      uid: 0
    hooks:
    - args:
      - nvidia-cdi-hook
      - chmod
      - --mode
      - "755"
      - --path
      - /dev/dri
      hookName: createContainer
      path: /usr/bin/nvidia-cdi-hook
  name: "0"
- containerEdits:
    deviceNodes:
    - path: /dev/nvidia0
  name: GPU-a2b7c9d0-1111-2222-3333-444455556666
- containerEdits:
    deviceNodes:
    - path: /dev/nvidia0
  name: "0:1"
kind: nvidia.com/gpu
"""


def received(text: str) -> dict[str, Any]:
    """What arrives of a spec."""
    return contents.show_content(
        text.encode("utf-8", "surrogateescape"), lint_projection.KEEP, "/etc/cdi/a.yaml"
    )


GPU = "devices:\n- name: gpu0\n  containerEdits:\n    deviceNodes:\n    - path: /dev/nvidia0\n"
HEAD = "cdiVersion: 0.6.0\nkind: nvidia.com/gpu\n"


def edits(text: str) -> str:
    return f"{HEAD}{GPU}containerEdits:\n{text}"


def found(text: str) -> list[tuple[str, int | None]]:
    """What the validator says of a text, as such."""
    findings, _document = run._read_spec("/etc/cdi/a.yaml", {"content": text}, "0.5.0")
    return sorted(((f.rule, f.line) for f in findings), key=repr)
