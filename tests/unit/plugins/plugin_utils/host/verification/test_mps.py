# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where GPUs are shared by MPS, one more container has to be shown: one that asks for such a GPU by
its kind.
"""

from __future__ import annotations

import dataclasses as dc
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Driver,
    Policy,
    SeenGpu,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.verification import (
    cases,
    handed_on,
)

from tests.unit.records import instance, record

UUIDS = [f"GPU-{n}1111111-0000-5000-8000-000000000001" for n in range(3)]
DRIVER = Driver(
    "ok",
    "580.95.05",
    tuple(SeenGpu(n, n + 4, f"0000:{n}7:00.0", uuid) for n, uuid in enumerate(UUIDS)),
    "procfs",
)
CONTAINERD = instance("containerd", "2.1.0")
MPS: dict[str, Any] = {UUIDS[1]: {"mps": {"clients": 4}}, "0000:27:00.0": "mps"}
PLANNED: list[tuple[str, Policy, list[tuple[tuple[int, ...], str]]]] = [
    ("the first of them", Policy(sharing=MPS), [((5,), "1")]),
    ("without the option", Policy(), []),
    ("shared by time slices", Policy(sharing={UUIDS[0]: "time_slicing"}), []),
    ("by a device plugin", Policy(sharing={UUIDS[0]: {"mps": {"replicas": 4}}}), []),
    ("a kind of its own", Policy(sharing=MPS, cdi_vendor="example.org"), []),
    ("devices have no index", Policy(sharing=MPS, cdi_device_names=("uuid",)), []),
]


@pytest.mark.parametrize(
    ("policy", "expected"), [case[1:] for case in PLANNED], ids=[case[0] for case in PLANNED]
)
def test_which_gpu_is_asked_for(
    policy: Policy, expected: list[tuple[tuple[int, ...], str]]
) -> None:
    host = dc.replace(record(policy, CONTAINERD, driver=DRIVER), cdi_owner="collection")
    assert [
        (ask.minors, ask.ids) for ask in handed_on.ask_for_mps_gpu(policy, host, DRIVER)
    ] == expected
    assert handed_on.ask_for_mps_gpu(policy, dc.replace(host, cdi_owner="toolkit"), DRIVER) == ()


@pytest.mark.parametrize(
    ("cdi", "number"), [("auto", 1), ("disabled", 0)], ids=["native", "by the NVIDIA runtime"]
)
def test_what_is_shown(cdi: Any, number: int) -> None:
    """Only an engine that resolves devices itself knows the kind."""
    policy = Policy(sharing=MPS, cdi=cdi)
    host = dc.replace(record(policy, CONTAINERD, driver=DRIVER), cdi_owner="collection")
    asked = handed_on.ask_for_mps_gpu(policy, host, DRIVER)
    found = [
        case
        for case in cases.list_cases(host, (CONTAINERD,), DRIVER, image="", more=asked)
        if case["name"].endswith(": mps")
    ]
    assert [case["devices"] for case in found] == [["nvidia.com/mps=1"]] * number
    for case in found:
        assert [node["path"] for node in case["nodes"] if node["expect"] == "allowed"] == [
            "/dev/nvidia5",
            "/dev/nvidiactl",
        ]
        assert {"/dev/nvidia4", "/dev/nvidia6"} <= {
            node["path"] for node in case["nodes"] if node["expect"] == "refused"
        }
