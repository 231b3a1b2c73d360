# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page: whatever hosts say is text in it, and its policy names just what it has of its own."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import change
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.page import document, html, sections
from hypothesis import given
from hypothesis import strategies as st

from tests.unit import reports
from tests.unit.hostile_page import HOSTILE, hostile


class Seen(HTMLParser):
    """What a browser would make of a page: its elements with their attributes, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, tuple[str, ...]]] = []
        self.values: list[str] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, tuple(name for name, _value in attrs)))
        self.values += [value or "" for _name, value in attrs]

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def page(results: dict[str, dict[str, Any]], **about: Any) -> str:
    return html.page(document.of(results, document.About("site", "2026-02-01T09:15:00Z", **about)))


def test_text_of_hosts_is_text_and_never_markup() -> None:
    plain = dict(Seen(page(hostile("plain"))).elements)
    for text in HOSTILE:
        found = Seen(page(hostile(text)))
        assert {tag for tag, _attributes in found.elements} <= {*plain}
        assert not [
            name for _tag, attributes in found.elements for name in attributes if name.startswith("on") or name in ("src", "href", "style")
        ]
        assert not any("\u202e" in word for word in found.words)
        shown = text.replace("\u202e", "\\u202e")
        assert any(shown in word for word in found.words), "it is shown as it was written"


@given(st.text(max_size=30))
def test_any_text_leaves_the_page_with_the_same_elements(text: str) -> None:
    one = {"gpu1": reports.looked(failed=True, msg=f"x{text}")}
    other = {"gpu1": reports.looked(failed=True, msg="x")}
    assert Seen(page(one)).elements == Seen(page(other)).elements


def test_the_policy_allows_its_own_style_and_script_and_nothing_else() -> None:
    text = page(reports.fleet())
    policy = Seen(text).values[Seen(text).values.index("Content-Security-Policy") + 1]
    assert policy.startswith("default-src 'none'; ")
    for name in ("style", "script"):
        (own,) = re.findall(f"<{name}>(.*?)</{name}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(own.encode()).digest()).decode()
        assert f"{name}-src 'sha256-{digest}';" in policy
    assert not re.search(r"https?://|url\(|@import", text)


SHOWN = [
    "15 hosts, 6 hosts need a person", "Needs a person", "Versions", "What would change, and why", "Rolled back", "Drift",
    "Stale CDI specs", "Pending restarts", "All hosts", "Evidence", "History", "Somebody edits this file",
    change.digest(reports.changed(), "")[: change.SHOWN],
]  # fmt: skip


@pytest.mark.parametrize("words", SHOWN)
def test_it_answers_what_people_ask(words: str) -> None:
    assert any(words in part for part in Seen(page(reports.fleet())).words)


def test_a_fleet_that_is_as_desired_has_no_empty_sections() -> None:
    found = [word for word in Seen(page({"gpu1": reports.looked()})).words if word.strip()]
    assert "1 host, no host needs a person" in found
    assert not {"Needs a person", "Drift", "Rolled back", "Pending restarts"} & set(found)


def test_a_rollout_says_how_it_ended_and_for_which_ticket() -> None:
    words = " ".join(Seen(page(reports.fleet(), status="paused", change_ref="CHG-7")).words)
    assert "the rollout is paused · change CHG-7" in words


TITLES = [
    # outcomes of the hosts of two changes: the title, and what is said of the units of each
    ("would_change", "would_change", "What would change, and why", ["restart ", "restart "]),
    ("changed", "rolled_back", "What changed, and why", ["restarted ", "restarted "]),
    ("changed", "would_change", "What changed or would change, and why", ["restarted ", "restart "]),  # reports that are put together
]


@pytest.mark.parametrize(("first", "second", "title", "units"), TITLES)
def test_each_change_says_whether_it_was_made(first: str, second: str, title: str, units: list[str]) -> None:
    hosts = {"gpu1": {"outcome": first}, "gpu2": {"outcome": second}}
    changes = {name: {"hosts": [name], "differences": [], "restarts": ["containerd.service"]} for name in hosts}
    words = Seen(str(sections.changes({"hosts": hosts, "changes": changes}))).words
    assert title in words
    assert [word for word in words if word.startswith("restart")] == units


# Engines of the hosts of a fleet; those that stand out in the table of versions.
SKEWS = [
    (["containerd 1.7.24"] * 3, set()),
    (["containerd 1.7.24"] * 3 + ["CRI-O 1.34.2"], {"CRI-O 1.34.2"}),
    (["containerd 1.7.24", "containerd 2.1.4", "CRI-O 1.34.2", "docker 26.1.5"], set()),
    (["containerd 1.7.24"] * 2 + ["CRI-O 1.34.2"] * 2, set()),
]


@pytest.mark.parametrize(("engines", "odd"), SKEWS)
def test_a_version_stands_out_where_most_hosts_have_another(engines: list[str], odd: set[str]) -> None:
    shown = page({f"gpu{n}": reports.looked(engine) for n, engine in enumerate(engines)})
    assert set(re.findall(r'<td class="(?:t )?odd" data-label="Engine">([^<]*)', shown)) == odd
