# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a rollout leaves as statistics, which AWX passes from job to job: an approval that binds,
and how the rollout ended.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.playbooks import bare
from tests.unit.playbooks.bare import written
from tests.unit.playbooks.rollouts import CLOSED, broken, changed, fleet

FEW = ("--limit", "gpu1:gpu2:gpu3:gpu9")


def job(place: Path, name: str, *arguments: str, **extra: Any) -> tuple[int, dict[str, Any]]:
    """One run, as a job that gets extra variables and leaves nothing but statistics."""
    settled = written(place / "extra.json", json.dumps({"gpufleet_hosts": "gpu_hosts", **extra}))
    shown = {"ANSIBLE_SHOW_CUSTOM_STATS": "1"}
    name = f"gpufleet.nvidia.{name}"
    status, words = bare.run(
        place,
        "ansible-playbook",
        "-i",
        place / "hosts.yml",
        name,
        *FEW,
        "-e",
        f"@{settled}",
        *arguments,
        **shown,
    )
    stats, _end = json.JSONDecoder().raw_decode(words.partition("\tRUN: ")[2])
    return status, stats


@pytest.mark.parametrize("planning", [("plan",), ("rollout", "--check")])
def test_the_statistics_of_one_job_bind_the_next_and_what_moved_is_left_out(
    planning: tuple[str, ...], tmp_path: Path
) -> None:
    fleet(tmp_path)
    status, stats = job(tmp_path, *planning)
    assert status == 0
    approved = stats["gpufleet_rollout_approved_changes"]
    assert [len(digests) for digests in approved.values()] == [1, 1]
    (tmp_path / "trees/gpu3/etc/containerd/config.toml").write_text(
        'version = 2\n[plugins."io.containerd.grpc.v1.cri"]\nenable_cdi = true\n'
    )
    status, ended = job(tmp_path, "rollout", **stats, gpufleet_rollout_max_left_out=1)
    assert status == 0
    assert changed(tmp_path) == ["gpu1", "gpu2", "gpu9"]
    assert ended["gpufleet_rollout_result"] == "done"
    assert (
        ended["gpufleet_rollout_totals"]["changed"],
        ended["gpufleet_rollout_totals"]["left_out"],
    ) == (3, 1)
    assert "gpufleet_rollout_approved_changes" not in ended, "a rollout approves nothing"


def test_a_rollout_outside_its_window_says_paused(tmp_path: Path) -> None:
    fleet(tmp_path)
    status, stats = job(tmp_path, "rollout", gpufleet_rollout_window=CLOSED)
    assert (status, stats["gpufleet_rollout_result"]) == (0, "paused")
    assert stats["gpufleet_rollout_totals"]["pending"] == 4


def test_hosts_that_fail_within_the_budget_are_failed_and_beyond_it_stopped(tmp_path: Path) -> None:
    fleet(tmp_path)
    broken(tmp_path, "gpu9")
    status, stats = job(
        tmp_path, "rollout", gpufleet_rollout_max_failed=1, gpufleet_rollout_canaries=0
    )
    assert (status, stats["gpufleet_rollout_result"]) == (2, "failed")
    status, stats = job(tmp_path, "rollout")
    assert (status, stats["gpufleet_rollout_result"]) == (2, "stopped")


def test_what_is_no_approval_ends_the_run_before_any_host_is_looked_at(tmp_path: Path) -> None:
    wrong = yaml.safe_dump({"gpufleet_rollout_approved_changes": "yes"})
    inventory = fleet(tmp_path)
    extra = written(tmp_path / "extra.yml", wrong)
    status, words = bare.run(
        tmp_path, "ansible-playbook", "-i", inventory, "gpufleet.nvidia.rollout", "-e", f"@{extra}"
    )
    assert status == 2
    assert "gpufleet_rollout_approved_changes is 'yes'" in words
    assert "gpufleet.nvidia.host : " not in words


def test_the_ticket_and_the_user_are_in_the_journal_and_in_the_report(tmp_path: Path) -> None:
    inventory = fleet(tmp_path)
    extra = {"gpufleet_change_ref": "OPS-12", "awx_user_name": "alice"}
    status, words = bare.play(tmp_path, inventory, "rollout", "--limit", "gpu1", **extra)
    assert status == 0, words
    assert "change: OPS-12, by alice" in words
    status, words = bare.play(tmp_path, inventory, "journal", "--limit", "gpu1")
    assert "gpufleet.nvidia.host; OPS-12, by alice" in " ".join(words.split())


def test_what_is_no_ticket_ends_the_run_before_any_host_is_looked_at(tmp_path: Path) -> None:
    status, words = bare.play(tmp_path, fleet(tmp_path), "rollout", gpufleet_change_ref="a=b")
    assert status == 2, words
    assert "gpufleet_change_ref is 'a=b'" in words
    assert "gpufleet.nvidia.host : " not in words
