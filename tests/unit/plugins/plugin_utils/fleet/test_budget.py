# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The budget of a rollout: how many hosts may fail."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import budget, waves

from tests.unit.coded import read_coded

BUDGETS = [
    # lost, total, max_failed, may the rollout go on, how many may be lost
    (0, 10, 0, True, 0),
    (1, 10, 0, False, 0),
    (2, 10, "2", True, 2),
    (3, 10, "2", False, 2),
    (1, 10, "10%", True, 1),
    (2, 15, "10%", False, 1),  # rounded down
    (7, 100, "7%", True, 7),
    (1, 5, "20 %", True, 1),
    (1, 3, "10%", False, 0),
    (5, 5, "100%", True, 5),
    (1, 200, "0.5%", True, 1),
]


@pytest.mark.parametrize(("failed", "total", "max_failed", "ok", "allowed"), BUDGETS)
def test_a_rollout_goes_on_within_its_budget(
    failed: int, total: int, max_failed: int | str, ok: bool, allowed: int
) -> None:
    most = waves.parse_amount("max_failed", max_failed)
    verdict = budget.judge_failed_hosts(failed, total, most)
    assert (verdict.ok, verdict.allowed) == (ok, allowed)
    assert read_coded(verdict.sentence) == (
        f"gate.{'within' if ok else 'over'}-limit",
        {"failed": failed, "total": total, "allowed": allowed},
    )


NO_BUDGET = {
    **dict.fromkeys(("", "-1", "ten", "10%%", None), "rollout.amount"),
    "1.5": "rollout.part-of-a-host",
    "101%": "rollout.over-100-percent",
}


@pytest.mark.parametrize(("wrong", "code"), NO_BUDGET.items())
def test_a_budget_that_is_none(wrong: Any, code: str) -> None:
    with pytest.raises(PlanError) as refused:
        waves.parse_amount("max_failed", wrong)
    assert refused.value.code == code
