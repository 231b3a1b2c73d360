# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Facts of hosts, their cache, and whether Ansible makes variables of them: none of it decides how
a run of this collection goes.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import yaml

from tests.night import ONE_ROW, leave_rest
from tests.unit.playbooks.bare import run, written
from tests.unit.playbooks.rollouts import fleet, told

ONE = "gpu9"


def roll_out(place: Path, own: str, **environment: str) -> tuple[int, str]:
    """Roll out to one host, with a task of the user's after the change: its module is `own`."""
    tasks = written(
        place / "after.yml",
        yaml.safe_dump([{f"ansible.builtin.{own}": {"msg": "its fans do not turn"}}]),
    )
    rollout = written(
        place / "rollout.yml",
        yaml.safe_dump({"gpufleet_hosts": ONE, "gpufleet_rollout_tasks": {"after": str(tasks)}}),
    )
    return run(
        place,
        "ansible-playbook",
        "-i",
        fleet(place),
        "gpufleet.nvidia.rollout",
        "-e",
        f"@{rollout}",
        **environment,
    )


@pytest.mark.parametrize("injected", leave_rest(ONE_ROW, ["false", "true"]))
def test_a_failed_host_fails_whether_or_not_facts_are_variables(
    injected: str, tmp_path: Path
) -> None:
    status, words = roll_out(tmp_path, "fail", ANSIBLE_INJECT_FACT_VARS=injected)
    assert (status, told(words)) == (2, {ONE: "failed"}), words


def test_a_failure_of_an_earlier_run_is_not_one_of_this_run(tmp_path: Path) -> None:
    """A fact would come back from the cache."""
    cache = {
        "ANSIBLE_CACHE_PLUGIN": "jsonfile",
        "ANSIBLE_CACHE_PLUGIN_CONNECTION": str(tmp_path / "cache"),
    }
    found = {own: roll_out(tmp_path, own, **cache) for own in ("fail", "debug")}
    assert {own: (status, told(words)) for own, (status, words) in found.items()} == {
        "fail": (2, {ONE: "failed"}),
        "debug": (0, {ONE: "yes"}),
    }


LIAR = """#!{python}
import json, os, sys
if sys.argv[-1].endswith("setup.py"):
    print(json.dumps({{"changed": False, "ansible_facts": {facts}}}))
else:
    os.execv({python!r}, [{python!r}, *sys.argv[1:]])
"""
DRAINS = [{"ansible.builtin.import_role": {"name": "gpufleet.nvidia.drain", "tasks_from": "check"}}]


@pytest.mark.parametrize("whole", [True, False])
def test_a_host_gives_the_controller_no_command_by_its_facts(whole: bool, tmp_path: Path) -> None:
    """The facts come from a play before a whole rollout, or from the play that a user has written
    around a role.
    """
    command = ["/usr/bin/touch", str(tmp_path / "ran")]
    commands = {"before": command, "after": command}
    facts = {
        "gpufleet_drain": "always",
        "gpufleet_drain_by": ["commands"],
        "gpufleet_drain_commands": commands,
    }
    liar = written(tmp_path / "python3", LIAR.format(python=sys.executable, facts=facts))
    liar.chmod(0o755)
    inventory = fleet(tmp_path, **{ONE: {"ansible_python_interpreter": str(liar)}})
    plays = [
        {"hosts": ONE, "tasks": [] if whole else DRAINS},
        *([{"import_playbook": "gpufleet.nvidia.rollout"}] if whole else []),
    ]
    book = written(tmp_path / "play.yml", yaml.safe_dump(plays))
    status, words = run(
        tmp_path, "ansible-playbook", "-i", inventory, book, "-e", f"gpufleet_hosts={ONE}"
    )
    assert (status, "variables.from-facts" in words, (tmp_path / "ran").exists()) == (
        2,
        True,
        False,
    ), words
