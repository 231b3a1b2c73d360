# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of tasks of the user's: what Ansible would refuse in a batch is refused before a host is
looked at.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.playbook.play import Play
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller.steps import (
    rollout_settings,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError

# By short names, since Ansible resolves others only where its commands have set up collections.
GOOD = [
    "",
    "- debug:\n    msg: '{{ inventory_hostname }}'\n",
    "- name: Load the driver\n  command: modprobe nvidia\n  become: true\n  when: not ansible_check_mode\n",
    # read from the directory of the file, when Ansible comes to it
    "- ansible.builtin.import_tasks: more.yml\n",
    "- include_role:\n    name: site.driver\n",
    "- block:\n    - reboot:\n  rescue:\n    - debug:\n  when: true\n",
    "- ansible.builtin.meta: noop\n",
]
# Misspelt keywords are looked for among modules, which needs collections:
# tests/unit/playbooks/test_rollout_settings.py.
WRONG = [
    ("- debug:\n  command: /bin/true\n", "conflicting action statements"),
    ("- name: Nothing\n", "no module/action detected in task"),
    ("change: driver.yml\n", "it is not a list of tasks"),
    ("- modprobe nvidia\n", "'modprobe nvidia' is not a task"),
    ("- debug: {\n", "driver.yml"),
]


@pytest.fixture(scope="module")
def play() -> Play:
    return Play.load({"hosts": "all", "gather_facts": False}, loader=DataLoader())


@pytest.mark.parametrize("text", GOOD)
def test_a_file_that_ansible_takes_is_taken(text: str, play: Play, tmp_path: Path) -> None:
    path = tmp_path / "driver.yml"
    path.write_text(text)
    rollout_settings.require_tasks(DataLoader(), play, str(path), "change")


@pytest.mark.parametrize(("text", "why"), WRONG)
def test_a_file_that_ansible_refuses_is_refused_with_its_name_and_ansibles_reason(
    text: str, why: str, play: Play, tmp_path: Path
) -> None:
    path = tmp_path / "driver.yml"
    path.write_text(text)
    with pytest.raises(PlanError, match=why) as raised:
        rollout_settings.require_tasks(DataLoader(), play, str(path), "change")
    assert (raised.value.code, raised.value.where) == ("rollout-file.not-tasks", str(path))
    assert raised.value.values["name"] == "change"
