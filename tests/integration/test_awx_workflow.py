# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The workflow that the role awx makes, as ansible-runner's jobs in separate directories: artifacts
are all that one gives the next.
"""

from __future__ import annotations

import dataclasses as dc
import json
from pathlib import Path

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import variables
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet.awx import objects

from tests.awx.jobs import Controller, Fleet, Job
from tests.unit.playbooks import bare

ROOT = Path(__file__).resolve().parents[2]
PROJECT = ROOT / "examples/awx"
WANTED = objects.Wanted(inventory="Fleet", project_url="https://git.example.org/fleet.git", forks=4)
OLDER = {"gpufleet_engine_version": "1.6.33"}
HOSTS = ("gpu1", "gpu2", "gpu3", "gpu4")
# Of the workflow's survey, as somebody writes them; the others stay empty.
ANSWERS = {
    "gpufleet_change_ref": "CHG0012345",
    "gpufleet_rollout_canaries": "1",
    "gpufleet_rollout_domain": "inventory_hostname",
    "gpufleet_rollout_max_failed": "25%",
    "gpufleet_rollout_max_left_out": "1",
    "gpufleet_rollout_waves": "50%,100%",
    "gpufleet_rollout_window": "Mo-Su 00:00-24:00 Europe/Berlin",
}


@pytest.fixture
def controller(tmp_path: Path) -> Controller:
    """What a job writes is gone with its directory, so the report is published."""
    (tmp_path / "published").mkdir()
    settings = {"gpufleet_report_publish": ["cp", "-t", str(tmp_path / "published")]}
    return Controller(tmp_path, PROJECT, dc.replace(WANTED, settings=settings))


def fleet(place: Path) -> Fleet:
    """Two classes, of three hosts and of one."""
    return Fleet(
        {
            host: {**bare.variables(place, host), **(OLDER if host == "gpu4" else {})}
            for host in HOSTS
        }
    )


def changed(place: Path) -> list[str]:
    return [
        host for host in HOSTS if (place / "trees" / host / "etc/nvidia-container-runtime").exists()
    ]


def broken(place: Path, host: str) -> None:
    """The host itself refuses the change: no transaction can have its lock, which a look does
    without.
    """
    (place / "trees" / host / "var/lib/gpufleet/lock").mkdir(parents=True)


def of(jobs: list[Job], node: str) -> Job:
    return next(job for job in jobs if job.node == node)


def test_plan_canaries_waves_and_report_share_nothing_but_artifacts(
    controller: Controller, tmp_path: Path
) -> None:
    seen: dict[str, list[str]] = {}
    jobs = controller.workflow(
        fleet(tmp_path), ANSWERS, lambda node: seen.update({node: changed(tmp_path)})
    )
    assert [(job.node, job.status) for job in jobs] == [
        (node, "successful") for node in ("plan", "canaries", "waves", "report")
    ], jobs
    assert seen["approval"] == seen["canaries"] == []
    assert len(seen["waves"]) == 2
    assert "gpu4" in seen["waves"], "one of each class"
    assert changed(tmp_path) == list(HOSTS)
    approved = of(jobs, "plan").artifacts["gpufleet_rollout_approved_changes"]
    assert len(approved) == 2
    assert len(json.dumps(approved)) < 10_000
    assert of(jobs, "canaries").artifacts["gpufleet_rollout_result"] == "paused"
    assert of(jobs, "waves").artifacts["gpufleet_rollout_result"] == "done"
    assert of(jobs, "waves").artifacts["gpufleet_rollout_totals"]["failed"] == 0
    assert "[action.canaries-done]" in of(jobs, "canaries").words
    assert "4 hosts: 2 changed, 2 unchanged" in of(jobs, "waves").words
    assert {"report.html", "report.json"} <= {
        path.name for path in (tmp_path / "published").iterdir()
    }


def test_a_canary_that_fails_ends_the_workflow_and_its_table_says_why(
    controller: Controller, tmp_path: Path
) -> None:
    hosts = fleet(tmp_path)
    broken(tmp_path, "gpu4")
    jobs = controller.workflow(hosts, {})
    assert [(job.node, job.status) for job in jobs] == [
        ("plan", "successful"),
        ("canaries", "failed"),
    ]
    assert jobs[-1].artifacts["gpufleet_rollout_result"] in ("stopped", "failed")
    assert jobs[-1].artifacts["gpufleet_rollout_totals"]["failed"] == 1
    assert len(changed(tmp_path)) == 1, "the other class's canary"
    assert "1 failed" in jobs[-1].words


def test_a_host_that_plans_something_else_after_the_approval_is_left_out(
    controller: Controller, tmp_path: Path
) -> None:
    hosts = fleet(tmp_path)

    def moves(node: str) -> None:
        if node == "canaries":
            file = tmp_path / "trees/gpu3/etc/containerd/config.toml"
            file.write_text(
                'version = 2\n[plugins."io.containerd.grpc.v1.cri"]\nenable_cdi = true\n'
            )

    jobs = controller.workflow(hosts, {"gpufleet_rollout_max_left_out": "50%"}, moves)
    assert [job.status for job in jobs] == ["successful"] * 4
    assert changed(tmp_path) == ["gpu1", "gpu2", "gpu4"]
    assert of(jobs, "waves").artifacts["gpufleet_rollout_totals"]["left_out"] == 1
    assert (
        "it plans something else than what was approved for its class (gpufleet_rollout_approved_changes)"
        in " ".join(of(jobs, "waves").words.split())
    )


# Ansible itself reads these two, and ends over an empty one; their surveys want an answer.
READ_BY_ANSIBLE = {"gpufleet_hosts", "gpufleet_serial"}


def test_a_rollout_that_awx_has_sliced_warns_and_a_plan_does_not_and_no_answer_is_missed(
    controller: Controller, tmp_path: Path
) -> None:
    inventory = fleet(tmp_path).script(1, 4)
    unanswered = dict.fromkeys(set(variables.RUN) - READ_BY_ANSIBLE, "")
    for playbook, warned in (("rollout", True), ("plan", False)):
        template = {**controller.template(f"gpufleet {playbook}"), "job_type": "check"}
        job = controller.job(
            playbook, template, {**unanswered, "awx_workflow_job_name": template["name"]}, inventory
        )
        assert job.status == "successful", job.words
        words = f"This job looks like a slice of the job template gpufleet {playbook}: it counts its own hosts only, 1 in all"
        assert (words in " ".join(job.words.split())) == warned, job.words


def test_an_answer_is_no_template(controller: Controller, tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    answer = f"{{{{ query('ansible.builtin.pipe', *['touch {trap}']) }}}}"
    job = controller.job(
        "rollout",
        controller.template("gpufleet rollout"),
        {"gpufleet_rollout_domain": answer},
        fleet(tmp_path).script(),
    )
    assert job.status == "failed"
    assert "gpufleet_rollout_domain has" in " ".join(job.words.split())
    assert "[rollout.key-path]" in job.words
    assert not trap.exists()
    assert changed(tmp_path) == []
