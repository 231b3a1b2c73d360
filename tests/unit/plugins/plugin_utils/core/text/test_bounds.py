# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host takes no more of a table or a report than its own row, whatever it says. Work is counted,
in characters and lines.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.text import (
    bounds,
    escape,
    layout,
    sentences,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import events, left_out
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet.page import document
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet.report import (
    columns,
    fleet_hosts,
    specs,
    transactions,
    verification,
)
from hypothesis import given
from hypothesis import strategies as st

from tests.unit import reports

MANY = 1000
HUGE = 10 << 20
LINES = 2000  # of one host at most
WIDE = fleet_hosts.FleetView(details=True)


def honest(host: str) -> dict[str, Any]:
    """Give the result of a host on which one file differs."""
    row = {
        "engine": "containerd 1.7.24",
        "gpus": "8x NVIDIA H100",
        "injection": "native-cdi",
        "managed": True,
        "why": "CDI is on",
    }
    different = {
        "what": "file",
        "path": "/etc/containerd/config.toml",
        "key": "enable_cdi",
        "before": "false",
        "after": "true",
        "why": "CDI",
    }
    return {
        "changed": True,
        "row": row,
        "differences": [different],
        "would_restart": ["containerd.service"],
        "advice": [f"{host} has no MIG"],
    }


def words(number: int) -> str:
    return "word " * (number // 5)


# What fills 10 MB and more: one text, many of them, and values that stand in values.
LIES: Mapping[str, Callable[[], dict[str, Any]]] = {
    "a GPU's name": lambda: {"row": {"gpus": "H" * HUGE}},
    "an engine in words": lambda: {"row": {"engine": words(HUGE), "why": words(HUGE)}},
    "a failure": lambda: {"failed": True, "msg": words(HUGE)},
    "a refusal": lambda: {"problem": "x" * HUGE},
    "advice": lambda: {"advice": [f"{n} {words(1000)}" for n in range(HUGE // 1000)]},
    "differences": lambda: {
        "differences": [
            {"what": "file", "path": f"/etc/{n}", "before": words(900)} for n in range(HUGE // 1000)
        ]
    },
    "leftovers": lambda: {
        "leftovers": [
            {"path": f"/etc/{n}", "tool": "x", "why": words(900)} for n in range(HUGE // 1000)
        ]
    },
    "restarts": lambda: {"would_restart": [f"unit-{n}.service" for n in range(HUGE // 20)]},
    "checks": lambda: {
        "checks": [
            {"name": words(900), "ok": False, "problems": [words(100)]} for n in range(HUGE // 1000)
        ]
    },
    "a journal": lambda: {
        "journal": [
            {"id": str(n), "state": words(900), "reason": words(90)} for n in range(HUGE // 1000)
        ]
    },
    "keys": lambda: {"decision": {f"{n} {words(1000)}": n for n in range(HUGE // 1000)}},
    "one key": lambda: {"decision": {"k" * HUGE: 1}},
    "levels": lambda: {"decision": nested(900)},
}


def nested(depth: int) -> Any:
    found: Any = "x" * HUGE
    for _level in range(depth):
        found = {"inner": [found]}
    return found


def counting(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count the characters that are wrapped, escaped and compared."""
    handled: list[int] = []
    for module, name in (
        (escape, "escape_line"),
        (layout, "wrap"),
        (layout, "flatten_text"),
        (sentences, "get_sentence_key"),
        (layout, "split_word"),
    ):
        inner = getattr(module, name)

        def counted(text: Any, *more: Any, inner: Any = inner) -> Any:
            handled.append(
                min(len(str(text)), layout.SENTENCE) if inner.__name__ == "flat" else len(str(text))
            )
            return inner(text, *more)

        monkeypatch.setattr(module, name, counted)
    return handled


def laid_out(results: Mapping[str, dict[str, Any]]) -> dict[str, list[str]]:
    """Give what each view shows of a fleet, as the action does."""
    known = {host: bounds.limit_result(result) for host, result in results.items()}
    own = columns.apply_columns(
        WIDE, (columns.Column("D", "decision"), columns.Column("R", "row")), None
    )
    views = {
        "hosts": fleet_hosts.list_fleet_lines(known, WIDE),
        "columns": fleet_hosts.list_host_lines(known, own),
    }
    views |= {
        "verification": verification.list_verification_lines(known, WIDE),
        "journal": transactions.list_journal_lines(known, WIDE),
    }
    views |= {
        "cdi": specs.list_refresh_lines(
            {host: {**result, "problem": ""} for host, result in known.items()}, WIDE
        )
    }
    report = document.build_report(
        {host: escape.escape_result(result) for host, result in known.items()},
        document.About("plan", "2026-01-01T00:00:00Z"),
        {},
    )
    return {
        **views,
        "page": reports.build_page(report).splitlines(),
        "report": [json.dumps(report, default=str)],
    }


@pytest.mark.parametrize("lie", LIES)
def test_ten_hosts_of_a_thousand_that_lie_take_their_own_room_alone(
    lie: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = {f"gpu{n}": honest(f"gpu{n}") for n in range(MANY)}
    handled = counting(monkeypatch)
    before = laid_out(fleet)
    alone, lines = sum(handled), {name: len(shown) for name, shown in before.items()}
    handled.clear()
    liar = LIES[lie]()
    after = laid_out({**fleet, **{f"gpu{n}": {**honest(f"gpu{n}"), **liar} for n in range(10)}})
    assert sum(handled) - alone < 10 * 8 * bounds.CHARACTERS
    assert [name for name, shown in after.items() if len(shown) - lines[name] > 10 * LINES] == []
    sizes = {name: sum(map(len, shown)) for name, shown in before.items()}
    assert [
        name
        for name, shown in after.items()
        if sum(map(len, shown)) - sizes[name] > 10 * 2 * bounds.CHARACTERS
    ] == []


def test_an_honest_result_is_not_cut() -> None:
    assert bounds.limit_result(honest("gpu1")) == honest("gpu1")


def test_what_is_cut_is_said_and_how_it_went_stays() -> None:
    for lie in LIES.values():
        given_ = {**honest("gpu1"), **lie()}
        found = bounds.limit_result(given_)
        assert found["changed"] is True
        assert bool(found["differences"]) is True
        assert {key: found.get(key) for key in ("failed", "unreachable")} == {
            key: given_.get(key) for key in ("failed", "unreachable")
        }
    found = bounds.limit_result({"advice": ["one"], "more": [1] * bounds.VALUES})
    assert found["advice"] == ["one", bounds.build_cut_note()]


@pytest.mark.parametrize(
    ("text", "most", "shown"),
    [("abc", 3, "abc"), ("abcd", 3, "abc... (1 more characters)"), ("", 0, "")],
)
def test_a_text_is_cut_with_the_number_of_what_is_left_out(
    text: str, most: int, shown: str
) -> None:
    assert bounds.shorten_text(text, most) == shown


def step_by_step(widths: list[int], width: int) -> list[int]:
    """Make the widest column narrower by one until all fit: the rule, without its speed."""
    found = [min(widths[0], layout.NAME), *widths[1:]]
    over = sum(found) + layout.GAP * (len(found) - 1) - width
    while over > 0 and max(found[1:], default=0) > layout.NARROWEST:
        found[found.index(max(found[1:]), 1)] -= 1
        over -= 1
    return found


@given(st.lists(st.integers(0, 60), min_size=1, max_size=7), st.integers(0, 200))
def test_columns_become_narrower_as_step_by_step(widths: list[int], width: int) -> None:
    assert layout.narrow_columns(widths, width) == step_by_step(widths, width)


def test_a_column_of_ten_million_characters_shrinks_at_once() -> None:
    assert layout.narrow_columns([10, 10**7, 30, 10**9], 120) == [10, 37, 30, 37]


@pytest.mark.parametrize(
    "result",
    [
        {"problem": words(HUGE)},
        {"failed": True, "msg": words(HUGE)},
        {"unreachable": True, "msg": "x" * HUGE},
    ],
    ids=list,
)
def test_why_a_rollout_leaves_a_host_out_is_bounded(result: dict[str, Any]) -> None:
    assert 0 < len(left_out.explain_broken_host(result)) < 2 * layout.SENTENCE


def test_the_line_of_a_host_in_a_batch_is_bounded() -> None:
    assert (
        len(
            events.describe_hosts(
                ["gpu1"], {"gpu1": {"class": "a", "word": "failed", "why": words(HUGE)}}
            )
        )
        < 2 * layout.SENTENCE
    )
