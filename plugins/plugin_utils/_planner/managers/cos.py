# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Container-Optimized OS: an image of a cloud provider."""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.managers.manager import Manager

COS = Manager(
    "cos",
    "Container-Optimized OS",
    "Use the provider's GPU driver installer; its files are read-only.",
    os_ids=("cos",),
    own_engine=False,
    sentence="Container-Optimized OS makes the files below /etc again at each boot",
    link="https://cloud.google.com/container-optimized-os/docs/how-to/run-gpus",
)
