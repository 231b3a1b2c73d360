# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build the report as one HTML file without outside assets, from the template report.html.j2.

The template has the words, the style and the script of the page. This file counts, groups and
escapes what it shows.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jinja2
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.text import (
    escape,
    names,
    sentences,
    values,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import change
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet.page import (
    document,
    hosts,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.results import (
    groups,
    journal,
)

LISTED = ("drift", "stale", "pending")  # lists of hosts that have a section each
TEMPLATE = "report.html.j2"  # beside this file; whoever may read files passes its text
COLOURS = {  # of outcomes, as classes of the style
    **dict.fromkeys(("failed", "rolled_back", "lost"), "bad"),
    **dict.fromkeys(("refused", "not_reached", "left_out"), "warn"),
    **dict.fromkeys(("would_change", "changed"), "new"),
    **dict.fromkeys(("pending", "not_managed"), "none"),
    "unchanged": "good",
}
Report = Mapping[str, Any]  # and parts of it
Entry = tuple[str, Mapping[str, str]]  # a host, and an entry of one of its lists


def render_page(template: str, report: Report) -> str:
    """Return the page of a report. template: the text of TEMPLATE."""
    by_name: Mapping[str, hosts.Host] = report["hosts"]
    return compile_template(template).render(
        report=report,
        run=report["run"],
        totals=report["totals"],
        colours=COLOURS,
        words={key: one.total for key, one in document.KEYS.items()},
        digests={tag: find_digest(template, tag) for tag in ("style", "script")},
        bars=measure_bars(report["totals"]),
        classes=any(host["class"] for host in by_name.values()),
        cases=group_cases(by_name),
        usual={key: find_usual(key, report["skew"]) for key in document.SKEW},
        changes=[describe_change(name, one, by_name) for name, one in report["changes"].items()],
        rolled_back=merge_equal(find_rolled_back(by_name), ("time", "state", "done")),
        **{key: merge_equal(list_entries(by_name, key), hosts.LISTS[key]) for key in LISTED},
    )


@functools.cache
def compile_template(template: str) -> jinja2.Template:
    """Compile the template. It escapes each value for HTML, and refuses a value that is missing."""
    environment = jinja2.Environment(
        autoescape=True,
        finalize=escape_controls,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["some_names"] = names.show_some_runs
    return environment.from_string(template)


def escape_controls(value: Any) -> Any:
    """Make directions of writing and control characters in a text visible.

    Markup, which only the template makes, stays as it is.
    """
    is_text = isinstance(value, str) and not hasattr(value, "__html__")
    return escape.escape_line(value) if is_text else value


def find_digest(template: str, tag: str) -> str:
    """Return the name by which the page's policy allows the template's own script or style."""
    (text,) = re.findall(f"<{tag}>(.*?)</{tag}>", template, re.DOTALL)
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


def measure_bars(totals: Mapping[str, int]) -> list[dict[str, str]]:
    """Return the parts of one bar of all hosts, in thousandths, the most urgent outcome first."""
    bars, end = [], 0.0
    for key in document.KEYS:
        if totals[key]:
            width = 1000 * totals[key] / totals["hosts"]
            bars.append({"outcome": key, "x": f"{end:.2f}", "width": f"{width:.2f}"})
            end += width
    return bars


def group_cases(by_name: Mapping[str, hosts.Host]) -> list[dict[str, Any]]:
    """Group the hosts that need a person. Hosts with the same trouble are one case."""
    same: dict[tuple[str, str], list[str]] = {}
    for name in document.list_hosts_needing_person(by_name):
        host = by_name[name]
        same.setdefault(
            (host["outcome"], sentences.get_sentence_key(host["why"], name)), []
        ).append(name)
    return [describe_case(alike, by_name) for alike in same.values()]


def describe_case(found: Sequence[str], by_name: Mapping[str, hosts.Host]) -> dict[str, Any]:
    """Return what hosts have in common, with the evidence from the first that has some."""
    first = next((name for name in found if by_name[name]["evidence"]), found[0])
    return {
        "outcome": by_name[first]["outcome"],
        "hosts": found,
        "why": sentences.merge_sentences(by_name[name]["why"] for name in found),
        "evidence_from": first,
        "evidence": by_name[first]["evidence"],
    }


def find_usual(key: str, rows: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the value of more than half of the hosts, None in a mixed fleet."""
    counts: Counter[str] = Counter()
    for row in rows:
        counts[row[key]] += len(row["hosts"])
    half = counts.total() / 2
    return next((value for value, number in counts.items() if number > half), None)


def describe_change(name: str, one: Report, by_name: Mapping[str, Report]) -> dict[str, Any]:
    """Return a change with its values spelled out. would: whether it was only predicted."""
    outcomes = {by_name[host]["outcome"] for host in one["hosts"] if host in by_name}
    return {
        "digest": name[: change.SHOWN],
        "hosts": one["hosts"],
        "would": "would_change" in outcomes,
        "restarts": one["restarts"],
        "differences": [describe_difference(difference) for difference in one["differences"]],
    }


def describe_difference(difference: Mapping[str, Any]) -> dict[str, str]:
    """Return the texts of a difference. Both values are equal if the value is only written out."""
    key = str(difference.get("key") or "")
    spell = values.get_value_writer(str(difference.get("path") or ""), key)
    return {
        "file": groups.is_whole_file_difference(difference),
        "key": key,
        "before": spell(difference.get("before")),
        "after": spell(difference.get("after")),
        "why": str(difference.get("why") or ""),
    }


def find_rolled_back(by_name: Mapping[str, hosts.Host]) -> Iterable[Entry]:
    """Yield the hosts whose newest transaction was taken back, with its entry in the journal.

    If that was in this run, the host is also among the hosts that need a person.
    """
    for name, host in by_name.items():
        own = [e for e in host["history"] if not e["reason"].endswith(journal.AFTER_ROLLBACK)]
        if own and own[0]["state"].startswith("rolled back"):
            yield name, own[0]


def list_entries(by_name: Mapping[str, hosts.Host], key: str) -> Iterable[Entry]:
    """Yield the entries of one list of all hosts, each with its host."""
    for name, host in by_name.items():
        yield from ((name, entry) for entry in host[key])


def merge_equal(entries: Iterable[Entry], keys: Sequence[str]) -> list[dict[str, Any]]:
    """Merge entries of several hosts into one row if their values of `keys` are equal."""
    same: dict[tuple[str, ...], list[str]] = {}
    for name, entry in entries:
        same.setdefault(tuple(entry[key] for key in keys), []).append(name)
    return [{**dict(zip(keys, row, strict=True)), "hosts": alike} for row, alike in same.items()]
