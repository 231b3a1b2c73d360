# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Turn plans and answers into plain values, the list of actions, and one sentence of trouble."""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner import causes
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.message_types import get_code
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.model import Difference, Plan
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.report import journal


def describe_differences(differences: Iterable[Difference]) -> list[dict[str, Any]]:
    """Return differences as plain values, each with the code of its reason, '' if it has none."""
    return [{**dc.asdict(difference), "code": get_code(difference.why)} for difference in differences]


def actions(plan: Plan, restart: str) -> list[str]:
    """List what the transaction writes and runs, in order."""
    return [
        *(" ".join(c["argv"]) for c in plan.commands),
        *(f"{c['op']} {c['path']}" for c in plan.changes),
        *(f"disable {u}" for u in plan.disable_units),
        *(f"{r.action} {r.unit}" for r in plan.acts_on(restart)),
    ]


def trouble(answer: Mapping[str, Any]) -> str:
    """Return one sentence for what went wrong on the node, '' if nothing did."""
    if answer.get("conflict"):
        c = answer["conflict"][0]
        return (
            f"conflict: {c.get('path') or c.get('what')} changed between the observation and the transaction, twice in a row "
            f"(expected {c.get('expected')}, found {c.get('found')}). Another program writes it: stop that program, then run again"
        )
    error = answer.get("error")
    if not error:
        return ""
    where = f" ({error['where']})" if error.get("where") else ""
    said = "".join(f". {sentence}" for sentence in [*words(answer), *journal.failures(logs(answer))])
    whole = "Everything is as it was before: the transaction was rolled back"
    back = f". {'The transaction was rolled back' if answer.get('foreign') else whole}" if answer.get("rolled_back") else ""
    step = f". {error['next']}" if error.get("next") else ""
    if error.get("phase") == "command" and known(answer):  # a person who runs it by hand learns no more
        step = ". Correct the cause, then run again; nothing else was changed"
    if back and step.startswith(". Everything is as it was before"):  # one of the two is enough
        step = ""
    return f"{error.get('phase')}: {journal.plain(str(error.get('message')))}{where}{said}{back}{step}"


def logs(answer: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the logs of units that the transaction acted on, by unit. Only their known causes leave the host."""
    return {str(h.get("name")): h for h in answer.get("health") or () if h.get("kind") == "log"}


def refused(answer: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """List the validators that refused and the commands that failed."""
    return [v for v in answer.get("validation") or () if v.get("findings")] + [c for c in answer.get("ran") or () if c.get("rc")]


def known(answer: Mapping[str, Any]) -> list[str]:
    """List the known causes in the output of these programs."""
    return list(dict.fromkeys(filter(None, (causes.words(entry.get("causes") or ()) for entry in refused(answer)))))


def words(answer: Mapping[str, Any]) -> list[str]:
    """List why a validator refused or a command failed, with the place of its output.

    If a program refused before the change as well, a sentence tells that first.
    """
    if not refused(answer):
        return []
    already = any(entry.get("rc") and entry.get("baseline_rc") for entry in refused(answer))
    present = ["The same program refuses the present configuration as well, before any change"] if already else []
    where = f"its output is in {answer['said']} on the host" if answer.get("said") else "check mode keeps none of its output"
    return [*present, f"Cause: {'; '.join(known(answer))}; {where}" if known(answer) else where[0].upper() + where[1:]]


def evidence(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the node saw: refused validations, failed health checks, failed commands, each with the known causes."""
    return {
        "validation": [
            {k: v.get(k) for k in ("argv", "rc", "causes", "findings")}
            for v in answer.get("validation") or ()
            if v.get("findings") or v.get("rc")
        ],
        "health": [h for h in answer.get("health") or () if not h.get("ok")],
        "commands": [c for c in answer.get("ran") or () if c.get("rc")],
    }
