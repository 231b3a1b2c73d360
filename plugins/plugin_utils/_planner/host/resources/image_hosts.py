# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts whose packages come with an image: /usr is read-only, and a package manager that runs there
fails half way.

ostree leaves its mark at each boot of Fedora CoreOS, Silverblue, Universal Blue and RHEL's image
mode (ostree-prepare-root). MicroOS and SL Micro install into the next snapshot
(transactional-update(8)). Each takes a reboot, so the message names the way and nothing is started.
"""

from __future__ import annotations

from collections.abc import Sequence

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.facts import Fact
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import (
    messages,
)

OSTREE = "/run/ostree-booted"
MICRO = (
    "opensuse-microos",
    "opensuse-leap-micro",
    "opensuse-aeon",
    "opensuse-kalpa",
    "suse-microos",
    "sle-micro",
    "sl-micro",
)
MARK = queries.ask_for_file(OSTREE, content=False)


def require_installable(of_image: Fact[bool], release: str, names: Sequence[str]) -> None:
    """Raise PlanError if packages would be installed into the image that runs.

    of_image: ostree has left its mark. release: the ID of the operating system.
    """
    wanted = " ".join(names)
    if of_image.value:
        raise PlanError(messages.IMAGE_HOST_OSTREE.fill(packages=wanted), where=OSTREE)
    if release in MICRO:
        raise PlanError(messages.IMAGE_HOST_SNAPSHOT.fill(packages=wanted), where="/etc/os-release")
