# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Docker: a containerd that it starts for itself, or the package's with CRI switched off, which
then serves Docker alone.
"""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers import messages
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers.manager import (
    Manager,
)

UNITS = ("docker.service",)
PACKAGES = ("docker.io", "docker-ce", "moby-engine", "containerd.io")

DOCKER = Manager(
    "docker",
    "Docker",
    messages.DOCKER.fill(),
    homes=("/var/run/docker/containerd/", "/run/docker/containerd/"),
    own_engine=False,
    kubernetes=False,
    cri=False,
    separable=True,
)

# Of the package's containerd. The file stays the package's, so our part of it is taken back as
# there.


def is_docker_here(obs: Observation) -> bool:
    return any(obs.get_unit(unit) for unit in UNITS) or any(
        obs.get_package(package) for package in PACKAGES
    )
