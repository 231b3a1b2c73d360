# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read whole numbers in texts of a host, which may have thousands of digits, or signs that only
look like digits.
"""

from __future__ import annotations

import re

_DIGITS = re.compile(r"[0-9]{1,19}")  # 2**63 has 19; Python refuses to read more than 4 300


def read_whole(text: str | None) -> int | None:
    """Return the number that at most 19 ASCII digits write, None for any other text."""
    return int(text) if text is not None and _DIGITS.fullmatch(text) else None
