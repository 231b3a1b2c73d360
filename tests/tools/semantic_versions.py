# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Versions by semver.org 2.0.0, as Galaxy wants them, in their order."""

from __future__ import annotations

import re

NUMBER = r"(?:0|[1-9]\d*)"
WORD = rf"(?:{NUMBER}|\d*[A-Za-z-][0-9A-Za-z-]*)"
# Build metadata are left out: two releases that differ in them alone would be one to Galaxy.
# Digits are those of ASCII: Python's \d has those of other scripts as well.
VERSION = re.compile(rf"({NUMBER})\.({NUMBER})\.({NUMBER})(?:-({WORD}(?:\.{WORD})*))?", re.ASCII)

Order = tuple[tuple[int, int, int], bool, tuple[tuple[int, int, str], ...]]


def read_version(text: str) -> Order:
    """Return what a version is sorted by. Raise ValueError if it is not one.

    A release is after all of its candidates, and a number is before a word.
    """
    found = VERSION.fullmatch(text)
    if not found:
        raise ValueError(text)
    words = found[4].split(".") if found[4] else []
    parts = tuple((0, int(word), "") if word.isdigit() else (1, 0, word) for word in words)
    return (int(found[1]), int(found[2]), int(found[3])), not words, parts


def is_candidate(text: str) -> bool:
    """Return whether a version comes before the release that it is named after."""
    return not read_version(text)[1]
