# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a fleet's operator reads: the sentence about mixed engines, the budget of a rollout."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import gate, waves

from tests.unit.coded import read_coded

# ---------------------------------------------------------------- uniform fleets


def decided(*engines: str) -> dict[str, Any]:
    return {"decision": {"decisions": [{"engine": e} for e in engines]}}


def test_a_mix_names_the_hosts_by_engine() -> None:
    results = {
        "b": decided("containerd"),
        "a": decided("containerd"),
        "c": decided("crio"),
        "gone": {},
        "idle": decided(),
    }
    with pytest.raises(PlanError, match=r"containerd on a, b; crio on c .*\[gate.mixed-engines\]$"):
        gate.require_policy("uniform", results)
    gate.require_policy("per_host", results)
    gate.require_policy("uniform", {"a": decided("crio"), "gone": {}})


def test_hosts_of_a_mix_are_named_as_in_the_table() -> None:
    results = {
        **{f"gpu{number}": decided("containerd") for number in range(1, 601)},
        "x": decided("crio"),
    }
    assert gate.describe_mixed_engines(results) == "containerd on gpu[1-600]; crio on x"


OLD, NEW = ("nvidia-runtime", "nvidia", True), ("native-cdi", "nvidia", False)
# Hosts with their decisions -> what the sentence says; '' where a uniform fleet may go on.
ONE_ENGINE = {
    "containerd 1.6 beside 1.7 and 2.1": (
        {"a16": [OLD], "b17": [NEW], "c21": [NEW]},
        "different decisions: native-cdi (handler nvidia) on b17, c21; nvidia-runtime (handler nvidia, the default) on a16",
        "Set gpufleet_injection: nvidia-runtime for all, upgrade a16,",
    ),
    "the same injection by handlers of other names": (
        {"a": [NEW], "b": [("native-cdi", "gpu", False)]},
        "different decisions: native-cdi (handler gpu) on b; native-cdi (handler nvidia) on a",
        "Give all hosts the same gpufleet_handlers",
    ),
    "a hook, which has no handler": (
        {"a": [("oci-hook", "", False)], "b": [NEW]},
        "different decisions: native-cdi (handler nvidia) on b; oci-hook on a",
        "Set gpufleet_injection: oci-hook for all, upgrade a,",
    ),
    "two containerds on one host that are decided differently": (
        {"a": [OLD, NEW], "b": [NEW]},
        "different decisions: native-cdi (handler nvidia) on a, b; nvidia-runtime (handler nvidia, the default) on a",
        "upgrade a,",
    ),
    "hosts with equal decisions, one that was lost, and one without a GPU": (
        {"a": [NEW], "b": [NEW], "gone": None, "idle": []},
        "",
        "",
    ),
}


@pytest.mark.parametrize("case", ONE_ENGINE)
def test_a_uniform_fleet_has_one_decision(case: str) -> None:
    hosts, sentence, step = ONE_ENGINE[case]
    keys = ("injection", "handler", "default")
    results = {
        host: {}
        if found is None
        else {
            "decision": {
                "decisions": [
                    {"engine": "containerd", **dict(zip(keys, d, strict=True))} for d in found
                ]
            }
        }
        for host, found in hosts.items()
    }
    gate.require_policy("per_host", results)
    if not sentence:
        gate.require_policy("uniform", results)
        return
    with pytest.raises(PlanError) as refused:
        gate.require_policy("uniform", results)
    assert (refused.value.what, step in refused.value.next) == (sentence, True)


# ---------------------------------------------------------------- gate

GATES = [
    # lost, total, max_failed, may the rollout go on, how many may be lost
    (0, 10, 0, True, 0),
    (1, 10, 0, False, 0),
    (2, 10, "2", True, 2),
    (3, 10, "2", False, 2),
    (1, 10, "10%", True, 1),
    (2, 15, "10%", False, 1),  # rounded down
    (7, 100, "7%", True, 7),
    (1, 5, "20 %", True, 1),
    (1, 3, "10%", False, 0),
    (5, 5, "100%", True, 5),
    (1, 200, "0.5%", True, 1),
]


@pytest.mark.parametrize(("failed", "total", "max_failed", "ok", "allowed"), GATES)
def test_gate(failed: int, total: int, max_failed: int | str, ok: bool, allowed: int) -> None:
    most = waves.parse_amount("max_failed", max_failed)
    verdict = gate.judge_failed_hosts(failed, total, most)
    assert (verdict.ok, verdict.allowed) == (ok, allowed)
    assert read_coded(verdict.sentence) == (
        f"gate.{'within' if ok else 'over'}-limit",
        {"failed": failed, "total": total, "allowed": allowed},
    )


NO_BUDGET = {
    **dict.fromkeys(("", "-1", "ten", "10%%", None), "rollout.amount"),
    "1.5": "rollout.part-of-a-host",
    "101%": "rollout.over-100-percent",
}


@pytest.mark.parametrize(("wrong", "code"), NO_BUDGET.items())
def test_a_budget_that_is_none(wrong: Any, code: str) -> None:
    with pytest.raises(PlanError) as refused:
        waves.parse_amount("max_failed", wrong)
    assert refused.value.code == code
