# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A rollout that goes on: which hosts that are as desired are verified again, and which
verifications stand.
"""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller.steps import rollout_plan
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import (
    events,
    rollout,
    settings,
)

from tests.unit.rollout_looks import CHANGE, looked

L4 = {"done1": looked(), "done2": looked(), "do1": looked(CHANGE), "do2": looked(CHANGE)}
ALL = frozenset(L4)
CASES = [
    # what is configured and known of a class with two hosts that are as desired and two to change:
    # the canaries, all that is done again
    ("no verification is configured", {}, 1, set(), set()),
    (
        "nothing is known of the verifications: one host stands for the canary, verified again",
        {"verification": ALL},
        1,
        {"done1"},
        {"done1"},
    ),
    ("two canaries", {"verification": ALL}, 2, {"done1", "done2"}, {"done1", "done2"}),
    ("no canaries", {"verification": ALL}, 0, set(), set()),
    (
        "a verification stands",
        {"verification": ALL, "verified": frozenset({"done1"})},
        1,
        set(),
        set(),
    ),
    (
        "the run died before the verification of the canary",
        {"verification": ALL, "unverified": frozenset({"done1"})},
        1,
        {"done1"},
        {"done1"},
    ),
    (
        "the run died in a wave",
        {"verification": ALL, "verified": frozenset({"done1"}), "unverified": frozenset({"done2"})},
        1,
        set(),
        {"done2"},
    ),
    ("a verification for some hosts only", {"verification": frozenset({"done1"})}, 1, set(), set()),
    (
        "a host did not come through, and no verification is configured",
        {"unverified": frozenset({"done1"})},
        1,
        set(),
        {"done1"},
    ),
    (
        "none came through, and no verification is configured",
        {"unverified": frozenset({"done1", "done2"})},
        1,
        {"done1"},
        {"done1", "done2"},
    ),
    (
        "a verified host did not come through since",
        {"verification": ALL, "verified": ALL, "unverified": ALL},
        1,
        {"done1"},
        {"done1", "done2"},
    ),
]


@pytest.mark.parametrize(
    ("known", "number", "canaries", "again"),
    [case[1:] for case in CASES],
    ids=[case[0] for case in CASES],
)
def test_what_is_verified_again(
    known: dict[str, Any], number: int, canaries: set[str], again: set[str]
) -> None:
    found = rollout.plan_rollout(
        rollout.Fleet(L4, **known), settings.build_rollout_settings({"canaries": number})
    )
    assert {name for name, host in found.hosts.items() if host.state == "do"} == {
        "do1",
        "do2",
    } | again
    assert set(found.canaries) == canaries
    assert found.order[: len(again)] == [name for name in found.order if name in again], (
        "before anything else is changed"
    )


def test_a_class_in_which_nothing_changes_is_not_verified_again() -> None:
    hosts = {**L4, "h1": looked(gpu="H100")}
    found = rollout.plan_rollout(
        rollout.Fleet(hosts, verification=frozenset(hosts)), settings.build_rollout_settings({})
    )
    assert found.hosts["h1"].state == "done"
    done = {"done1": looked(), "done2": looked()}
    assert (
        rollout.plan_rollout(
            rollout.Fleet(done, verification=frozenset(done)), settings.build_rollout_settings({})
        ).order
        == []
    )
    died = rollout.plan_rollout(
        rollout.Fleet(done, verification=frozenset(done), unverified=frozenset({"done2"})),
        settings.build_rollout_settings({}),
    )
    assert died.order == ["done2"]


def test_people_read_which_hosts_are_only_verified() -> None:
    found = rollout.plan_rollout(
        rollout.Fleet(L4, verification=ALL), settings.build_rollout_settings({})
    )
    assert (
        "  as desired, to be verified or put back into service: done1"
        in rollout.list_rollout_lines(found)
    )


COUNTS = [
    # what is known of two hosts that are as desired and two to change: the line for people, and the
    # numbers of the event
    (
        {},
        "4 hosts: 2 to change in 1 batch, 2 already as desired, 0 left out",
        {"to_change": 2, "again": 0, "done": 2},
    ),
    (
        {"first": frozenset({"done1", "do1"})},
        "4 hosts: 2 to change and 1 to be verified or put back into service in 1 batch, 1 already as desired, 0 left out",
        {"to_change": 2, "again": 1, "done": 1},
    ),
]


@pytest.mark.parametrize(("known", "line", "numbers"), COUNTS)
def test_a_host_that_is_as_desired_is_none_to_change(
    known: dict[str, Any], line: str, numbers: dict[str, int]
) -> None:
    found = rollout.plan_rollout(
        rollout.Fleet(L4, **known),
        settings.build_rollout_settings({"waves": "100%", "canaries": 1}),
    )
    assert rollout.list_rollout_lines(found)[0] == line
    assert {
        key: events.build_start_event(rollout_plan.convert_rollout_plan(found))[key]
        for key in numbers
    } == numbers


def test_a_plan_that_is_none_of_a_rollout_names_no_batches() -> None:
    """The playbook plan has neither waves nor drains: its batches would not be the rollout's."""
    lines = rollout.list_rollout_lines(
        rollout.plan_rollout(rollout.Fleet(L4), settings.build_rollout_settings({})), batches=False
    )
    assert lines[0] == "4 hosts: 2 to change, 2 already as desired, 0 left out"
    assert not [line for line in lines if "batch" in line]
