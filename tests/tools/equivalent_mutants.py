# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Mutants of the planner that no test can notice, each with the reason (mutants.py)."""

from __future__ import annotations

# the mutant's key -> why its behaviour is the same
EQUIVALENT: dict[str, str] = {
    "core/formats/toml_scanner.py:_skip_space: end < 0 -> end <= 0": "a line never ends at 0, since a comment begins before its end",
    "host/sharing/resource.py:read_kept_sharing: return {} -> return None": "its one caller asks whether it is empty",
}
