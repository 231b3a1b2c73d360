# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Docker: a containerd that it starts for itself, or the package's with CRI switched off, which then serves Docker alone."""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.managers.manager import Manager
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.observation import Observation

UNITS = ("docker.service",)
PACKAGES = ("docker.io", "docker-ce", "moby-engine", "containerd.io")

DOCKER = Manager(
    "docker",
    "Docker",
    "Configure Docker instead.",
    homes=("/var/run/docker/containerd/", "/run/docker/containerd/"),
    own_engine=False,
    kubernetes=False,
    cri=False,
    separable=True,
    sentence="Docker started this containerd for itself and writes its configuration",
)

# Of the package's containerd. The file stays the package's, so our part of it is taken back as there.
SERVES_DOCKER_ONLY = (
    "This containerd serves Docker only: {where} switches CRI off. It is left alone, since Docker has a configuration of its own",
    'For Kubernetes, remove "{entry}" from disabled_plugins, restart containerd and run again',
)


def here(obs: Observation) -> bool:
    return any(obs.unit(unit) for unit in UNITS) or any(obs.package(package) for package in PACKAGES)
