# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a host is drained, by whom, and which settings are refused: tables."""

from __future__ import annotations

import contextlib
import functools
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster import drain
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster.drain import (
    Standing,
    Work,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from hypothesis import given
from hypothesis import strategies as st

ENDS = Work(ends=("web", "db"))
ASKED = [
    # gpufleet_drain, gpufleet_drain_by, who gives the host work, whether commands are set; whether
    # anybody is asked
    ("auto", ["auto"], (), False, False),
    ("auto", ["auto"], ("kubernetes",), False, True),
    ("auto", ["auto"], ("slurm",), False, True),
    ("auto", ["auto"], (), True, True),
    ("auto", ["kubernetes"], (), False, True),
    ("never", ["kubernetes"], ("kubernetes",), True, False),
    ("always", ["auto"], (), False, True),  # and is told that nobody is there
]


@pytest.mark.parametrize(("policy", "by", "work", "commands", "asked"), ASKED)
def test_who_has_somebody_to_be_asked(
    policy: str, by: list[str], work: tuple[str, ...], commands: bool, asked: bool
) -> None:
    given_ = {"before": ["b"], "after": ["a"]} if commands else {}
    assert drain.is_orchestrator_asked(policy, by, Work(orchestrators=work), given_) is asked


USED = Work(gpu_processes=("4711",))
BOTH = Work(ends=("web",), gpu_processes=("4711",))

UNSEEN = Work(
    gpu_processes=("unknown: 240 were not looked into", "unknown: 1 cannot be looked into")
)
SEEN = Work(gpu_processes=("4711", "unknown: 1 cannot be looked into"))
HIDDEN = "the driver changes, and it is not known whether processes use the GPUs ({})"
TWO_UNSEEN = HIDDEN.format("240 were not looked into; 1 cannot be looked into")

DECISIONS = [
    # policy, what runs, whether the driver changes, drain?, why
    ("auto", Work(), False, False, "the change ends no container"),
    ("auto", ENDS, False, True, "the restart ends 2 containers (web, db)"),
    ("auto", USED, False, False, "the change ends no container"),
    ("auto", USED, True, True, "the driver changes, and 1 process (4711) use the GPUs"),
    ("auto", SEEN, True, True, "the driver changes, and 1 process (4711) use the GPUs"),
    ("auto", UNSEEN, True, True, TWO_UNSEEN),
    ("auto", UNSEEN, False, False, "the change ends no container"),
    ("auto", Work(), True, False, "the driver changes, and no process uses the GPUs"),
    ("auto", BOTH, True, True, "the restart ends 1 container (web)"),
    ("always", Work(), False, True, "gpufleet_drain is always"),
    ("never", ENDS, True, False, "gpufleet_drain is never"),
]


@pytest.mark.parametrize(("policy", "work", "driver", "wanted", "why"), DECISIONS)
def test_a_host_is_drained_where_work_would_end(
    policy: str, work: Work, driver: bool, wanted: bool, why: str
) -> None:
    assert drain.decide_drain(policy, work, driver_changes=driver) == drain.DrainDecision(
        wanted, why
    )


@pytest.mark.parametrize(("work", "drained"), [(UNSEEN, False), (SEEN, True), (BOTH, True)])
def test_what_is_not_known_drains_no_host_where_the_user_says_so(work: Work, drained: bool) -> None:
    found = drain.decide_drain("auto", work, driver_changes=True, unknown="go_on")
    assert found.drain is drained
    assert drained or found.why == f"{TWO_UNSEEN}; gpufleet_drain_unknown is go_on"


CHANGES = [
    # gpufleet_drain_driver_changes, the user's files of a rollout; whether GPU processes end by the
    # change
    (None, {}, False),
    (None, {"before": "", "change": "", "after": "check.yml"}, False),
    (None, {"change": "driver.yml"}, True),
    (False, {"change": "driver.yml"}, False),
    (True, {}, True),
]


@pytest.mark.parametrize(("said", "tasks", "changes"), CHANGES)
def test_a_file_that_changes_more_ends_gpu_processes_unless_the_user_says_otherwise(
    said: bool | None, tasks: Any, changes: bool
) -> None:
    assert drain.is_driver_changed(said, tasks) is changes


def test_of_many_containers_the_first_are_named() -> None:
    work = Work(ends=tuple(f"c{number}" for number in range(9)))
    assert (
        drain.decide_drain("auto", work).why
        == "the restart ends 9 containers (c0, c1, c2, c3, c4 and 4 more)"
    )


COMMANDS = {"before": ["a"], "after": ["b"]}
CHOSEN = [
    # gpufleet_drain_by, whose agents run there, gpufleet_drain_commands, who drains
    (["auto"], (), {}, ()),
    (["auto"], ("kubernetes",), {}, ("kubernetes",)),
    (["auto"], ("kubernetes", "slurm"), COMMANDS, ("commands", "slurm", "kubernetes")),
    (["slurm"], ("kubernetes",), COMMANDS, ("slurm",)),
    (["auto", "slurm"], (), COMMANDS, ("commands", "slurm")),
]


@pytest.mark.parametrize(("by", "there", "commands", "wanted"), CHOSEN)
def test_who_drains(
    by: list[str], there: tuple[str, ...], commands: dict[str, Any], wanted: tuple[str, ...]
) -> None:
    assert drain.list_orchestrators(by, Work(orchestrators=there), commands) == wanted


GOOD = {
    "by": ["auto"],
    "commands": {},
    "timeout": 3600,
    "interval": 10,
    "rollout": "default",
    "method": "wait",
}
REFUSED = [
    ({"commands": "drain gpu1"}, "drain.commands-not-a-dictionary"),
    (
        {"commands": {"before": "drain gpu1", "after": ["b"]}},
        "drain.command-is-text",
    ),
    ({"commands": {"before": [], "after": ["b"]}}, "drain.command-not-a-list"),
    ({"commands": {"before": [["a"]], "after": ["b"]}}, "drain.command-not-a-list"),
    ({"commands": {"before": ["a"]}}, "drain.command-missing"),
    ({"commands": {**COMMANDS, "befor": ["a"]}}, "drain.unknown-command"),
    ({"commands": {"before": ["a\0b"], "after": ["b"]}}, "drain.null-character"),
    ({"timeout": 0}, "drain.time"),
    ({"timeout": 10**9}, "drain.time"),
    ({"interval": -1}, "drain.time"),
    ({"interval": 60, "timeout": 30}, "drain.interval-too-long"),
    ({"rollout": "driver 580"}, "drain.rollout-id"),
    ({"rollout": ""}, "drain.rollout-id"),
    ({"by": []}, "drain.by-is-empty"),
    ({"by": ["commands"]}, "drain.commands-missing"),
    ({"by": ["slurm"], "method": "evict"}, "drain.slurm-cannot-evict"),
    (
        {"kubernetes_hold": "taint", "method": "evict"},
        "drain.taint-cannot-evict",
    ),
]


@pytest.mark.parametrize(("changed", "code"), REFUSED)
def test_a_setting_that_cannot_work_is_refused(changed: dict[str, Any], code: str) -> None:
    drain.check_drain_settings(GOOD)
    with pytest.raises(PlanError) as error:
        drain.check_drain_settings({**GOOD, **changed})
    assert error.value.code == code


NAMES = [
    # what the user says, what the host calls itself, its name in the inventory, the names that are
    # tried
    ("node-7", "gpu1.example.org", "gpu1", ("node-7",)),
    ("", "GPU1.example.org", "10.0.0.1", ("gpu1.example.org", "gpu1", "10.0.0.1")),
    ("", "gpu1", "gpu1", ("gpu1",)),
    ("", "", "gpu1", ("gpu1",)),
    ("", "gpu[2-9]", "gpu1", ("gpu1",)),  # to Slurm a list of nodes
    ("", "--all", "gpu1", ("gpu1",)),
]


@pytest.mark.parametrize(("said", "hostname", "inventory", "wanted"), NAMES)
def test_a_node_is_looked_for_by_these_names(
    said: str, hostname: str, inventory: str, wanted: tuple[str, ...]
) -> None:
    assert drain.list_node_names(said, Work(hostname=hostname), inventory) == wanted


WRONG_NAMES = [
    # what the host calls itself, its name in the inventory, whether another host of the inventory
    # has that name
    ("gpu2", "gpu1", True),
    ("GPU2.example.org", "gpu1", True),
    ("gpu2.example.org", "gpu2", False),
    ("gpu2", "gpu2.example.org", False),
    ("localhost", "gpu1", False),
]


@pytest.mark.parametrize(("hostname", "inventory", "refused"), WRONG_NAMES)
def test_a_host_does_not_have_another_one_drained(
    hostname: str, inventory: str, refused: bool
) -> None:
    names = functools.partial(
        drain.list_node_names,
        work=Work(hostname=hostname),
        inventory_hostname=inventory,
        setting="gpufleet_slurm_node",
    )
    with (
        pytest.raises(PlanError, match="Set gpufleet_slurm_node")
        if refused
        else contextlib.nullcontext()
    ):
        assert inventory in names("", others=["gpu1", "gpu2", "localhost"])
    assert names("node-7", others=["node-7"]) == ("node-7",)


def test_an_obstacle_is_what_somebody_else_holds_or_what_does_not_work() -> None:
    standings = {
        "slurm": Standing("others", "drained by root"),
        "kubernetes": Standing("held", "cordoned by this rollout"),
    }
    assert drain.explain_drain_obstacle(standings) == "slurm: drained by root"
    assert drain.explain_drain_obstacle({"kubernetes": Standing("in_service")}) == ""
    assert drain.list_held_standings(standings) == ("kubernetes",)


CUT = {
    "GPU Operator's toolkit": "GPU Operators toolkit",
    "word " * 60: "word " * 38 + "word...",
    "https://tickets.example.org/" + "x" * 300: "https://tickets.example.org/" + "x" * 169 + "...",
    "see " + "x" * 300: "see " + "x" * 193 + "...",
}


@pytest.mark.parametrize("reason", CUT)
def test_a_long_reason_is_cut_between_words_where_that_leaves_most_of_it(reason: str) -> None:
    assert drain.get_drain_text(reason, "") == CUT[reason]


@given(st.text(), st.text())
def test_a_reason_is_one_line_that_no_parser_stumbles_over(reason: str, why: str) -> None:
    text = drain.get_drain_text(reason, why)
    assert len(text) <= 200
    assert not set(text) & set("\"'=[]\n\t\0")
