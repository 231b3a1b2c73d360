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


def test_each_release_of_an_engine_has_its_whole_story(tool: Any) -> None:
    """A package manager, a manager or two engines of the lab are not a release."""
    engines = ("containerd", "crio", "docker", "podman")
    others = ("-dnf", "-dnf5", "-zypper", "crio-1.34-containerd-1.7")
    releases = {
        kind for kind in kinds.KINDS if kind.startswith(engines) and not kind.endswith(others)
    }
    found = {kind for kind, tests in tool.map_kinds_to_tests().items() if tool.WHOLE in tests}
    assert found == releases


def test_what_waits_for_the_night_is_not_said_to_run_by_day(tool: Any) -> None:
    rows = {row[1]: row[3] for row in tool.list_driver_rows()}
    for name, package in tool.read_fixture("driver_packages.yml").items():
        by_day = rows[f"the files of packages: `{name}`"] == tool.BY_DAY
        assert by_day == bool(package.get("by_day"))


@pytest.mark.parametrize(
    ("test", "when"),
    [
        ("cdi_captures", "each `make test`"),
        ("registry", "each `make test`"),
        ("gpu_operator", "each night"),
        ("each_release", "each night"),
    ],
)
def test_when_a_judge_runs_is_read_from_the_parts(tool: Any, test: str, when: str) -> None:
    assert tool.find_run(test) == when


def test_a_judge_that_is_not_there_is_an_error(tool: Any) -> None:
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


def test_a_part_that_no_real_gpu_has_confirmed_is_preview(tool: Any) -> None:
    labels = {part: tool.label_part(word) for part, _page, word in tool.PARTS}
    for part, _page, word in tool.PARTS:
        assert ("preview" in labels[part]) == (word not in (tool.MEASURED, tool.BY_HAND)), part
        assert ("confirmed" in labels[part]) == (word in (tool.MEASURED, tool.BY_HAND)), part


def test_a_measured_part_names_machines_that_were_measured(tool: Any) -> None:
    gpus = tool.list_measured_gpus()
    assert gpus
    assert set(gpus) <= {
        node.inventory.gpus[0].name for node in recorded.nodes().values() if node.seen
    }
    assert tool.BY_HAND_ON in gpus
