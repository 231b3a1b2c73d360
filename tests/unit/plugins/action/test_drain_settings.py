# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings of the drain that are wrong in themselves: the run ends over them before a host is
looked at, and leaves none out for them.
"""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.action import variables_check

BOTH = {"before": ["/bin/hold"], "after": ["/bin/release"]}
GOOD: list[dict[str, Any]] = [
    {},
    {"gpufleet_drain": "never"},
    {"gpufleet_drain_commands": BOTH},
    {"gpufleet_drain_commands": {}},
    {
        "gpufleet_drain_commands": {**BOTH, "wait": ["/bin/idle", 3]},
        "gpufleet_drain_by": ["commands"],
    },
    {"gpufleet_drain_commands": BOTH, "gpufleet_drain_by": "commands,slurm"},
    {"gpufleet_drain_timeout": "7200", "gpufleet_drain_interval": 60},
    {"gpufleet_rollout_id": "driver-580-2026-03"},
    # questions of a survey that nobody answered
    {
        "gpufleet_rollout_id": "",
        "gpufleet_drain_by": "",
    },
]
WRONG: list[tuple[dict[str, Any], str]] = [
    (
        {"gpufleet_drain_commands": {"befor": ["/bin/hold"], "after": ["/bin/release"]}},
        "drain.unknown-command",
    ),
    ({"gpufleet_drain_commands": {"before": ["/bin/hold"]}}, "drain.command-missing"),
    (
        {"gpufleet_drain_commands": {**BOTH, "before": "/bin/hold"}},
        "drain.command-is-text",
    ),
    ({"gpufleet_drain_commands": '{"before": ["/bin/hold"]}'}, "drain.commands-not-a-dictionary"),
    ({"gpufleet_drain_commands": "/bin/hold"}, "options.type"),
    ({"gpufleet_drain_by": ["commands"]}, "drain.commands-missing"),
    (
        {"gpufleet_drain_by": ["slurm"], "gpufleet_drain_method": "evict"},
        "drain.slurm-cannot-evict",
    ),
    ({"gpufleet_drain_timeout": 0}, "drain.time"),
    ({"gpufleet_drain_timeout": 5}, "drain.interval-too-long"),
    ({"gpufleet_rollout_id": "driver 580"}, "drain.rollout-id"),
    ({"gpufleet_drain_by": ["lsf"]}, "options.choice"),
]


@pytest.mark.parametrize("given", GOOD)
def test_settings_that_a_host_can_be_drained_with_are_taken(given: dict[str, Any]) -> None:
    assert variables_check.list_wrong_drain_values(given) == []


@pytest.mark.parametrize(("given", "code"), WRONG)
def test_settings_that_no_host_can_be_drained_with_are_one_message(
    given: dict[str, Any], code: str
) -> None:
    assert [message.code for message in variables_check.list_wrong_host_values(given)] == [code]
