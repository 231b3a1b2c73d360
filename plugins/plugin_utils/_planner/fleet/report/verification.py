# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Show what was verified on each host: by which engine and injection, which devices were seen, and
what was refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import outcomes
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.text import (
    layout,
    names,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet.report import (
    fleet_hosts,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.results import table_row

HEAD = ("HOST", "VERIFIED", "ENGINE", "INJECTION", "EVIDENCE")
OPENED = ("ok", "ENXIO")  # ENXIO: allowed, and no driver answers behind the node
RANK = ("no", "lost", "not reached", "not run", "nothing to verify", "yes")

Check = Mapping[str, Any]


def list_verification_lines(results: outcomes.Results, view: fleet_hosts.FleetView) -> list[str]:
    """Return the table of verifications, a row for each engine of a host, and the totals."""
    order = sorted(
        results,
        key=lambda h: (RANK.index(describe_verified(results[h])), names.build_natural_key(h)),
    )
    rows = [row for host in order for row in build_verification_rows(host, results[host])]
    images = dict.fromkeys(str(r["image"]) for r in results.values() if r.get("image"))
    head = (
        [*layout.lay_out_paragraph(f"Containers of {', '.join(images)}", view.width, 0), ""]
        if images
        else []
    )
    return [
        *head,
        *layout.lay_out_table(HEAD, rows, view.width),
        "",
        summarise_verification(results),
    ]


def summarise_verification(results: outcomes.Results) -> str:
    """Return the line with the totals."""
    counts = {word: sum(describe_verified(r) == word for r in results.values()) for word in RANK}
    words = {"yes": "verified", "no": "not verified"}
    counted = ", ".join(
        f"{number} {words.get(word, word)}" for word, number in counts.items() if number
    )
    return f"{outcomes.format_host_count(len(results))}: {counted or 'nothing to report'}"


def count_verifications(results: outcomes.Results, _check: bool = False) -> dict[str, Any]:
    """Count the hosts by what their verification came to."""
    verified = {host: describe_verified(result) for host, result in results.items()}
    words = {
        "verified": "yes",
        "not_verified": "no",
        "nothing_to_verify": "nothing to verify",
        "lost": "lost",
        "not_reached": "not reached",
    }
    counts = {
        key: sum(word == wanted_ for word in verified.values()) for key, wanted_ in words.items()
    }
    bad = sorted(host for host, word in verified.items() if word in RANK[:3])
    return {"hosts": len(results), **counts, "needs_person": bad}


def describe_verified(result: outcomes.Result) -> str:
    """Return the word of the column VERIFIED for a host."""
    if not result:
        return "not reached"
    if result.get("unreachable"):
        return "lost"
    if result.get("failed"):
        return "no"
    if result.get("verified"):
        return "yes"
    return "not run" if result.get("checks") else "nothing to verify"


def build_verification_rows(host: str, result: outcomes.Result) -> list[list[str]]:
    """Build one row for each engine, the verified ones first. A host without checks has one row
    with the reason.
    """
    engines: dict[tuple[str, str], list[Check]] = {}
    for check in result.get("checks") or ():
        engines.setdefault((str(check.get("engine")), str(check.get("injection"))), []).append(
            check
        )
    if not engines:
        return [[host, describe_verified(result), "-", "-", explain_missing_verification(result)]]
    versions = {
        d.get("engine"): d.get("engine_version")
        for d in (result.get("decision") or {}).get("decisions") or ()
    }
    rows = []
    for (engine, injection), checks in engines.items():
        name = f"{table_row.name_shown_engine(engine)} {versions.get(engine) or ''}".strip()
        rows.append(
            [host, get_verification_verdict(checks), name, injection, describe_evidence(checks)]
        )
    for one in result.get("not_verified") or ():
        name = table_row.name_shown_engine(str(one.get("instance")).partition(":")[0])
        rows.append([host, "not run", name, "-", str(one.get("why"))])
    return rows


def describe_evidence(checks: Sequence[Check]) -> str:
    """Describe all checks of an engine. The names of those with the same evidence stand before it:
    `one, all: FAILED: no answer`.
    """
    evidence: dict[str, list[str]] = {}
    for check in checks:
        name, _colon, text = describe_check_evidence(check).partition(": ")
        evidence.setdefault(text, []).append(name)
    return "; ".join(f"{', '.join(cases)}: {text}" for text, cases in evidence.items())


def explain_missing_verification(result: outcomes.Result) -> str:
    """Return why a host has no evidence."""
    if not result:
        return "no result: the host failed or was lost before this step"
    return str(result.get("msg") or result.get("skipped_why") or "-")


def get_verification_verdict(checks: Sequence[Check]) -> str:
    """Return the word of the column VERIFIED for one engine."""
    if any(c.get("ok") is None for c in checks):
        return "not run"
    return "yes" if all(c.get("ok") for c in checks) else "no"


def describe_check_evidence(check: Check) -> str:
    """Describe a check: `one: opened nvidia0, nvidiactl, refused nvidia1`.

    For a failed case, name what went wrong instead. Tell how often the case was started if that was
    more than once.
    """
    name = str(check.get("name")).rpartition(": ")[2]
    if check.get("ok") is None:
        return f"{name}: to be shown"
    starts = 1 + len(check.get("again") or ())
    often = f" (started {starts} times)" if starts > 1 else ""
    if not check["ok"]:
        return f"{name}: FAILED: {describe_wrong_check(check)}{often}"
    opened = [
        shorten_device_path(path)
        for path in list_wanted_devices(check, "allowed")
        if check["found"].get(path) in OPENED
    ]
    refused = [
        shorten_device_path(path)
        for path in list_wanted_devices(check, "refused")
        if check["found"].get(path) not in OPENED
    ]
    by_record = (
        [f"asked nvidia-container-cli for {check['record'][0]}"]
        if check.get("record") and not opened
        else []
    )
    parts = [
        *by_record,
        *([f"opened {names.show_some_runs(opened)}"] if opened else []),
        *([f"refused {names.show_some_runs(refused)}"] if refused else []),
    ]
    return f"{name}: {', '.join(parts) or 'as expected'}{often}"


def list_wanted_devices(check: Check, expectation: str) -> list[str]:
    """Return the device nodes of a check with this expectation."""
    return [path for path, expect in (check.get("expected") or {}).items() if expect == expectation]


def shorten_device_path(path: str) -> str:
    """Return the path of a device node without `/dev/`."""
    return path.removeprefix("/dev/")


def describe_wrong_check(check: Check) -> str:
    """Return what went wrong in a check."""
    error = check.get("error")
    return (
        f"{error.get('step')}: {error.get('message')}"
        if error
        else "; ".join(check.get("problems") or ()) or "no answer"
    )
