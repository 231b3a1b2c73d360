# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook rollout holds each host to its approval where the host is changed: variables that
change within the run change nothing.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.playbooks import bare
from tests.unit.playbooks.bare import play, written
from tests.unit.playbooks.rollouts import changed, fleet, told

FEW = ("--limit", "gpu1:gpu2:gpu3")
ORDER = {
    "gpufleet_rollout_canaries": 0,
    "gpufleet_rollout_waves": "100%",
    "gpufleet_rollout_max_failed": 1,
}


def other_variables(place: Path) -> dict[str, dict[str, str]]:
    """A file of tasks that gives one host another policy, between the first play and its change."""
    task = {
        "ansible.builtin.set_fact": {"gpufleet_set_as_default": "enabled"},
        "when": "inventory_hostname == 'gpu2'",
    }
    written(place / "before.yml", yaml.safe_dump([task]))
    return {"gpufleet_rollout_tasks": {"before": "before.yml"}}


@pytest.mark.parametrize("by", ["gpufleet_rollout_approved", "gpufleet_rollout_approved_changes"])
def test_a_host_whose_variables_change_before_its_wave_is_not_changed(
    by: str, tmp_path: Path
) -> None:
    inventory = fleet(tmp_path)
    status, words = play(tmp_path, inventory, "plan", *FEW, gpufleet_rollout_plan_file="plan.json")
    assert status == 0, words
    plan = json.loads((tmp_path / "plan.json").read_text())
    of_class = {
        host["class"]: [host["change"]] for host in plan["hosts"].values() if host["change"]
    }
    approved = {
        "gpufleet_rollout_approved": "plan.json",
        "gpufleet_rollout_approved_changes": of_class,
    }
    status, words = play(
        tmp_path,
        inventory,
        "rollout",
        *FEW,
        **ORDER,
        **other_variables(tmp_path),
        **{by: approved[by]},
    )
    assert status == 2, words
    assert told(words) == {"gpu1": "yes", "gpu2": "failed", "gpu3": "yes"}
    assert changed(tmp_path) == ["gpu1", "gpu3"]
    (digest,) = plan["changes"]
    assert f"approval: {digest[:16]} was approved, and this host plans " in " ".join(words.split())


def test_a_rollout_that_nothing_was_approved_for_takes_variables_as_they_are(
    tmp_path: Path,
) -> None:
    status, words = play(
        tmp_path, fleet(tmp_path), "rollout", *FEW, **ORDER, **other_variables(tmp_path)
    )
    assert status == 0, words
    assert changed(tmp_path) == ["gpu1", "gpu2", "gpu3"]


PLACES = [
    # where a variable takes the place of what the rollout has approved
    {"gpufleet_approved_change": ""},
    {"gpufleet_rollout_tasks": {"before": "unbound.yml"}},
]


@pytest.mark.parametrize("variables", PLACES, ids=["command line", "task"])
def test_no_variable_takes_the_place_of_the_approval(
    variables: dict[str, Any], tmp_path: Path
) -> None:
    inventory = fleet(tmp_path)
    status, words = play(tmp_path, inventory, "plan", *FEW, gpufleet_rollout_plan_file="plan.json")
    assert status == 0, words
    written(
        tmp_path / "unbound.yml",
        yaml.safe_dump([{"ansible.builtin.set_fact": {"gpufleet_approved_change": ""}}]),
    )
    status, words = play(
        tmp_path,
        inventory,
        "rollout",
        *FEW,
        **ORDER,
        **variables,
        gpufleet_rollout_approved="plan.json",
    )
    assert status == 2, words
    assert "Take gpufleet_approved_change out of your variables" in " ".join(words.split())
    assert changed(tmp_path) == []


def test_a_tree_is_part_of_an_approval(tmp_path: Path) -> None:
    """The same change in another tree is another change. That each host has a tree of its own is
    none.
    """
    inventory = fleet(tmp_path)
    status, words = play(tmp_path, inventory, "plan", *FEW, gpufleet_rollout_plan_file="plan.json")
    assert status == 0, words
    assert len(json.loads((tmp_path / "plan.json").read_text())["changes"]) == 1
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for name in ("gpu1", "gpu2", "gpu3"):
        bare.tree(elsewhere / name)
    root = {"gpufleet_root": f"{elsewhere}/{{{{ inventory_hostname }}}}"}
    status, words = play(
        tmp_path, inventory, "rollout", *FEW, **ORDER, **root, gpufleet_rollout_approved="plan.json"
    )
    assert status == 2, words
    assert f"work within {elsewhere}/<host>" in " ".join(words.split())
    assert [path.name for path in elsewhere.glob("*/etc/*")] == ["containerd"] * 3
