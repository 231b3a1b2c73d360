# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of the user's in a rollout: which hosts they may take out of service, for the default limit
and for the drain.
"""

from __future__ import annotations

import types
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.action import drain
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import console
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller.steps import rollout_plan
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import (
    rollout,
    settings,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet.report import (
    registered,
)

from tests.unit.rollout_looks import CHANGE, looked

CHANGES, CHECKS = (
    {"before": "", "change": "driver.yml", "after": ""},
    {"before": "", "change": "", "after": "check.yml"},
)
HOSTS = ("gpu1", "gpu2", "gpu3")
LIMITS = [
    # the files, a variable of the hosts, what the question about the drain said; the sizes of the
    # batches
    ({}, {}, "not_needed", [3]),
    (CHECKS, {}, "not_needed", [3]),
    # no process uses a GPU now, and the file reboots the hosts all the same
    (
        CHANGES,
        {},
        "not_needed",
        [1, 1, 1],
    ),
    (CHANGES, {}, "", [1, 1, 1]),  # nobody was asked
    (CHANGES, {"gpufleet_drain_driver_changes": False}, "not_needed", [3]),
    (CHANGES, {"gpufleet_drain_driver_changes": "no"}, "not_needed", [3]),
    (CHANGES, {"gpufleet_drain_driver_changes": False}, "ready", [1, 1, 1]),
]


@pytest.mark.parametrize(("tasks", "variables", "outcome", "sizes"), LIMITS)
def test_hosts_that_a_file_of_the_user_may_reboot_go_one_at_a_time(
    tasks: dict[str, str], variables: dict[str, Any], outcome: str, sizes: list[int]
) -> None:
    found = {
        "gpufleet_host_info": looked(CHANGE),
        **variables,
        **({registered.DRAIN_CHECK: {"outcome": outcome}} if outcome else {}),
    }
    wanted = settings.build_rollout_settings({"canaries": 0, "waves": "100%"})
    of_all = {"ansible_play_hosts_all": HOSTS, "hostvars": dict.fromkeys(HOSTS, found)}
    plan = rollout.plan_rollout(
        rollout_plan.read_fleet(of_all, wanted, "gpufleet_host_info", tasks), wanted
    )
    assert [len(batch.hosts) for batch in plan.batches] == sizes


def test_the_drain_of_a_rollout_knows_the_users_files() -> None:
    assert (
        drain.get_rollout_task_files(
            {registered.ROLLOUT_SETTINGS: {"settings": {"tasks": CHANGES}}}
        )
        == CHANGES
    )
    assert (
        drain.get_rollout_task_files({})
        == drain.get_rollout_task_files({registered.ROLLOUT_SETTINGS: {"failed": True}})
        == {}
    )


SHOWN = [
    # the release that the hosts shall have, which all have 550.163.01; the lines of the plan
    ("580", ["driver to be moved by your tasks: gpu[1-3] (3): 550.163.01 is the driver, and gpufleet_rollout_driver is 580"]),
    ("550", ["driver to be moved by your tasks: on no host, and the release is 550"]),
    ("", []),
]  # fmt: skip


@pytest.mark.parametrize(("driver", "lines"), SHOWN)
def test_the_playbook_plan_shows_whose_driver_the_files_are_to_move(
    driver: str, lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr(console, "show", told.extend)
    chosen = {"driver": driver, "tasks": CHANGES, "plan_file": "", "approved": ""}
    args = {"step": "rollout_plan", "settings": chosen, "approvals": True}
    action: Any = types.SimpleNamespace(_task=types.SimpleNamespace(args=args, check_mode=False))
    variables = {
        "ansible_play_hosts_all": HOSTS,
        "hostvars": dict.fromkeys(HOSTS, {"gpufleet_host_info": looked()}),
    }
    rollout_plan.plan_fleet(action, variables)
    assert [line.strip() for line in told if line] == lines
