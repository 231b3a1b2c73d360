# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Show what was proven on each host: by which engine and injection, which devices were seen, and what was refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.report import fleet_hosts, host_table, layout, names, outcomes

HEAD = ("HOST", "PROVEN", "ENGINE", "INJECTION", "EVIDENCE")
OPENED = ("ok", "ENXIO")  # ENXIO: allowed, and no driver answers behind the node
RANK = ("no", "lost", "not reached", "not run", "nothing to prove", "yes")

Check = Mapping[str, Any]


def lines(results: outcomes.Results, view: fleet_hosts.View) -> list[str]:
    order = sorted(results, key=lambda h: (RANK.index(proven(results[h])), names.natural(h)))
    rows = [row for host in order for row in of_host(host, results[host])]
    images = dict.fromkeys(str(r["image"]) for r in results.values() if r.get("image"))
    head = [*layout.hang(f"Containers of {', '.join(images)}", view.width, 0), ""] if images else []
    return [*head, *layout.table(HEAD, rows, view.width), "", summary(results)]


def summary(results: outcomes.Results) -> str:
    counts = {word: sum(proven(r) == word for r in results.values()) for word in RANK}
    words = {"yes": "proven", "no": "not proven"}
    counted = ", ".join(f"{number} {words.get(word, word)}" for word, number in counts.items() if number)
    return f"{outcomes.plural(len(results))}: {counted or 'nothing to report'}"


def totals(results: outcomes.Results, _check: bool = False) -> dict[str, Any]:
    found = {host: proven(result) for host, result in results.items()}
    words = {"proven": "yes", "not_proven": "no", "nothing_to_prove": "nothing to prove", "lost": "lost", "not_reached": "not reached"}
    counts = {key: sum(word == wanted_ for word in found.values()) for key, wanted_ in words.items()}
    bad = sorted(host for host, word in found.items() if word in RANK[:3])
    return {"hosts": len(results), **counts, "needs_person": bad}


def proven(result: outcomes.Result) -> str:
    if not result:
        return "not reached"
    if result.get("unreachable"):
        return "lost"
    if result.get("failed"):
        return "no"
    if result.get("proven"):
        return "yes"
    return "not run" if result.get("checks") else "nothing to prove"


def of_host(host: str, result: outcomes.Result) -> list[list[str]]:
    """Build one row for each engine. A host without checks has one row with the reason."""
    engines: dict[tuple[str, str], list[Check]] = {}
    for check in result.get("checks") or ():
        engines.setdefault((str(check.get("engine")), str(check.get("injection"))), []).append(check)
    if not engines:
        return [[host, proven(result), "-", "-", without(result)]]
    versions = {d.get("engine"): d.get("engine_version") for d in (result.get("decision") or {}).get("decisions") or ()}
    rows = []
    for (engine, injection), checks in engines.items():
        name = f"{host_table.shown(engine)} {versions.get(engine) or ''}".strip()
        rows.append([host, verdict(checks), name, injection, "; ".join(evidence(c) for c in checks)])
    return rows


def without(result: outcomes.Result) -> str:
    if not result:
        return "no result: the host failed or was lost before this step"
    return str(result.get("msg") or result.get("skipped_why") or "-")


def verdict(checks: Sequence[Check]) -> str:
    if any(c.get("ok") is None for c in checks):
        return "not run"
    return "yes" if all(c.get("ok") for c in checks) else "no"


def evidence(check: Check) -> str:
    """Describe a check: `one: opened nvidia0, nvidiactl, refused nvidia1`.

    For a failed case, name what went wrong instead.
    """
    name = str(check.get("name")).rpartition(": ")[2]
    if check.get("ok") is None:
        return f"{name}: to be shown"
    if not check["ok"]:
        return f"{name}: FAILED: {wrong(check)}"
    opened = [short(path) for path in wanted(check, "allowed") if check["found"].get(path) in OPENED]
    refused = [short(path) for path in wanted(check, "refused") if check["found"].get(path) not in OPENED]
    by_record = [f"asked nvidia-container-cli for {check['record'][0]}"] if check.get("record") and not opened else []
    parts = [*by_record, *([f"opened {names.some(opened)}"] if opened else []), *([f"refused {names.some(refused)}"] if refused else [])]
    return f"{name}: {', '.join(parts) or 'as expected'}"


def wanted(check: Check, expectation: str) -> list[str]:
    return [path for path, expect in (check.get("expected") or {}).items() if expect == expectation]


def short(path: str) -> str:
    return path.removeprefix("/dev/")


def wrong(check: Check) -> str:
    error = check.get("error")
    return f"{error.get('step')}: {error.get('message')}" if error else "; ".join(check.get("problems") or ()) or "no answer"
