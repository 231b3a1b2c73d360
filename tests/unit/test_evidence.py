# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page of evidence: each row has a judge that runs, and nothing recorded is left out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lab import kinds, recorded
from tests.unit import tool_modules

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module", autouse=True)
def tool() -> Iterator[Any]:
    with tool_modules.reachable():
        import evidence_tables

        yield evidence_tables


def test_each_node_and_each_driver_has_a_row(tool: Any) -> None:
    hardware, drivers = tool.build_hardware_table(), tool.build_driver_table()
    assert all(f"| `{name}` |" in hardware for name in recorded.nodes())
    for fixture in ("replayed_specs.yml", "driver_packages.yml"):
        assert all(f"`{name}` |" in drivers for name in tool.read_fixture(fixture))


def test_each_kind_of_host_is_booted_by_a_test(tool: Any) -> None:
    assert [kind for kind, tests in tool.map_kinds_to_tests().items() if not tests] == []
    assert list(tool.map_kinds_to_tests()) == list(kinds.KINDS)


@pytest.mark.parametrize(
    ("test", "when"), [("cdi_captures", "each `make test`"), ("gpu_operator", "each night")]
)
def test_when_a_judge_runs_is_read_from_the_parts(tool: Any, test: str, when: str) -> None:
    assert tool.find_run(test) == when


def test_a_judge_that_no_part_names_is_an_error(tool: Any) -> None:
    with pytest.raises(LookupError, match="test_no_such"):
        tool.find_run("no_such")


@pytest.mark.parametrize(
    ("address", "link"),
    [
        ("", "not public"),
        ("make gpu of a 1", "make gpu of a 1"),
        ("https://github.com/a/b/blob/c", "[a/b](https://github.com/a/b/blob/c)"),
    ],
)
def test_a_source_is_named_by_its_repository(tool: Any, address: str, link: str) -> None:
    assert tool.link_source(address) == link
