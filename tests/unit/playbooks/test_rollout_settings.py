# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings that end a rollout before its first host is changed, as a user gives them; on bare
trees.
"""

from __future__ import annotations

from pathlib import Path

from tests.unit.playbooks import bare
from tests.unit.playbooks.bare import play
from tests.unit.playbooks.rollouts import changed, fleet


def test_a_fleet_that_is_to_be_uniform_is_judged_before_any_host_is_changed(tmp_path: Path) -> None:
    inventory = fleet(
        tmp_path, gpu3={"gpufleet_engines": ["crio"], "gpufleet_engine_version": "1.34.2"}
    )
    bare.written(bare.tree(tmp_path / "trees/gpu3") / "etc/crio.conf", "").with_name("crio").mkdir()
    arguments = ["--limit", "gpu1:gpu2:gpu3"]
    status, words = play(
        tmp_path,
        inventory,
        "rollout",
        *arguments,
        gpufleet_fleet_policy="uniform",
        gpufleet_serial=1,
    )
    assert status == 2, words
    said = " ".join(words.split())
    assert (
        "mixed container engines: containerd on gpu[1-2]; crio on gpu3 (gpufleet_fleet_policy is uniform"
        in said
    )
    assert "gpufleet.nvidia.rollout does not read gpufleet_serial" in said
    assert changed(tmp_path) == []


def test_a_wrong_setting_of_the_drain_ends_the_run_before_a_host_is_looked_at(
    tmp_path: Path,
) -> None:
    misspelt = {"befor": ["/bin/true"], "after": ["/bin/true"]}
    status, words = play(
        tmp_path,
        fleet(tmp_path, gpu1={"gpufleet_drain_commands": misspelt}),
        "rollout",
        "--limit",
        "gpu1:gpu2",
    )
    assert status == 2, words
    assert (
        "gpufleet_drain_commands has the unknown key 'befor', for gpu1. Known keys are before, wait, after, marked"
        in words
    )
    assert "gpufleet.nvidia.host : " not in words, "nothing was looked at"


def test_a_rollout_whose_only_host_is_left_out_is_no_success(tmp_path: Path) -> None:
    status, words = play(
        tmp_path, fleet(tmp_path, gpu1={"gpufleet_drain": "always"}), "rollout", "--limit", "gpu1"
    )
    assert status == 2, words
    said = " ".join(words.split())
    assert (
        "no host was changed, and none is as desired: 1 of 1 host left out: gpu1 (gpu1: gpufleet_drain is always"
        in said
    )


def test_a_file_of_tasks_with_a_misspelt_keyword_ends_the_run_before_a_host_is_looked_at(
    tmp_path: Path,
) -> None:
    bare.written(
        tmp_path / "driver.yml",
        "- block:\n    - ansible.builtin.debug:\n        msg: x\n      wen: true\n",
    )
    extra = {"gpufleet_rollout_tasks": {"change": "driver.yml"}}
    status, words = play(tmp_path, fleet(tmp_path), "rollout", "--limit", "gpu1", **extra)
    assert status == 2, words
    assert "[rollout-file.not-tasks]" in " ".join(words.split())
    assert "gpufleet.nvidia.host : " not in words, "nothing was looked at"


def test_a_switch_that_is_none_is_named_as_the_users_variable(tmp_path: Path) -> None:
    status, words = play(
        tmp_path, fleet(tmp_path), "rollout", "--limit", "gpu1", gpufleet_rollout_pause="maybe"
    )
    assert status == 2, words
    assert (
        "gpufleet_rollout_pause is 'maybe' (it is neither true nor false). Write it as gpufleet_rollout_pause: true"
        in words
    )
    assert "gpufleet.nvidia.host : " not in words, "nothing was looked at"
