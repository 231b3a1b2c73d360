# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller takes no word of a host for a template, on any ansible-core."""

from __future__ import annotations

from pathlib import Path

import yaml

from tests.unit.playbooks import bare
from tests.unit.playbooks.bare import play, written
from tests.unit.playbooks.rollouts import fleet, told

# The name of a file of the host's, which the message names that says what is wrong with it.
NAME = "x{{ lookup('pipe', 'touch rendered') }}.toml"
TASKS = [
    {
        "block": [
            {
                "gpufleet.nvidia.host": {
                    "root": "{{ gpufleet_root }}",
                    "no_gpu": "prepare",
                    "engine_version": "1.7.24",
                },
                "register": "found",
            }
        ],
        "rescue": [
            {
                "set_fact": {
                    "kept": "{{ ansible_failed_result }}",
                    "why": "{{ ansible_failed_result.msg }}",
                }
            },
            {
                "debug": {
                    "msg": [
                        "{{ found.error }}",
                        "{{ hostvars[inventory_hostname].found.msg }}",
                        "{{ why }}",
                        "{{ kept.msg }}",
                        "{{ kept.error }}",
                    ]
                }
            },
        ],
    }
]


def test_a_failure_that_has_words_of_a_host_is_not_rendered(tmp_path: Path) -> None:
    """Before ansible-core 2.19 a result is protected, and the result of an action that raises is
    not.
    """
    entry = bare.variables(tmp_path, "gpu1")
    folder = tmp_path / "trees/gpu1/etc/containerd"
    (folder / "conf.d").mkdir()
    written(folder / "config.toml", 'version = 2\nimports = ["/etc/containerd/conf.d/*.toml"]\n')
    written(folder / "conf.d" / NAME, "version = 2\n[")
    inventory = written(tmp_path / "hosts.yml", yaml.safe_dump({"all": {"hosts": {"gpu1": entry}}}))
    book = written(
        tmp_path / "play.yml",
        yaml.safe_dump([{"hosts": "all", "gather_facts": False, "tasks": TASKS}]),
    )
    status, words = bare.run(tmp_path, "ansible-playbook", "-i", inventory, book)
    assert status == 0, words
    assert "lookup('pipe', 'touch rendered')" in words
    assert not (tmp_path / "rendered").exists(), words


SAID = "{{ lookup('pipe', 'touch %s') }}"


def test_what_ssh_says_of_a_host_that_ends_the_connection_in_a_check_of_ones_own_is_not_rendered(
    tmp_path: Path,
) -> None:
    """Ansible's own failure has the words of the host's sshd in its message, which nothing protects
    before ansible-core 2.19.
    """
    rendered = tmp_path / "rendered"
    written(tmp_path / "said", SAID % rendered)
    program = written(tmp_path / "ssh", f"#!/bin/sh\ncat {tmp_path / 'said'} >&2\nexit 255\n")
    program.chmod(0o755)
    then = "gpufleet_rollout_health is defined and gpufleet_rollout_soak_result is not defined"
    away = {
        "ansible_connection": f"{{{{ 'ssh' if {then} else 'local' }}}}",
        "ansible_ssh_executable": str(program),
        "ansible_host": "x",
    }
    extra = {
        "gpufleet_rollout_soak": 1,
        "gpufleet_rollout_soak_command": ["/bin/true"],
        "gpufleet_rollout_max_failed": 1,
    }
    _status, words = play(
        tmp_path, fleet(tmp_path, gpu9=away), "rollout", "--limit", "gpu9", **extra
    )
    assert "touch" in words, words
    assert not rendered.exists(), words
    assert told(words) == {"gpu9": "failed"}, words


RAISES = """from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase


class ActionModule(ActionBase):
    def run(self, tmp=None, task_vars=None):
        raise AnsibleActionFail("no room: {words}")
"""


def test_what_a_task_of_a_users_own_raised_is_kept_and_not_rendered(tmp_path: Path) -> None:
    """An action that raises AnsibleActionFail hands its words over unprotected before ansible-core
    2.19.
    """
    rendered = tmp_path / "rendered"
    (tmp_path / "action_plugins").mkdir()
    written(
        tmp_path / "action_plugins/raises.py",
        RAISES.replace("{words}", (SAID % rendered).replace('"', "'")),
    )
    variable = "gpufleet_hand_over_failure"
    keep = {
        "gpufleet.nvidia.playbook_step": {
            "step": "keep_failure",
            "variable": variable,
            "joined_by": "; then: ",
        },
        "register": variable,
    }
    show = {
        "debug": {
            "msg": ["{{ gpufleet_hand_over_failure.msg }}", "{{ gpufleet_hand_over_failure }}"]
        }
    }
    inner = {"block": [{"raises": None}], "rescue": [keep, show]}
    tasks = [{"block": [{"raises": None}], "rescue": [keep, inner]}]
    book = written(
        tmp_path / "play.yml",
        yaml.safe_dump([{"hosts": "localhost", "gather_facts": False, "tasks": tasks}]),
    )
    status, words = bare.run(tmp_path, "ansible-playbook", "-i", "localhost,", book)
    assert status == 0, words
    assert words.count("no room: ") >= 4, words
    assert "; then: no room: " in words
    assert not rendered.exists(), words


def test_no_playbook_reads_a_failure_by_a_template() -> None:
    """The step keep_failure does, as an action reads variables without rendering them."""
    root = Path(bare.__file__).parents[3]
    files = [
        path
        for folder in ("playbooks", "roles", "examples")
        for path in (root / folder).rglob("*.yml")
    ]
    assert files
    assert [str(path) for path in files if "ansible_failed_result" in path.read_text()] == []
