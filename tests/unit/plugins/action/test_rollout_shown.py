# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host says reaches no terminal as it is: titles, colours or lines of its own would hide
what happened in a rollout.
"""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    batch_hosts,
    console,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller.steps import rollout_batch
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import (
    events,
    health,
    rollout,
    settings,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet.report import (
    registered,
)

HOSTILE = "\x1b]0;well\x07\x1b[2J\u202e"
PLAN = {"hosts": {"gpu1": {"class": "a", "gpus": 0, "running": []}}}
LOOK = {registered.LOOK: {"row": {}}}


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []
    monkeypatch.setattr(
        console.Display(), "display", lambda text, *_args, **_more: found.append(text)
    )
    return found


SAYS = [
    # what a host has in its results: a failure in a file of the user's tasks, the last line of the
    # soak's command
    {registered.FAILURE: {"kept": {"failed": True, "msg": HOSTILE}}},
    {
        registered.CONVERGED: {"changed": True},
        registered.SOAK_COMMAND: {"rc": 1, "stderr": HOSTILE},
    },
]


@pytest.mark.parametrize("variables", SAYS)
def test_the_line_of_a_host_is_escaped(variables: dict[str, Any], shown: list[str]) -> None:
    sick = (
        health.explain_ill_health(batch_hosts.get_second_look("gpu1", PLAN, {**LOOK, **variables}))
        if registered.SOAK_COMMAND in variables
        else ""
    )
    console.show(
        events.list_hosts(
            {"gpu1": rollout_batch.describe_host_line("gpu1", "failed", sick, PLAN, variables)}
        )
    )
    assert "\\x1b[2J\\u202e" in shown[0]
    assert shown[0].isprintable()


def test_the_lines_of_a_plan_are_escaped_one_by_one(shown: list[str]) -> None:
    fleet = rollout.Fleet({"gpu1": {"failed": True, "msg": HOSTILE}})
    lines = rollout.list_rollout_lines(
        rollout.plan_rollout(fleet, settings.build_rollout_settings({"max_left_out": "100%"}))
    )
    console.show(lines)
    assert len(shown[0].split("\n")) == len(lines)
    assert shown[0].replace("\n", "").isprintable()
