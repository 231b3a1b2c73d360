# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files that k0s writes and reads."""

from __future__ import annotations

MAIN, DROP_IN, OTHER = (
    "/etc/k0s/containerd.toml",
    "/etc/k0s/containerd.d/90-gpufleet.toml",
    "/etc/k0s/containerd.d/other.toml",
)
# As k0s 1.36 writes it.
RENDERED = """# k0s_managed=true
# This is a placeholder configuration for k0s managed containerd.

imports = ["/etc/k0s/containerd.d/*.toml"]
version = 3

[plugins]

  [plugins."io.containerd.cri.v1.images"]

    [plugins."io.containerd.cri.v1.images".pinned_images]
      sandbox = "registry.k8s.io/pause:3.10.1"

  [plugins."io.containerd.cri.v1.runtime"]
"""
# As 1.35 does, with containerd 1.7: what drop-ins say of CRI is merged into a file of its own.
MERGED = "/run/k0s/containerd-cri.toml"
OLDER = f'# k0s_managed=true\nversion = 2\nimports = ["{MERGED}"]\n'
