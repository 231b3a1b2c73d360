# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts that stay out of service count against the limit: batch by batch, a rollout must not take a
whole partition out of service.
"""

from __future__ import annotations

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import (
    progress,
    room,
    waves,
)
from hypothesis import given
from hypothesis import strategies as st

GROUPS = {
    "a1": ["partition a"],
    "a2": ["partition a"],
    "a3": ["partition a"],
    "b1": ["partition b"],
    "ab": ["partition a", "partition b"],
}
ONE, TWO = ({"partition a": number, "partition b": number} for number in (1, 2))
WHY = "a1 is still out of service, and of the partition a only 1 host may be at once (gpufleet_rollout_max_unavailable)"
CASES = [
    # the hosts out of service, the batches to come, the limits: who of the next batch waits, and
    # whether the rollout pauses
    ([], [["a1"], ["a2"]], ONE, [], False),
    (["a1"], [["a2"], ["a3"]], ONE, [], True),
    (["a1"], [["a2"], ["b1"]], ONE, ["a2"], False),  # the other partition goes on
    (["a1"], [["b1"], ["a2"]], ONE, [], False),
    (["a1"], [["a2", "a3"]], TWO, ["a3"], False),  # there is room for one more
    (["a1", "a2"], [["a3", "b1"]], TWO, ["a3"], False),
    (["a1"], [["ab"]], ONE, [], True),
    (["a1"], [["a2"]], {}, [], False),  # no limit
    (["other"], [["a2"]], ONE, [], False),
]


@pytest.mark.parametrize(("out", "rest", "allowed", "waits", "pauses"), CASES)
def test_who_waits_for_hosts_that_have_not_come_back(
    out: list[str], rest: list[list[str]], allowed: dict[str, int], waits: list[str], pauses: bool
) -> None:
    batches = [dict.fromkeys(hosts, "x") for hosts in rest]
    found = room.begin_batch(progress.Progress(), out, batches, waves.Limit(GROUPS, allowed))
    assert (bool(found.ended), found.paused) == (pauses, pauses)
    assert sorted(progress.map_held_hosts(found, batches[0])) == sorted(
        rest[0] if pauses else waits
    )
    if out == ["a1"] and "partition a" in allowed and (waits or pauses) and allowed == ONE:
        why = f"{WHY} [room.full]" if pauses else WHY
        assert set(progress.map_held_hosts(found, batches[0]).values()) == {why}


def test_a_class_that_has_stopped_needs_no_room() -> None:
    stopped = progress.Progress(stopped={"x": "its canary failed"})
    assert room.begin_batch(stopped, ["a1"], [{"a2": "x"}], waves.Limit(GROUPS, ONE)) == stopped


HOSTS = st.lists(st.sampled_from([f"h{number}" for number in range(30)]), unique=True, min_size=1)


@given(HOSTS, st.integers(1, 4), st.integers(2, 5), st.sets(st.integers(0, 29)))
def test_whoever_does_not_come_back_never_more_than_the_limit_are_out(
    hosts: list[str], most: int, parts: int, stuck: set[int]
) -> None:
    groups = {host: [f"partition {int(host[1:]) % parts}"] for host in hosts}
    limit = waves.Limit(groups, {group: most for of_one in groups.values() for group in of_one})
    batches = [dict.fromkeys(batch, "x") for batch in waves.cut_batches(hosts, limit)]
    reached, out = progress.Progress(), list[str]()
    for number, batch in enumerate(batches):
        reached = room.begin_batch(reached, out, batches[number:], limit)
        taken = [host for host in batch if host not in progress.map_held_hosts(reached, batch)]
        assert max(room.count_groups_out([*out, *taken], limit).values(), default=0) <= most
        out += [host for host in taken if int(host[1:]) in stuck]
    if not out:
        assert (reached.ended, reached.full) == ("", {})
