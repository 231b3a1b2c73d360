# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page: whatever a report says is text in it, and its policy names just what it has of its own."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import change
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet.page import document
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
    return reports.build_page(
        document.build_report(results, document.About("site", "2026-02-01T09:15:00Z", **about))
    )


def test_text_of_hosts_is_text_and_never_markup() -> None:
    plain = dict(Seen(page(hostile("plain"))).elements)
    for text in HOSTILE:
        found = Seen(page(hostile(text)))
        assert {tag for tag, _attributes in found.elements} <= {*plain}
        assert not [
            name
            for _tag, attributes in found.elements
            for name in attributes
            if name.startswith("on") or name in ("src", "href", "style")
        ]
        assert not any("\u202e" in word for word in found.words)
        shown = text.replace("\u202e", "\\u202e")
        assert any(shown in word for word in found.words), "it is shown as it was written"


def find_fields(value: Any, field: tuple[str, ...] = ()) -> set[tuple[str, ...]]:
    """Return the fields of a report that have text.

    `*` stands for each key that names a host or a change, and for each item.
    """
    if isinstance(value, dict):
        named = field in {("hosts",), ("changes",)}
        inner = {
            one
            for key, item in value.items()
            for one in find_fields(item, (*field, "*" if named else key))
        }
        return inner | ({(*field, "<key>")} if named else set())
    if isinstance(value, list):
        return {one for item in value for one in find_fields(item, (*field, "*"))}
    return {field} if isinstance(value, str) else set()


def replace_field(value: Any, field: tuple[str, ...], text: str) -> Any:
    """Return a copy of a report with this text in one of its fields, wherever the report has it."""
    if not field:
        return f"{value}{text}" if isinstance(value, str) else value
    first, *rest = field
    if first == "<key>":
        return {f"{key}{text}": item for key, item in value.items()}
    if isinstance(value, list):
        return [replace_field(item, tuple(rest), text) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: replace_field(item, tuple(rest), text) if first in (key, "*") else item
        for key, item in value.items()
    }


ABOUT = document.About("site", "2026-02-01T09:15:00Z", status="done", change_ref="CHG-7")
REPORT = json.loads(json.dumps(document.build_report(reports.fleet(), ABOUT)))
# one of few words, which a report that is read has been checked for
OF_A_SET = {("hosts", "*", "outcome")}
# A page has the beginning of a change's name, and words for each known status.
NOT_SHOWN = {("hosts", "*", "change"), ("changes", "<key>"), ("run", "status")}
FIELDS = sorted(find_fields(REPORT) - OF_A_SET)


@pytest.mark.parametrize("field", FIELDS, ids=".".join)
def test_a_hostile_text_in_any_field_of_a_report_is_text(field: tuple[str, ...]) -> None:
    plain = Seen(reports.build_page(replace_field(REPORT, field, "x")))
    for text in HOSTILE:
        found = Seen(reports.build_page(replace_field(REPORT, field, text)))
        assert found.elements == plain.elements
        shown = text.replace("\u202e", "\\u202e")
        assert any(shown in word for word in found.words) is (field not in NOT_SHOWN)


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
        assert f"{name}-src 'sha256-{digest}'" in policy
    assert not re.search(r"https?://|url\(|@import", text)


SHOWN = [
    "15 hosts, 6 hosts need a person", "Needs a person", "Versions", "What would change, and why", "Rolled back", "Drift",
    "Stale CDI specs", "Pending restarts", "All hosts", "Evidence", "History", "Somebody edits this file",
    change.digest_change(reports.changed(), "")[: change.SHOWN],
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
    # reports that are put together
    (
        "changed",
        "would_change",
        "What changed or would change, and why",
        ["restarted ", "restart "],
    ),
]


@pytest.mark.parametrize(("first", "second", "title", "units"), TITLES)
def test_each_change_says_whether_it_was_made(
    first: str, second: str, title: str, units: list[str]
) -> None:
    host = document.build_report({"gpu": reports.changed()}, document.About("site", ""))["hosts"][
        "gpu"
    ]
    hosts = {
        name: {**host, "outcome": outcome, "change": name}
        for name, outcome in (("gpu1", first), ("gpu2", second))
    }
    changes = {name: {"differences": [], "restarts": ["crio.service"]} for name in hosts}
    words = Seen(
        reports.build_page(document.complete_report(hosts, changes, document.About("site", "")))
    ).words
    assert title in words
    assert [word for word in words if word in ("restart ", "restarted ")] == units


# Engines of the hosts of a fleet; the engines that stand out in the table of versions.
SKEWS = [
    (["containerd 1.7.24"] * 3, set()),
    (["containerd 1.7.24"] * 3 + ["CRI-O 1.34.2"], {"CRI-O 1.34.2"}),
    (["containerd 1.7.24", "containerd 2.1.4", "CRI-O 1.34.2", "docker 26.1.5"], set()),
    (["containerd 1.7.24"] * 2 + ["CRI-O 1.34.2"] * 2, set()),
]


@pytest.mark.parametrize(("engines", "odd"), SKEWS)
def test_a_version_stands_out_where_most_hosts_have_another(
    engines: list[str], odd: set[str]
) -> None:
    shown = page({f"gpu{n}": reports.looked(engine) for n, engine in enumerate(engines)})
    assert set(re.findall(r'data-label="Engine"><span class="odd">([^<]*)', shown)) == odd
