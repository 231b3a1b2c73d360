# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""UUIDs that only NVML knows: when a spec asks for them, and what it has without them."""

from __future__ import annotations

import dataclasses as dc
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    NeedMore,
    PlanError,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import earlier_runs
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi import resource
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.devices import (
    nvidia_smi,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import (
    packages,
)

from tests.unit.builders import obs
from tests.unit.cdi_plans import OURS, SOURCE, UNUSED, plan, seen, written
from tests.unit.coded import read_all_coded, read_coded
from tests.unit.gpus import UUIDS, host

NO_PROBE = {
    "probe:nvml": {
        "value": {"gpus": [], "errors": [{"call": "dlopen", "code": 12, "message": "no library"}]}
    }
}
ABSENT = {"error": {"kind": "not-found", "message": "nvidia-smi is not there"}}
NO_SMI = {q["id"]: ABSENT for q in nvidia_smi.list_nvidia_smi_questions(Policy())}


def unasked(files: dict[str, Any]) -> Observation:
    """A host that was looked at, and whose GPUs nobody used yet."""
    return obs(files=files, packages={packages.BASE: "1.20.1-1"})


def test_nvml_is_asked_when_a_spec_must_be_made() -> None:
    with pytest.raises(NeedMore) as need:
        plan(unasked(host()))
    assert [(q["id"], q["source"]) for q in need.value.questions] == [("probe:nvml", SOURCE)]
    made = plan(seen(host(uuids=UNUSED)))
    assert [d.name for d in written(made).devices] == ["0", "1", UUIDS[0], UUIDS[1], "all"]
    assert read_coded(made.differences[0].why) == (
        "cdi.written",
        {"source": "nvml", "version": written(made).version},
    )


def test_nobody_is_asked_where_our_spec_is_still_right() -> None:
    text = plan(seen()).changes[0]["content"]
    assert plan(unasked({**host(), OURS: text})).empty
    assert plan(
        unasked({**host(uuids=UNUSED), OURS: text})
    ).empty  # it still knows the UUIDs that /proc does not tell


def test_without_nvml_there_are_no_names_by_uuid() -> None:
    made = plan(seen(host(uuids=UNUSED), answers={**NO_PROBE, **NO_SMI}))
    assert [d.name for d in written(made).devices] == ["0", "1", "all"]
    assert read_coded(made.differences[0].why) == (
        "cdi.written",
        {"source": "procfs", "version": written(made).version},
    )
    first, second = read_all_coded(made.advice[:2])
    problem = ("devices.nvml-silent", {"call": "dlopen", "problem": "no library"})
    other = ("devices.nvidia-smi-failed", {"problem": "nvidia-smi is not there"})
    assert first == ("devices.named-without-both", {"problem": problem, "other": other})
    assert second == ("spec.gpu-without-uuid", {"gpus": "0, 1"})
    text = made.changes[0]["content"]
    assert plan(unasked({**host(uuids=UNUSED), OURS: text})).empty  # asked once, not at every run


def test_nvidia_smi_is_not_asked_where_nvml_hangs() -> None:
    made = plan(
        seen(
            host(uuids=UNUSED),
            answers={"probe:nvml": {"error": {"kind": "timeout", "message": "no answer in 20 s"}}},
        )
    )
    assert [d.name for d in written(made).devices] == ["0", "1", "all"]
    problem = ("devices.nvml-not-queried", {"problem": "no answer in 20 s"})
    assert read_coded(made.advice[0]) == ("devices.named-from-proc", {"problem": problem})


@pytest.mark.parametrize(
    ("status", "code"), [(18, "mismatch"), (9, "not-loaded"), (15, "gpu-lost")]
)
def test_a_driver_that_nvml_calls_sick_is_refused(status: int, code: str) -> None:
    sick = {
        "probe:nvml": {
            "value": {
                "gpus": [],
                "errors": [{"call": "nvmlInit", "code": status, "message": "sick"}],
            }
        }
    }
    with pytest.raises(PlanError) as refused:
        plan(seen(answers=sick))
    assert (refused.value.code, refused.value.values) == (
        f"devices.nvml-{code}",
        {"problem": "sick"},
    )
    assert refused.value.where == "nvmlInit"


@pytest.mark.parametrize(
    ("policy", "asked"),
    [
        ({}, True),
        ({"cdi_owner": "collection"}, True),
        ({"cdi_owner": "toolkit"}, False),
        ({"state": "absent"}, False),
        ({"root": "/tree"}, False),
        ({"cdi_driver_root": "/run/nvidia/driver"}, False),
    ],
)
def test_the_first_look_asks_nvml_of_a_host_without_a_spec(
    policy: dict[str, Any], asked: bool
) -> None:
    wanted = dc.replace(Policy(), **policy)
    found = [q["where"] for q in resource.list_questions(wanted) if q["id"] == "probe:nvml"]
    assert len(found) == asked
    for where in found:
        assert {earlier_runs.FACT_PATH, OURS} <= set(where["absent"])
        assert ("/etc/cdi/*" in where["absent"]) == (wanted.cdi_owner == "auto")
        assert where["each"] == ["/proc/driver/nvidia/gpus/*/information", "/dev/nvidia?"]
