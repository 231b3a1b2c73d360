# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What gpufleet_sharing says is judged for all hosts of a run, before the first of them is changed."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from ansible_collections.gpufleet.nvidia.plugins.action import variables_check
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    get_code,
)

CASES: list[tuple[dict[str, Any], str]] = [
    # variables of a host, the code of what is said; '' for nothing
    ({}, ""),
    ({"gpufleet_sharing": {}}, ""),
    (
        {
            "gpufleet_sharing": {
                0: "time_slicing",
                "NVIDIA A100-SXM4-80GB": {"dedicated": {"exclusive": True}},
            }
        },
        "",
    ),
    ({"gpufleet_sharing": {"0": "time_slicng"}}, "sharing.unknown-policy"),
    (
        {"gpufleet_sharing": {"0": {"time_slicing": {"interval": "10ms"}}}},
        "sharing.unknown-interval",
    ),
    ({"gpufleet_sharing": {"0": {"dedicated": {"exclusiv": True}}}}, "sharing.unknown-key"),
    ({"gpufleet_sharing": yaml.safe_load("{'0': 2024-01-01}")}, "options.read-as-date"),
    ({"gpufleet_sharing": yaml.safe_load("{2024-01-01: mps}")}, "options.key-read-as-date"),
    ({"gpufleet_sharing": {"GPU-abc": "dedicated"}}, "sharing.not-a-gpu"),
    (
        {"gpufleet_sharing": {"0": "dedicated"}, "gpufleet_root": "/srv/image"},
        "sharing.beneath-root",
    ),
]


@pytest.mark.parametrize(("given", "code"), CASES)
def test_what_no_host_could_be_given_is_said_at_once(given: dict[str, Any], code: str) -> None:
    found = variables_check.list_wrong_host_values(given)
    assert [get_code(text) for text in found] == ([code] if code else [])
