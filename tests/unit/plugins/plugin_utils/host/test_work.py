# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a look at a host tells a drain: table."""

from __future__ import annotations

import re
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster import drain
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    JOURNAL_DIR,
    Plan,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import left_out
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import work

PATHS = [
    ("/dev/nvidia0", True),
    ("/dev/nvidia15", True),
    ("/dev/nvidia0 (deleted)", True),
    ("/dev/nvidia-uvm", True),
    ("/dev/nvidia-caps/nvidia-cap12", True),
    ("/dev/nvidiactl", False),
    ("/dev/nvidia-modeset", False),
    ("/srv/chroot/jammy/dev/nvidia0", True),
    ("/home/ann/nvidia0", False),
    ("/srv/dev/nvidia0/x", False),
    ("/dev/dri/card0", False),
]


@pytest.mark.parametrize(("path", "counts"), PATHS)
def test_which_open_files_are_work_on_a_gpu(path: str, counts: bool) -> None:
    assert bool(re.match(work.GPU_NODES, path)) == counts


def seen(holders: dict[str, Any], slurmd: str = "inactive") -> Observation:
    units = {work.SLURM_UNIT: {"LoadState": "loaded", "ActiveState": slurmd}}
    answers = {
        "units:slurmd.service": {"units": units},
        "holders:GPUs": holders,
        "certificates:cluster": {
            "path": "/etc/kubernetes/pki/ca.crt",
            "sha256": "3f9a1c2b4d5e6f70",
        },
    }
    return Observation({"hostname": "gpu1", "boot_id": "b"}, answers)


def report(
    obs: Observation,
    plan: Plan | None = None,
    policy: Policy | None = None,
    *,
    kubelet: bool,
) -> dict[str, Any]:
    return work.report_work(
        policy or Policy(), work.read_work_facts(obs), plan or Plan(), kubelet=kubelet
    )


TOLD = [
    # open files, slurmd, kubelet, who gives work, GPU processes
    ({"pids": [12, 40]}, "active", True, ["slurm", "kubernetes"], ["12", "40"]),
    ({"pids": []}, "inactive", False, [], []),
    (
        {"pids": [12], "closed": 1},
        "inactive",
        False,
        [],
        ["12", "unknown: 1 cannot be looked into"],
    ),
    (
        {"pids": [12], "closed": 0, "partial": {"processes": 240, "users": [1001]}},
        "inactive",
        False,
        [],
        ["12", "unknown: 240 were not looked into, since more files are open than one look reads"],
    ),
    (
        {"error": {"message": "/proc/9/fd: denied"}},
        "failed",
        True,
        ["kubernetes"],
        ["unknown: /proc/9/fd: denied"],
    ),
]


@pytest.mark.parametrize(("holders", "slurmd", "kubelet", "by", "pids"), TOLD)
def test_what_runs_on_a_host(
    holders: dict[str, Any], slurmd: str, kubelet: bool, by: list[str], pids: list[str]
) -> None:
    found = report(seen(holders, slurmd), Plan(ends=("web",)), kubelet=kubelet)
    about = {
        "hostname": "gpu1",
        "boot_id": "b",
        "at_work": "",
        "cluster": "ca-3f9a1c2b4d5e" if kubelet else "",
    }
    assert found == {**about, "orchestrators": by, "ends": ["web"], "gpu_processes": pids}
    assert drain.Work.read_work({"work": found}) == drain.Work(
        "gpu1", "b", tuple(by), ("web",), tuple(pids)
    )


LIVE = {
    "id": "t1",
    "time": "2026-11-22T10:00:00Z",
    "reason": "gpufleet.nvidia.host; OPS-12",
    "state": "armed",
    "at_work": True,
}
AT_WORK = [
    ([], ""),
    ([{**LIVE, "at_work": False}], ""),  # cut short: the next transaction ends it
    ([{**LIVE, "state": "probation"}], ""),  # only monitored
    ([{**LIVE, "state": "committed"}], ""),  # it stands, and is being tidied up
    (
        [LIVE],
        "the transaction of 2026-11-22T10:00:00Z (gpufleet.nvidia.host; OPS-12) is changing it",
    ),
]


@pytest.mark.parametrize(("unfinished", "why"), AT_WORK)
def test_a_host_that_a_transaction_is_changing_is_none_of_the_rollouts(
    unfinished: list[dict[str, Any]], why: str
) -> None:
    question = queries.ask_for_originals(JOURNAL_DIR)
    obs = seen({"pids": []}).add_answers({"answers": {question["id"]: {"unfinished": unfinished}}})
    assert left_out.explain_left_out({"work": report(obs, kubelet=False)}) == why


def test_nothing_runs_in_a_directory_tree() -> None:
    policy = Policy(root="/image")
    assert work.list_work_questions(policy) == []
    assert report(seen({"pids": [1]}, "active"), policy=policy, kubelet=True)["orchestrators"] == []
