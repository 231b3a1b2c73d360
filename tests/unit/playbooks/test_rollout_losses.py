# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts that a rollout loses on the way, in each of its phases: they are lost, stay out of service,
and no batch follows unseen.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.playbooks import bare
from tests.unit.playbooks.bare import play, written
from tests.unit.playbooks.rollouts import DEAD, changed, fleet, told

NOTES = 'echo "$GPUFLEET_HOST" >> '


def noted(place: Path, **more: Any) -> dict[str, Any]:
    """Commands that note which host they took out, and which they put back."""
    steps = {step: ["/bin/sh", "-c", NOTES + str(place / step)] for step in ("before", "after")}
    return {"gpufleet_drain": "always", "gpufleet_drain_commands": steps, **more}


def notes(place: Path, step: str) -> list[str]:
    return (place / step).read_text().split() if (place / step).exists() else []


def gone(when: str) -> dict[str, Any]:
    return {**DEAD, "ansible_connection": f"{{{{ 'ssh' if {when} else 'local' }}}}"}


PHASES = [
    # the last result that the host has when it is lost, what it does not come to, settings that
    # have that task run
    (
        "gpufleet_host_result",
        "gpufleet_verify_result",
        {"gpufleet_verify_image": "example.org/probe:1"},
    ),
    ("gpufleet_host_result", "gpufleet_rollout_diagnosis", {"gpufleet_rollout_soak": 1}),
]


@pytest.mark.parametrize(("last", "lost_in", "settings"), PHASES)
def test_a_host_that_is_lost_after_its_change_is_not_put_back_into_service(
    last: str, lost_in: str, settings: dict[str, Any], tmp_path: Path
) -> None:
    then = f"{last} is defined and {lost_in} is not defined"
    root = bare.variables(tmp_path, "gpu9")["gpufleet_root"]
    # in a directory tree nothing runs
    away = {
        **gone(then),
        "gpufleet_root": f"{{{{ '/' if {then} else '{root}' }}}}",
    }
    extra = noted(tmp_path, gpufleet_rollout_max_failed=1, **settings)
    status, words = play(
        tmp_path, fleet(tmp_path, gpu9=away), "rollout", "--limit", "gpu9", **extra
    )
    assert status == 2, words
    assert told(words) == {"gpu9": "lost"}, words
    assert notes(tmp_path, "before") == ["gpu9"]
    assert notes(tmp_path, "after") == []


def test_results_of_an_earlier_play_are_never_taken_for_those_of_a_batch(tmp_path: Path) -> None:
    """A host that is lost in the second rollout would have the result of the first one."""
    book = [
        {"import_playbook": "gpufleet.nvidia.site"},
        {"import_playbook": "gpufleet.nvidia.rollout"},
    ]
    name = written(tmp_path / "both.yml", yaml.safe_dump(book))
    status, words = play(tmp_path, fleet(tmp_path), str(name), "--limit", "gpu1:gpu9")
    assert status == 2, words
    said = next(line for line in words.splitlines() if "[rollout.changed-before]" in line)
    assert "gpu1, gpu9" in said
    assert "Begin the batch" not in words


def own_file(place: Path) -> dict[str, Any]:
    """Settings with a file `change` in whose midst gpu9 is away: the play ignores a host that is
    not reached, and would go on.
    """
    tasks: list[dict[str, Any]] = [
        {"set_fact": {"away": True}},
        {"ansible.builtin.ping": {}},
        {"set_fact": {"away": False}},
    ]
    written(
        place / "change.yml",
        yaml.safe_dump([{**task, "when": "inventory_hostname == 'gpu9'"} for task in tasks]),
    )
    more = {
        "gpufleet_rollout_canaries": 0,
        "gpufleet_rollout_waves": "100%",
        "gpufleet_rollout_max_failed": 1,
    }
    return noted(place, gpufleet_rollout_tasks={"change": "change.yml"}, **more)


def test_a_host_that_is_lost_in_a_file_of_ones_own_is_lost_also_when_it_comes_back(
    tmp_path: Path,
) -> None:
    extra = {**own_file(tmp_path), "gpufleet_rollout_max_unavailable": 2}
    inventory = fleet(tmp_path, gpu9=gone("away is defined and away"))
    status, words = play(tmp_path, inventory, "rollout", "--limit", "gpu1:gpu2:gpu3:gpu9", **extra)
    assert status != 0, words
    assert told(words)["gpu9"] == "lost"
    assert "gpu9" in notes(tmp_path, "before")
    assert "gpu9" not in notes(tmp_path, "after")


def test_no_batch_follows_one_that_lost_all_its_hosts_in_a_file_of_ones_own(tmp_path: Path) -> None:
    inventory = fleet(tmp_path, gpu9=gone("away is defined and away"))
    status, words = play(
        tmp_path, inventory, "rollout", "--limit", "gpu1:gpu9", **own_file(tmp_path)
    )
    assert status == 4, words
    assert "batch 1 of 2, wave 1: gpu9" in words
    assert changed(tmp_path) == []
    assert (notes(tmp_path, "before"), notes(tmp_path, "after")) == (["gpu9"], [])


def test_a_host_is_not_changed_where_the_machine_that_drains_it_is_not_reached(
    tmp_path: Path,
) -> None:
    """Otherwise the play would ignore that, and continue with the change."""
    inventory = fleet(tmp_path)
    data = yaml.safe_load(inventory.read_text())
    data["all"]["hosts"] = {"head": DEAD}
    inventory.write_text(yaml.safe_dump(data))
    status, words = play(
        tmp_path,
        inventory,
        "rollout",
        "--limit",
        "gpu9:head",
        **noted(tmp_path, gpufleet_drain_delegate="head"),
    )
    assert changed(tmp_path) == [], words
    assert told(words)["gpu9"] == "left out"


def test_batches_that_are_not_the_plans_do_not_begin(tmp_path: Path) -> None:
    """In a pattern & and ! are operators; the canary &gpu9 leaves its batch to a host of a later
    wave.
    """
    inventory = fleet(tmp_path)
    data = yaml.safe_load(inventory.read_text())
    hosts = data["all"]["children"]["gpu_hosts"]["hosts"]
    data["all"]["children"]["gpu_hosts"]["hosts"] = {
        "gpu1": hosts["gpu1"],
        "gpu2": hosts["gpu2"],
        "&gpu9": hosts["gpu9"],
    }
    status, words = play(tmp_path, written(inventory, yaml.safe_dump(data)), "rollout")
    assert status == 2, words
    assert "into a batch in which the plan does not have it" in words
    assert changed(tmp_path) == []
