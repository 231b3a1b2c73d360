# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which nodes a container may open where GPUs have MIG devices, or where the host has a fabric."""

from __future__ import annotations

import dataclasses as dc
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Instance,
    Policy,
    SeenGpu,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.verification import (
    cases,
)

from tests.unit.records import instance, record
from tests.unit.verified_cases import (
    COMPATIBLE,
    CONTAINERD_16,
    CONTAINERD_21,
    IMAGE,
    build_driver,
    list_nodes,
)


def plan_mig_cases(
    *migs: int,
    fabric: tuple[str, ...] = (),
    policy: Policy = Policy(),  # noqa: B008  a frozen value
    engine: Instance = instance("containerd", "2.4.0"),  # noqa: B008  a frozen value
    nodes_of_all: frozenset[str] | None = None,
) -> dict[str, dict[str, Any]]:
    """Return the cases of a host by name. migs: how many MIG devices each of its GPUs has."""
    seen = dc.replace(
        build_driver(*range(len(migs))),
        gpus=tuple(SeenGpu(i, i, "", f"GPU-{i}", migs=count) for i, count in enumerate(migs)),
    )
    found = cases.list_cases(
        record(policy, engine, driver=seen),
        (engine,),
        seen,
        image=IMAGE,
        fabric=fabric,
        nodes_of_all=nodes_of_all,
    )
    return {case["name"].rpartition(": ")[2]: case for case in found}


@pytest.mark.parametrize(
    ("migs", "one", "sure", "perhaps"),
    [
        ((3, 0), "0:0", ["0"], ["1"]),
        ((0, 2), "1:0", ["1"], ["0"]),
        ((2, 2), "0:0", ["0", "1"], []),
        ((0, 0), "0", ["0", "1"], []),
    ],
)
def test_a_gpu_with_mig_devices_is_asked_for_by_one_of_them(
    migs: tuple[int, ...], one: str, sure: list[str], perhaps: list[str]
) -> None:
    found = plan_mig_cases(*migs)
    assert found["one"]["devices"] == [f"nvidia.com/gpu={one}"]
    assert [n for n in list_nodes(found["all"], "allowed") if n.isdigit()] == sure
    assert [n for n in list_nodes(found["all"], "optional") if n.isdigit()] == perhaps


LEGACY = Policy(injection="legacy", isolation="compatible")


@pytest.mark.parametrize(
    ("policy", "engine", "nodes_of_all", "sure", "refused", "perhaps"),
    [  # GPU 0 has MIG devices, GPU 1 has none
        (COMPATIBLE, CONTAINERD_21, {"0", "1"}, "0,1", "", ""),
        (COMPATIBLE, CONTAINERD_21, {"0"}, "0", "1", ""),  # in MIG mode without an instance
        (COMPATIBLE, CONTAINERD_21, None, "0", "", "1"),  # no spec was read
        (COMPATIBLE, CONTAINERD_16, {"0", "1"}, "0,1", "", ""),
        (COMPATIBLE, CONTAINERD_16, {"0"}, "0", "1", ""),
        (LEGACY, CONTAINERD_16, None, "0,1", "", ""),  # the hook gives every GPU
        (LEGACY, CONTAINERD_16, {"0"}, "0,1", "", ""),
    ],
)
def test_all_gpus_beside_mig_devices_are_just_those_that_are_granted(
    policy: Policy,
    engine: Instance,
    nodes_of_all: set[str] | None,
    sure: str,
    refused: str,
    perhaps: str,
) -> None:
    given = None if nodes_of_all is None else frozenset(f"/dev/nvidia{n}" for n in nodes_of_all)
    found = plan_mig_cases(2, 0, policy=policy, engine=engine, nodes_of_all=given)["all"]
    told = {
        expect: ",".join(n for n in list_nodes(found, expect) if n.isdigit())
        for expect in ("allowed", "refused", "optional")
    }
    assert told == {"allowed": sure, "refused": refused, "optional": perhaps}


@pytest.mark.parametrize("case", ["one", "all", "none"])
def test_no_container_may_open_what_it_has_not_asked_for(case: str) -> None:
    fabric = ("/dev/nvidia-nvswitchctl", "/dev/nvidia-caps-imex-channels/channel0")
    refused = {
        n["path"]
        for n in plan_mig_cases(0, 0, fabric=fabric)[case]["nodes"]
        if n["expect"] == "refused"
    }
    assert refused >= set(fabric)
