# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table that plan and site end with: one line per host, made for people. From results to lines of text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils import fleet
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils.model import Decision, HostDecision, Instance, Plan

COLUMNS = ("host", "engine", "injection", "changed", "restarted", "why")
WHY_WIDTH = 100
SUMMED = {"would": "would change", "yes": "changed", "no": "unchanged"}
NAMES = {"crio": "CRI-O", "docker": "Docker", "podman": "Podman"}


def row(instances: Iterable[Instance], record: HostDecision, plan: Plan) -> dict[str, str]:
    """What a host's result carries for the table: engine, injection, restarted, why."""
    found = tuple(instances)
    versions = {i.key: i.version for i in found}
    engines = [f"{shown(d.engine)} {d.engine_version}" for d in record.decisions]
    engines += [f"{shown(i.engine)} {versions[i.key]}".strip() for i in found if i.key not in {d.instance for d in record.decisions}]
    return {
        "engine": ", ".join(dict.fromkeys(engines)) or "none",
        "injection": ", ".join(dict.fromkeys(d.injection + (" (default)" if d.default else "") for d in record.decisions)) or "-",
        "restarted": ", ".join(u.removesuffix(".service") for u in plan.interrupts("auto")) or "-",
        "why": why(record),
    }


def shown(engine: str) -> str:
    return NAMES.get(engine, engine)


def why(record: HostDecision) -> str:
    """The one sentence that matters most."""
    if record.skipped:
        return record.skipped
    if record.decisions:
        return "; ".join(dict.fromkeys(reason(d) for d in record.decisions if reason(d)))
    return "; ".join(sentence for _key, sentence in record.refused)


def reason(decision: Decision) -> str:
    return next((r.why for r in decision.reasons if r.what == "injection"), "")


def lines(results: Mapping[str, Mapping[str, Any]], details: bool = False, check: bool = False) -> list[str]:
    """One table of all hosts, then what people should know; with details, what differs on each host follows it.

    check: these are results of check mode, so what they tell is still to come.
    """
    rows = [of_host(host, result, check) for host, result in sorted(results.items())]
    table = align([[c.upper() for c in COLUMNS], *rows])
    extra = [line for host, result in sorted(results.items()) for line in of_details(host, result)] if details else notes(results)
    return [*table, "", summary(results, check), *([""] if extra else []), *extra]


def notes(results: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """What people should know or do, each sentence once with its hosts. What the table says already is left out."""
    hosts: dict[str, list[str]] = {}
    for host, result in sorted(results.items()):
        told = " ".join(str((result.get("row") or {}).get("why") or "").split())
        for sentence_ in (" ".join(str(a).split()) for a in result.get("advice") or ()):
            if sentence_ not in told:
                hosts.setdefault(sentence_, []).append(host)
    return [f"{fleet.some(names)}: {sentence_}" for sentence_, names in hosts.items()]


def of_host(host: str, result: Mapping[str, Any], check: bool = False) -> list[str]:
    told = result.get("row") or {}
    restarted = result.get("restarted")
    units = ", ".join(str(u).removesuffix(".service") for u in restarted) if restarted is not None else str(told.get("restarted") or "")
    return [
        host,
        str(told.get("engine") or "?"),
        str(told.get("injection") or "-"),
        outcome(result, check),
        units or "-",
        shorten(sentence(result, str(told.get("why") or ""))),
    ]


def outcome(result: Mapping[str, Any], check: bool = False) -> str:
    if not result:
        return "not reached"
    if result.get("unreachable"):
        return "lost"
    if result.get("problem"):
        return "refused"
    if result.get("failed"):
        return "rolled back" if result.get("rolled_back") else "failed"
    if not (result.get("changed") or result.get("differences")):
        return "no"
    return "would" if check or "would_restart" in result else "yes"


def sentence(result: Mapping[str, Any], told: str) -> str:
    bad = result.get("unreachable") or result.get("failed")
    if not result:
        return "no result: the host was lost before, or its wave did not start"
    if result.get("problem"):
        return str(result["problem"])
    return str(result.get("msg") or told) if bad else told


def shorten(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= WHY_WIDTH else flat[: WHY_WIDTH - 3] + "..."


def align(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(r[i]) for r in rows) for i in range(len(COLUMNS))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(r, widths, strict=True)).rstrip() for r in rows]


def summary(results: Mapping[str, Mapping[str, Any]], check: bool = False) -> str:
    """`8 hosts: 5 changed, 2 unchanged, 1 failed`."""
    counts: dict[str, int] = {}
    for result in results.values():
        found = outcome(result, check)
        word = SUMMED.get(found, found)
        counts[word] = counts.get(word, 0) + 1
    order = (*SUMMED.values(), "rolled back", "failed", "refused", "lost", "not reached")
    told = ", ".join(f"{counts[word]} {word}" for word in order if word in counts) or "nothing to tell"
    return f"{len(results)} host{'' if len(results) == 1 else 's'}: {told}"


def of_details(host: str, result: Mapping[str, Any]) -> list[str]:
    differences = [of_difference(d) for d in result.get("differences") or ()]
    advice = [f"  note: {' '.join(str(a).split())}" for a in result.get("advice") or ()]
    bad = result.get("msg") if result.get("failed") or result.get("unreachable") else result.get("problem")
    problem = [f"  {' '.join(str(bad).split())}"] if bad else []
    told = [*problem, *differences, *advice]
    return [f"{host}:", *told] if told else []


def of_difference(difference: Mapping[str, Any]) -> str:
    key = f" {difference['key']}" if difference.get("key") else ""
    change = f"{brief(difference.get('before'))} -> {brief(difference.get('after'))}"
    because = f" ({difference['why']})" if difference.get("why") else ""
    return f"  {difference.get('what')} {difference.get('path')}{key}: {change}{because}"


def brief(value: Any) -> str:
    if value is None:
        return "none"
    text = " ".join(str(value).split())
    return text if len(text) <= 60 else text[:57] + "..."
