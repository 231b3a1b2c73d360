# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Test the command that comes after a run, and the changes that the table shows once."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet.report import (
    fleet_diffs,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet.report.next_command import (
    FIX,
    Invocation,
    choose_next,
    write_command,
)

CHOICES = [
    # playbook, hosts, of these would change, need a person, check mode, the choice
    ("plan", 12, 12, [], False, ("rollout", "--check")),
    ("plan", 3, 1, [], False, ("site", "--check", "--diff")),
    ("plan", 12, 0, [], False, ()),
    ("plan", 12, 12, ["gpu1"], False, (FIX,)),
    ("site", 12, 12, [], True, ("site",)),
    ("site", 12, 0, [], False, ()),
    ("rollout", 12, 12, [], True, ("rollout",)),
    ("rollback", 12, 12, [], True, ()),
]


@pytest.mark.parametrize(("playbook", "hosts", "would", "person", "check", "chosen"), CHOICES)
def test_the_next_command(
    playbook: str, hosts: int, would: int, person: list[str], check: bool, chosen: tuple[str, ...]
) -> None:
    assert (
        choose_next(
            playbook, {"hosts": hosts, "would_change": would, "needs_person": person}, check
        )
        == chosen
    )


COMMANDS = [
    ((), Invocation(), ""),
    ((FIX,), Invocation(("hosts.yml",)), f"next: {FIX}"),
    (("site",), Invocation(), "next: ansible-playbook gpufleet.nvidia.site"),
    (
        ("rollout", "--check"),
        Invocation(("my hosts.yml",), ("@rollout.yml",), "gpu[1:3]"),
        "next: ansible-playbook -i 'my hosts.yml' gpufleet.nvidia.rollout -e @rollout.yml --limit 'gpu[1:3]' --check",
    ),
    (
        ("site",),
        Invocation(("h",), ("token=secret", "@x.yml")),
        "next: ansible-playbook -i h gpufleet.nvidia.site -e @x.yml -e ...",
    ),
    (
        ("site", "--check"),
        Invocation(("h",), options=("--become", "--user", "the ops")),
        "next: ansible-playbook -i h gpufleet.nvidia.site --become --user 'the ops' --check",
    ),
    (
        ("site",),
        Invocation(("h",), playbooks=("our gpus.yml",)),
        "next: ansible-playbook -i h 'our gpus.yml'",
    ),
]


@pytest.mark.parametrize(("chosen", "given", "line"), COMMANDS)
def test_the_line_has_the_files_of_this_run_and_no_value_of_a_variable(
    chosen: tuple[str, ...], given: Invocation, line: str
) -> None:
    assert write_command(chosen, given) == line


def test_each_distinct_change_is_shown_once_with_its_hosts() -> None:
    own: dict[str, list[list[str]]] = {
        "gpu1": [["--- a", "+x"], ["--- b", "+y"]],
        "gpu2": [["--- a", "+x"], ["--- b", "+y"]],
        "gpu3": [["--- a", "+x"]],
    }
    results: dict[str, Any] = {host: {"diffs": texts} for host, texts in own.items()} | {"gpu4": {}}
    assert fleet_diffs.list_changes(results, 80) == [
        "",
        "3 hosts: gpu[1-3]",
        "--- a",
        "+x",
        "",
        "2 hosts: gpu[1-2]",
        "--- b",
        "+y",
    ]
