# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rules of the house about playbooks and roles: a step that acts once for the play runs once, and
what one play keeps for the next is found there.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from ansible_collections.gpufleet.nvidia.plugins.action import playbook_step

from tests.unit.plugin_sources import ROOT

FILES = {
    path: yaml.safe_load(path.read_text()) or []
    for room in ("playbooks", "roles")
    for path in sorted((ROOT / room).rglob("*.yml"))
}
BOOKS = ROOT / "playbooks"
HERE = "gpufleet.nvidia."
STEP = f"{HERE}playbook_step"


def list_step_tasks(value: Any, once: bool = False) -> Iterator[tuple[str, bool]]:
    """Yield the step of each task that names one, and whether run_once counts for it. A block and a
    play hand theirs down.
    """
    if isinstance(value, list):
        for one in value:
            yield from list_step_tasks(one, once)
    elif isinstance(value, dict):
        once = value.get("run_once", once) is True
        if isinstance(value.get(STEP), dict):
            yield value[STEP]["step"], once
        for one in value.values():
            yield from list_step_tasks(one, once)


def map_step_tasks() -> dict[Path, list[tuple[str, bool]]]:
    found = {path: list(list_step_tasks(value)) for path, value in FILES.items()}
    return {path: steps for path, steps in found.items() if steps}


def test_a_step_that_acts_once_runs_once_and_no_other_does() -> None:
    """One action for all steps cannot say BYPASS_HOST_LOOP, which holds for each of its tasks."""
    wrong = {
        str(path.relative_to(ROOT)): steps
        for path, tasks in map_step_tasks().items()
        if (steps := [step for step, once in tasks if once != (step in playbook_step.ONCE)])
    }
    assert wrong == {}


def test_each_step_is_in_a_playbook() -> None:
    used = {step for tasks in map_step_tasks().values() for step, _once in tasks}
    assert used == set(playbook_step.STEPS)
    assert playbook_step.ONCE.issubset(used)


def test_a_block_hands_run_once_down() -> None:
    task = {STEP: {"step": "rollout_plan"}}
    tasks = [{"run_once": True, "block": [task, {**task, "run_once": False}]}, task]
    assert [once for _step, once in list_step_tasks(tasks)] == [True, False, False]


def list_tasks(value: Any) -> Iterator[dict[str, Any]]:
    """Yield each table within a file of plays or tasks."""
    for one in value if isinstance(value, list) else value.values():
        if isinstance(one, dict):
            yield one
        if isinstance(one, (dict, list)):
            yield from list_tasks(one)


KEEPER = "{{ hostvars['localhost'].inventory_hostname }}"


def test_what_is_kept_for_the_next_play_is_kept_where_it_is_read() -> None:
    """`hostvars['localhost']` is the host 127.0.0.1 or ::1 of an inventory that has one. Facts that
    are delegated to `localhost` by this name are not found there (ansible#80946).
    """
    keepers = {
        (str(path.relative_to(ROOT)), task["delegate_to"])
        for path, value in FILES.items()
        for task in list_tasks(value)
        if task.get("delegate_facts")
    }
    assert {keeper for _path, keeper in keepers} == {KEEPER}
    assert {path for path, _keeper in keepers} == {
        "playbooks/rollout.yml",
        "playbooks/tasks/report.yml",
    }


def test_no_setting_of_a_user_decides_which_hosts_a_play_goes_on_with() -> None:
    """`strategy` and `any_errors_fatal` of an ansible.cfg count for a play that names none. The gates
    of this collection decide, by settings of their own. `gathering` of one would ask each host for
    facts that nothing reads.
    """
    own = {"strategy": "ansible.builtin.linear", "any_errors_fatal": False, "gather_facts": False}
    wrong = [
        play["name"]
        for plays in map_plays().values()
        for play in plays
        if {key: play.get(key) for key in own} != own
    ]
    assert wrong == []


def map_plays() -> dict[str, list[dict[str, Any]]]:
    """Return the plays of each playbook, without the playbooks that it imports."""
    books = [path for path in FILES if path.parent in (BOOKS, BOOKS / "plays")]
    return {path.stem: [play for play in FILES[path] if "hosts" in play] for path in books}


CHECK = f"{HERE}variables_check"


def test_each_playbook_checks_the_variables_before_anything_else() -> None:
    """Once for all hosts, and whatever tags the user names: the check says that there are none."""
    settings = {"run_once": True, "tags": "always"}
    wrong = {
        name: first
        for name, plays in map_plays().items()
        if name != "end"  # the last play of other playbooks
        for first in plays[0]["tasks"][:1]
        if CHECK not in first or {key: first.get(key) for key in settings} != settings
    }
    assert wrong == {}


def test_a_role_is_included_without_the_check_by_ansible() -> None:
    """Ansible's own check prints the whole specification of a role for each host."""
    roles = [
        options
        for value in FILES.values()
        for task in list_tasks(value)
        for kind in ("include_role", "import_role")
        if (options := task.get(f"ansible.builtin.{kind}"))
    ]
    assert {options["name"].rpartition(".")[0] for options in roles} == {HERE.rstrip(".")}
    wrong = {options["name"] for options in roles if options.get("rolespec_validate") is not False}
    assert wrong == ONE_HOST


# Roles that run on the controller alone.
ONE_HOST = {f"{HERE}awx", f"{HERE}bundle"}


def list_once(value: Any, once: bool = False) -> Iterator[tuple[dict[str, Any], bool]]:
    """Yield each task, and whether run_once counts for it."""
    for one in value:
        inner = one.get("run_once", once) is True
        yield one, inner
        for key in ("tasks", "block", "rescue", "always"):
            yield from list_once(one.get(key) or (), inner)


# What acts once for the whole play, beside steps: what bypasses the loop over hosts, what waits or
# asks a person, and what the next play reads from one host.
ONCE = {
    "ansible.builtin.assert",
    "ansible.builtin.pause",
    "ansible.builtin.set_fact",
    *(
        HERE + path.stem
        for path in (ROOT / "plugins/action").glob("*.py")
        if "BYPASS_HOST_LOOP = True" in path.read_text()
    ),
}


def test_what_acts_once_for_the_play_says_so() -> None:
    """In a block, ansible-core 2.16 otherwise stops only the first host of the batch."""
    assert f"{HERE}failed_hosts_check" in ONCE
    wrong = [
        (str(path.relative_to(ROOT)), task["name"])
        for path, value in FILES.items()
        if "meta" not in path.parts
        for task, once in list_once(value)
        if ONCE & set(task) and not once
    ]
    assert wrong == []
