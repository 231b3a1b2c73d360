# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The units whose restart is left to a person, by a plan and a policy."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Plan,
    Policy,
    Restart,
)

A = "a.service"
LEFT = [
    # the action that the plan names, the units that its planner leaves; the units that are left by
    # `restart: auto`, by `never`, and by `never` in a tree
    ("restart", (), [], [A], []),
    ("restart", ("b.service",), ["b.service"], ["b.service", A], ["b.service"]),
    ("restart", (A,), [A], [A], [A]),
    ("start", (), [], [], []),
    ("reload", (), [], [], []),
    ("wait", (), [], [], []),  # its manager restarts it, whatever the option says
]


@pytest.mark.parametrize(("action", "pending", "auto", "never", "tree"), LEFT)
def test_units_that_are_left_to_a_person(
    action: Any, pending: tuple[str, ...], auto: list[str], never: list[str], tree: list[str]
) -> None:
    plan = Plan(restarts=(Restart(A, action),), pending=pending)
    assert list(plan.list_left_units(Policy())) == auto
    assert list(plan.list_left_units(Policy(restart="force"))) == auto
    assert list(plan.list_left_units(Policy(restart="never"))) == never
    assert list(plan.list_left_units(Policy(restart="never", root="/srv/image"))) == tree
