# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build the edits for a container that is a client of its GPU's MPS daemon, besides those for the
GPU.
"""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.spec.model import (
    Edits,
    Mount,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.sharing import (
    mps_places,
)

# Clients write to the daemon's sockets and lock. /dev/shm is shared between all of them, as
# NVIDIA's device plugin and DRA driver have it.
OPTIONS = ("rw", "nosuid", "nodev", "noexec", "rbind")
SHM = "/dev/shm"  # noqa: S108  (a place in a container)


def build_mps_client_edits(uuid: str) -> Edits:
    pipe = mps_places.get_mps_directory(uuid, "pipe")
    mounts = (
        Mount(pipe, pipe, OPTIONS),
        Mount(mps_places.get_mps_directory(uuid, "shm"), SHM, OPTIONS),
    )
    return Edits(
        env=tuple(
            f"{name}={value}" for name, value in mps_places.get_mps_environment(uuid).items()
        ),
        mounts=mounts,
    )
