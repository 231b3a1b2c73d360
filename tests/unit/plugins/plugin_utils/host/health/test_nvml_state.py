# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the state that NVML reports of GPUs means: what is wrong, the step, and whether it stops a
wave.
"""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.health import (
    nvml_state,
)

BUS = "0000:17:00.0"
H100, PCIE = "NVIDIA H100 80GB HBM3", "NVIDIA A100 80GB PCIe"
SXM = "NVIDIA A100-SXM4-80GB"


def gpu(
    bus: str = BUS, name: str = H100, *, up: int = 4, down: int = 0, **more: Any
) -> dict[str, Any]:
    """A GPU that is well, but for what is said."""
    return {
        "index": 0, "bus_id": bus, "name": name, "lost": None, "pages_pending": False, "rows_pending": False, "rows_failed": False,
        "links": [True] * up + [False] * down, "fabric": {"state": 3, "status": 0, "health": 0}, "slowdown": 0, "recovery": 0,
        "unread": [], **more,
    }  # fmt: skip


def fabric(state: int = 3, status: int = 0, health: int = 0) -> dict[str, Any]:
    return {"fabric": {"state": state, "status": status, "health": health}}


UNTOLD = [{"call": "nvmlDeviceGetFieldValues", "code": 999, "message": "Unknown Error"}]
# GPUs, and of each finding code, step and whether it stops a wave.
STATES: list[tuple[list[dict[str, Any]], list[tuple[str, str, bool]]]] = [
    ([], []),
    ([gpu()], []),
    # a GPU or a driver that has none of this
    ([gpu(pages_pending=None, rows_pending=None, rows_failed=None, fabric=None, slowdown=None, recovery=None)], []),
    ([gpu(rows_failed=True, rows_pending=True)], [("rows-failed", "replace", True), ("rows-pending", "reset", False)]),
    # github.com/leptonai/gpud/pull/987: it works until its reset
    ([gpu(rows_pending=True)], [("rows-pending", "reset", False)]),
    ([gpu(pages_pending=True)], [("pages-pending", "reset", False)]),
    # each call is refused with another code than one for a lost GPU
    ([gpu("", "", up=0, fabric=None, recovery=None, slowdown=None)], [("silent-gpu", "reboot", True)]),
    # one value that is not told is neither well nor sick
    ([gpu(recovery=None, unread=UNTOLD)], [("values-unread", "none", False)]),
    ([gpu(name="", unread=UNTOLD), gpu(name="", up=2)], [("values-unread", "none", False)]),
    ([gpu(name=SXM, up=12), {**gpu(name=SXM), "links": None, "unread": UNTOLD}], [("values-unread", "none", False)]),
    ([gpu("", "", lost=15)], [("lost", "reboot", True)]),
    ([gpu(lost=15)], [("lost", "reboot", True)]),
    ([gpu(lost=16)], [("reset-required", "reset", True)]),
    # github.com/scitix/sichek/pull/121: counters are 0, and new contexts fail
    ([gpu(recovery=1)], [("recovery-due", "reset", True)]),
    ([gpu(recovery=2, lost=16)], [("recovery-due", "reboot", True)]),
    # each action of the driver has its step, that about the IMEX domain (5) one of the fabric
    *(([gpu(recovery=action)], [("recovery-due", step, True)]) for action, step in
      ((3, "reset"), (4, "reset"), (5, "fabric"), (6, "reboot"), (7, "reboot"))),
    ([gpu(recovery=99)], [("recovery-due", "support", True)]),
    ([gpu(**fabric(0))], []),
    ([gpu(**fabric(1))], [("fabric-not-joined", "fabric", True)]),
    # github.com/jax-ml/jax/pull/34113: CUDA ends with error 802 meanwhile
    ([gpu(**fabric(2))], [("fabric-not-joined", "fabric", True)]),
    ([gpu(**fabric(status=999))], [("fabric-failed", "fabric", True)]),
    ([gpu(**fabric(health=0b0101_0101))], [
        ("fabric-bandwidth", "reset", False), ("fabric-route", "reset", True), ("fabric-timeout", "reset", True),
    ]),
    ([gpu(**fabric(health=0b1010_1010))], []),  # each is denied
    ([gpu(**fabric(health=5 << 8))], [("fabric-configuration", "reset", True)]),
    ([gpu(**fabric(health=1 << 8))], []),
    ([gpu(slowdown=0x80)], [("power-brake", "replace", True)]),
    ([gpu(slowdown=0x48)], [("thermal-brake", "replace", True)]),
    ([gpu(slowdown=0x20)], [("thermal-limit", "replace", False)]),
    ([gpu(slowdown=0x5)], []),  # idle, and a limit that a person has set
    # github.com/NVIDIA/NVSentinel/pull/1481: a board without a bridge
    ([gpu(name=PCIE, up=0, down=12)], []),
    ([gpu(name=PCIE, up=4, down=8), gpu(name=PCIE, up=0, down=12)], []),
    ([gpu(name=PCIE, up=4, down=8), gpu(name=PCIE, up=3, down=9)], [("links-down", "reset", True)]),
    ([gpu(name=SXM, up=12), gpu(name=SXM, up=0, down=12)], [("links-down", "reset", True)]),
    ([gpu(up=18), gpu(name=PCIE, up=4, down=8)], []),  # another model
]  # fmt: skip


@pytest.mark.parametrize(("every", "found"), STATES)
def test_a_state_is_well_or_has_a_step(
    every: list[dict[str, Any]], found: list[tuple[str, str, bool]]
) -> None:
    told = nvml_state.judge_state(every, [])
    assert [(f.message.code, f.step, f.stops) for f in told] == [
        (f"gpu-health.{code}", step, stops) for code, step, stops in found
    ]
    silent = [("0", "nvml")] * sum(f.message.code == "gpu-health.silent-gpu" for f in told)
    named = [(every[0]["bus_id"], "nvml")] * (len(told) - len(silent)) if told else []
    assert [(f.gpu, f.source) for f in told] == [*silent, *named]


# The answer to the question, whether the state is known, the code of the reason, the findings.
INIT = {"call": "nvmlInit_v2", "code": 18, "message": "Driver/library version mismatch"}
REFUSED = {"call": "nvmlDeviceGetHandleByIndex_v2", "code": 15, "message": "GPU is lost", "gpu": 1}
ANSWERS: list[tuple[dict[str, Any] | None, bool, str, list[str]]] = [
    (None, False, "state-not-asked", []),
    ({"error": {"kind": "timeout", "message": "no answer"}}, False, "state-silent", ["state-silent"]),
    ({"error": {"kind": "failed", "message": "signal 11"}}, False, "state-unreadable", []),
    ({"value": {"gpus": [], "errors": [INIT]}}, False, "state-unreadable", []),
    ({"value": {"gpus": [gpu()], "errors": []}}, True, "", []),
    ({"value": {"gpus": [gpu()], "errors": [REFUSED]}}, True, "", ["no-handle"]),
    ({"value": {"gpus": [gpu()], "errors": [{**REFUSED, "code": 999}]}}, True, "", ["not-opened"]),
]  # fmt: skip


@pytest.mark.parametrize(("answer", "known", "code", "found"), ANSWERS)
def test_no_answer_is_not_known_and_never_healthy(
    answer: dict[str, Any] | None, known: bool, code: str, found: list[str]
) -> None:
    policy = Policy()
    key = str(nvml_state.ask_for_state(policy, 0)["id"])
    told = nvml_state.read_state(policy, Observation({}, {} if answer is None else {key: answer}))
    assert (told["known"], told["code"]) == (known, f"gpu-health.{code}" if code else "")
    assert [f["code"] for f in told["findings"]] == [f"gpu-health.{name}" for name in found]


@pytest.mark.parametrize(("number", "served", "found"), [(1, 1, []), (2, 1, []), (1, 2, ["reset"])])
def test_nvml_has_as_many_gpus_as_procfs(number: int, served: int, found: list[str]) -> None:
    state = {"known": True, "gpus": [gpu()] * number, "findings": []}
    assert [f.step for f in nvml_state.judge_number(state, served)] == found
    assert nvml_state.judge_number({**state, "known": False}, served) == []
    opened = {**state, "findings": [{"code": "gpu-health.not-opened"}]}
    assert nvml_state.judge_number(opened, number + 1) == [], "NVML lists it, and says no more"
