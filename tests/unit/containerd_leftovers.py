# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts on which nvidia-ctk has configured containerd before."""

from __future__ import annotations

from collections.abc import Mapping

ROOT, THEIRS = "/etc/containerd/config.toml", "/etc/containerd/conf.d/99-nvidia.toml"
OURS = "/etc/containerd/conf.d/90-gpufleet.toml"
OLD, NEW = '"io.containerd.grpc.v1.cri"', '"io.containerd.cri.v1.runtime"'
VERSIONS = {"1.7.24": (2, OLD), "2.1.9": (3, NEW)}
SITE = """version = @V@
imports = ["/etc/containerd/conf.d/*.toml"]

[plugins.@CRI@] # ours, ask Anna
enable_selinux = true
max_container_log_line_size = 0x4000
[plugins.@CRI@.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins.@CRI@.containerd.runtimes.runc.options]
SystemdCgroup = true
"""
COPY = """version = @V@

[plugins]

  [plugins.@CRI@]
    enable_cdi = true
    enable_selinux = true
    max_container_log_line_size = 16384

    [plugins.@CRI@.containerd]
      default_runtime_name = "nvidia"

      [plugins.@CRI@.containerd.runtimes]

        [plugins.@CRI@.containerd.runtimes.nvidia]
          runtime_type = "io.containerd.runc.v2"

          [plugins.@CRI@.containerd.runtimes.nvidia.options]
            BinaryName = "/usr/bin/nvidia-container-runtime"
            SystemdCgroup = true

        [plugins.@CRI@.containerd.runtimes.runc]
          runtime_type = "io.containerd.runc.v2"

          [plugins.@CRI@.containerd.runtimes.runc.options]
            SystemdCgroup = true
"""


def rendered(version: str, files: Mapping[str, str]) -> dict[str, str]:
    number, name = VERSIONS[version]
    return {
        path: text.replace("@V@", str(number)).replace("@CRI@", name)
        for path, text in files.items()
    }
