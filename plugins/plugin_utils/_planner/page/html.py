# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build the report as one HTML file, without outside assets and with a policy that lets only this collection's script run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.page import document, sections, table
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.page.markup import Markup, digest, element, raw
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.page.script import JS
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.page.style import CSS
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.report import outcomes

POLICY = f"default-src 'none'; style-src {digest(CSS)}; script-src {digest(JS)}; base-uri 'none'; form-action 'none'"
ENDS = {
    "done": "the rollout is done",
    "stopped": "the rollout was stopped",
    "failed": "the rollout failed",
    "paused": "the rollout is paused",
    "predicted": "a prediction",
}


def page(report: Mapping[str, Any]) -> str:
    parts = [
        sections.people(report),
        sections.skew(report),
        sections.changes(report),
        sections.rolled_back(report),
        sections.drift(report),
        sections.stale(report),
        sections.pending(report),
        table.hosts(report),
    ]
    body = element("body", head(report), element("main", *parts, foot(report)), raw("script", JS))
    title = f"GPU fleet: {outcomes.plural(report['totals']['hosts'])}, {report['generated']}"
    metas = [
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="referrer", content="no-referrer"),
        element("meta", name="color-scheme", content="light dark"),
    ]
    whole = element("html", element("head", *metas, element("title", title), raw("style", CSS)), body, lang="en")
    return f"<!DOCTYPE html>\n{whole.text}\n"


def head(report: Mapping[str, Any]) -> Markup:
    run, totals = report["run"], report["totals"]
    said = [f"gpufleet.nvidia.{run['playbook']}", report["generated"].replace("T", " ").replace("Z", " UTC")]
    said += ["check mode: nothing was changed"] if run["check"] else []
    said += [ENDS[run["status"]]] if run["status"] in ENDS else []
    said += [f"change {run['change_ref']}"] if run.get("change_ref") else []
    bad = totals["needs_person"]
    needs = f"{outcomes.plural(bad)} need{'s' if bad == 1 else ''} a person" if bad else "no host needs a person"
    title = element("h1", f"{outcomes.plural(totals['hosts'])}, {needs}")
    return element("header", element("div", title, element("p", " · ".join(said), class_="sub"), share(totals), tiles(totals)))


def share(totals: Mapping[str, int]) -> Markup:
    """Draw one bar of all hosts, by their outcome, the most urgent first."""
    bars, at = [], 0.0
    for key in document.KEYS:
        width = 1000 * totals[key] / max(totals["hosts"], 1)
        if width:
            bars.append(element("rect", x=f"{at:.2f}", y=0, width=f"{width:.2f}", height=10, class_=sections.COLOUR[key]))
        at += width
    label = outcomes.summary({**totals, "needs_person": []})
    return element("svg", *bars, class_="share", viewBox="0 0 1000 10", preserveAspectRatio="none", role="img", aria_label=label)


def tiles(totals: Mapping[str, int]) -> Markup:
    shown = [(totals[key], one.total, sections.COLOUR[key]) for key, one in document.KEYS.items() if totals[key]]
    shown += [(totals[key], words, "warn") for key, words in sections.FLAGS.items() if totals[key]]
    return element("ul", *(element("li", element("b", f"{n}"), element("span", words), class_=c) for n, words, c in shown), class_="tiles")


def foot(report: Mapping[str, Any]) -> Markup:
    return element("footer", f"Written by gpufleet.nvidia. The same as data: report.json, schema {report['schema']}.")
