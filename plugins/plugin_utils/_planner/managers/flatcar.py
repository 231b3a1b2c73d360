# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Flatcar: the configuration in its read-only /usr. A copy of it below /etc is a configuration like any other."""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.managers.manager import Manager

FLATCAR = Manager(
    "flatcar",
    "Flatcar",
    "Copy /usr/share/containerd/config.toml to /etc/containerd/config.toml, have the unit start it by a drop-in "
    "(ExecStart=/usr/bin/containerd), and run again; /usr is read-only there.",
    homes=("/usr/share/containerd/",),
    own_engine=False,
    link="https://www.flatcar.org/docs/latest/setup/customization/using-nvidia/",
    kubernetes=False,
)
