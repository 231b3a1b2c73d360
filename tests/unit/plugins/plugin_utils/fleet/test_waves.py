# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who goes when: order, waves, batches, windows, and the settings that say so."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import (
    order,
    rollout,
    settings,
    waves,
    window,
)
from hypothesis import given
from hypothesis import strategies as st

HOSTS = [f"gpu{n}" for n in range(1, 101)]
NAMES = st.sets(st.text("abc0123456789.-", min_size=1, max_size=6), max_size=60)

CUTS = [
    # waves, hosts, their sizes
    ([1, "10%", "50%", "100%"], 100, [1, 10, 50, 39]),
    ("1,10%,50%,100%", 100, [1, 10, 50, 39]),
    ('[1, "10%"]', 25, [1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2]),
    (" 2 , 50% ", 9, [2, 4, 3]),
    (3, 7, [3, 3, 1]),
    ("10%", 3, [1, 1, 1]),
    ([1, "100%"], 0, []),
]


@pytest.mark.parametrize(("wanted", "number", "sizes"), CUTS)
def test_hosts_are_cut_into_waves(wanted: Any, number: int, sizes: list[int]) -> None:
    assert [
        len(wave)
        for wave in waves.cut_waves(
            HOSTS[:number], waves.parse_wave_sizes("gpufleet_rollout_waves", wanted)
        )
    ] == sizes


BATCHES = [
    # the most at once, the domains of a wave's hosts, the batches
    (None, "aabb", ["aabb"]),
    ("1", "aabb", ["ab", "ab"]),
    ("1", "aaab", ["ab", "a", "a"]),
    ("50%", "aaaabb", ["aab", "aab"]),
    ("2", "aaaaa", ["aa", "aa", "a"]),
    ("10%", "abab", ["ab", "ab"]),  # at least one host
]


@pytest.mark.parametrize(("most", "domains", "batches"), BATCHES)
def test_a_wave_is_cut_so_that_few_hosts_of_a_domain_are_out_at_once(
    most: str | None, domains: str, batches: list[str]
) -> None:
    of = dict(zip(HOSTS, domains, strict=False))
    limits = waves.limit(
        None if most is None else waves.parse_amount("x", most),
        {h: [d] for h, d in of.items()},
        frozenset(),
    )
    assert [
        "".join(of[h] for h in batch) for batch in waves.cut_batches(list(of), limits)
    ] == batches


def test_without_a_setting_hosts_that_are_drained_go_one_by_one_in_their_cluster() -> None:
    limits = waves.limit(None, {h: ["c"] for h in HOSTS[:6]}, frozenset(HOSTS[:3]))
    assert [len(b) for b in waves.cut_batches(HOSTS[:6], limits)] == [4, 1, 1]


@given(
    NAMES,
    st.integers(1, 5),
    st.lists(st.sampled_from([1, 3, "20%", "100%"]), min_size=1, max_size=3),
    st.integers(1, 4),
)
def test_each_host_is_in_one_batch_and_no_batch_is_over_a_limit(
    names: set[str], domains: int, sizes: list[Any], most: int
) -> None:
    groups = {h: [f"d{math.floor(n % domains)}", f"p{n % 2}"] for n, h in enumerate(sorted(names))}
    line = order.order_by_domain(names, {h: g[0] for h, g in groups.items()}, "")
    limits = waves.limit(waves.parse_amount("x", most), groups, frozenset())
    found = [
        b
        for wave in waves.cut_waves(line, waves.parse_wave_sizes("x", sizes))
        for b in waves.cut_batches(wave, limits)
    ]
    assert sorted(h for b in found for h in b) == sorted(names)
    assert all(found)
    for batch in found:
        assert max(Counter(g for h in batch for g in groups[h]).values()) <= most


@given(NAMES, st.randoms(use_true_random=False), st.text(max_size=3))
def test_the_order_is_that_of_names_and_seed_whatever_the_inventory_says(
    names: set[str], shuffled: Any, seed: str
) -> None:
    other = sorted(names)
    shuffled.shuffle(other)
    domains = {h: h[:1] for h in names}
    assert order.order_by_domain(other, domains, seed) == order.order_by_domain(
        sorted(names), domains, seed
    )
    assert sorted(order.order_by_domain(other, domains, seed)) == sorted(names)


@given(
    st.dictionaries(st.sampled_from(HOSTS), st.sampled_from("abcd"), min_size=1),
    st.integers(0, 100),
)
def test_any_beginning_of_the_order_has_about_its_share_of_each_domain(
    domains: dict[str, str], share: int
) -> None:
    line = order.order_by_domain(domains, domains, "")
    first = line[: len(line) * share // 100]
    for domain, number in Counter(domains.values()).items():
        assert abs(
            sum(domains[h] == domain for h in first) - number * len(first) / len(line)
        ) <= len(set(domains.values()))


def test_another_seed_is_another_order() -> None:
    assert order.order_by_domain(HOSTS, {}, "a") != order.order_by_domain(HOSTS, {}, "b")


# ---------------------------------------------------------------- windows

MO, TU, WE, SA, SU = 0, 1, 2, 5, 6
WINDOWS = [
    # window, day, clock, open
    ("Mo-Fr 20:00-04:00 Europe/Berlin", MO, "20:00", True),
    ("Mo-Fr 20:00-04:00 Europe/Berlin", MO, "19:59", False),
    ("Mo-Fr 20:00-04:00 Europe/Berlin", TU, "03:59", True),
    ("Mo-Fr 20:00-04:00 Europe/Berlin", TU, "04:00", False),
    ("Mo-Fr 20:00-04:00 Europe/Berlin", MO, "03:00", False),  # the night from Sunday
    ("Mo-Fr 20:00-04:00 Europe/Berlin", SA, "03:00", True),  # the night from Friday
    ("Mo-Fr 20:00-04:00 Europe/Berlin", SA, "21:00", False),
    ("Sa,Su 08:00-24:00", SU, "23:59", True),
    ("Fr-Mo 08:00-09:00", SU, "08:30", True),
    ("Fr-Mo 08:00-09:00", WE, "08:30", False),
    ("22:00-23:00", WE, "22:10", True),
    ("22:59-23:00", WE, "22:59", True),
]


@pytest.mark.parametrize(("text", "day", "clock", "is_open"), WINDOWS)
def test_a_window_holds_a_moment_of_its_own_clock(
    text: str, day: int, clock: str, is_open: bool
) -> None:
    found = window.parse_windows("gpufleet_rollout_window", text)
    hours, minutes = map(int, clock.split(":"))
    assert window.is_open(found, {found[0].zone: (day, hours * 60 + minutes)}) is is_open


def test_several_windows_are_open_where_one_of_them_is() -> None:
    found = window.parse_windows("w", "Mo 08:00-09:00; Tu 10:00-11:00 Asia/Tokyo")
    assert [w.zone for w in found] == ["UTC", "Asia/Tokyo"]
    assert window.is_open(found, {"UTC": (SU, 0), "Asia/Tokyo": (TU, 630)})
    assert not window.is_open(found, {"UTC": (TU, 630), "Asia/Tokyo": (MO, 510)})
    assert window.is_open((), {})


# ---------------------------------------------------------------- how many may fail, as people read
# it

MAY_FAIL = [
    # setting, hosts that have something to do, what the plan says
    ("2%", 49, "  may fail: 0 of 49 hosts (gpufleet_rollout_max_failed: 2%)"),
    ("2%", 50, "  may fail: 1 of 50 hosts (gpufleet_rollout_max_failed: 2%)"),
    (3, 49, ""),  # a number is what it says
]


@pytest.mark.parametrize(("most", "hosts", "line"), MAY_FAIL)
def test_the_plan_says_what_a_percentage_comes_to(most: Any, hosts: int, line: str) -> None:
    differs = {
        "what": "package",
        "path": "nvidia-container-toolkit",
        "key": None,
        "before": None,
        "after": "1",
    }
    found = rollout.plan_rollout(
        rollout.Fleet(
            {f"gpu{n}": {"differences": [differs], "would_restart": []} for n in range(hosts)}
        ),
        settings.build_rollout_settings({}),
    )
    assert (
        "".join(
            rollout.may_fail(
                found, settings.build_rollout_settings({"max_failed": most}).max_failed
            )
        )
        == line
    )


# ---------------------------------------------------------------- bad input

WRONG = [
    ({"waves": "1,ten"}, "rollout.amount"),
    ({"waves": "110%"}, "rollout.over-100-percent"),
    ({"waves": []}, "rollout.no-wave"),
    ({"waves": [0, "10%"]}, "rollout.empty-wave"),
    ({"waves": "1.5"}, "rollout.part-of-a-host"),
    ({"waves": [True]}, "rollout.amount"),
    ({"max_unavailable": "all"}, "rollout.amount"),
    ({"max_unavailable": 0}, "rollout.none-unavailable"),
    ({"max_left_out": "-1"}, "rollout.amount"),
    ({"max_failed": "200%"}, "rollout.over-100-percent"),
    (
        {"window": "Mo-Fr"},
        "rollout.window-without-times",
    ),
    ({"window": "Sa,Su"}, "rollout.window-without-times"),
    ({"window": "nope"}, "rollout.window"),
    ({"canaries": "one"}, "rollout.number"),
    ({"canaries": -1}, "rollout.negative-number"),
    ({"soak": "1 minute"}, "rollout.number"),
    (
        {"soak": 5, "soak_command": "healthy"},
        "rollout.soak-command",
    ),
    ({"soak_command": ["healthy"]}, "rollout.soak-command-alone"),
    ({"host_timeout": True}, "rollout.number"),
    (
        {"host_timeout": "10m"},
        "rollout.number",
    ),
    ({"class": "gpu model"}, "rollout.key-path"),
    ({"domain": ["{{ rack }}"]}, "rollout.key-path"),
    ({"gate_check": "curl x"}, "rollout.gate-check"),
    ({"gate_retries": "-"}, "rollout.number"),
    ({"tasks": "a.yml"}, "rollout.tasks"),
    ({"tasks": {"during": "a.yml"}}, "rollout.unknown-tasks"),
    ({"window": "at night"}, "rollout.window"),
    ({"window": "Mo-Fx 20:00-21:00"}, "rollout.window-day"),
    ({"window": "Sa-So 20:00-21:00"}, "rollout.window-day"),
    ({"window": "20:00-20:00"}, "rollout.empty-window"),
    ({"window": "20:00-25:00"}, "rollout.window-time"),
    ({"window": "20:00-24:01"}, "rollout.window-time"),
    ({"window": "20:60-22:00"}, "rollout.window-time"),
    # at the end of a day no window begins, but the next day's
    ({"window": "Mo 24:00-06:00"}, "rollout.window-time"),
    ({"window": "Mo 24:00-00:00"}, "rollout.window-time"),
    # Python reads no number of so many digits, or reads it as infinite
    ({"canaries": "9" * 5000}, "rollout.number"),
    ({"max_failed": "9" * 5000}, "rollout.amount"),
    ({"max_left_out": "9" * 400 + "%"}, "rollout.amount"),
    ({"waves": ["9" * 400]}, "rollout.amount"),
]


@pytest.mark.parametrize(("options", "code"), WRONG)
def test_a_wrong_setting_is_refused_by_its_name(options: dict[str, Any], code: str) -> None:
    with pytest.raises(PlanError) as error:
        settings.build_rollout_settings(options)
    assert error.value.code == code
    assert error.value.what.startswith(f"gpufleet_rollout_{list(options)[-1]} ")
    assert error.value.next


def test_settings_have_defaults() -> None:
    assert settings.build_rollout_settings({}) == settings.RolloutSettings()
