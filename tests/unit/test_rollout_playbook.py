# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The order and the time limits of what the playbook rollout does with one host."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

PLAYS = yaml.safe_load((Path(__file__).resolve().parents[2] / "playbooks/rollout.yml").read_text())
LIMIT = "{{ gpufleet_rollout_host_timeout | default(0) | int }}"


def tasks(entries: list[Mapping[str, Any]], limit: str = "") -> Iterator[tuple[str, str]]:
    """Each task with the limit that counts for it, its own or that of what it is in."""
    for entry in entries:
        own = str(entry.get("timeout") or (entry.get("ansible.builtin.include_role") or {}).get("apply", {}).get("timeout") or limit)
        if "block" in entry:
            yield from tasks(entry["block"], own)
        else:
            yield entry["name"], own


FOUND = [found for play in PLAYS for found in tasks(play["tasks"], str(play.get("timeout") or ""))]
ORDER = [name for name, _limit in FOUND]
EARLIER = [
    # a person may answer when the window has closed
    ("See whether there is a batch to ask for", "Ask before the batch"),
    ("Ask before the batch", "Begin the batch"),
    # nothing is applied to a cluster for a batch that does not begin, and no host is changed before
    ("End here when the gate says so", "Apply to the clusters what has to be there before the change"),
    ("Change no host where that could not be applied", "Wait until the device plugin has its new configuration"),
    ("Wait until the device plugin has its new configuration", "Take it out of service where the change would end work"),
    ("Look for errors of its GPUs", "Apply to the clusters what follows from the change"),
    ("Apply to the clusters what follows from the change", "End the batch"),
    # an error of a GPU that the user's files cause is one "since the change"
    ("Take it out of service where the change would end work", "Note the errors that its GPUs have had by now"),
    ("Note the errors that its GPUs have had by now", "Do what comes before the change"),
    ("Do what comes before the change", "Change what else is to be changed"),
    ("Change what else is to be changed", "Prove it"),
    ("Diagnose its GPUs while no work is on them", "Put it back into service"),
    ("Put it back into service", "Look for errors of its GPUs"),
]


@pytest.mark.parametrize(("first", "then"), EARLIER)
def test_one_step_comes_before_another(first: str, then: str) -> None:
    assert ORDER.index(first) < ORDER.index(then)


LIMITED = [
    "Look", "Ask", "Note the errors that its GPUs have had by now", "Converge", "Prove it", "Diagnose its GPUs while no work is on them",
    "Look for errors of its GPUs",
]  # fmt: skip


@pytest.mark.parametrize("name", LIMITED)
def test_each_task_on_a_host_has_the_limit_of_the_user(name: str) -> None:
    assert {limit for found, limit in FOUND if found == name} == {LIMIT}
