# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read and write versions that are numbers with dots: of drivers, of CUDA and of compute
capabilities.
"""

from __future__ import annotations

import re

Numbers = tuple[int, ...]
DOTTED = re.compile(r"\d{1,9}(?:\.\d{1,9}){0,3}", re.ASCII)


def parse_dotted(text: str) -> Numbers | None:
    """Parse `396.44` into (396, 44). Return None for any other text.

    Zeros at the end are dropped: 12.0 is 12, and older than 12.0.1.
    """
    if not DOTTED.fullmatch(text):
        return None
    dotted = [int(part) for part in text.split(".")]
    while len(dotted) > 1 and not dotted[-1]:
        dotted.pop()
    return tuple(dotted)


def parse_known_dotted(text: str) -> Numbers:
    """Parse a version from this collection's own tables. Raise ValueError if it cannot be read."""
    dotted = parse_dotted(text)
    if dotted is None:
        raise ValueError(text)
    return dotted


def write_dotted(numbers: Numbers) -> str:
    """Return the version with at least one dot, as people write CUDA and compute capabilities."""
    return ".".join(map(str, numbers if len(numbers) > 1 else (*numbers, 0)))
