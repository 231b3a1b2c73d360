# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The processes that Ansible makes for a host: one for each task, also for one that is skipped or
includes a file. They are most of what a run costs the controller (docs/bench.md).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.playbooks import bare
from tests.unit.playbooks.rollouts import fleet

CALLBACKS = Path(__file__).resolve().parents[2] / "tools/callbacks"
HERE = "gpufleet.nvidia."
LOOK, CHANGE, VERIFY = f"{HERE}host_info", f"{HERE}host", f"{HERE}host_verify"
# No image is set here, so the verification is skipped.
WORKERS = [
    ("plan", {}, [LOOK]),
    # the look is for a uniform fleet
    ("site", {"gpufleet_serial": "100%"}, ["ansible.builtin.include_role", CHANGE, VERIFY]),
    (
        "rollout",
        {
            "gpufleet_rollout_waves": "100%",
            "gpufleet_rollout_max_unavailable": "100%",
        },
        [LOOK, CHANGE, VERIFY],
    ),
]


@pytest.mark.parametrize(("playbook", "settings", "tasks"), WORKERS)
def test_a_host_takes_these_tasks_and_no_other(
    playbook: str, settings: dict[str, Any], tasks: list[str], tmp_path: Path
) -> None:
    extra = bare.written(
        tmp_path / "extra.yml", yaml.safe_dump({"gpufleet_hosts": "gpu_hosts", **settings})
    )
    kept = tmp_path / "workers.json"
    status, words = bare.run(
        tmp_path,
        "ansible-playbook",
        *(
            "-i",
            fleet(tmp_path),
            HERE + playbook,
            "-e",
            f"@{extra}",
            "--limit",
            "gpu1:gpu2:gpu3:gpu4",
        ),
        ANSIBLE_CALLBACK_PLUGINS=str(CALLBACKS),
        GPUFLEET_WORKERS=str(kept),
    )
    assert status == 0, words
    # Tasks that run once are made for the first host of a play or of a batch.
    assert min(json.loads(kept.read_text()).values(), key=len) == tasks


MANY = 200
# Notes each start of a program on a host.
INTERPRETER = """#!/bin/sh
echo $$ >>{log}
exec {python} "$@"
"""


def count_starts(place: Path, number: int) -> int:
    """Plan a number of trees, all at a time, and return how many programs were started on them."""
    place.mkdir()
    log = place / "started"
    python = bare.written(place / "python", INTERPRETER.format(log=log, python=sys.executable))
    python.chmod(0o755)
    hosts = {
        host: {**bare.variables(place, host), "ansible_python_interpreter": str(python)}
        for host in (f"gpu{at}" for at in range(number))
    }
    inventory = bare.written(place / "hosts.yml", yaml.safe_dump({"gpu_hosts": {"hosts": hosts}}))
    status, words = bare.run(
        place,
        "ansible-playbook",
        *("-i", inventory, f"{HERE}plan", "-e", "gpufleet_hosts=gpu_hosts", "--forks", number),
    )
    assert status == 0, words
    assert f": {number} would change" in words
    return len(log.read_text().split())


@pytest.mark.nightly("200 processes at a time; by day the tasks of each host are counted")
def test_each_of_two_hundred_hosts_at_a_time_takes_as_many_programs_as_one(tmp_path: Path) -> None:
    assert count_starts(tmp_path / "many", MANY) == MANY * count_starts(tmp_path / "one", 1)
