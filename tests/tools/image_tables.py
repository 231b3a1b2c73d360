# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of docs/images.md."""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.workloads.images import cuda
from page_table import table


def drivers() -> str:
    """Return a row for each major version of CUDA: the first driver that runs all of it, and those
    of its minor versions.
    """
    rows = []
    for major in sorted(
        {int(name.partition(".")[0]) for name, _driver in cuda.TOOLKITS}, reverse=True
    ):
        own = ", ".join(
            f"{name}: `{driver}`"
            for name, driver in cuda.TOOLKITS
            if int(name.partition(".")[0]) == major
        )
        floor = f"`{cuda.FLOORS[major]}`" if major in cuda.FLOORS else ""
        rows.append([str(major), floor, own])
    return table(
        ["CUDA", "any program of it, by minor compatibility, from", "each release in full from"],
        rows,
    )
