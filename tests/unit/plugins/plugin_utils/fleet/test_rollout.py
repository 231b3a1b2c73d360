# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a rollout is planned as: classes, changes, canaries, who is left out, and what a batch that
went wrong stops.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import (
    change,
    events,
    hardware,
    progress,
    rollout,
    settings,
    waves,
)
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.rollout_looks import CHANGE, START, TWO, after, looked


def fleet(**hosts: Mapping[str, Any]) -> rollout.Fleet:
    return rollout.Fleet(hosts)


# ---------------------------------------------------------------- classes

CLASSES = [
    ([], "containerd 1.7 (package), native-cdi, L4, 550, debian 12"),
    (["gpu.model", "rack"], "L4, r7"),
    ("gpu.model, place.row", "L4, 3"),
    (["result.driver.version"], "550.163.01"),
    (["result.driver.gpus.0.model"], "NVIDIA L4"),
]


@pytest.mark.parametrize(("paths", "text"), CLASSES)
def test_a_class_is_the_values_at_key_paths(paths: Any, text: str) -> None:
    wanted = settings.build_rollout_settings({"class": paths})
    found = rollout.plan_rollout(
        rollout.Fleet({"a": looked(CHANGE)}, {"a": {"rack": "r7", "place": {"row": 3}}}), wanted
    )
    assert found.hosts["a"].hardware == text


def test_no_class_is_a_template_for_the_run_that_gets_its_approval() -> None:
    forged = {
        **looked(CHANGE),
        "os": {"id": "debian{{ lookup('pipe', 'id') }}", "version": "12" * 500},
    }
    text = (
        rollout.plan_rollout(fleet(a=forged), settings.build_rollout_settings({}))
        .hosts["a"]
        .hardware
    )
    assert text.startswith(
        "containerd 1.7 (package), native-cdi, L4, 550, debian(( lookup('pipe', 'id') )) 12"
    )
    assert len(text) < 300
    other = {**looked(CHANGE), "os": {"id": "debian", "version": "12" * 499 + "13"}}
    same = {**looked(CHANGE), "os": {"id": "debian", "version": "12" * 500}}
    assert (
        len(
            {
                h.hardware
                for h in rollout.plan_rollout(
                    fleet(a=other, b=same), settings.build_rollout_settings({})
                ).hosts.values()
            }
        )
        == 2
    )


def test_a_long_value_that_is_no_whole_text_is_a_class_too() -> None:
    """A host's facts are JSON, where half of a pair of surrogates can be written, and would end the
    plan of all hosts.
    """
    facts = {"a": {"board": "\ud800" * 300}, "b": {"board": "\ud800" * 299 + "x"}}
    found = rollout.plan_rollout(
        rollout.Fleet({"a": looked(CHANGE), "b": looked(CHANGE)}, facts),
        settings.build_rollout_settings({"class": ["board"]}),
    )
    assert len({h.hardware for h in found.hosts.values()}) == 2


def test_a_key_path_that_no_host_has_is_an_error_and_one_that_some_have_is_not() -> None:
    hosts = {"a": looked(CHANGE), "b": looked(CHANGE)}
    with pytest.raises(
        PlanError, match=r"^gpufleet_rollout_domain .*\[rollout.unknown-key-path\]$"
    ):
        rollout.plan_rollout(
            rollout.Fleet(hosts, {"a": {"rack": "r1"}}),
            settings.build_rollout_settings({"domain": ["rak"]}),
        )
    found = rollout.plan_rollout(
        rollout.Fleet(hosts, {"a": {"rack": "r1"}}),
        settings.build_rollout_settings({"domain": ["rack"]}),
    )
    assert {h.name: h.domain for h in found.hosts.values()} == {"a": "r1", "b": hardware.NONE}


def test_a_host_where_nothing_was_found_has_a_class_too() -> None:
    assert hardware.build_class_view({})["engine"] == hardware.NONE


# ---------------------------------------------------------------- changes

SAME = [
    # differences between two hosts a and b that do not make the change another one
    (
        {"before": "GPU-3d1b0b0e-7b5e-4b0a-9c8f-000000000001"},
        {"before": "GPU-9aab0b0e-7b5e-4b0a-9c8f-00000000000f"},
    ),
    ({"before": "made 2026-11-22T10:00:00Z"}, {"before": "made 2026-11-23T11:31:07Z"}),
    ({"before": "for 3 containers"}, {"before": "for 1 container"}),
    ({"before": "of a"}, {"before": "of b"}),
    ({"before": ["on a.example.org"]}, {"before": ["on b.example.org"]}),
    ({"before": {"id": "0123456789abcdef" * 4}}, {"before": {"id": "fedcba9876543210" * 4}}),
    ({"before": "0000:17:00.0"}, {"before": "0000:3b:00.0"}),
    ({"why": "4 sandboxes run"}, {"why": "none runs"}),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_what_belongs_to_one_host_or_one_moment_is_no_part_of_a_change(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    assert change.digest_change(looked({**CHANGE, **one}), "a") == change.digest_change(
        looked({**CHANGE, **other}), "b"
    )


OTHER = [
    {"path": "/etc/other"},
    {"key": "other"},
    {"before": False},
    {"after": "1.7.24"},
    {"what": "unit"},
]


def test_the_number_that_an_address_begins_with_is_part_of_a_change() -> None:
    """It may be anywhere in a text, and tell of something else than the host."""
    ten, eleven = (
        change.digest_change(looked({**CHANGE, "before": f"{number} retries"}), f"{number}.0.0.1")
        for number in (10, 11)
    )
    assert ten != eleven


@pytest.mark.parametrize("other", OTHER)
def test_what_a_reviewer_would_want_to_know_is_part_of_a_change(other: dict[str, Any]) -> None:
    assert change.digest_change(looked(CHANGE), "a") != change.digest_change(
        looked({**CHANGE, **other}), "a"
    )
    assert change.digest_change(looked(CHANGE), "a") != change.digest_change(
        {**looked(CHANGE), "would_restart": []}, "a"
    )


@pytest.mark.parametrize(("one", "other"), [pair for pair in SAME if "before" in pair[0]])
def test_what_is_wanted_is_never_taken_for_evidence(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    wanted = (looked({**CHANGE, "after": values["before"]}) for values in (one, other))
    assert (
        len({change.digest_change(result, host) for result, host in zip(wanted, "ab", strict=True)})
        == 2
    )


NUMBERS = st.integers(0, 9999)


@given(
    NUMBERS, NUMBERS, st.permutations([CHANGE, {**CHANGE, "key": "b"}, {**CHANGE, "path": "/x"}])
)
def test_an_approval_does_not_expire_because_a_container_started(
    before: int, after: int, differences: list[dict[str, Any]]
) -> None:
    def of(number: int, order: list[dict[str, Any]]) -> str:
        return change.digest_change(
            looked(
                *(
                    {**d, "why": f"{number} containers", "before": f"keeps {number} containers"}
                    for d in order
                )
            ),
            "a",
        )

    assert of(before, sorted(differences, key=str)) == of(after, differences)


def test_what_has_moved_is_said_by_place_and_unit() -> None:
    before, after = (
        change.build_shared_change(r, "a")
        for r in (looked(CHANGE), looked({**CHANGE, "path": "/etc/b"}, would_restart=["b.service"]))
    )
    assert change.list_moved_changes(before, after) == [
        "/etc/b enable_cdi is new in the plan",
        "/etc/containerd/config.toml enable_cdi is in the plan no more",
        "b.service would restart",
        "containerd.service would not restart any more",
    ]
    assert change.list_moved_changes(before, before) == []


# ---------------------------------------------------------------- canaries and who has something to
# do


def test_one_canary_of_each_class_goes_first_and_hosts_that_are_done_take_no_slot() -> None:
    hosts = {f"l{n}": looked(CHANGE) for n in range(5)} | {
        f"h{n}": looked(CHANGE, gpu="H100") for n in range(5)
    }
    hosts["done"] = looked(gpu="A2")
    found = rollout.plan_rollout(fleet(**hosts), settings.build_rollout_settings({"waves": "100%"}))
    assert [(b.wave, len(b.hosts)) for b in found.batches] == [(0, 2), (1, 8)]
    assert {name[0] for name in found.canaries} == {"l", "h"}
    assert "done" not in found.order
    assert len(found.changes) == 1


def test_a_host_that_is_as_desired_stands_for_the_canary_of_its_class() -> None:
    hosts = {
        "done": looked(),
        **{f"l{n}": looked(CHANGE) for n in range(3)},
        **{f"h{n}": looked(CHANGE, gpu="H100") for n in range(3)},
    }
    assert {
        h[0]
        for h in rollout.plan_rollout(fleet(**hosts), settings.build_rollout_settings({})).canaries
    } == {"h"}
    assert (
        len(
            rollout.plan_rollout(
                fleet(**hosts), settings.build_rollout_settings({"canaries": 2})
            ).canaries
        )
        == 3
    )
    assert (
        rollout.plan_rollout(
            fleet(**hosts), settings.build_rollout_settings({"canaries": 0})
        ).canaries
        == []
    )


def test_hosts_that_nobody_manages_are_no_canaries() -> None:
    idle = {
        "decision": {"decisions": [], "skipped": "no GPU"},
        "differences": [],
        "would_restart": [],
    }
    assert rollout.plan_rollout(
        fleet(idle=idle, a={**idle, "differences": [CHANGE]}), settings.build_rollout_settings({})
    ).canaries == ["a"]


def test_a_rollout_that_goes_on_is_the_same_one() -> None:
    hosts = {f"gpu{n}": looked(CHANGE) for n in range(40)}
    whole = rollout.plan_rollout(fleet(**hosts), settings.build_rollout_settings({})).order
    rest = {name: looked() if name in whole[:9] else look for name, look in hosts.items()}
    assert (
        rollout.plan_rollout(fleet(**rest), settings.build_rollout_settings({})).order == whole[9:]
    )


def test_hosts_that_an_earlier_run_took_out_of_service_go_first() -> None:
    hosts = {f"gpu{n}": looked(CHANGE) for n in range(40)}
    found = rollout.plan_rollout(
        rollout.Fleet(hosts, first=frozenset({"gpu7", "gpu9"})),
        settings.build_rollout_settings({"canaries": 0}),
    )
    assert set(found.order[:2]) == {"gpu7", "gpu9"}


def test_a_rollout_without_hosts_says_so() -> None:
    with pytest.raises(PlanError, match=r"\[rollout.no-hosts\]$"):
        rollout.plan_rollout(fleet(), settings.build_rollout_settings({}))


# ---------------------------------------------------------------- left out

LEFT_OUT = [
    ({}, "it was unreachable before the rollout began"),
    ({"unreachable": True, "msg": "No route to host\nmore"}, "it was unreachable before the rollout began: No route to host"),
    ({"failed": True, "msg": "not root"}, "the look at it failed: not root"),
    ({**looked(CHANGE), "problem": "two files disagree"}, "two files disagree"),
    ({**looked(CHANGE), "driver": {"state": "broken", "evidence": "GPU 3 fell off the bus"}},
     "its GPU driver was broken before the rollout began: GPU 3 fell off the bus"),
]  # fmt: skip


@pytest.mark.parametrize(("result", "why"), LEFT_OUT)
def test_a_host_that_was_broken_before_is_left_out(result: dict[str, Any], why: str) -> None:
    hosts = {f"gpu{n}": looked(CHANGE) for n in range(9)}
    found = rollout.plan_rollout(fleet(bad=result, **hosts), settings.build_rollout_settings({}))
    assert found.list_hosts_in_state(rollout.LEFT_OUT) == ["bad"]
    assert found.hosts["bad"].why == why
    assert "bad" not in found.order


@pytest.mark.parametrize(
    ("broken", "most", "stops"),
    [(1, "10%", False), (2, "10%", True), (2, "2", False), (1, "0", True)],
)
def test_too_many_that_are_left_out_end_the_run_before_it_begins(
    broken: int, most: str, stops: bool
) -> None:
    hosts = {
        **{f"gpu{n}": looked(CHANGE) for n in range(5)},
        **{f"bad{n}": {} for n in range(broken)},
    }
    found = rollout.plan_rollout(
        fleet(**hosts), settings.build_rollout_settings({"max_left_out": most})
    )
    assert (len(found.order), "[rollout.too-many-left-out]" in found.ended) == (
        (0, True) if stops else (5, False)
    )
    assert len(found.list_hosts_in_state(rollout.LEFT_OUT)) == broken


# ---------------------------------------------------------------- large fleets


def calls(number: int) -> int:
    """How much work the plan of so many hosts is, one in fifty of them dead, in racks of twenty."""
    hosts = {
        f"gpu{n}": {} if n % 50 == 7 else looked(CHANGE, gpu=f"G{n % 5}") for n in range(number)
    }
    planned = rollout.Fleet(hosts, {host: {"rack": n // 20} for n, host in enumerate(hosts)})
    wanted = settings.build_rollout_settings({"domain": "rack", "max_unavailable": 2})
    count = 0

    def one_more(_frame: Any, event: str, _arg: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(one_more)
    try:
        found = rollout.plan_rollout(planned, wanted)
    finally:
        sys.setprofile(None)
    assert (
        len(found.order)
        == number - len(found.list_hosts_in_state(rollout.LEFT_OUT))
        == number - number // 50
    )
    assert len(found.canaries) == 5
    return count


def test_ten_times_the_hosts_are_about_ten_times_the_work() -> None:
    assert calls(4000) < 11 * calls(400)


# ---------------------------------------------------------------- the gate over the whole rollout


GATES = [
    # outcomes of a batch, the budget, whether they were canaries; whether the rollout ends, which
    # classes stop
    ({"a": "yes", "b": "no"}, "0", True, False, []),
    ({"a": "failed", "b": "yes"}, "0", False, True, []),
    ({"a": "failed", "b": "lost"}, "1", False, True, []),
    ({"a": "rolled back", "b": "yes"}, "10%", False, False, []),
    ({"a": "rolled back", "b": "yes"}, "1", True, False, ["x"]),
    ({"a": "lost", "b": "yes"}, "0", True, True, ["x"]),
    ({"a": "left out", "b": "yes"}, "0", True, False, []),
]


@pytest.mark.parametrize(("words", "most", "canaries", "ends", "stopped"), GATES)
def test_the_gate_counts_failed_rolled_back_and_lost(
    words: dict[str, str], most: str, canaries: bool, ends: bool, stopped: list[str]
) -> None:
    found = after(words, most, canaries=canaries)
    assert bool(found.ended) is ends
    assert list(found.stopped) == stopped
    assert found.done == 2


def test_the_budget_is_one_of_all_waves() -> None:
    first = after({"a": "failed"}, "1")
    assert not first.ended
    second = after({"b": "rolled back"}, "1", start=first)
    assert second.ended.endswith(": a, b [gate.rollout-over-limit]")
    assert progress.map_held_hosts(second, TWO) == {"a": second.ended, "b": second.ended}


def test_a_class_whose_canary_did_not_come_through_does_not_start() -> None:
    found = after({"a": "rolled back"}, "5", canaries=True)
    assert progress.map_held_hosts(found, {"c": "x", "d": "y"}) == {
        "c": "its class has stopped: its canary a was rolled back"
    }


UNTRIED = [
    # outcomes of a batch, whether they were canaries; why the class of a does not start
    (
        {"a": "left out", "b": "yes"},
        True,
        "its class has not been tried: its canary a could not be taken out of service",
    ),
    (
        {"a": "pending", "b": "no"},
        True,
        "its class has not been tried: its canary a could not be taken out of service in time",
    ),
    (
        {"a": "refused", "b": "no"},
        True,
        "its class has not been tried: its canary a was not changed, since its change is refused now",
    ),
    ({"a": "left out", "b": "yes"}, False, ""),
    ({"a": "no", "b": "yes"}, True, ""),
    ({"a": "would", "b": "would"}, True, ""),
    ({"a": "failed", "b": "yes"}, True, "its class has stopped: its canary a failed"),
]


@pytest.mark.parametrize(("words", "canaries", "why"), UNTRIED)
def test_a_class_whose_canary_was_not_changed_does_not_start(
    words: dict[str, str], canaries: bool, why: str
) -> None:
    found = after(words, "5", canaries=canaries)
    assert progress.map_held_hosts(found, {"c": "x", "d": "y"}) == ({"c": why} if why else {})


def test_a_pause_is_no_failure_and_hides_none() -> None:
    paused = progress.end_progress(START, "the window is closed", paused=True)
    assert (paused.ended, paused.paused) == ("the window is closed", True)
    stopped = after({"a": "failed"}, "0")
    assert stopped.ended.endswith(" [gate.rollout-over-limit]")
    assert not stopped.paused
    assert progress.end_progress(stopped, "the window is closed", paused=True) == stopped


ENDED = [
    # what became of hosts, what the second look found, how many may fail, seconds so far, the line
    (
        {"a": "yes"},
        {},
        0,
        0,
        "batch 1 of 2 ended: 1 changed; 1 of 2 hosts so far, 0 of at most 0 failed",
    ),
    (
        {"a": "yes"},
        {"a": "no engine runs"},
        1,
        0,
        "batch 1 of 2 ended: 1 failed; 1 of 2 hosts so far, 1 of at most 1 failed: a",
    ),
    (
        {"a": "rolled back"},
        {},
        0,
        75,
        (
            "batch 1 of 2 ended: 1 rolled back; 1 of 2 hosts so far, 1 of at most 0 failed: a; "
            "1:15 so far, about 1:15 left"
        ),
    ),
]


@pytest.mark.parametrize(("words", "unhealthy", "limit", "seconds", "line"), ENDED)
def test_the_end_of_a_batch_counts_each_host_once(
    words: dict[str, str], unhealthy: dict[str, str], limit: int, seconds: int, line: str
) -> None:
    batch = progress.Ended(words, dict.fromkeys(words, "L4"), False, unhealthy)
    plan = {"batches": [{"hosts": ["a"]}, {"hosts": ["b"]}]}
    found = progress.update_progress(START, batch, 2, waves.Amount(0, False))
    assert events.summarize_batch(0, plan, words, found, limit=limit, seconds=seconds) == line


FOLDED = [
    # outcomes with seconds by host, the lines
    ({"a": ("yes", 3.2), "b": ("yes", 4.4)}, ["  L4  a  changed, 3 s", "  L4  b  changed, 4 s"]),
    (
        {"a1": ("yes", 3.2), "a2": ("yes", 4.4), "a3": ("yes", 9.0)},
        ["  L4  a[1-3] (3)  changed, 3 to 9 s"],
    ),
    (
        {"a1": ("would", None), "a2": ("would", None), "a3": ("would", None)},
        ["  L4  a[1-3] (3)  would change"],
    ),
]


@pytest.mark.parametrize(("hosts", "lines"), FOLDED)
def test_equal_hosts_of_a_batch_share_a_line_from_three_on(
    hosts: dict[str, tuple[str, float | None]], lines: list[str]
) -> None:
    assert (
        events.list_hosts(
            {
                h: {"class": "L4", "word": word, "seconds": took, "why": ""}
                for h, (word, took) in hosts.items()
            }
        )
        == lines
    )


@pytest.mark.parametrize(
    ("seconds", "text"), [(7, "0:07"), (750, "12:30"), (11550, "3:12:30"), (59.7, "1:00")]
)
def test_durations_are_clocks(seconds: float, text: str) -> None:
    assert events.write_clock(seconds) == text
