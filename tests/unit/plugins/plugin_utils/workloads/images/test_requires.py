# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bounds of versions that no version can keep."""

from __future__ import annotations

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.workloads.images import (
    requires,
)

BOUNDS = [
    # bounds, whether no version is within them
    ([], False),
    ([(">=", (2,))], False),
    ([("<", (2,))], False),
    ([(">=", (1,)), ("<", (2,))], False),
    ([(">", (1,)), ("<", (1, 1))], False),
    ([(">=", (2,)), ("<=", (2,))], False),
    ([(">=", (2,)), ("<", (2,))], True),
    ([(">", (2,)), ("<=", (2,))], True),
    ([(">=", (3,)), ("<=", (2,))], True),
    ([("=", (2,)), (">=", (1,))], False),
    ([("=", (2,)), (">", (2,))], True),
    ([("=", (2,)), ("=", (3,))], True),
]


@pytest.mark.parametrize(("bounds", "impossible"), BOUNDS)
def test_bounds_that_no_version_can_keep(
    bounds: list[tuple[str, tuple[int, ...]]], impossible: bool
) -> None:
    wanted = tuple(requires.Bound(operator, version, "") for operator, version in bounds)
    assert requires.is_impossible(wanted) is impossible
