# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The report as data: as its schema says, with the numbers of the table, and whole again out of
kept reports.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import outcomes
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet.page import (
    document,
    hosts,
    kept,
)

from tests.unit import reports
from tests.unit.schemas import judged

SCHEMA = json.loads((Path(__file__).resolve().parents[6] / "docs/report.schema.json").read_text())
AT = "2026-02-01T09:15:00Z"


def made(
    results: dict[str, dict[str, Any]], at: str = AT, check: bool = False
) -> document.Document:
    return json.loads(json.dumps(document.build_report(results, document.About("site", at, check))))  # type: ignore[no-any-return]


def test_a_report_is_as_its_schema_says() -> None:
    report = made(reports.fleet())
    assert judged(report, SCHEMA) == []
    assert judged({**report, "more": 1}, SCHEMA)
    assert SCHEMA["properties"]["hosts"]["additionalProperties"]["properties"]["outcome"][
        "enum"
    ] == list(document.KEYS)


@pytest.mark.parametrize("check", [True, False])
def test_its_numbers_are_those_of_the_table(check: bool) -> None:
    results = reports.fleet()
    totals, table = made(results, check=check)["totals"], outcomes.count_outcomes(results, check)
    assert totals.pop("needs_person") == len(table.pop("needs_person"))
    assert {key: totals[key] for key in table} == table


def test_what_needs_a_person_comes_first() -> None:
    found = list(made(reports.fleet())["hosts"])
    assert found[:3] == ["failed", "rolled-back", "lost"]
    assert found[-1] == "undone"


TOLD = [
    # host, list, what the report says
    ("drifted", "drift", [{"path": reports.CONFIG, "state": "changed since"}]),
    ("stale", "stale", [{"path": reports.SPEC, "why": "records /dev/nvidia-uvm as 511:0, but it is 510:0 now"}]),
    ("restart", "pending", [{"unit": "crio.service", "since": "2026-01-31T16:58:44Z", "reason": "gpufleet.nvidia.host"}]),
    ("failed", "evidence", ["apt-get install ended with 100"]),
    ("rolled-back", "evidence", [
        "cri /run/containerd/containerd.sock: connection refused, after 90 s",
        "containerd.service failed (`journalctl --unit=containerd.service --since=@1` on the host shows what it said)",
    ]),
    ("undone", "history", [
        {"time": "2026-02-01T09:12:03Z", "reason": "gpufleet.nvidia.host", "state": "rolled back by the host's timer",
         "done": f"wrote {reports.CONFIG}; restarted containerd.service; because: containerd.service does not serve"},
        {"time": "2026-01-31T16:58:44Z", "reason": "gpufleet.nvidia.host", "state": "in force",
         "done": f"wrote {reports.CONFIG}; restarted containerd.service"},
    ]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("host", "key", "said"), TOLD, ids=[f"{host}: {key}" for host, key, _said in TOLD]
)
def test_a_host_says_what_was_found_on_it(host: str, key: str, said: Any) -> None:
    assert made(reports.fleet())["hosts"][host][key] == said


MENDED = {"freshness": [{"path": reports.CONFIG, "state": "stale", "reasons": []}]}
ROW = {
    "engine": "containerd 1.7.24",
    "gpus": "",
    "injection": "",
    "why": "",
    "restarted": "containerd",
}
LATER = [
    # result, list, its paths or units
    (reports.changed(**MENDED), "stale", []),
    (reports.changed(**MENDED, failed=True), "stale", [reports.CONFIG]),
    (
        reports.changed(pending=[{"unit": "containerd.service", "since": "", "reason": ""}]),
        "pending",
        [],
    ),
    (reports.changed(row=ROW, restarted=[]), "pending", ["containerd.service"]),
    (reports.changed(row=ROW), "pending", []),
]


@pytest.mark.parametrize(("result", "key", "left"), LATER)
def test_what_a_run_has_put_right_is_not_reported_as_open(
    result: dict[str, Any], key: str, left: list[str]
) -> None:
    found = hosts.build_report_host("gpu1", result, False)[key]
    assert [entry.get("path") or entry["unit"] for entry in found] == left


def test_hosts_with_equal_changes_share_one_that_says_why() -> None:
    (change,) = made(reports.fleet())["changes"].values()
    assert change["hosts"] == ["changed", "would"]
    assert [d["why"] for d in change["differences"]] == [
        "the NVIDIA runtime and its tools; CDI needs nothing else",
        "the switch is off",
    ]


def test_versions_are_counted_by_combination() -> None:
    rows = made(reports.fleet())["skew"]
    assert [(row["engine"], row["driver"], row["toolkit"], len(row["hosts"])) for row in rows] == [
        ("containerd 1.7.24", "550.163.01", "1.17.8-1", 10),
        ("CRI-O 1.34.2", "570.86.15", "1.18.0-1", 1),
    ]


def test_kept_reports_are_one_and_the_newest_counts() -> None:
    old = made({"gpu1": reports.changed(), "gpu2": reports.looked()}, "2026-01-01T00:00:00Z")
    new = made({"gpu1": reports.looked(), "gpu3": reports.changed()}, "2026-01-02T00:00:00Z")
    whole = kept.merge_reports({"new": new, "old": old}, AT)
    assert judged(json.loads(json.dumps(whole)), SCHEMA) == []
    assert {name: host["outcome"] for name, host in whole["hosts"].items()} == {
        "gpu1": "unchanged",
        "gpu2": "unchanged",
        "gpu3": "changed",
    }
    assert [change["hosts"] for change in whole["changes"].values()] == [["gpu3"]]


def test_hosts_of_one_name_in_named_reports_are_two() -> None:
    north, south = (
        made({"gpu1": reports.changed()}, "2026-01-01T00:00:00Z"),
        made({"gpu1": reports.looked(), "gpu2": reports.looked()}),
    )
    named = {"north=north/report.json": north, "south=south/report.json": south}
    whole = kept.merge_reports(named, AT)
    assert judged(json.loads(json.dumps(whole)), SCHEMA) == []
    found = {name: host["outcome"] for name, host in whole["hosts"].items()}
    assert found == {"north/gpu1": "changed", "south/gpu1": "unchanged", "south/gpu2": "unchanged"}
    assert (
        whole["totals"]["hosts"],
        [change["hosts"] for change in whole["changes"].values()],
    ) == (3, [["north/gpu1"]])
    assert [kept.get_report_file(source) for source in named] == [
        "north/report.json",
        "south/report.json",
    ]
    assert kept.warn_of_hosts_in_several(named) == []
    assert kept.list_hosts_in_several({"north/report.json": north, "south/report.json": south}) == [
        "gpu1"
    ]


def test_the_same_name_of_two_reports_is_one_place() -> None:
    old, new = (
        made({"gpu1": reports.changed()}, "2026-01-01T00:00:00Z"),
        made({"gpu1": reports.looked()}),
    )
    reports_ = {"north=a.json": old, "north=b.json": new}
    assert {
        name: host["outcome"] for name, host in kept.merge_reports(reports_, AT)["hosts"].items()
    } == {"north/gpu1": "unchanged"}
    assert kept.list_hosts_in_several(reports_) == ["north/gpu1"]


DAMAGED = [
    # what is set, the code of the refusal, its values
    ((), "not-a-report", {}),
    (("schema", 2), "other-schema", {"found": "2", "known": document.SCHEMA}),
    (("hosts", []), "not-a-report", {}),
    (("run", {}), "damaged", {"place": "run"}),
    (("hosts", "drifted", "why", 1), "damaged", {"place": "hosts.drifted"}),
    (("hosts", "drifted", "outcome", "fine"), "damaged", {"place": "hosts.drifted"}),
    (("hosts", "drifted", "drift", [1]), "damaged", {"place": "hosts.drifted"}),
    (("hosts", "changed", "change", "0"), "damaged", {"place": "hosts.changed"}),
    (("hosts", "lost", None), "damaged", {"place": "hosts.lost"}),
]


@pytest.mark.parametrize(("place", "code", "values"), DAMAGED)
def test_a_damaged_report_is_refused_with_the_place(
    place: tuple[Any, ...], code: str, values: dict[str, Any]
) -> None:
    report: Any = copy.deepcopy(made(reports.fleet())) if place else []
    if place:
        *keys, last, value = place
        inner = report
        for key in keys:
            inner = inner[key]
        inner[last] = value
    with pytest.raises(PlanError) as refused:
        kept.merge_reports({"a.json": report}, AT)
    assert (refused.value.code, refused.value.values, refused.value.where) == (
        f"page.{code}",
        values,
        "a.json",
    )


def test_the_plan_of_a_rollout_is_no_damaged_report() -> None:
    plan = {"schema": 1, "hosts": {}, "changes": {}, "totals": {}}
    with pytest.raises(PlanError) as refused:
        kept.merge_reports({"plan.json": plan}, AT)
    assert (refused.value.code, refused.value.where) == ("page.a-plan", "plan.json")
