# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build the table of all hosts, with a row each, its history folded away, and the tools to search it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.page import document, sections
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.page.markup import Child, Markup, element

COLUMNS = ("Host", "Result", "Engine", "GPUs", "Driver", "Toolkit", "Injection", "Why")
CLASS = "Class"  # of a rollout
FACETS = {"Result": "any result", "Engine": "any engine", "Driver": "any driver", "Toolkit": "any toolkit", "Injection": "any injection"}
FLAGS = {"drift": "drifted", "stale": "stale CDI spec", "pending": "restart pending"}


def hosts(report: Mapping[str, Any]) -> Markup:
    classes = any(host["class"] for host in report["hosts"].values())
    titles = [*COLUMNS[:-1], *([CLASS] if classes else []), COLUMNS[-1]]
    head = element("thead", element("tr", *(element("th", title, scope="col") for title in titles)))
    body = element("tbody", *(row(name, host, classes) for name, host in report["hosts"].items()))
    table = element("div", element("table", head, body, id="hosts"), class_="box")
    about = "What needs a person comes first. A host's history and notes are folded behind its reason."
    shown = sections.section("All hosts", about, report["totals"]["hosts"], tools(classes), table)
    return element("div", shown, class_="hosts")


def tools(classes: bool) -> Markup:
    """Build the tools to search, hidden at first. The script shows them, since they need it to work."""
    facets = {**FACETS, **({CLASS: "any class"} if classes else {})}
    selects = [element("select", option("", every), data_facet=name, aria_label=name) for name, every in facets.items()]
    flags = element("select", option("", "any state"), *(option(key, text) for key, text in FLAGS.items()), aria_label="State")
    search = element("input", id="search", type="search", placeholder="Search hosts, reasons, history", aria_label="Search hosts")
    reset = element("button", "Show all", id="reset", type="button")
    count = element("output", id="count", aria_live="polite")
    return element("div", search, *selects, flags, reset, count, id="tools", class_="tools", hidden=True)


def option(value: str, text: str) -> Markup:
    return element("option", text, value=value)


def row(name: str, host: Mapping[str, Any], classes: bool = False) -> Markup:
    outcome = document.KEYS[host["outcome"]]
    flags = [key for key in FLAGS if host[key]]
    shown: list[tuple[str, str, Sequence[Child]]] = [
        ("Host", name, (name,)),
        ("Result", outcome.total, (sections.chip(host["outcome"]),)),
        *((label, host[key], (host[key],)) for label, key in zip(COLUMNS[2:-1], COLUMN_KEYS, strict=True)),
        *([(CLASS, host["class"], (host["class"],))] if classes else []),
        ("Why", "", (why(host, flags),)),
    ]
    cells = (
        element("td", *children, class_="t" if label in SHORT else None, data_label=label, data_value=value or None)
        for label, value, children in shown
    )
    return element("tr", *cells, data_flags=" ".join(flags) or None)


SHORT = ("Driver", "Toolkit")  # names of hosts and engines in one line would leave the reason no room
COLUMN_KEYS = ("engine", "gpus", "driver", "toolkit", "injection")


def why(host: Mapping[str, Any], flags: Sequence[str]) -> Markup:
    marks = [element("span", FLAGS[flag], class_="chip warn flag") for flag in flags]
    more = list(folded(host))
    said = host["why"] or "-"
    return element("details", element("summary", said, *marks), element("dl", *more)) if more else element("span", said, *marks)


def folded(host: Mapping[str, Any]) -> Iterable[Markup]:
    lists = (
        ("Restarted", host["restarted"]),
        ("Evidence", host["evidence"]),
        ("Drift", [f"{d['path']}: {d['state']}" for d in host["drift"]]),
        ("Stale", [f"{s['path']}: {s['why']}" for s in host["stale"]]),
        ("Pending restarts", [f"{p['unit']}, since {p['since'] or 'this run'}: {p['reason']}" for p in host["pending"]]),
        ("Notes", host["notes"]),
        ("History", [f"{e['time']} {e['reason']}: {e['state']}: {e['done']}" for e in host["history"]]),
    )
    for title, lines in lists:
        if lines:
            yield element("dt", title)
            yield from (element("dd", line) for line in lines)
