# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Versions that are numbers with dots, of drivers, of CUDA and of compute capabilities."""

from __future__ import annotations

import re

Numbers = tuple[int, ...]
DOTTED = re.compile(r"\d{1,9}(?:\.\d{1,9}){0,3}", re.ASCII)


def parse(text: str) -> Numbers | None:
    """`396.44` as (396, 44), None for what is no version. Zeros at the end say nothing: 12.0 is 12, and older than 12.0.1."""
    if not DOTTED.fullmatch(text):
        return None
    found = [int(part) for part in text.split(".")]
    while len(found) > 1 and not found[-1]:
        found.pop()
    return tuple(found)


def known(text: str) -> Numbers:
    """Of a version that stands in this collection's own tables."""
    found = parse(text)
    if found is None:
        raise ValueError(text)
    return found


def written(numbers: Numbers) -> str:
    """With one dot at least, as people write CUDA and compute capabilities."""
    return ".".join(map(str, numbers if len(numbers) > 1 else (*numbers, 0)))
