# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a cluster reads of a host's decision, and what the chart gets of a group's setting."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster import helm, members


@pytest.mark.parametrize(
    ("driver", "version"), [({"version": "550.163.01"}, "550.163.01"), ({}, None), (None, None)]
)
def test_a_record_has_the_decision_and_the_driver(driver: Any, version: str | None) -> None:
    result = {"decision": {"isolation": "strict"}, "driver": driver}
    found = json.loads(
        members.write_public_record(result, {"engine": "containerd", "why": "a reason"})
    )
    assert (found["engine"], found["isolation"], found["driver"], "why" in found) == (
        "containerd",
        "strict",
        version,
        False,
    )


@pytest.mark.parametrize(
    ("hook", "value"), [("/usr/bin/nvidia-cdi-hook", "/usr/bin/nvidia-cdi-hook"), ("", None)]
)
def test_the_chart_gets_the_hook_of_a_group_that_has_one(hook: str, value: str | None) -> None:
    group: Any = SimpleNamespace(setting=SimpleNamespace(hook=hook))
    assert helm.OF_GROUPS["cdi.nvidiaHookPath"](group) == value
