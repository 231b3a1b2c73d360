# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts on which nvidia-ctk has configured CRI-O before."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.projection import projector
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections import (
    crio_places,
)

# As 1.20.1 prints them, to the byte.
BARE = """
[crio]

  [crio.runtime]

    [crio.runtime.runtimes]

      [crio.runtime.runtimes.nvidia]
        runtime_path = "/usr/bin/nvidia-container-runtime"
        runtime_type = "oci"
"""
COPY = """
[crio]

  [crio.runtime]

    [crio.runtime.runtimes]

      [crio.runtime.runtimes.nvidia]
        allowed_annotations = ["io.containers.trace-syscall"]
        monitor_cgroup = "system.slice"
        monitor_path = "/usr/libexec/crio/conmon"
        runtime_path = "/usr/bin/nvidia-container-runtime"
        runtime_root = "/run/crun"
        runtime_type = "oci"
"""


def shown(text: str) -> dict[str, Any]:
    """A file as the host sends it: what is not listed is hidden."""
    found = projector.project_file(text.encode(), crio_places.keep_crio_places())
    return {"content": found.data.decode(), "withheld": [dict(w) for w in found.withheld]}
