# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An approval as digests of each class: what it lets through, what it leaves out with which
sentence, how large it is, what is none.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import (
    approval,
    rollout,
    settings,
)

from tests.unit.rollout_looks import CHANGE, looked

CLASS = "containerd 1.7 (package), native-cdi, L4, 550, debian 12"
OTHER = {**CHANGE, "path": "/etc/other"}


def planned(hosts: dict[str, Any], **more: Any) -> rollout.Rollout:
    return rollout.plan_rollout(
        rollout.Fleet(hosts), settings.build_rollout_settings({"max_left_out": "100%", **more})
    )


def approved(**hosts: Any) -> dict[str, list[str]]:
    return approval.build_approval_digests(rollout.digests(planned(hosts)))


def test_the_plan_of_one_job_binds_the_next_one_through_json() -> None:
    passed_on = json.dumps(approved(a=looked(CHANGE), b=looked(CHANGE), done=looked()))
    assert list(json.loads(passed_on)) == [CLASS]
    hosts = {
        "a": looked(CHANGE),
        "b": looked(OTHER),
        "c": looked(CHANGE),
        "h": looked(CHANGE, gpu="H100"),
        "done": looked(),
    }
    found = planned(hosts, approved_changes=passed_on)
    assert {name: host.state for name, host in found.hosts.items()} == {
        "a": "do",
        "c": "do",
        "done": "done",
        "b": "left out",
        "h": "left out",
    }
    assert (
        "it plans something else than what was approved for its class (gpufleet_rollout_approved_changes)"
        in found.hosts["b"].why
    )
    assert "/etc/other enable_cdi; a restart of containerd.service" in found.hosts["b"].why
    assert (
        "its class, containerd 1.7 (package), native-cdi, H100, 550, debian 12, is not in"
        in found.hosts["h"].why
    )


def test_an_empty_approval_approves_nothing_and_none_binds_nobody() -> None:
    hosts = {"a": looked(CHANGE), "done": looked()}
    assert [h.state for h in planned(hosts, approved_changes={}).hosts.values()] == [
        "left out",
        "done",
    ]
    for unset in (None, ""):
        assert [h.state for h in planned(hosts, approved_changes=unset).hosts.values()] == [
            "do",
            "done",
        ]


@pytest.mark.parametrize("distinct", [False, True])
def test_an_approval_of_400_hosts_in_5_classes_is_below_30_kb(distinct: bool) -> None:
    models = ["L4", "H100 80GB HBM3", "A100-SXM4-80GB", "GH200 480GB", "B200"]
    hosts = {
        f"gpu{n}": looked({**CHANGE, "path": f"/etc/{n if distinct else n % 7}"}, gpu=models[n % 5])
        for n in range(400)
    }
    found = approved(**hosts)
    assert len(found) == 5
    assert len(json.dumps(found)) < (30_000 if distinct else 3_000)


WRONG = [
    "x",
    "[1]",
    '{"a": 1}',
    {"a": ["5f0c"]},
    {"a": "5f0c" * 16},
    ["5f0c" * 16],
    7,
    {"a": [{"b": 1}]},
]


@pytest.mark.parametrize("value", WRONG)
def test_what_is_no_approval_is_refused(value: Any) -> None:
    with pytest.raises(PlanError, match=r"\[approval.not-a-dictionary\]$"):
        settings.build_rollout_settings({"approved_changes": value})
