# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ticket of a change and the user of a job, as they are shown; texts that are not tickets."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import change_reference
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import drain_slurm
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet.report import (
    transactions,
)
from hypothesis import given
from hypothesis import strategies as st

CASES = [
    ({}, ""),
    ({"gpufleet_change_ref": ""}, ""),
    ({"gpufleet_change_ref": "CHG0012345"}, "CHG0012345"),
    ({"gpufleet_change_ref": 4711}, "4711"),
    (
        {"gpufleet_change_ref": "https://tickets.example.org/OPS-12#c3"},
        "https://tickets.example.org/OPS-12#c3",
    ),
    ({"gpufleet_change_ref": "OPS-12", "awx_user_name": "alice"}, "OPS-12, by alice"),
    ({"tower_user_name": "alice@example.org"}, "by alice@example.org"),
    ({"awx_user_name": "", "tower_user_name": "bob"}, "by bob"),
    # a name of a directory service
    (
        {"awx_user_name": "a; reason=\x1b[31m{{ x }}"},
        "by a reason 31m x",
    ),
]


@pytest.mark.parametrize(("given_", "text"), CASES)
def test_a_change_is_named_by_its_ticket_and_its_user(given_: dict[str, Any], text: str) -> None:
    assert change_reference.read_change_reference(given_).text == text


WRONG = [
    "a\nb",
    "{{ lookup('pipe', 'id') }}",
    "x" * 101,
    "a; b",
    "a=b",
    "'a'",
    " a",
    "a\x1b[0m",
    True,
    ["a"],
    {"a": 1},
    1.5,
]


@pytest.mark.parametrize("value", WRONG)
def test_what_is_no_ticket_is_refused(value: Any) -> None:
    with pytest.raises(PlanError) as refused:
        change_reference.read_change_reference({"gpufleet_change_ref": value})
    assert refused.value.code == "variables.change-ref"


@given(st.text(), st.text())
def test_what_is_let_through_keeps_its_place_in_reasons(ticket: str, user: str) -> None:
    try:
        about = change_reference.read_change_reference(
            {"gpufleet_change_ref": ticket, "awx_user_name": user}
        )
    except PlanError:
        return
    whole = {"reason": about.put_after(transactions.EVERYTHING_BACK), "state": "committed"}
    assert transactions.takes_back_all(whole), "a host that was given back is still known as one"
    assert about.text in drain_slurm.build_slurm_reason("r7", about.put_before("x"), "")
