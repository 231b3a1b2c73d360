# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who uses shared and dedicated GPUs now, by what the kernel says of processes: table."""

from __future__ import annotations

import re
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import (
    driver_state,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.sharing import (
    gpu_holders,
    gpu_users,
    modes,
    resource,
)

from tests.unit.builders import obs
from tests.unit.gpus import BUSES, UUIDS, host

ID = "0f3b7c1d9a2e" + "5" * 52
GROUPS = [
    (f"/system.slice/docker-{ID}.scope", "container 0f3b7c1d9a2e"),
    (f"/docker/{ID}", "container 0f3b7c1d9a2e"),
    (f"/kubepods.slice/kubepods-pod1.slice/cri-containerd-{ID}.scope", "container 0f3b7c1d9a2e"),
    (f"/kubepods/besteffort/pod1/{ID}", "container 0f3b7c1d9a2e"),
    (f"/machine.slice/libpod-{ID}.scope/container", "container 0f3b7c1d9a2e"),
    ("/system.slice/training.service", "/system.slice/training.service"),
    ("/user.slice/user-1000.slice/session-3.scope", "/user.slice/user-1000.slice/session-3.scope"),
    ("", "/"),
]


def report(policy: Policy, seen: Observation) -> list[dict[str, Any]]:
    return gpu_users.report_gpu_users(
        policy, resource.read_sharing_facts(policy, seen), driver_state.read_driver(policy, seen)
    )


@pytest.mark.parametrize(("group", "expected"), GROUPS)
def test_how_a_user_is_named(group: str, expected: str) -> None:
    assert gpu_holders.name_holder(group) == expected


@pytest.mark.parametrize(
    "row", [["x", ["0"], "/a"], [7, 5, "/a"], [7, ["0"]], [7, ["0"], 5], "7", None]
)
def test_a_row_of_another_shape_names_nobody(row: Any) -> None:
    assert gpu_holders.map_groups_to_holders({"held": [row, [8, ["0"], "/b"]]}, "0") == {"/b": [8]}


MANY = {f"/user.slice/{'x' * 4000}{n}": list(range(n, n + 9)) for n in range(9)}


def test_a_sentence_stays_one_whoever_has_how_many_processes() -> None:
    said = gpu_holders.describe_some_holders(MANY)
    assert said.endswith("(processes 4, 5, 6, 7, 8 and 4 more) and 4 more")
    assert len(said) < 1000


A, B = "/system.slice/a.service", "/system.slice/b.service"
DEDICATED, SHARED, MPS = {UUIDS[0]: "dedicated"}, {UUIDS[0]: "time_slicing"}, {UUIDS[0]: "mps"}
TWO = "sharing.users-on-dedicated-gpu"
FAILED = {"error": {"kind": "failed", "message": "hidepid"}}
CASES: list[tuple[str, dict[str, Any], Any, list[str], str | None]] = [
    ("nobody", DEDICATED, {"held": [], "closed": 0}, [], ""),
    (
        "one with two processes",
        DEDICATED,
        {"held": [[7, ["0"], A], [8, ["0"], A]], "closed": 0},
        [A],
        "",
    ),
    (
        "two on a dedicated GPU",
        DEDICATED,
        {"held": [[7, ["0"], A], [8, ["0", "1"], B]], "closed": 0},
        [A, B],
        TWO,
    ),
    (
        "two on a shared GPU",
        SHARED,
        {"held": [[7, ["0"], A], [8, ["0"], B]], "closed": 0},
        [A, B],
        "",
    ),
    ("two on two GPUs", DEDICATED, {"held": [[7, ["0"], A], [8, ["1"], B]], "closed": 0}, [A], ""),
    (
        "another one's process cannot be looked into",
        DEDICATED,
        {"held": [[7, ["0"], A]], "closed": 1},
        [A],
        None,
    ),
    (
        "a look that was ended",
        DEDICATED,
        {"held": [[7, ["0"], A]], "closed": 0, "partial": {"processes": 3, "users": [9]}},
        [A],
        None,
    ),
    (
        "two, and one that cannot be looked into",
        DEDICATED,
        {"held": [[7, ["0"], A], [8, ["0"], B]], "closed": 1},
        [A, B],
        TWO,
    ),
    ("nothing is known", DEDICATED, FAILED, [], None),
]


@pytest.mark.parametrize(
    ("sharing", "answer", "named", "violation"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_what_the_policy_does_not_allow(
    sharing: dict[str, Any], answer: Any, named: list[str], violation: str | None
) -> None:
    rows = "".join(f"{n}, {UUIDS[n]}, 0000{BUSES[n]}, Default, Disabled\n" for n in (0, 1))
    seen = obs(
        files=host(2),
        commands={" ".join(modes.QUERY): rows},
        answers={gpu_holders.HOLDERS["id"]: answer},
    )
    policy = Policy(sharing=sharing)
    (row,) = report(policy, seen)
    assert (row["gpu"], row["bus"], row["compute_mode"]) == (UUIDS[0], BUSES[0], "DEFAULT")
    assert [user["name"] for user in row["users"]] == named
    assert row["violation"] is None if violation is None else get_codes(row) == violation


def get_codes(row: dict[str, Any]) -> str:
    """Return the codes in a row's violation, with blanks between them."""
    return " ".join(re.findall(r"\[([a-z.-]+)\]", row["violation"]))


UNIT = f"gpufleet-mps@{UUIDS[0]}.service"
DAEMONS: list[tuple[dict[str, Any], dict[str, Any], str, str]] = [
    # the option, the unit as systemd knows it, the state in the row, what of it is wrong
    (MPS, {UNIT: {"ActiveState": "active"}}, "active", ""),
    (MPS, {UNIT: {"ActiveState": "failed"}}, "failed", "sharing.daemon-not-active"),
    (MPS, {UNIT: {"LoadState": "not-found"}}, "not there", "sharing.daemon-not-active"),
    (MPS, {}, "", ""),
    (SHARED, {UNIT: {"ActiveState": "failed"}}, "", ""),
]


@pytest.mark.parametrize(
    ("sharing", "units", "state", "violation"),
    DAEMONS,
    ids=[f"{c[2] or 'none'}: {c[3]}" for c in DAEMONS],
)
def test_whether_a_daemon_serves(
    sharing: dict[str, Any], units: dict[str, Any], state: str, violation: str
) -> None:
    mode = "Exclusive_Process" if sharing == MPS else "Default"
    rows = "".join(f"{n}, {UUIDS[n]}, 0000{BUSES[n]}, {mode}, Disabled\n" for n in (0, 1))
    answers = {gpu_holders.HOLDERS["id"]: {"held": [], "closed": 0}}
    seen = obs(files=host(2), commands={" ".join(modes.QUERY): rows}, units=units, answers=answers)
    policy = Policy(sharing=sharing)
    (row,) = report(policy, seen)
    assert (row["daemon"], get_codes(row)) == (state, violation)


COMPUTE_MODES: list[tuple[Any, str, str]] = [
    ("mps", "Default", "sharing.wrong-mode"),
    ({"dedicated": {"exclusive": True}}, "Default", "sharing.wrong-mode"),
    ({"dedicated": {"exclusive": True}}, "Exclusive_Process", ""),
    ("time_slicing", "Exclusive_Process", "sharing.wrong-mode"),
    ("dedicated", "Exclusive_Process", ""),
    ("mps", "Prohibited", ""),
]


@pytest.mark.parametrize(("policy_", "mode", "violation"), COMPUTE_MODES)
def test_a_mode_that_somebody_has_changed_is_said(policy_: Any, mode: str, violation: str) -> None:
    """Also of the GPUs that are there, where another one of the option has fallen off the bus."""
    rows = f"0, {UUIDS[0]}, 0000{BUSES[0]}, {mode}, Disabled\n"
    seen = obs(
        files=host(1),
        commands={" ".join(modes.QUERY): rows},
        answers={gpu_holders.HOLDERS["id"]: {"held": [], "closed": 0}},
    )
    policy = Policy(sharing={UUIDS[1]: "dedicated", UUIDS[0]: policy_})
    (row,) = report(policy, seen)
    assert (row["gpu"], get_codes(row)) == (UUIDS[0], violation)


def test_without_the_option_nobody_is_asked() -> None:
    assert (
        gpu_users.list_gpu_user_questions(Policy())
        == gpu_users.list_gpu_user_questions(Policy(sharing={}))
        == []
    )
    assert report(Policy(), obs(files=host(2))) == []
