# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rollouts of 400 played hosts from the first look to the last batch, and on after each
interruption: what holds for all of them.
"""

from __future__ import annotations

import dataclasses as dc
import random
from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import (
    progress,
    rollout,
    settings,
)
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from tests.draws import count_examples
from tests.unit.rollout_looks import CHANGE, looked

HOSTS = [f"gpu{number:03}" for number in range(400)]
DEAD = HOSTS[::50]  # two of a hundred
MODELS = ("L4", "A100", "H100", "T4")
Outcome = Callable[[str], str]  # a host to what becomes of it


@dc.dataclass
class Fleet:
    """400 hosts in four classes and twenty racks; done: the hosts that have their change."""

    dead: frozenset[str] = frozenset(DEAD)
    done: set[str] = dc.field(default_factory=set)

    def plan(self, **options: Any) -> rollout.Rollout:
        looks: dict[str, Mapping[str, Any]] = {}
        for number, host in enumerate(HOSTS):
            change = () if host in self.done else (CHANGE,)
            down = {"unreachable": True, "msg": "no route to host"}
            looks[host] = down if host in self.dead else looked(*change, gpu=MODELS[number % 4])
        racks = {host: {"rack": f"r{number // 20:02}"} for number, host in enumerate(HOSTS)}
        return rollout.plan_rollout(
            rollout.Fleet(looks, racks),
            settings.build_rollout_settings({"domain": ["rack"], **options}),
        )

    def roll(
        self, outcome: Outcome, until: int | None = None, **options: Any
    ) -> tuple[rollout.Rollout, progress.Progress, list[str]]:
        """Batch after batch as the playbook does it; until: the controller dies before the batch of
        this number. The hosts that began.
        """
        found, began, wanted = (
            self.plan(**options),
            list[str](),
            settings.build_rollout_settings(options),
        )
        reached = progress.Progress()
        for number, batch in enumerate(found.batches):
            if number == until:
                break
            classes = {host: found.hosts[host].hardware for host in batch.hosts}
            started = [
                host
                for host in batch.hosts
                if host not in progress.map_held_hosts(reached, classes)
            ]
            words = {host: outcome(host) for host in started}
            began += started
            self.done.update(host for host, word in words.items() if word == "yes")
            ended = progress.Ended(words, classes, batch.wave == rollout.CANARY)
            reached = progress.update_progress(reached, ended, len(found.order), wanted.max_failed)
        return found, reached, began


def well(_host: str) -> str:
    return "yes"


def test_two_dead_hosts_of_a_hundred_are_left_out_and_all_others_are_done() -> None:
    fleet = Fleet()
    found, reached, began = fleet.roll(well)
    assert found.list_hosts_in_state(rollout.LEFT_OUT) == DEAD
    assert (reached.ended, reached.bad, reached.done) == ("", {}, 392)
    assert sorted(began) == sorted(set(HOSTS) - set(DEAD)) == sorted(fleet.done)
    # canaries, then 1, 10%, 50% and the rest of 388
    assert [len(b.hosts) for b in found.batches] == [
        4,
        1,
        38,
        194,
        155,
    ]
    for batch in found.batches[2:]:
        racks = [found.hosts[h].domain for h in batch.hosts]
        assert max(racks.count(r) for r in set(racks)) <= len(batch.hosts) // 20 + 2, (
            "spread over the racks"
        )


def test_a_later_run_has_nothing_to_do_but_the_dead_that_came_back() -> None:
    fleet = Fleet()
    fleet.roll(well)
    assert fleet.plan().order == []
    fleet.dead = frozenset()
    found, reached, began = fleet.roll(well)
    assert sorted(began) == DEAD
    assert found.canaries == [], "others of their class are as desired"
    assert reached.done == len(DEAD)


seeds = st.integers(0, 10_000)


@examples(max_examples=count_examples(40))
@given(
    seeds,
    st.integers(0, 30),
    st.sampled_from([0, 3, "2%", "100%"]),
    st.sampled_from([None, 1, "10%"]),
)
def test_no_more_hosts_fail_than_the_budget_and_one_batch_allow(
    number: int, percent: int, most: Any, limit: Any
) -> None:
    """Whoever fails, and whenever: no batch begins after the budget is spent, and no class goes on
    after its canary.
    """
    chance = random.Random(number)
    fates = {host: "rolled back" if chance.randrange(100) < percent else "yes" for host in HOSTS}
    options = {
        "max_failed": most,
        **({"max_unavailable": limit} if limit else {}),
        "seed": str(number),
    }
    found, reached, began = Fleet().roll(fates.__getitem__, **options)
    bad = [host for host in began if fates[host] != "yes"]
    assert sorted(bad) == sorted(reached.bad)
    assert len(began) == len(set(began)) == reached.done
    allowed = settings.build_rollout_settings(options).max_failed.compute_number(len(found.order))
    last = next(batch.hosts for batch in found.batches if began[-1] in batch.hosts)
    assert len([host for host in bad if host not in last]) <= allowed, (
        "within the budget until the batch that ended it"
    )
    stopped = {found.hosts[host].hardware for host in bad if host in found.canaries}
    assert set(reached.stopped) == stopped
    assert not {h for h in began if found.hosts[h].hardware in stopped} - set(found.canaries)


@examples(max_examples=count_examples(25))
@given(seeds, st.lists(st.integers(0, 6), max_size=4))
def test_whenever_its_controller_dies_no_host_is_changed_twice_and_the_end_is_the_same(
    number: int, deaths: list[int]
) -> None:
    fleet, changed = Fleet(), list[str]()
    for until in [*deaths, None]:
        found, reached, began = fleet.roll(well, until, seed=str(number))
        changed += began
    assert sorted(changed) == sorted(set(HOSTS) - set(DEAD)) == sorted(fleet.done)
