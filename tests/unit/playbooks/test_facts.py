# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Facts of hosts, their cache, and whether Ansible makes variables of them: none of it decides how
a run of this collection goes.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

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


@pytest.mark.parametrize("injected", ["true", "false"])
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
