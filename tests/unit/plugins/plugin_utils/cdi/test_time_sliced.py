# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kind nvidia.com/gpu-shared: the GPUs that are shared by time slices, and no others; it comes and goes with the policy."""

from __future__ import annotations

import dataclasses as dc
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cdi import resource
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cdi.engine_view import reader
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.driver import gpus
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.model import Plan, Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.resources import packages

from tests.unit.builders import obs
from tests.unit.gpus import BUSES, UUIDS, host, nvml

SHARED = "/etc/cdi/nvidia.com-gpu-shared.yaml"
MODEL = "NVIDIA H100 80GB HBM3"


def plan(sharing: dict[str, Any] | None, there: dict[str, Any] | None = None, **more: Any) -> Plan:
    policy = Policy(cdi_profile="devices", sharing=sharing, **more)
    seen = obs(files={**host(3), **(there or {})}, packages={packages.BASE: "1.20.1-1"}, answers=nvml(3))
    return resource.plan(policy, seen, resource.record_of_options("collection", "1.0.0"), gpus.parse(policy, seen), "")


def files(made: Plan) -> dict[str, Any]:
    return {str(c["path"]): c["content"] for c in made.changes if c["op"] == "write"}


def shared(made: Plan) -> dict[str, list[str]]:
    text = files(made).get(SHARED)
    found = reader.parse(text).devices if text else ()
    return {d.name: [n.path for n in d.edits.device_nodes] for d in found}


CASES: list[tuple[str, dict[str, Any] | None, list[int]]] = [
    ("without the option", None, []),
    ("nothing is shared", {UUIDS[0]: "dedicated"}, []),
    (
        "by UUID and by PCI address",
        {UUIDS[0]: "time_slicing", BUSES[2]: {"time_slicing": {"interval": "long"}}, UUIDS[1]: "dedicated"},
        [0, 2],
    ),
    ("by index", {"1": "time_slicing"}, [1]),
    ("by product", {MODEL: "time_slicing"}, [0, 1, 2]),
]


@pytest.mark.parametrize(("sharing", "minors"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_which_gpus_it_has(sharing: dict[str, Any] | None, minors: list[int]) -> None:
    made = plan(sharing)
    paths = [f"/dev/nvidia{minor}" for minor in minors]
    named = {name: [f"/dev/nvidia{minor}"] for minor in minors for name in (str(minor), UUIDS[minor])}
    assert shared(made) == ({**named, "all": paths} if minors else {})
    assert "/etc/cdi/nvidia.yaml" in files(made)
    assert made.advice == ()
    assert plan(sharing, files(made)).empty


def test_it_goes_when_nothing_is_shared_any_more() -> None:
    there = files(plan({UUIDS[0]: "time_slicing"}))
    for sharing in ({UUIDS[0]: "dedicated"}, {}):
        gone = plan(sharing, there)
        assert [(c["op"], c["path"]) for c in gone.changes] == [("remove", SHARED)]
    policy = Policy(state="absent")
    seen = obs(files={**host(3), **there}, packages={packages.BASE: "1.20.1-1"})
    assert SHARED in {c["path"] for c in resource.plan_absent(policy, seen).changes}
    assert SHARED not in {c["path"] for c in resource.plan_absent(dc.replace(policy, single=True), seen).changes}
