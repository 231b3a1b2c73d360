# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What becomes of the plans of several resources in one transaction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import messages
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    NOTHING,
    Plan,
    Restart,
    merge_plans,
)

ACTIONS = [
    # the actions of two plans, in both orders; the one that is done
    ("restart", "restart", "restart"),
    ("restart", "start", "restart"),
    ("restart", "reload", "restart"),
    ("restart", "wait", "restart"),
    ("start", "start", "start"),
    ("reload", "reload", "reload"),
    ("wait", "wait", "wait"),
]


@pytest.mark.parametrize(("one", "other", "done"), ACTIONS)
@pytest.mark.parametrize("timeouts", [(600, 120), (120, 600), (90, 90)])
def test_a_unit_of_several_plans_is_acted_on_once_with_the_longest_time(
    one: Any, other: Any, done: str, timeouts: tuple[int, int]
) -> None:
    for first, second in ((one, other), (other, one)):
        actions = [
            Restart("engine.service", action, timeout=timeout)
            for action, timeout in zip((first, second), timeouts, strict=True)
        ]
        merged = merge_plans([Plan(restarts=(action,)) for action in actions])
        found = [(r.unit, r.action, r.timeout) for r in merged.restarts]
        assert found == [("engine.service", done, max(timeouts))]


def test_of_other_actions_the_first_one_stays_with_its_reason() -> None:
    plans = [
        Plan(restarts=(Restart("a.service", "start", "one"), Restart("b.service", "wait", "two"))),
        Plan(restarts=(Restart("a.service", "reload", "three"), Restart("c.service", "reload"))),
    ]
    found = [(r.unit, r.action, r.why) for r in merge_plans(plans).restarts]
    assert found == [
        ("a.service", "start", "one"),
        ("b.service", "wait", "two"),
        ("c.service", "reload", ""),
    ]


STATES: list[tuple[str, Mapping[str, str | None], Mapping[str, str | None], bool]] = [
    # the field, what each of two plans expects, whether that is one state
    ("expect_files", {"/a": "1"}, {"/b": "2"}, True),
    ("expect_files", {"/a": "1"}, {"/a": "1"}, True),
    ("expect_files", {"/a": None}, {"/a": None}, True),
    ("expect_files", {"/a": "1"}, {"/a": "2"}, False),
    ("expect_files", {"/a": None}, {"/a": "2"}, False),
    ("expect_files", {"/a": "1"}, {"/a": None}, False),
    ("expect_units", {"a.service": "1"}, {"a.service": "1"}, True),
    ("expect_units", {"a.service": "1"}, {"a.service": "2"}, False),
    ("lasting", {"/a": "1"}, {"/a": "2"}, False),
]


@pytest.mark.parametrize(("field", "one", "other", "equal"), STATES)
def test_two_states_of_one_thing_are_refused(
    field: str, one: Mapping[str, Any], other: Mapping[str, Any], equal: bool
) -> None:
    plans = [Plan(**{field: states}) for states in (one, other)]
    if equal:
        assert getattr(merge_plans(plans), field) == {**one, **other}
        return
    with pytest.raises(PlanError) as refused:
        merge_plans(plans)
    assert refused.value.code == messages.STATES_DIFFER.code


@pytest.mark.parametrize("plans", [[], [NOTHING], [NOTHING, Plan()]])
def test_plans_without_anything_are_nothing(plans: list[Plan]) -> None:
    assert merge_plans(plans) is NOTHING
