# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Mutants of the planner that no test can notice, each with the reason (mutants.py)."""

from __future__ import annotations

# the mutant's key -> why its behaviour is the same
EQUIVALENT: dict[str, str] = {
    "core/formats/toml_scanner.py:_skip_space: end < 0 -> end <= 0": "a line never ends at 0, since a comment begins before its end",
    "core/shapes/common.py:<module>: 64 -> 65 #2": "the pattern of a digest takes 64 digits alone",
    "fleet/uniform.py:_describe_decisions: 0 -> 1": "every injection has an age (test_decide.py), so the default is never taken",
    "fleet/report/fleet_hosts.py:find_constant_cells: 0 -> 1": "a cell is taken only where all rows have the same one",
    "core/shapes/rules.py:RowShape.read: True -> False": "its lists are of one length, as the lines above ask",
    "host/engines/crio/plan.py:explain_crio_key: 1 -> 2": "the last part of a key is the same, however many are split off",
    "host/sharing/resource.py:read_kept_sharing: return {} -> return None": "its one caller asks whether it is empty",
}
