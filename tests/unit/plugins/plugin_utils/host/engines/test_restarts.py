# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether an engine is restarted, or whether a person does it: one table for all engines."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Cdi,
    Evidence,
    Instance,
    Plan,
    Policy,
    Restart,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines import restarts

UNIT = "engine.service"
HEALTH: Any = {"kind": "cri", "socket": "/run/engine.sock", "timeout": 20}
RESTARTED = Plan(
    restarts=(Restart(UNIT, "restart", "why"),), health=(HEALTH,), expect_units={UNIT: "i1"}
)
LEFT = Plan(pending=(UNIT,), advice=("left",))
ROWS = {
    "auto": ({}, {}, RESTARTED),
    "auto, and containers end": ({}, {"ends": True}, LEFT),
    "force, and containers end": ({"restart": "force"}, {"ends": True}, RESTARTED),
    "never": ({"restart": "never"}, {}, LEFT),
    "never, and containers end": ({"restart": "never"}, {"ends": True}, LEFT),
    "a tree": ({"root": "/mnt"}, {}, Plan()),
    "never in a tree": ({"root": "/mnt", "restart": "never"}, {}, Plan()),
    "no unit": ({}, {"unit": ""}, Plan(advice=("outside",))),
    "never, and no unit": ({"restart": "never"}, {"unit": ""}, Plan(advice=("left",))),
    "it was not seen since when it runs": (
        {},
        {"invocation_id": ""},
        Plan(restarts=RESTARTED.restarts, health=(HEALTH,)),
    ),
}


@pytest.mark.parametrize(("options", "case", "plan"), ROWS.values(), ids=ROWS)
def test_an_engine_is_restarted_or_left_to_a_person(
    options: dict[str, Any], case: dict[str, Any], plan: Plan
) -> None:
    unit, invocation = case.get("unit", UNIT), case.get("invocation_id", "i1")
    nothing = Cdi(
        able=False, enabled=False, dirs=(), max_version="", evidence=Evidence("files", "")
    )
    instance = Instance(
        "containerd", "2.1.0", "", "", "", unit, "package", True, nothing, invocation_id=invocation
    )
    ends, policy = bool(case.get("ends")), Policy(**options)
    found = restarts.plan_engine_restart(
        policy,
        instance,
        Restart(unit, "restart", "why"),
        (HEALTH,),
        ends=ends,
        left="left",
        outside="outside",
    )
    assert found == plan
    if policy.root == "/" and unit:
        assert restarts.is_restart_left(policy, ends=ends) == bool(plan.pending)
