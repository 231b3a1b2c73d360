# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The collections of other projects whose connections and become methods tests use. They come with
the package `ansible` of the index, as kubernetes.core does.
"""

from __future__ import annotations

from pathlib import Path

import kubernetes_core

# community.docker 5, community.general 13, containers.podman 1, kubernetes.core 6
PARTS = tuple(
    f"ansible_collections/{name}/"
    for name in (
        "community/docker",
        "community/general",
        "community/library_inventory_filtering_v1",
        "containers/podman",
        "kubernetes/core",
    )
)


def ensure() -> Path:
    """Return the folder for ANSIBLE_COLLECTIONS_PATH, after making it if it is missing."""
    return kubernetes_core.ensure(part=PARTS, name="foreign")
