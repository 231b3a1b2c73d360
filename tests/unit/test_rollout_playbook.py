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
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import steps_of_batch

PLAYBOOKS = Path(__file__).resolve().parents[2] / "playbooks"
PLAYS = yaml.safe_load((PLAYBOOKS / "rollout.yml").read_text())
LIMIT = "{{ gpufleet_rollout_host_timeout | default(0) | int }}"
# Everything that a batch may need. Steps that it does not need are left out, in the same order.
FILES = steps_of_batch.choose_files(
    steps_of_batch.Needs(
        ends=False, drains=True, soaks=True, clusters=True, verifies=True, check=False
    ),
    {"before": "/x", "change": "/y", "after": "/z"},
)
LISTS = {
    "change": "Prepare, converge and verify the host",
    "last": "Look once more and tell the clusters",
}


def tasks(entries: list[Mapping[str, Any]], limit: str = "") -> Iterator[tuple[str, str]]:
    """Yield each task with the limit that counts for it, its own or that of what it is in; files of
    a list in place of the include.
    """
    for entry in entries:
        own = str(
            entry.get("timeout")
            or (entry.get("ansible.builtin.include_role") or {}).get("apply", {}).get("timeout")
            or limit
        )
        point = next((point for point, name in LISTS.items() if name == entry["name"]), "")
        if "block" in entry:
            yield from tasks(entry["block"], own)
        elif point:
            for file in FILES[point]:
                yield from tasks(yaml.safe_load((PLAYBOOKS / file).read_text()), own)
        elif file := entry.get("ansible.builtin.import_tasks"):
            yield from tasks(yaml.safe_load((PLAYBOOKS / file).read_text()), own)
        elif entry.get("ansible.builtin.include_tasks") == "ask.yml":
            yield from tasks(yaml.safe_load((PLAYBOOKS / "tasks/rollout/ask.yml").read_text()), own)
        else:
            yield entry["name"], own


# Batches that need nothing around the change have a play of their own, before the one for all others.
PLAIN_PLAY = next(play for play in PLAYS if play["name"] == "Roll out")
# In check mode all hosts are tried in a play of their own, and nothing else is done with them.
TRIED_PLAY = next(play for play in PLAYS if play["name"] == "Try the changes")
TRIED = list(tasks(TRIED_PLAY["tasks"]))
PLAIN = list(tasks(PLAIN_PLAY["tasks"]))
FOUND = [
    found
    for play in PLAYS
    if "tasks" in play and play not in (PLAIN_PLAY, TRIED_PLAY)
    for found in tasks(play["tasks"], str(play.get("timeout") or ""))
]
ORDER = [name for name, _limit in FOUND]
EARLIER = [
    # a person may answer when the window has closed
    ("Check whether the batch may begin", "Ask before the batch"),
    ("Ask before the batch", "Begin the batch"),
    # nothing is applied to a cluster for a batch that does not begin, and no host is changed before
    ("Begin the batch", "Apply to the clusters the objects that the change needs"),
    (
        "Change no host, since the objects could not be applied",
        "Wait until the device plugin has its new configuration",
    ),
    (
        "Wait until the device plugin has its new configuration",
        "Drain the host, if the change would end work",
    ),
    (
        "Look for errors of the GPUs",
        "Apply to the clusters the objects that follow from the change",
    ),
    ("Apply to the clusters the objects that follow from the change", "End the batch"),
    # an error of a GPU that the user's files cause is one "since the change"
    (
        "Drain the host, if the change would end work",
        "Note the errors that the GPUs have had so far",
    ),
    ("Note the errors that the GPUs have had so far", "Run your tasks before the change"),
    # the packages are those of before all that the user does
    (
        "Note the errors that the GPUs have had so far",
        "Keep the packages of the driver before your tasks change it",
    ),
    (
        "Keep the packages of the driver before your tasks change it",
        "Run your tasks before the change",
    ),
    ("Run your tasks before the change", "Run your tasks that change the host"),
    ("Run your tasks that change the host", "Judge whether the driver fits together"),
    ("Judge whether the driver fits together", "Converge the host"),
    ("Run your tasks after the change", "Note on the host that its driver was judged"),
    ("Note on the host that its driver was judged", "Put the host back into service"),
    ("Converge the host", "Verify that containers get their GPUs"),
    ("Verify that containers get their GPUs", "Run your tasks after the change"),
    ("Diagnose the GPUs while no work is on them", "Put the host back into service"),
    ("Put the host back into service", "Look for errors of the GPUs"),
]


@pytest.mark.parametrize(("first", "then"), EARLIER)
def test_one_step_comes_before_another(first: str, then: str) -> None:
    assert ORDER.index(first) < ORDER.index(then)


def test_the_looks_before_and_after_a_change_ask_the_same() -> None:
    """Otherwise what was so before would be blamed on the change."""
    before, after = (
        yaml.safe_load((PLAYBOOKS / f"tasks/rollout/{name}.yml").read_text())[0]
        for name in ("driver_before", "driver_judged")
    )
    assert before["block"] == after["block"]
    assert before["block"][0]["vars"] == {"gpufleet_driver": "advise"}


def test_the_plan_reads_the_release_of_the_driver_and_the_files_that_bring_it() -> None:
    plays = yaml.safe_load((PLAYBOOKS / "plan.yml").read_text())
    given = next(
        task["gpufleet.nvidia.playbook_step"]
        for task in plays[0]["tasks"][1]["block"]
        if task["name"] == "Check the settings of the rollout"
    )
    assert {"driver", "tasks"} <= set(given)


LIMITED = [
    "Look at the host", "Ask whether the host can be drained", "Note the errors that the GPUs have had so far", "Converge the host",
    "Verify that containers get their GPUs", "Diagnose the GPUs while no work is on them", "Look for errors of the GPUs",
    "Keep the packages of the driver before your tasks change it", "Judge whether the driver fits together",
    "Note on the host that its driver was judged",
]  # fmt: skip


@pytest.mark.parametrize("name", LIMITED)
def test_each_task_on_a_host_has_the_limit_of_the_user(name: str) -> None:
    assert {limit for found, limit in (*FOUND, *PLAIN, *TRIED) if found == name} == {LIMIT}


def test_a_host_of_a_plain_batch_is_changed_and_verified_and_no_more() -> None:
    assert PLAIN == [
        ("Check whether the batch may begin", ""),
        ("Ask before the batch", ""),
        ("Begin the batch", ""),
        ("End here, since the gate lets no batch start", ""),
        ("Converge the host", LIMIT),
        ("Verify that containers get their GPUs", LIMIT),
        ("End the batch", ""),
    ]


def test_in_check_mode_a_host_is_tried_and_no_more() -> None:
    assert TRIED == [("Converge the host", LIMIT), ("Tell what each batch would do", "")]


NEEDS = [
    # what a batch needs, its files for a host, its files at the end, whether these are plain
    ({}, ["converge"], [], True),
    ({"drains": True}, ["drain", "converge", "undrain"], [], False),
    ({"soaks": True}, ["gpu_errors_before", "converge"], ["soak", "look_again"], False),
    ({"clusters": True}, ["cluster_before", "converge"], ["look_again", "cluster_after"], False),
    ({"clusters": True, "check": True}, ["cluster_before", "converge"], [], False),
    ({"verifies": True}, ["converge", "verify"], [], True),
    (
        {"unjudged": True},
        ["driver_before", "driver_judged", "converge", "driver_settled"],
        [],
        False,
    ),
    ({"unjudged": True, "check": True}, ["converge"], [], True),
    ({"ends": True, "drains": True, "soaks": True}, ["end"], [], False),
]


@pytest.mark.parametrize(("needs", "change", "last", "plain"), NEEDS)
def test_a_batch_includes_only_the_files_that_it_needs(
    needs: dict[str, bool], change: list[str], last: list[str], plain: bool
) -> None:
    none = dict.fromkeys(("ends", "drains", "soaks", "clusters", "verifies", "check"), False)
    found = steps_of_batch.choose_files(steps_of_batch.Needs(**{**none, **needs}), {})
    assert {
        point: [Path(file).stem for file in files]
        for point, files in found.items()
        if point != "held"
    } == {
        "change": change,
        "last": last,
    }
    assert all((PLAYBOOKS / file).is_file() for files in found.values() for file in files)
    assert steps_of_batch.is_plain(found) == plain


OWN = [
    # the user's files, check mode, the files of a host
    ({"change": "/y"}, False, ["driver_before", "own_change", "driver_judged", "converge", "driver_settled"]),
    ({"change": "/y"}, True, ["own_change", "converge"]),
    ({"before": "/x", "after": "/z"}, False, ["own_before", "converge", "own_after"]),
]  # fmt: skip


@pytest.mark.parametrize(("own", "check", "change"), OWN)
def test_only_a_file_that_may_change_the_driver_has_the_driver_judged(
    own: dict[str, str], check: bool, change: list[str]
) -> None:
    needs = steps_of_batch.Needs(
        ends=False, drains=False, soaks=False, clusters=False, verifies=False, check=check
    )
    found = steps_of_batch.choose_files(needs, own)
    assert [Path(file).stem for file in found["change"]] == change
    assert not steps_of_batch.is_plain(found)
