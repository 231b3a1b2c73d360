# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Map drivers to the CUDA that they bring, by NVIDIA's release notes."""

from __future__ import annotations

from typing import Literal

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.workloads.images import (
    dotted,
)

# native: the driver brings this CUDA or a newer one. minor: an older one of the same major release,
# which runs all but PTX and what the newer driver alone can do. forward: the image's own libcuda
# takes the place of the host's.
Support = Literal["native", "minor", "forward"]

RELEASE_NOTES = "https://docs.nvidia.com/cuda/cuda-toolkit-release-notes/index.html"
SINGLE_RELEASES = (
    "https://github.com/JuliaPackaging/Yggdrasil/pull/14742",
    "https://developer.download.nvidia.com/compute/nvidia-driver/redist/redistrib_620.70.06.json",
)
COMPATIBILITY = "https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html"
# CUDA, and the first driver for Linux on x86_64 that brings it: `CUDA Toolkit and Corresponding
# Driver Versions` in RELEASE_NOTES (13.3), general availability where there are updates. CUDA 9.1
# is that of the release notes of its own time, since 390.46 in today's table is the first one of a
# branch for data centres. No toolkit 12.7 was released, so R565 counts as 12.6.
# 13.4 and 13.5 are those of the drivers that were released with them: 13.4 was first available as
# 13.4.1, with 615.71.09 (SINGLE_RELEASES); the manifest of 620.70.06 says `cuda_variant` 13.5.
TOOLKITS: tuple[tuple[str, str], ...] = (
    ("7.0", "346.46"),
    ("7.5", "352.31"),
    ("8.0", "367.48"),
    ("9.0", "384.81"),
    ("9.1", "387.26"),
    ("9.2", "396.26"),
    ("10.0", "410.48"),
    ("10.1", "418.39"),
    ("10.2", "440.33"),
    ("11.0", "450.51.05"),
    ("11.1", "455.23"),
    ("11.2", "460.27.03"),
    ("11.3", "465.19.01"),
    ("11.4", "470.42.01"),
    ("11.5", "495.29.05"),
    ("11.6", "510.39.01"),
    ("11.7", "515.43.04"),
    ("11.8", "520.61.05"),
    ("12.0", "525.60.13"),
    ("12.1", "530.30.02"),
    ("12.2", "535.54.03"),
    ("12.3", "545.23.06"),
    ("12.4", "550.54.14"),
    ("12.5", "555.42.02"),
    ("12.6", "560.28.03"),
    ("12.8", "570.26"),
    ("12.9", "575.51.03"),
    ("13.0", "580.65.06"),
    ("13.1", "590.44.01"),
    ("13.2", "595.45.04"),
    ("13.3", "610.43.02"),
    ("13.4", "615.71.09"),
    ("13.5", "620.70.06"),
)
# Major release of CUDA, and the first driver that runs all of its minor ones: COMPATIBILITY.
FLOORS: dict[int, str] = {11: "450.80.02", 12: "525.60.13", 13: "580.65.06"}
# Major release of CUDA, and the oldest compute capability that its compiler and its libraries have
# code for: `Deprecated or Dropped Features` of 11.0, 12.0 and 13.0 in RELEASE_NOTES.
OLDEST: dict[int, str] = {11: "3.5", 12: "5.0", 13: "7.5"}


def get_cuda_of_driver(driver: dotted.Numbers) -> dotted.Numbers | None:
    """Return the newest CUDA that this driver is known to bring, None for a driver from before the
    table.
    """
    releases = [
        dotted.parse_known_dotted(cuda)
        for cuda, first in TOOLKITS
        if driver >= dotted.parse_known_dotted(first)
    ]
    return releases[-1] if releases else None


def get_first_driver(cuda: dotted.Numbers) -> str:
    """Return the first driver that brings this CUDA, '' if the table has none."""
    return next(
        (first for known, first in TOOLKITS if dotted.parse_known_dotted(known) >= cuda), ""
    )


def supports(
    wanted: dotted.Numbers,
    driver: dotted.Numbers,
    brings: dotted.Numbers,
    compat: tuple[int, ...] = (),
) -> tuple[Support, ...]:
    """List the ways in which an image of this CUDA runs with a driver, best first. () if there is
    none.

    compat: the driver branches that the image's own libcuda serves.
    """
    if brings >= wanted:
        return ("native",)
    floor = FLOORS.get(wanted[0])
    minor: tuple[Support, ...] = (
        ("minor",) if floor and driver >= dotted.parse_known_dotted(floor) else ()
    )
    forward: tuple[Support, ...] = ("forward",) if driver[0] in compat else ()
    return (*minor, *forward)


def get_oldest_capability(cuda: dotted.Numbers) -> dotted.Numbers | None:
    """Return the oldest compute capability that code of this CUDA can be for, None if that is not
    known.

    A major release never has code for a GPU that an earlier one dropped.
    """
    known = [oldest for major, oldest in OLDEST.items() if major <= cuda[0]]
    return dotted.parse_known_dotted(known[-1]) if known else None
