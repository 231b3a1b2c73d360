# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which play of a playbook takes which hosts."""

from __future__ import annotations

import pytest

from tests.unit.playbook_tasks import FILES, NOBODY, WITHOUT_ROLES, Task, fill, list_all

ORDER, PATTERN = "Keep the order of the hosts", ["gpu2", "gpu1"]
TAKEN = [
    # the plan is plain, check mode -> the play that takes the hosts, by its number
    (True, False, "Roll out 1"),
    (True, True, "Try the changes"),
    # batches with more around the change than check mode can show
    (False, False, "Roll out 2"),
    (False, True, "Roll out 2"),
]


def find_play(name: str, number: int = 0) -> Task:
    return [play for play in FILES["rollout"] if play.get("name") == name][number]


PLAYS = {
    "Try the changes": find_play("Try the changes"),
    "Roll out 1": find_play("Roll out", 0),
    "Roll out 2": find_play("Roll out", 1),
}


@pytest.mark.parametrize("plain, check, name", TAKEN)
def test_one_play_takes_the_hosts_of_a_rollout(plain: bool, check: bool, name: str) -> None:
    plan = {"plain": plain, "pattern": PATTERN, "sizes": [1, 1]}
    given = {"gpufleet_rollout_plan": plan, "ansible_check_mode": check}
    (facts,) = (task for task in list_all(FILES["rollout"]) if task["name"] == ORDER)
    kept = fill(facts["ansible.builtin.set_fact"]["gpufleet_rollout"], given)
    # a play's hosts are templated with the facts of this host alone
    there = {"hostvars": {"localhost": {"gpufleet_rollout": kept}}}
    hosts = {title: fill(play["hosts"], there) for title, play in PLAYS.items()}
    assert hosts == {**dict.fromkeys(PLAYS, NOBODY), name: PATTERN}
    sizes = [fill(play["serial"], there) for play in PLAYS.values() if "serial" in play]
    assert sizes == [[1, 1], [1, 1]]


LATER = [
    # file, play, name of its fact on the controller, its key
    ("rollout", "Ask whether hosts can be taken out of service", "gpufleet_rollout", "asked"),
    ("plays/end", "Fail the hosts that need attention", "gpufleet_end", "pattern"),
]


@pytest.mark.parametrize("file, name, fact, key", LATER)
def test_a_later_play_takes_the_hosts_that_were_kept_for_it(
    file: str, name: str, fact: str, key: str
) -> None:
    (play,) = (play for play in FILES[file] if play["name"] == name and "hosts" in play)
    kept = {"hostvars": {"localhost": {fact: {key: ["gpu2"]}}}}
    assert fill(play["hosts"], kept) == ["gpu2"]
    # no play before it has kept any, or Ansible only checks the syntax
    for given in ({"hostvars": {"localhost": {}}}, {}):
        assert fill(play["hosts"], given) == NOBODY


@pytest.mark.parametrize("title", PLAYS)
def test_a_play_of_a_rollout_takes_nobody_before_there_is_a_plan(title: str) -> None:
    for given in ({"hostvars": {"localhost": {}}}, {}):
        assert fill(PLAYS[title]["hosts"], given) == NOBODY
        assert fill(PLAYS[title].get("serial", [1]), given) == [1]


def test_all_other_plays_take_the_hosts_that_the_user_names() -> None:
    kept = {(file, name) for file, name, _fact, _key in LATER}
    others = {
        play["hosts"]
        for file, entries in WITHOUT_ROLES.items()
        for play in entries
        if "hosts" in play and (file, play["name"]) not in kept and play not in PLAYS.values()
    }
    of_user = "{{ lookup('gpufleet.nvidia.play_hosts', gpufleet_hosts | default('all')) }}"
    assert others == {of_user, "localhost"}
