# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build the sections of the page.

Each answers one question: who needs me, who differs, what changed, what was undone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import change as digests
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.page import document, hosts
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.page.markup import Child, Markup, element
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.report import groups, journal, names, outcomes, sentences

NAMES, FEW = 6, 3  # runs of names in a sentence, and in a cell
COLOUR = {
    **dict.fromkeys(("failed", "rolled_back", "lost"), "bad"),
    **dict.fromkeys(("refused", "not_reached", "left_out"), "warn"),
    **dict.fromkeys(("would_change", "changed"), "new"),
    **dict.fromkeys(("pending", "not_managed"), "none"),
    "unchanged": "good",
}
FLAGS = {"drift": "drifted", "stale": "with stale CDI specs", "pending_restart": "with pending restarts"}
TITLES = {"engine": "Engine", "driver": "Driver", "toolkit": "Toolkit", "injection": "Injection"}

Report = Mapping[str, Any]


def section(title: str, about: str, number: int, *children: Child, id_: str = "") -> Markup:
    head = element("h2", title, element("span", f"{number}", class_="n"))
    return element("section", head, element("p", about, class_="sub"), *children, id=id_ or None)


def chip(key: str) -> Markup:
    return element("span", document.KEYS[key].total, class_=f"chip {COLOUR[key]}")


def named(found: Iterable[str]) -> str:
    return names.some(found, NAMES)


def nothing() -> Markup:
    return Markup("")


def people(report: Report) -> Markup:
    """Show the hosts that need a person. Hosts with the same trouble are one case."""
    by_name: Mapping[str, hosts.Host] = report["hosts"]
    bad = document.needing_a_person(by_name)
    if not bad:
        return nothing()
    same: dict[tuple[str, str], list[str]] = {}
    for name in bad:
        same.setdefault((by_name[name]["outcome"], sentences.key(by_name[name]["why"], name)), []).append(name)
    cases = [case(key, found, by_name) for (key, _why), found in same.items()]
    return section(
        "Needs a person", "The most urgent first. Hosts with the same trouble are one entry.", len(bad), box(cases), id_="people"
    )


def case(key: str, found: Sequence[str], by_name: Mapping[str, hosts.Host]) -> Markup:
    first = next((name for name in found if by_name[name]["evidence"]), "")
    lines = [element("li", line, class_="m") for line in by_name[first]["evidence"]] if first else []
    whose = [element("p", f"Evidence from {first}:", class_="soft")] if lines and len(found) > 1 else []
    count = f" ({len(found)})" if len(found) > 1 else ""
    return element(
        "div",
        element("p", chip(key), " ", element("span", f"{named(found)}{count}", class_="who")),
        element("p", sentences.common(by_name[name]["why"] for name in found)),
        *whose,
        *([element("ul", *lines)] if lines else []),
        class_=f"case {COLOUR[key]}",
    )


def box(children: Iterable[Child]) -> Markup:
    return element("div", *children, class_="box")


WHOLE = ("driver", "toolkit")  # versions, which are read more easily in one line


def skew(report: Report) -> Markup:
    """Show every combination of versions. A value stands out if more than half of the hosts have another one.

    So in a mixed fleet none may stand out.
    """
    rows = report["skew"]
    if not rows:
        return nothing()
    usual = {key: commonest(key, rows) for key in document.SKEW}
    total = sum(len(row["hosts"]) for row in rows)
    head = [*(element("th", TITLES[key], scope="col") for key in document.SKEW), *(element("th", t, scope="col") for t in ("Hosts", "Who"))]
    body = [element("tr", *(combination(row, usual, total))) for row in rows]
    about = "Engine, driver, toolkit and injection, the commonest first. A value stands out if most hosts have another one."
    shown = element("table", element("thead", element("tr", *head)), element("tbody", *body))
    return section("Versions", about, len(rows), box([shown]), id_="skew")


def commonest(key: str, rows: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the value of more than half of the hosts, None if there is none."""
    counts: Counter[str] = Counter()
    for row in rows:
        counts[row[key]] += len(row["hosts"])
    value, number = counts.most_common(1)[0]
    return value if number * 2 > counts.total() else None


def combination(row: Mapping[str, Any], usual: Mapping[str, str | None], total: int) -> Iterable[Markup]:
    for key in document.SKEW:
        classes = [*(["t"] if key in WHOLE else []), *(["odd"] if usual[key] not in (None, row[key]) else [])]
        yield element("td", row[key] or "none", class_=" ".join(classes) or None, data_label=TITLES[key])
    number = len(row["hosts"])
    length = element("rect", width=f"{100 * number / total:.1f}", height=8)
    share = element("svg", length, class_="bar", viewBox="0 0 100 8", preserveAspectRatio="none", aria_hidden="true")
    yield element("td", f"{number}", share, class_="t", data_label="Hosts")
    yield element("td", names.some(row["hosts"], FEW), class_="soft a", data_label="Who")


def changes(report: Report) -> Markup:
    """Show each change once, with all hosts that share it."""
    if not report["changes"]:
        return nothing()
    would = {digest: any(outcome(report, host) == "would_change" for host in one["hosts"]) for digest, one in report["changes"].items()}
    found = [change(digest, one, would[digest]) for digest, one in report["changes"].items()]
    return section(
        TITLE_OF_CHANGES[frozenset(would.values())], "Hosts with the same change share an entry.", len(found), box(found), id_="changes"
    )


# A report that is merged from several may have hosts that were changed, and hosts that would be.
TITLE_OF_CHANGES = {
    frozenset({True}): "What would change, and why",
    frozenset({False}): "What changed, and why",
    frozenset({True, False}): "What changed or would change, and why",
}


def outcome(report: Report, host: str) -> str:
    return str((report["hosts"].get(host) or {}).get("outcome") or "")


def change(digest: str, one: Mapping[str, Any], would: bool) -> Markup:
    count = outcomes.plural(len(one["hosts"]))
    items = [difference(d) for d in one["differences"]]
    items += [element("li", "restart " if would else "restarted ", element("code", unit)) for unit in one["restarts"]]
    who = element("p", element("b", count), f": {named(one['hosts'])} ", element("span", digest[: digests.SHOWN], class_="chip m"))
    return element("div", who, element("ul", *items), class_="change")


def difference(one: Mapping[str, Any]) -> Markup:
    where: list[Child] = [element("code", groups.of_whole_file(one))]
    where += [" ", element("code", str(one["key"]))] if one.get("key") else []
    value = groups.change(one)
    before, arrow, after = value.rpartition(" -> ")
    shown = [element("span", before, class_="from m"), " → ", element("span", after, class_="to m")] if arrow else [element("span", value)]
    return element("li", *where, ": ", *shown, *([element("span", one["why"], class_="why")] if one.get("why") else []))


def rolled_back(report: Report) -> Markup:
    """Show the hosts whose newest transaction was taken back, by their journals.

    If that was in this run, the host is also among those that need a person.
    """
    entries = {n: [e for e in h["history"] if not e["reason"].endswith(journal.AFTER_ROLLBACK)] for n, h in report["hosts"].items()}
    found = {name: kept[0] for name, kept in entries.items() if kept}
    back = {name: entry for name, entry in found.items() if entry["state"].startswith("rolled back")}
    rows = [(name, entry["time"], entry["state"], entry["done"]) for name, entry in back.items()]
    about = "Hosts whose newest transaction did not stand, by their own journals."
    return listing("Rolled back", about, ("Host", "When", "By whom", "What, and why"), rows, len(back))


def drift(report: Report) -> Markup:
    rows = [(n, d["path"], d["state"]) for n, h in report["hosts"].items() for d in h["drift"]]
    about = "Files that are not any more as this collection wrote them: the host's journal against its configuration."
    return listing("Drift", about, ("Host", "File", "State"), rows, report["totals"]["drift"])


def stale(report: Report) -> Markup:
    rows = [(n, s["path"], s["why"]) for n, h in report["hosts"].items() for s in h["stale"]]
    about = "CDI specs that describe GPUs, nodes or files as they were."
    return listing("Stale CDI specs", about, ("Host", "Spec", "What is not true any more"), rows, report["totals"]["stale"])


def pending(report: Report) -> Markup:
    rows = [(n, p["unit"], p["since"] or "this run", p["reason"]) for n, h in report["hosts"].items() for p in h["pending"]]
    about = "Units that run with the configuration from before, until somebody restarts them."
    return listing("Pending restarts", about, ("Host", "Unit", "Since", "Reason"), rows, report["totals"]["pending_restart"])


def listing(title: str, about: str, head: Sequence[str], rows: Sequence[Sequence[str]], number: int) -> Markup:
    """Show rows under a head. Rows that differ in the host alone share a line."""
    if not rows:
        return nothing()
    same: dict[Sequence[str], list[str]] = {}
    for row in rows:
        same.setdefault(tuple(row[1:]), []).append(row[0])
    cells = [[named(found) + (f" ({len(found)})" if len(found) > 1 else ""), *rest] for rest, found in same.items()]
    body = [element("tr", *(element("td", cell, data_label=label) for label, cell in zip(head, row, strict=True))) for row in cells]
    top = element("thead", element("tr", *(element("th", label, scope="col") for label in head)))
    return section(title, about, number, box([element("table", top, element("tbody", *body))]))
