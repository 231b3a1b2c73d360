# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan as a file that people approve, what has moved since, and the second look at a host that
was changed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import (
    plan_file,
    rollout,
    settings,
)

from tests.unit.rollout_looks import CHANGE, looked
from tests.unit.schemas import judged

SCHEMA = json.loads(
    (Path(__file__).resolve().parents[5] / "docs/plan-file.schema.json").read_text()
)
HOSTS: dict[str, dict[str, Any]] = {
    "a": looked(CHANGE), "b": looked(CHANGE, work={"ends": ["c1", "c2"]}), "c": looked(), "d": looked(CHANGE, problem="no"),
}  # fmt: skip


def document(**hosts: dict[str, Any]) -> dict[str, Any]:
    return plan_file.build_plan_document(
        rollout.plan_rollout(
            rollout.Fleet(hosts), settings.build_rollout_settings({"max_left_out": "100%"})
        ),
        hosts,
    )


def test_a_plan_is_as_its_schema_says() -> None:
    found = json.loads(json.dumps(document(**HOSTS)))
    assert judged(found, SCHEMA) == []
    assert found["totals"] == {"hosts": 4, "do": 2, "done": 1, "left_out": 1}
    (change,) = found["changes"].values()
    assert change["hosts"] == ["a", "b"]
    assert [found["hosts"][h]["containers"] for h in "ab"] == [0, 2]
    assert found["hosts"]["d"]["left_out"] == "no"
    assert judged({**found, "more": 1, "schema": 1}, SCHEMA)


SWITCH = "/etc/containerd/config.toml enable_cdi"
MOVED = [
    # the host now, why it is left out
    (looked(CHANGE), ""),
    (looked(CHANGE, work={"ends": ["c1", "c2", "c3"]}), ""),
    (looked(), ""),
    (
        looked({**CHANGE, "after": False}),
        f"it plans something else than what was approved: {SWITCH} is new in the plan; {SWITCH} is in the plan no more",
    ),
    (
        looked(CHANGE, would_restart=[]),
        "it plans something else than what was approved: containerd.service would not restart any more",
    ),
]


@pytest.mark.parametrize(("now", "why"), MOVED)
def test_a_host_that_plans_something_else_than_what_was_approved_is_left_out(
    now: dict[str, Any], why: str
) -> None:
    assert plan_file.map_moved_hosts(document(a=looked(CHANGE), z=looked()), {"a": now}) == (
        {"a": why} if why else {}
    )


def test_of_many_changes_that_were_not_approved_three_are_named() -> None:
    new = [{**CHANGE, "key": key} for key in "abcde"]
    found = plan_file.map_moved_hosts(document(a=looked(CHANGE)), {"a": looked(CHANGE, *new)})["a"]
    assert [key for key in "abcde" if f"config.toml {key} is new" in found] == ["a", "b", "c"]
    assert "2 more" in found


def test_a_host_that_nobody_has_approved_is_left_out_if_it_has_something_to_do() -> None:
    approved = document(a=looked(CHANGE), done=looked())
    found = plan_file.map_moved_hosts(
        approved, {"new": looked(CHANGE), "idle": looked(), "done": looked(CHANGE)}
    )
    assert found["new"] == "it is not in the approved plan"
    assert found["done"].startswith("it plans something else than what was approved: ")
    assert "idle" not in found


@pytest.mark.parametrize(
    ("data", "code"),
    [
        ([], "approval.not-a-plan"),
        ({"hosts": {}}, "approval.not-a-plan"),
        ({"schema": 3, "hosts": {}, "changes": {}}, "approval.schema"),
        ({"schema": 1, "hosts": {}, "changes": {}}, "approval.schema"),
    ],
)
def test_a_file_that_is_no_plan_of_this_collection_is_refused(data: Any, code: str) -> None:
    with pytest.raises(PlanError) as error:
        plan_file.require_plan(data, "plan.json")
    assert (error.value.code, error.value.where) == (code, "plan.json")


def forged(*keys: str, value: Any) -> dict[str, Any]:
    """A plan as it was written, with one value of it replaced; `*` is the one change's digest."""
    found: dict[str, Any] = json.loads(json.dumps(document(a=looked(CHANGE))))
    place = found
    for key in keys[:-1]:
        place = place[next(iter(place)) if key == "*" else key]
    place[keys[-1]] = value
    return found


FORGED = [
    # what was changed after the plan was written
    forged("hosts", "a", value="x"),
    forged("hosts", "a", "change", value=["x"]),
    forged("changes", "*", "differences", value=None),
    # the host's change, shown as one that restarts a unit and writes nothing
    forged("changes", "*", "differences", value=[]),
    forged("changes", "*", "restarts", value=[]),
    forged("changes", "*", "bound", value=[{"do": "write", "path": "/etc/cron.d/more"}]),
    forged("changes", "*", "bound", value=None),
    forged("changes", "f" * 64, value=[]),
    forged("hosts", "a", "change", value="f" * 64),  # a change that nobody can read
    forged("hosts", "b", value={"class": "x", "change": "f" * 64, "containers": 0}),
    forged("changes", value={}),
    forged("changes", "*", "hosts", value=[]),  # shown for fewer hosts than it is approved for
    forged("changes", "*", "hosts", value=["b", ["a"]]),
    forged("changes", "*", "hosts", value=None),
]


@pytest.mark.parametrize("data", FORGED)
def test_a_plan_that_shows_something_else_than_what_it_approves_is_refused(
    data: dict[str, Any],
) -> None:
    with pytest.raises(PlanError, match=r"^plan.json: .*\[approval.changed-plan\]$"):
        plan_file.require_plan(data, "plan.json")


def test_a_plan_as_it_was_written_is_taken() -> None:
    written = json.loads(json.dumps(document(**HOSTS)))
    assert plan_file.require_plan(written, "plan.json") == written


def test_a_plan_of_another_inventory_is_refused() -> None:
    plan_file.require_inventory(document(a=looked(CHANGE)), ["a", "b"], "plan.json")
    with pytest.raises(PlanError, match=r"^plan.json: .*\[approval.other-inventory\]$"):
        plan_file.require_inventory(document(a=looked(CHANGE)), ["b"], "plan.json")
