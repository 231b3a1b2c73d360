# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Turn plans and answers into plain values, the list of actions, and one sentence of trouble."""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import causes
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
    Sentence,
    get_code,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    JOURNAL_DIR,
    Difference,
    Plan,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import (
    transaction_messages,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.results import journal


def describe_differences(differences: Iterable[Difference]) -> list[dict[str, Any]]:
    """Return differences as plain values, each with the code of its reason, '' if it has none."""
    return [
        {**dc.asdict(difference), "code": get_code(difference.why)} for difference in differences
    ]


def list_actions(plan: Plan, restart: str) -> list[str]:
    """List what the transaction writes and runs, in order."""
    return [
        *(" ".join(c["argv"]) for c in plan.commands),
        *(f"{c['op']} {c['path']}" for c in plan.changes),
        *(f"disable {u}" for u in plan.disable_units),
        *(f"{r.action} {r.unit}" for r in plan.list_acted_restarts(restart)),
    ]


# By the phase of the transaction that failed.
PHASES: Mapping[str, Sentence] = {
    row.code.partition(".")[2]: row
    for row in (
        transaction_messages.LOCK,
        transaction_messages.RECOVER,
        transaction_messages.EXPECT,
        transaction_messages.COMMAND,
        transaction_messages.BACKUP,
        transaction_messages.STAGE,
        transaction_messages.VALIDATE,
        transaction_messages.SWAP,
        transaction_messages.RESTART,
        transaction_messages.HEALTH,
        transaction_messages.PRECHECK,
        transaction_messages.APPROVAL,
        transaction_messages.REQUEST,
    )
}
AS_BEFORE = "Everything is as it was before"  # how the host begins a step that repeats the rollback


def describe_answer_trouble(answer: Mapping[str, Any]) -> Message:
    """Return the message about what went wrong on the host, an empty one if nothing did."""
    if answer.get("conflict"):
        c = answer["conflict"][0]
        values = {"expected": c.get("expected"), "found": c.get("found")}
        return transaction_messages.CONFLICT.fill(thing=c.get("path") or c.get("what"), **values)
    error = answer.get("error")
    if not error:
        return Message("")
    where = get_trouble_place(error)
    where = f" ({where})" if where else ""
    said = "".join(
        f". {sentence}"
        for sentence in [
            *list_refusal_words(answer),
            *journal.list_unit_failures(get_unit_logs(answer)),
        ]
    )
    back = describe_rollback(answer)
    step = str(error.get("next") or "")
    # a person who runs it by hand learns no more
    if error.get("phase") == "command" and list_known_causes(answer):
        step = transaction_messages.CORRECT_CAUSE.fill()
    if back and step.startswith(AS_BEFORE):  # one of the two is enough
        step = ""
    problem = f"{journal.strip_sentence(str(error.get('message')))}{where}{said}{f'. {back}' if back else ''}"
    phase = str(error.get("phase"))
    if phase in PHASES:
        return PHASES[phase].fill(problem=problem, step=step)
    return transaction_messages.FAILED.fill(phase=phase, problem=problem, step=step)


def get_trouble_place(error: Mapping[str, Any]) -> str:
    """Return where something went wrong, '' if the host names the journal's directory only, as it
    does of an error that has no other place or names its own.
    """
    where = str(error.get("where") or "")
    return "" if where == JOURNAL_DIR else where


def describe_rollback(answer: Mapping[str, Any]) -> str:
    """Return the message about the rollback, '' if there was none."""
    if not answer.get("rolled_back"):
        return ""
    return (
        transaction_messages.ROLLED_BACK
        if answer.get("foreign")
        else transaction_messages.ALL_AS_BEFORE
    ).fill()


def describe_trouble(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return what went wrong on the host as the parts of an error, as a result has them."""
    trouble, error = describe_answer_trouble(answer), answer.get("error") or {}
    parts = {
        "what": trouble.what,
        "where": get_trouble_place(error),
        "line": None,
        "why": trouble.why,
    }
    return {"error": {"code": trouble.code, **parts, "next": trouble.next}}


def get_unit_logs(answer: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the logs of units that the transaction acted on, by unit. Only their known causes
    leave the host.
    """
    return {str(h.get("name")): h for h in answer.get("health") or () if h.get("kind") == "log"}


def list_refused_checks(answer: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """List the validators that refused and the commands that failed."""
    return [v for v in answer.get("validation") or () if v.get("findings")] + [
        c for c in answer.get("ran") or () if c.get("rc")
    ]


def list_known_causes(answer: Mapping[str, Any]) -> list[str]:
    """List the known causes in the output of these programs."""
    return list(
        dict.fromkeys(
            filter(
                None,
                (
                    causes.describe_causes(entry.get("causes") or ())
                    for entry in list_refused_checks(answer)
                ),
            )
        )
    )


def list_refusal_words(answer: Mapping[str, Any]) -> list[str]:
    """List why a validator refused or a command failed, with the place of its output.

    If a program refused before the change as well, a sentence tells that first.
    """
    if not list_refused_checks(answer):
        return []
    already = any(
        entry.get("rc") and entry.get("baseline_rc") for entry in list_refused_checks(answer)
    )
    present = [transaction_messages.REFUSED_BEFORE.fill()] if already else []
    kept = answer.get("said")
    row = transaction_messages.OUTPUT_KEPT
    where = row.fill(directory=kept) if kept else transaction_messages.OUTPUT_NOT_KEPT.fill()
    if not list_known_causes(answer):
        return [*present, where[0].upper() + where[1:]]
    return [
        *present,
        transaction_messages.CAUSE_KNOWN.fill(
            causes="; ".join(list_known_causes(answer)), output=where
        ),
    ]


def collect_evidence(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the host saw: refused validations, failed health checks, failed commands, each
    with the known causes.
    """
    return {
        "validation": [
            {k: v.get(k) for k in ("argv", "rc", "causes", "findings")}
            for v in answer.get("validation") or ()
            if v.get("findings") or v.get("rc")
        ],
        "health": [h for h in answer.get("health") or () if not h.get("ok")],
        "commands": [c for c in answer.get("ran") or () if c.get("rc")],
    }
