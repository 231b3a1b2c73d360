# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a result says of a plan and of the transaction's answer."""

from __future__ import annotations

import dataclasses as dc
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    base,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Leftover,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import (
    transaction_messages,
)

from tests.unit.planned_tasks import PLAN


def shaped(answer: dict[str, Any], **options: Any) -> dict[str, Any]:
    return base.shape_result(
        base.Outcome(PLAN, {"decision": {}}),
        answer,
        **{"check": False, "diff": False, "restart": "auto", **options},
    )


def test_a_result_lists_what_differs_and_what_is_done() -> None:
    result = shaped({"restarted": ["a.service"], "journal": "/j"}, diff=True)
    assert [(d["key"], d["before"], d["after"]) for d in result["differences"]] == [
        ("handler.type", "old", "new"),
        ("mode", None, "cdi"),
    ]
    assert result["actions"] == ["write /etc/a", "restart a.service"]
    shown = "--- /etc/a (kept whole in the journal on the host)\n+++ /etc/a\n@@ -1 +1 @@\n-before\n+after\n"
    assert result["diff"] == [
        {"before_header": "/etc/a", "after_header": "/etc/a", "prepared": shown}
    ]
    assert (result["changed"], result["restarted"], result["rolled_back"]) == (
        True,
        ["a.service"],
        False,
    )


def test_advice_for_before_is_not_given_afterwards() -> None:
    plan = dc.replace(PLAN, advice=("always",), beforehand=("drain first",))

    def advice(answer: dict[str, Any], *, check: bool = False) -> list[str]:
        told: list[str] = base.shape_result(
            base.Outcome(plan), answer, check=check, diff=False, restart="auto"
        )["advice"]
        return told

    assert advice({}, check=True) == ["drain first", "always"]
    assert advice({"changed": True}) == ["always"]
    assert advice({"error": {"phase": "command", "message": "no such package"}}) == [
        "drain first",
        "always",
    ]


def test_check_mode_announces_the_restarts() -> None:
    assert shaped({}, check=True)["restarted"] == ["a.service"]
    assert shaped({}, check=True, restart="never")["restarted"] == []


def test_a_failed_transaction_says_what_where_and_what_next() -> None:
    error = {
        "phase": "health",
        "message": "CRI does not answer",
        "where": "/run/a.sock",
        "next": "See the log",
    }
    result = shaped({"error": error, "rolled_back": True, "changed": True})
    assert result["failed"]
    assert not result["changed"]
    assert result["msg"].endswith(" [transaction.health]")
    assert (result["error"]["code"], result["error"]["where"], result["error"]["next"]) == (
        "transaction.health", "/run/a.sock", "See the log",
    )  # fmt: skip
    assert all(
        part in result["error"]["what"]
        for part in ("CRI does not answer (/run/a.sock)", transaction_messages.ALL_AS_BEFORE.what)
    )


TAKEN = Leftover("nvidia-ctk", "/etc/a", ("handler",), True, "adopted", "explained")
BEFORE = Leftover(
    "nvidia-ctk", "/etc/b", ("handler",), True, "adopted", "taken over by an earlier run"
)
STAYS = Leftover("nvidia-ctk", "/etc/c", (), False, "kept", "nothing explains it")


@pytest.mark.parametrize(
    ("answer", "fates"),
    [
        ({"changed": True}, ["adopted", "adopted", "kept"]),
        ({"error": {"phase": "validate", "message": "refused"}}, ["kept", "adopted", "kept"]),
        (
            {
                "error": {"phase": "health", "message": "no CRI"},
                "changed": True,
                "rolled_back": True,
            },
            ["kept", "adopted", "kept"],
        ),
        ({"conflict": [{"path": "/etc/a"}]}, ["kept", "adopted", "kept"]),
        (
            {"error": {"phase": "health", "message": "no CRI"}, "changed": True},
            ["adopted", "adopted", "kept"],
        ),
    ],
)
def test_a_failed_run_has_taken_nothing_over(answer: dict[str, Any], fates: list[str]) -> None:
    outcome = base.Outcome(dc.replace(PLAN, leftovers=(TAKEN, BEFORE, STAYS)))
    result = base.shape_result(outcome, answer, check=False, diff=False, restart="auto")
    assert [left["fate"] for left in result["leftovers"]] == fates


REFUSED = {
    "argv": ["/usr/bin/containerd"],
    "rc": 1,
    "causes": [{"code": "plugin-uri", "values": {}}],
    "findings": ["exit status 1"],
}


@pytest.mark.parametrize(("present", "already"), [(1, True), (0, False), (None, False)])
def test_a_validator_that_refuses_the_present_configuration_too_is_quoted_so(
    present: int | None, already: bool
) -> None:
    error = {"phase": "validate", "message": "/usr/bin/containerd: exit status 1"}
    result = shaped({"error": error, "validation": [{**REFUSED, "baseline_rc": present}]})
    assert result["error"]["code"] == "transaction.validate"
    assert (transaction_messages.REFUSED_BEFORE.what in result["error"]["what"]) is already
