# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The next command, from the command line of the run: it reaches the same hosts in the same way."""

from __future__ import annotations

from typing import Any

import pytest
from ansible import constants, context
from ansible.utils.context_objects import CLIArgs
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import console
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import outcomes
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet.report import (
    next_command,
)

USUAL = {
    "become": constants.DEFAULT_BECOME,
    "become_method": constants.DEFAULT_BECOME_METHOD,
    "connection": constants.DEFAULT_TRANSPORT,
}
ACCESS: list[tuple[dict[str, Any], list[str]]] = [
    # what differs from the usual on the command line, the words of it that the next command needs
    ({}, []),
    ({"become": True}, ["--become"]),
    (
        {"become": True, "become_user": "root", "become_ask_pass": True},
        ["--become", "--ask-become-pass", "--become-user", "root"],
    ),
    ({"remote_user": "ops", "private_key_file": "/k"}, ["--user", "ops", "--private-key", "/k"]),
    (
        {"vault_ids": ("a@prompt", "b@f"), "vault_password_files": ()},
        ["--vault-id", "a@prompt", "--vault-id", "b@f"],
    ),
    ({"forks": 50, "verbosity": 3, "diff": True}, []),
]


@pytest.mark.parametrize(("given", "words"), ACCESS)
def test_the_way_to_the_hosts_is_that_of_this_run(given: dict[str, Any], words: list[str]) -> None:
    assert console.list_access_options({**USUAL, **given}) == words


CHANGES, WELL = {"a": {"differences": [{}], "would_restart": []}}, {"a": {"problem": "no"}}
OWN = [
    # the playbook that is named, the one that shows the table, its results, the line without its
    # beginning
    ("gpufleet.nvidia.site", "site", CHANGES, "ansible-playbook gpufleet.nvidia.site"),
    (
        "gpufleet.nvidia.plan",
        "plan",
        CHANGES,
        "ansible-playbook gpufleet.nvidia.site --check --diff",
    ),
    ("ours.yml", "site", CHANGES, "ansible-playbook ours.yml"),
    ("ours.yml", "plan", CHANGES, ""),
    ("ours.yml", "plan", WELL, next_command.FIX),
]


@pytest.mark.parametrize(("named", "playbook", "results", "line"), OWN)
def test_a_playbook_of_the_user_is_the_one_to_run_again(
    named: str, playbook: str, results: dict[str, Any], line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JOB_ID", raising=False)
    monkeypatch.setattr(context, "CLIARGS", CLIArgs({"args": (named,)}))
    found = console.find_following(playbook, outcomes.count_outcomes(results, True), True)
    assert found == (f"next: {line}" if line else "")
