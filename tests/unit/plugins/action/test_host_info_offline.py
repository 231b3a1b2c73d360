# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A first look from a controller without internet: the host is refused, and what else would change
is shown.
"""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.action import host_info
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Difference,
    Plan,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import (
    repository,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.results import groups

REST = Plan(
    differences=(
        Difference(
            "file",
            "/etc/containerd/config.toml",
            "plugins.cri.enable_cdi",
            False,
            True,
            "off by default",
        ),
    )
)
SEEN = Observation({}, {})


@pytest.fixture(autouse=True)
def no_facts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planner of these tests needs no facts of a host."""
    monkeypatch.setattr(host_info.seen_host, "read_host_facts", lambda *_given: None)


def offline(error: PlanError, rest: Plan | PlanError) -> Any:
    """Make a planner that refuses a host whose packages come from somewhere, and plans the rest of
    it.
    """

    def plan(policy: Policy, *_more: Any) -> Plan:
        if policy.toolkit_repository or policy.bundle_file:
            raise error
        if isinstance(rest, PlanError):
            raise rest
        return rest

    return plan


@pytest.mark.parametrize(
    "given",
    [
        Policy(),
        Policy(toolkit_repository="https://mirror.example.org"),
        Policy(bundle_file="packages.tar"),
    ],
)
def test_the_rest_is_planned_without_the_source(
    given: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        host_info.host_plan, "plan_host", offline(repository.NoSource("out of reach"), REST)
    )
    assert host_info.plan_without_source(given, SEEN, None) == REST  # type: ignore[arg-type]


def test_a_rest_that_is_refused_as_well_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        host_info.host_plan,
        "plan_host",
        offline(repository.NoSource("out of reach"), PlanError("line 3")),
    )
    assert host_info.plan_without_source(Policy(), SEEN, None) == Plan()  # type: ignore[arg-type]


def test_the_table_tells_it_from_what_a_run_would_change_now() -> None:
    looked = {
        "differences": [
            {"what": "file", "path": "/etc/x", "key": "a", "before": 1, "after": 2, "why": ""}
        ],
        "would_restart": [],
    }
    shown = groups.list_group_lines(
        {"gpu1": {**looked, "problem": "out of reach"}, "gpu2": looked}, 120
    )
    assert [line for line in shown if line.startswith("gpu")] == [f"gpu1{groups.LATER}", "gpu2"]
