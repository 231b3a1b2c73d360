# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tables that know their age: each has a row with a date and a source, and no row is too old."""

from __future__ import annotations

import datetime
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import versions
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import Refusal
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Driver
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import (
    host_messages,
    newer_releases,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.currency import (
    KNOWN,
    MAX_AGE_DAYS,
    KnownProject,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines import (
    cdi_versions,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    releases,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.known_bad import (
    table as known_bad,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.known_bad.rules import (
    ReleaseCondition,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.workloads.images import cuda

from tests.fixtures import containerd_releases
from tests.unit import tool_modules
from tests.unit.coded import get_codes, get_values
from tests.unit.records import instance

ROOT = Path(__file__).resolve().parents[2]
PLANNER = ROOT / "plugins/plugin_utils/_planner"
# Tables whose rows are releases of others: by the names of their files, and by a constant that says
# since which release a thing exists.
AGING = ("releases.py", "cdi_versions.py", "table.py", "cuda.py", "chips.py", "cpu.py")
SINCE_RELEASE = re.compile(
    r"(?m)^(?:[A-Z_]+, )*(?:[A-Z]+_)*SINCE(?:, [A-Z_]+)*(?:: [^=\n]+)? = (?!Sentence)"
)


@pytest.fixture(scope="module", autouse=True)
def tool() -> Iterator[Any]:
    with tool_modules.reachable():
        import currency

        yield currency


@pytest.mark.parametrize("name", KNOWN)
def test_a_row_has_a_source_a_date_and_tables(name: str, tool: Any) -> None:
    row = KNOWN[name]
    assert row.source.startswith("https://")
    assert datetime.date.fromisoformat(row.checked)
    assert tool.split_numbers(row.newest)
    assert row.ask.partition(":")[0] in {"", *tool.CLIENTS}
    files = [PLANNER / f"{table.replace('.', '/')}.py" for table in row.tables]
    assert row.tables
    assert [file for file in files if not file.is_file()] == []


def test_each_table_that_ages_is_in_a_row() -> None:
    found = {
        ".".join(path.relative_to(PLANNER).with_suffix("").parts)
        for path in PLANNER.rglob("*.py")
        if path.name in AGING or SINCE_RELEASE.search(path.read_text())
    }
    assert found - {table for row in KNOWN.values() for table in row.tables} == set()


def test_each_project_that_a_known_bad_row_names_has_the_table_in_its_row() -> None:
    named = {
        condition.of
        for row in known_bad.ROWS
        for condition in row.when
        if isinstance(condition, ReleaseCondition) and (condition.first or condition.fixed)
    }
    assert named
    assert [name for name in named if "host.known_bad.table" not in KNOWN[name].tables] == []


def test_no_row_is_too_old_for_a_release(tool: Any) -> None:
    log = tool.CHANGELOG.read_text() if tool.CHANGELOG.is_file() else ""
    assert tool.find_old_rows(KNOWN, tool.find_release_day(log, KNOWN), MAX_AGE_DAYS) == []


def make_row(newest: str, checked: str = "2026-11-01", ask: str = "go:m") -> KnownProject:
    return KnownProject("a", newest, checked, "https://example.org", ("t",), ask)


@pytest.mark.parametrize(
    "changelog, day",
    [
        ("", "2026-11-01"),
        ("releases:\n  0.1.0:\n    release_date: '2026-12-24'\n", "2026-12-24"),
        (
            "    release_date: '2027-02-01'\n  0.1.0:\n    release_date: '2026-12-24'\n",
            "2027-02-01",
        ),
    ],
)
def test_the_day_by_which_rows_are_judged(tool: Any, changelog: str, day: str) -> None:
    rows = {"a": make_row("1.0"), "b": make_row("1.0", "2026-10-01")}
    assert tool.find_release_day(changelog, rows) == datetime.date.fromisoformat(day)


@pytest.mark.parametrize(
    "checked, old", [("2026-11-26", False), ("2026-07-29", False), ("2026-07-28", True)]
)
def test_a_row_is_too_old_after_120_days(tool: Any, checked: str, old: bool) -> None:
    day = datetime.date(2026, 11, 26)
    assert tool.find_old_rows({"a": make_row("1.0", checked)}, day, MAX_AGE_DAYS) == (
        ["a"] if old else []
    )


def refuse(_name: str) -> list[str]:
    raise subprocess.CalledProcessError(1, "go")


@pytest.mark.parametrize(
    "newest, ask, answer, news",
    [
        ("2.4.2", "go:m", ["2.4.2", "2.3.9"], "newest"),
        ("2.4.2", "go:m", ["2.4.10", "2.4.9"], "BEHIND 2.4.10"),
        ("13.3", "go:m", ["13.3.29"], "newest"),
        ("13.3", "go:m", ["13.5.37", "9.1.0"], "BEHIND 13.5.37"),
        ("6.0.0", "go:m", ["4.3.1"], "index ends at 4.3.1, look there"),
        ("13.3", "go:m", ["13"], "index ends at 13, look there"),
        ("1.0", "go:m", [], "no release in go"),
        ("1.0", "", ["2.0"], "look there"),
    ],
)
def test_an_index_says_which_row_is_behind(
    tool: Any, newest: str, ask: str, answer: list[str], news: str
) -> None:
    assert tool.find_newer(make_row(newest, ask=ask), {"go": lambda _name: answer}) == news


def test_an_index_that_does_not_answer_is_named(tool: Any) -> None:
    assert tool.find_newer(make_row("1.0"), {"go": refuse}) == "no answer from go"


@pytest.mark.parametrize(
    "packaged, found",
    [
        ("4.3.1+ds1-8+deb12u1+b3", ["4.3.1"]),
        ("5:29.9.3-1~debian.12~bookworm", ["29.9.3"]),
        ("6.1.0~rc1-1", []),
        ("5:29.0.0~beta.2-1~debian.12~bookworm", []),
    ],
)
def test_a_package_of_what_precedes_a_release_is_none(
    tool: Any, packaged: str, found: list[str]
) -> None:
    table = f" podman | {packaged} | https://deb.example.org trixie/main amd64 Packages\n"
    assert tool.read_packaged_versions(table) == found


def test_the_tables_end_where_their_rows_say(tool: Any) -> None:
    assert cuda.TOOLKITS[-1][0] == KNOWN["cuda"].newest
    specs = yaml.safe_load((ROOT / "tests/fixtures/replayed_specs.yml").read_text())
    assert KNOWN["driver"].newest in {spec["driver"] for spec in specs.values()}
    assert tool.split_numbers(KNOWN["containerd"].newest)[:2] >= releases.FACTS[-1].first
    for engine in cdi_versions.MAX_CDI:
        last = cdi_versions.MAX_CDI[engine][-1][0]
        assert tool.split_numbers(KNOWN[engine].newest) >= last


def test_releases_that_read_alike_have_the_same_facts() -> None:
    """Tests leave them out where one release stands for each way to read a configuration."""
    for both in containerd_releases.READ_LIKE.items():
        facts = [
            releases.get_release_facts(versions.parse_engine_version(containerd_releases.PATCH[n]))
            for n in both
        ]
        assert facts[0] is facts[1]


@pytest.mark.parametrize(
    "version, known, numbers, newer",
    [
        ("2.4.9", "2.4.2", 2, False),
        ("2.5.0", "2.4.2", 2, True),
        ("v3.0.0-rc.1", "2.4.2", 2, True),
        ("610.99.01", "610.43.02", 1, False),
        ("615.20", "610.43.02", 1, True),
        ("", "2.4.2", 2, False),
        ("unknown", "2.4.2", 2, False),
    ],
)
def test_a_release_is_newer_by_its_first_numbers(
    version: str, known: str, numbers: int, newer: bool
) -> None:
    assert newer_releases.is_newer_release(version, known, numbers) is newer


@pytest.mark.parametrize(
    "engine, toolkit, driver, newer",
    [
        ("2.3.0", "1.20.2", "580.65.06", []),
        ("2.9.0", "1.20.2", "580.65.06", ["containerd"]),
        ("2.3.0", "1.99.0", "580.65.06", ["NVIDIA Container Toolkit"]),
        ("2.3.0", "", "999.10", ["NVIDIA driver"]),
        ("2.3.0", "", "", []),
    ],
)
def test_a_host_with_something_newer_is_told(
    engine: str, toolkit: str, driver: str, newer: list[str]
) -> None:
    found = newer_releases.advise_on_newer_releases(
        (instance("containerd", version=engine),), toolkit, Driver("ok", driver, (), "test")
    )
    assert get_codes(found) == ["release.newer-than-known"] * len(newer)
    assert [get_values(message)["title"] for message in found] == newer


def test_a_newer_engine_that_is_left_alone_is_not_told() -> None:
    left_alone = instance(
        "containerd", version="2.9.0", refusal=Refusal(host_messages.NO_ENGINE_HERE.fill())
    )
    assert (
        newer_releases.advise_on_newer_releases((left_alone,), "", Driver("none", "", (), "")) == ()
    )
