# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The sum of the resources: what several have to ask besides is one look, and the error that is
reported does not depend on that.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    NeedMore,
    PlanError,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Difference,
    Plan,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import (
    decide,
    host_plan,
    host_report,
    seen_host,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi import staleness

from tests.unit.records import ONE_GPU, instance, record


def asks(*names: str) -> Callable[[], Plan]:
    def room() -> Plan:
        raise NeedMore([{"id": name} for name in names])

    return room


def refuses(what: str) -> Callable[[], Plan]:
    def room() -> Plan:
        raise PlanError(what)

    return room


def plans(word: str) -> Callable[[], Plan]:
    return lambda: Plan(advice=(word,))


# The resources in their order, and what comes of them: plans, questions of one look, or an error.
ROWS = [
    ((plans("a"), plans("b")), ["a", "b"]),
    ((plans("a"), asks("reach"), plans("b")), {"reach"}),
    ((asks("reach"), plans("a"), asks("nvml", "units")), {"reach", "nvml", "units"}),
    ((refuses("first"), refuses("second")), "first"),
    ((plans("a"), refuses("first"), asks("reach")), "first"),
    # what comes first may be the error, once it is answered
    (
        (asks("reach"), refuses("second")),
        {"reach"},
    ),
    ((asks("reach"), refuses("second"), asks("nvml")), {"reach"}),
]


@pytest.mark.parametrize(("rooms", "comes"), ROWS)
def test_resources_that_do_not_wait_for_one_another(
    rooms: tuple[Callable[[], Plan], ...], comes: list[str] | set[str] | str
) -> None:
    if isinstance(comes, list):
        assert [plan.advice[0] for plan in host_plan.order_resource_plans(rooms)] == comes
    elif isinstance(comes, set):
        with pytest.raises(NeedMore) as more:
            host_plan.order_resource_plans(rooms)
        assert {question["id"] for question in more.value.questions} == comes
    else:
        with pytest.raises(PlanError, match=comes):
            host_plan.order_resource_plans(rooms)


BACK = [
    # files, carried out, what the table says
    (2, True, "taken back: 2 files"),
    (1, False, "to be taken back: 1 file"),
    (0, False, "nothing that this collection wrote is here"),
]


@pytest.mark.parametrize(("files", "done", "why"), BACK)
def test_what_is_only_shown_is_not_said_to_be_done(files: int, done: bool, why: str) -> None:
    changes = tuple({"path": f"/etc/{n}", "op": "remove"} for n in range(files))
    assert host_report.describe_taken_back(Plan(changes=changes), done) == why


SPEC = "/etc/cdi/nvidia.yaml"
STALE = [
    # the path that differs, whether the plan is carried out, whether the table says that the spec
    # is stale
    (SPEC, True, False),
    (SPEC, False, True),
    ("/etc/containerd/config.toml", True, True),
]


@pytest.mark.parametrize(("path", "done", "stale"), STALE)
def test_a_spec_that_the_run_writes_again_is_not_said_to_be_stale(
    path: str, done: bool, stale: bool
) -> None:
    verdict = staleness.SpecVerdict(
        SPEC,
        "collection",
        "stale",
        "0.5.0",
        (staleness.Stale("driver", "1", "2", "it is of another driver"),),
    )
    seen = seen_host.SeenHost(
        (instance(),), ONE_GPU, decide.Kubelet(), record(Policy(), instance()), (verdict,)
    )
    facts = host_report.report_host_facts(
        seen, Plan(differences=(Difference("file", path, "", "1", "2", "because"),)), done=done
    )
    assert ("it is of another driver" in facts["row"]["why"]) is stale
    assert facts["freshness"][0]["state"] == "stale"
