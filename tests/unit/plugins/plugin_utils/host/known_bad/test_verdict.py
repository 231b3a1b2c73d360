# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What becomes of a host by the table: refused before a change, said, or not looked at."""

from __future__ import annotations

import dataclasses as dc
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Plan,
    Policy,
    Restart,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import left_out
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import (
    decision_file,
    earlier_runs,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.known_bad import (
    table,
    verdict,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.known_bad.rules import (
    JudgedRows,
    KnownBadRow,
)

from tests.unit.coded import read_all_coded
from tests.unit.known_bad_hosts import BASE, look, seen

BY_ID: dict[str, KnownBadRow] = {row.id: row for row in table.ROWS}
STOPS, SAID = BY_ID["toolkit-1.18.0-wrong-directory"], BY_ID["toolkit-escape-2025-23266"]
BOTH = JudgedRows((STOPS, SAID))
CHANGES = Plan(changes=({"op": "write", "path": "/etc/containerd/config.toml"},))
NOTHING = Plan()
RECORDS = Plan(
    changes=tuple(
        {"op": "write", "path": path}
        for path in (
            decision_file.DECISION_PATH,
            earlier_runs.FACT_PATH,
            "/var/lib/prometheus/node-exporter/gpufleet.prom",
        )
    )
)

# The setting, the plan, and whether it is refused; advice otherwise.
POLICIES: list[tuple[Any, Plan, bool, int]] = [
    ("stop", CHANGES, True, 0),
    ("stop", NOTHING, False, 2),
    ("stop", RECORDS, False, 2),  # an engine that the host has upgraded by itself
    ("stop", Plan(changes=(*RECORDS.changes, *CHANGES.changes)), True, 0),
    ("stop", dc.replace(RECORDS, restarts=(Restart("containerd.service"),)), True, 0),
    ("stop", Plan(first=(Plan(),)), True, 0),
    ("stop", Plan(restarts=(Restart("containerd.service"),)), True, 0),
    ("stop", Plan(disable_units=("a.service",)), True, 0),
    ("warn", CHANGES, False, 2),
    ("warn", NOTHING, False, 2),
]


@pytest.mark.parametrize(("setting", "plan", "refused", "said"), POLICIES)
def test_a_change_is_refused_and_a_host_without_one_is_not(
    setting: Any, plan: Plan, refused: bool, said: int
) -> None:
    policy = Policy(known_bad=setting)
    if refused:
        with pytest.raises(PlanError) as error:
            verdict.add_known_bad_advice(policy, BOTH, plan)
        rows = f"{STOPS.what} ({STOPS.links[0]}) [known-bad.{STOPS.id}]"
        assert (error.value.code, error.value.values) == (
            "known-bad.stops",
            {"rows": rows, "ways": STOPS.way},
        )
        return
    assert len(verdict.add_known_bad_advice(policy, BOTH, plan).advice) == said


def test_a_row_that_is_only_said_stops_nothing() -> None:
    (told,) = read_all_coded(
        verdict.add_known_bad_advice(Policy(), JudgedRows((SAID,)), CHANGES).advice
    )
    assert told == (
        f"known-bad.{SAID.id}",
        {"what": SAID.what, "way": SAID.way, "link": SAID.links[0]},
    )


def test_what_is_not_known_is_said_once_and_stops_nothing() -> None:
    unclear = JudgedRows(
        (),
        (
            (STOPS, ("the version of the NVIDIA Container Toolkit",)),
            (SAID, ("the version of the NVIDIA Container Toolkit",)),
        ),
    )
    told = read_all_coded(verdict.add_known_bad_advice(Policy(), unclear, CHANGES).advice)
    assert told == [
        ("known-bad.not-judged", {"lacking": "the version of the NVIDIA Container Toolkit"})
    ]
    assert [row["applies"] for row in verdict.convert_rows(unclear)] == [None, None]


@pytest.mark.parametrize(
    ("policy", "skipped", "found"),
    [
        (Policy(), "", True),
        (Policy(known_bad="warn"), "", True),
        (Policy(known_bad="ignore"), "", False),
        (Policy(state="absent"), "", False),
        (Policy(), "no GPU", False),
    ],
)
def test_the_table_is_looked_at_where_something_can_become_of_it(
    policy: Policy, skipped: str, found: bool
) -> None:
    host = look(policy=policy, of=seen(packages={BASE: "1.18.0-1"}))
    host = type(host)(
        **{**vars(host), "record": type(host.record)(**{**vars(host.record), "skipped": skipped})}
    )
    assert (STOPS in verdict.judge_known_bad(host).found) is found


def test_a_plan_that_was_refused_anyway_keeps_its_error_and_gets_the_link() -> None:
    error = PlanError(
        "this file has version = 4",
        where="/etc/containerd/conf.d/99.toml",
        line=1,
        why="so it is",
        next="Write it again",
    )
    found = verdict.explain_refused_plan(Policy(), BOTH, error)
    assert (found.what, found.where, found.line, found.next) == (
        error.what,
        error.where,
        error.line,
        error.next,
    )
    assert found.why.endswith(f" [known-bad.{STOPS.id}]")
    assert STOPS.links[0] in found.why
    assert verdict.explain_refused_plan(Policy(known_bad="warn"), BOTH, error) is error


def test_a_rollout_leaves_such_a_host_out_and_says_which_row() -> None:
    with pytest.raises(PlanError) as error:
        verdict.add_known_bad_advice(Policy(), BOTH, CHANGES)
    assert STOPS.id in left_out.explain_left_out({"problem": str(error.value)})
