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
    found = [int(part) for part in text.split(".")]
    while len(found) > 1 and not found[-1]:
        found.pop()
    return tuple(found)


def parse_known_dotted(text: str) -> Numbers:
    """Parse a version from this collection's own tables. Raise ValueError if it cannot be read."""
    found = parse_dotted(text)
    if found is None:
        raise ValueError(text)
    return found


def write_dotted(numbers: Numbers) -> str:
    """Return the version with at least one dot, as people write CUDA and compute capabilities."""
    return ".".join(map(str, numbers if len(numbers) > 1 else (*numbers, 0)))
