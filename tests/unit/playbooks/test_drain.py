# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role drain with commands of the user's, as a user runs it: order, refusals, time limits, what
is given back.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.night import ONE_ROW, leave_rest
from tests.unit.playbooks import bare
from tests.unit.playbooks.bare import written

# Notes each call in a file: the step, what its environment says; ends with the status that a file
# of the step's name holds.
PROGRAM = """
import os, sys
place, step = sys.argv[1:]
with open(os.path.join(place, "calls"), "a") as calls:
    calls.write(" ".join([step, os.environ["GPUFLEET_HOST"], os.environ["GPUFLEET_ROLLOUT"], os.environ["GPUFLEET_REASON"]]) + "\\n")
try:
    left = open(os.path.join(place, step)).read().split(",")
except FileNotFoundError:
    left = ["0"]
if len(left) > 1:
    open(os.path.join(place, step), "w").write(",".join(left[1:]))
if left[0] != "0":
    print("busy: job 42", file=sys.stderr)
sys.exit(int(left[0]))
"""
PLAY = [
    {
        "hosts": "gpu_hosts",
        "gather_facts": False,
        "tasks": [
            {"import_role": {"name": "gpufleet.nvidia.drain"}},
            {"debug": {"msg": "the change happens now"}},
            {"import_role": {"name": "gpufleet.nvidia.drain", "tasks_from": "undrain"}},
        ],
    }
]


def commands(place: Path, *steps: str) -> dict[str, list[str]]:
    program = written(place / "step.py", PROGRAM)
    return {step: [sys.executable, str(program), str(place), step] for step in steps}


def run(
    place: Path, *arguments: str, hosts: int = 1, play: Any = None, **variables: Any
) -> tuple[int, str, list[str]]:
    """Exit status, words, and the calls of the user's commands."""
    settled = {"gpufleet_drain_interval": 1, "gpufleet_drain_timeout": 20, **variables}
    members = {
        f"gpu{number}": bare.variables(place / str(len([*place.iterdir()])), f"gpu{number}")
        for number in range(1, hosts + 1)
    }
    inventory = written(
        place / "hosts.yml",
        yaml.safe_dump({"all": {"children": {"gpu_hosts": {"hosts": members, "vars": settled}}}}),
    )
    book = written(place / "play.yml", yaml.safe_dump(play or PLAY))
    status, words = bare.run(place, "ansible-playbook", "-i", inventory, book, "-v", *arguments)
    calls = place / "calls"
    return status, words, calls.read_text().splitlines() if calls.exists() else []


def steps(calls: list[str]) -> list[str]:
    return [call.split()[0] for call in calls]


def outcomes(words: str) -> list[str]:
    return re.findall(r'"outcome": "(\w+)"', words)


def test_a_host_is_taken_out_waited_for_and_put_back(tmp_path: Path) -> None:
    written(tmp_path / "wait", "1,1,0")
    given = commands(tmp_path, "before", "wait", "after")
    status, words, calls = run(
        tmp_path, gpufleet_drain="always", gpufleet_drain_commands=given, gpufleet_rollout_id="r7"
    )
    assert status == 0, words
    assert steps(calls) == ["before", "wait", "wait", "wait", "after"]
    assert calls[0] == "before gpu1 r7 gpufleet_drain is always"
    assert outcomes(words) == ["ready", "drained", "in_service"]


def test_nothing_is_drained_where_nothing_would_end(tmp_path: Path) -> None:
    status, words, calls = run(
        tmp_path, gpufleet_drain_commands=commands(tmp_path, "before", "after")
    )
    assert status == 0, words
    assert calls == []
    assert outcomes(words) == ["not_needed", "not_needed", "in_service"]


def test_work_that_does_not_end_gets_the_host_back_and_no_change(tmp_path: Path) -> None:
    written(tmp_path / "wait", "1")
    given = commands(tmp_path, "before", "wait", "after")
    status, words, calls = run(
        tmp_path, gpufleet_drain="always", gpufleet_drain_commands=given, gpufleet_drain_timeout=2
    )
    assert status == 2, words
    assert steps(calls)[0] == "before"
    assert steps(calls)[-1] == "after"
    assert (
        "not drained within 2 s: commands: the command wait ended with 1 (busy: job 42). The node is in service again"
        in words
    )
    assert outcomes(words)[-1] == "left_out"
    assert "the change happens now" not in words


def test_a_host_that_is_kept_is_pending_and_the_next_run_goes_on(tmp_path: Path) -> None:
    written(tmp_path / "wait", "1")
    settings = {
        "gpufleet_drain": "always",
        "gpufleet_drain_timeout": 1,
        "gpufleet_drain_on_timeout": "keep",
    }
    given = commands(tmp_path, "before", "wait", "after")
    status, words, calls = run(tmp_path, gpufleet_drain_commands=given, **settings)
    assert status == 2, words
    assert outcomes(words)[-1] == "pending"
    assert "after" not in steps(calls)
    written(tmp_path / "wait", "0")
    written(tmp_path / "calls", "")
    status, words, calls = run(tmp_path, gpufleet_drain_commands=given, **settings)
    assert status == 0, words
    assert steps(calls) == ["before", "wait", "after"]


def test_what_an_interrupted_run_left_is_known_by_the_command_marked(tmp_path: Path) -> None:
    """`marked` succeeds: `before` is not run again, and the host is put back though no change was
    left to do.
    """
    given = commands(tmp_path, "before", "wait", "after", "marked")
    status, words, calls = run(tmp_path, gpufleet_drain_commands=given)
    assert status == 0, words
    assert steps(calls) == ["marked", "marked", "wait", "marked", "after"]
    assert "an earlier run of this rollout has drained it" in words


def test_a_command_that_fails_leaves_the_host_as_it_was_found(tmp_path: Path) -> None:
    written(tmp_path / "before", "3")
    status, words, calls = run(
        tmp_path,
        gpufleet_drain="always",
        gpufleet_drain_commands=commands(tmp_path, "before", "after"),
    )
    assert status == 2, words
    assert steps(calls) == ["before", "after"]
    assert "gpufleet_drain_commands.before ended with 3 (busy: job 42)" in words
    assert outcomes(words)[-1] == "left_out"


def test_a_program_that_is_not_there_is_no_work_that_goes_on(tmp_path: Path) -> None:
    given = {**commands(tmp_path, "before", "after"), "wait": ["/nowhere/wait"]}
    status, words, _calls = run(tmp_path, gpufleet_drain="always", gpufleet_drain_commands=given)
    assert status == 2, words
    assert "gpufleet_drain_commands.wait ended with 127" in words


def test_check_mode_runs_no_command(tmp_path: Path) -> None:
    given = commands(tmp_path, "before", "wait", "after")
    status, words, calls = run(
        tmp_path, "--check", gpufleet_drain="always", gpufleet_drain_commands=given
    )
    assert status == 0, words
    assert calls == []
    assert outcomes(words) == ["ready", "drained", "in_service"]


WRONG = [
    ({"gpufleet_drain_commands": "drain gpu1"}, "gpufleet_drain_commands"),
    (
        {"gpufleet_drain_commands": {"before": "drain gpu1", "after": ["b"]}},
        "gpufleet_drain_commands.before is 'drain gpu1' (a string",
    ),
    (
        {"gpufleet_drain_interval": 50},
        "gpufleet_drain_interval is 50 (it is longer than gpufleet_drain_timeout, 20)",
    ),
    ({"gpufleet_rollout_id": "a b"}, "gpufleet_rollout_id is 'a b'"),
    (
        {"gpufleet_drain": "always", "gpufleet_drain_commands": {}},
        "nothing here can drain the host: no kubelet and no slurmd runs on it",
    ),
]


@pytest.mark.parametrize(("wrong", "sentence"), leave_rest(ONE_ROW, WRONG))
def test_a_wrong_setting_ends_the_play_before_any_host_is_drained(
    wrong: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    settings = {
        "gpufleet_drain": "always",
        "gpufleet_drain_commands": commands(tmp_path, "before", "after"),
        **wrong,
    }
    status, words, calls = run(tmp_path, hosts=2, **settings)
    assert status == 2, words
    assert sentence in words
    assert calls == []
    assert "the change happens now" not in words


def test_a_ticket_and_the_user_of_awx_come_first_in_the_reason(tmp_path: Path) -> None:
    given = {
        "gpufleet_drain": "always",
        "gpufleet_drain_commands": commands(tmp_path, "before", "after"),
    }
    status, words, calls = run(
        tmp_path, "-e", "gpufleet_change_ref=OPS-12 awx_user_name=alice", **given
    )
    assert status == 0, words
    assert calls[0] == "before gpu1 default OPS-12, by alice: gpufleet_drain is always"


def test_a_reason_reaches_no_shell(tmp_path: Path) -> None:
    """It is in the environment of the command, as one word."""
    status, words, calls = run(
        tmp_path,
        gpufleet_drain="always",
        gpufleet_drain_commands=commands(tmp_path, "before", "after"),
        gpufleet_drain_reason="$(id); x",
    )
    assert status == 0, words
    assert calls[0] == "before gpu1 default $(id); x"
