# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real Slurm drains a real host: jobs that end and jobs that do not, whose drain is whose, and
what is never resumed.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.integration.conftest import Boot
from tests.integration.slurm_files import FILES
from tests.tools.onlab import Fleet, Run

pytestmark = pytest.mark.lab

HOST = "gpu1"
SETTINGS = {
    "gpufleet_drain": "always",
    "gpufleet_drain_delegate": HOST,
    "gpufleet_drain_timeout": 3,
    "gpufleet_drain_by": ["slurm"],
    "gpufleet_drain_interval": 1,
    "gpufleet_rollout_id": "r7",
}


@pytest.fixture(scope="module")
def fleet(boot: Boot) -> Fleet:
    up = boot({HOST: {"kind": "slurm-22.05", "gpus": 1, "driver": "ok", "files": FILES}})
    until(up, "IDLE")
    return up


@pytest.fixture(autouse=True)
def idle(fleet: Fleet) -> None:
    """Every test begins with a node that has no job and that nobody drains."""
    fleet.shell(HOST, "scancel --full --state=RUNNING; scancel --state=PENDING")
    fleet.shell(HOST, f"scontrol update nodename={HOST} state=resume", fails=True)
    until(fleet, "IDLE")


def until(fleet: Fleet, state: str) -> None:
    """Wait until slurmctld shows the state."""
    fleet.shell(
        HOST,
        f"timeout 60 sh -c 'until scontrol show node {HOST} | grep -qF \" State={state} \"; do sleep 0.2; done'",
    )


def node(fleet: Fleet) -> tuple[str, str]:
    """State and reason."""
    text = fleet.shell(HOST, f"scontrol show node {HOST}")
    reason = re.search(r"Reason=(.*) \[", text)
    return str(re.findall(r" State=(\S+)", text)[0]), reason[1] if reason else ""


def job(fleet: Fleet) -> None:
    """A job that runs for longer than any drain here waits."""
    fleet.shell(HOST, "sbatch --output=/dev/null --wrap 'sleep 600'")
    until(fleet, "ALLOCATED")


def run(fleet: Fleet, *entries: str, **more: Any) -> Run:
    """The role's task files, one after the other."""
    look = (
        [{"import_role": {"name": "gpufleet.nvidia.host", "tasks_from": "look"}}]
        if "main" not in entries
        else []
    )
    roles = [
        *look,
        *(
            {"import_role": {"name": "gpufleet.nvidia.drain", "tasks_from": entry}}
            for entry in entries
        ),
    ]
    return fleet.play(
        [{"hosts": HOST, "gather_facts": False, "tasks": roles}],
        [HOST],
        variables={**SETTINGS, **more},
    )


def ended(done: Run) -> dict[str, Any]:
    return done.of("drain")[HOST]


def test_an_idle_node_is_drained_and_put_back(fleet: Fleet) -> None:
    done = run(fleet, "main", gpufleet_drain_by=["auto"])
    assert done.failed == {}, done.words
    assert ended(done)["outcome"] == "drained"
    assert ended(done)["by"] == ["slurm"], "slurmd runs there"
    assert node(fleet) == ("IDLE+DRAIN", "gpufleet.nvidia r7: gpufleet_drain is always")
    back = run(fleet, "undrain", gpufleet_drain_by=["auto"])
    assert ended(back)["outcome"] == "in_service", back.words
    until(fleet, "IDLE")  # a resumed node counts as not responding until slurmctld has asked it
    assert run(fleet, "undrain").changed == {}, "a second time there is nothing to put back"


def test_a_job_that_outlasts_the_time_limit_goes_on_and_the_node_is_given_back(
    fleet: Fleet,
) -> None:
    job(fleet)
    done = run(fleet, "main")
    assert ended(done)["outcome"] == "left_out", done.words
    assert (
        f"slurm: the node {HOST} is ALLOCATED+DRAIN. The node is in service again"
        in done.failed[HOST]
    )
    # a resumed node counts as not responding until slurmctld has asked it
    until(fleet, "ALLOCATED")


def test_a_node_that_is_kept_is_taken_up_by_the_next_run_when_its_job_has_ended(
    fleet: Fleet,
) -> None:
    job(fleet)
    done = run(fleet, "main", gpufleet_drain_on_timeout="keep")
    assert ended(done)["outcome"] == "pending", done.words
    assert node(fleet)[0] == "ALLOCATED+DRAIN"
    fleet.shell(HOST, "scancel --full --state=RUNNING")
    until(fleet, "IDLE+DRAIN")
    other = run(fleet, "main", gpufleet_rollout_id="r8")
    assert "is drained by the rollout r7 " in other.failed[HOST], "another rollout leaves it alone"
    again = run(fleet, "main", gpufleet_drain="auto", gpufleet_drain_by=["slurm"])
    assert ended(again)["outcome"] == "drained", again.words
    assert ended(again)["why"] == "an earlier run of this rollout has drained it"
    assert run(fleet, "undrain").failed == {}
    until(fleet, "IDLE")  # a resumed node counts as not responding until slurmctld has asked it


def test_what_a_person_drained_is_left_out_with_its_reason(fleet: Fleet) -> None:
    fleet.shell(HOST, f"scontrol update nodename={HOST} state=drain reason='fan 3 is broken'")
    before = node(fleet)
    done = run(fleet, "main")
    assert ended(done)["outcome"] == "left_out", done.words
    assert "fan 3 is broken" in done.failed[HOST]
    assert run(fleet, "undrain", "keep").changed == {}
    assert node(fleet) == before


def test_a_node_that_is_down_is_never_resumed_even_with_our_reason(fleet: Fleet) -> None:
    run(fleet, "main")
    fleet.shell(
        HOST,
        f"scontrol update nodename={HOST} state=down reason='gpufleet.nvidia r7: gpufleet_drain is always'",
    )
    back = run(fleet, "undrain")
    assert ended(back)["outcome"] == "kept", back.words
    assert node(fleet)[0].startswith("DOWN")


def test_a_broken_host_stays_drained_with_the_reason(fleet: Fleet) -> None:
    run(fleet, "main")
    done = run(fleet, "keep", gpufleet_drain_reason="rolled back: containerd did not answer")
    assert ended(done)["outcome"] == "kept", done.words
    assert node(fleet) == (
        "IDLE+DRAIN",
        "gpufleet.nvidia r7: rolled back: containerd did not answer",
    )


def test_names_and_places_that_are_wrong_are_named_before_anything_is_drained(fleet: Fleet) -> None:
    unknown = run(fleet, "main", gpufleet_slurm_node="gpu99")
    assert "there is no node gpu99" in unknown.failed[HOST]
    assert "Set gpufleet_slurm_node" in unknown.failed[HOST]
    nowhere = run(fleet, "main", gpufleet_drain_delegate="localhost")
    assert "there is no scontrol where the task runs" in nowhere.failed[HOST]
    assert "gpufleet_drain_delegate" in nowhere.failed[HOST]
    until(fleet, "IDLE")  # a resumed node counts as not responding until slurmctld has asked it
