# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a measurement tells of a container of a spec."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.gpu import (
    main,
)
from tests.unit import gpu_tool

WRONG = {
    "nothing": ({}, "full", 0),
    "a node that stays shut": ({"nodes": [["/dev/nvidia0", "EPERM"]]}, "full", 1),
    "a node too many": ({"before": ["/dev/nvidia0", "/dev/nvidia1", "/dev/nvidiactl"]}, "full", 1),
    "another node that opens": ({"others": [["/dev/nvidia1", ""]]}, "full", 1),
    "the same without rules": ({"others": [["/dev/nvidia1", ""]], "rules": "no"}, "full", 0),
    "no GPU for NVML": ({"nvml": {"gpus": [], "errors": []}}, "full", 1),
    "no libcuda": ({"cuda": {"error": "gone"}}, "full", 1),
    "cuInit fails": ({"cuda": {"code": 100, "count": -1}}, "full", 1),
    "no library, by the spec": ({"cuda": {"error": "gone"}}, "devices", 0),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_inside_is_told(name: str) -> None:
    more, kind, count = WRONG[name]
    mine = ["/dev/nvidia0", "/dev/nvidiactl"]
    assert len(list(main.judge_inside({**gpu_tool.INSIDE, **more}, mine, 1, kind))) == count


# What a step found, and the checks of the report: name without its beginning, result, code.
WITHOUT_KERNEL = {
    "no container": ({"refused": "no namespaces (EPERM)"}, [("", "skipped", "no-container")]),
    "no device rules": (
        {**gpu_tool.INSIDE, "rules": "no cgroup2 is mounted", "others": [["/dev/nvidia1", ""]]},
        [(", others", "skipped", "no-device-rules"), ("", "same", "")],
    ),
    "all": (gpu_tool.INSIDE, [("", "same", "")]),
}


@pytest.mark.parametrize("name", WITHOUT_KERNEL)
def test_a_machine_that_lets_nobody_be_a_container_is_no_failure(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, checks = WITHOUT_KERNEL[name]
    gpu_tool.play(monkeypatch, tmp_path, f"print({json.dumps(json.dumps(found))})\n")
    monkeypatch.setattr(main, "LIMITS", dict.fromkeys(main.LIMITS, 30))
    monkeypatch.setattr(main.Measurement, "count_gpus", lambda _self: 1)
    one = gpu_tool.build_measurement()
    one.found["isolated"] = {}
    nodes = [{"path": path} for path in gpu_tool.INSIDE["before"]]
    spec = {"devices": [{"name": "all", "containerEdits": {"deviceNodes": nodes}}]}
    one.enter("full", "all", {"spec": spec, "group": "gpufleet-gpu-none"}, [])
    told = [
        (c["name"].removeprefix("inside full=all"), c["result"], c["code"])
        for c in one.report.checks
    ]
    assert told == checks
    assert all(c["sentence"] for c in one.report.checks)
    assert one.report.get_outcome() == "same"
