# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a fleet's operator reads: the sentence about mixed engines."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import uniform


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
        uniform.require_policy("uniform", results)
    uniform.require_policy("per_host", results)
    uniform.require_policy("uniform", {"a": decided("crio"), "gone": {}})


def test_hosts_of_a_mix_are_named_as_in_the_table() -> None:
    results = {
        **{f"gpu{number}": decided("containerd") for number in range(1, 601)},
        "x": decided("crio"),
    }
    assert uniform.describe_mixed_engines(results) == "containerd on gpu[1-600]; crio on x"


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
    uniform.require_policy("per_host", results)
    if not sentence:
        uniform.require_policy("uniform", results)
        return
    with pytest.raises(PlanError) as refused:
        uniform.require_policy("uniform", results)
    assert (refused.value.what, step in refused.value.next) == (sentence, True)
