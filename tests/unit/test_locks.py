# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The environments of development are the same today and in a year: each has a lock file that meets
pyproject.toml.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from tests.unit import tool_modules

ROOT = Path(__file__).resolve().parents[2]
GROUPS: dict[str, list[str]] = tomllib.loads((ROOT / "pyproject.toml").read_text())[
    "dependency-groups"
]
ENTRY = re.compile(
    r"^(?P<requirement>[^\s#][^\\\n]*?) \\\n(?P<hashes>(?: {4}--hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)",
    re.MULTILINE,
)


@pytest.fixture(scope="module")
def environments() -> Iterator[Any]:
    with tool_modules.reachable():
        import environments

        yield environments


def read_lock(environments: Any, group: str) -> list[Requirement]:
    """Return the entries of a lock file; every line of it belongs to one that has hashes."""
    text = environments.lock_file(group).read_text()
    left = ENTRY.sub("", text)
    assert [line for line in left.splitlines() if not line.startswith("#")] == [], (
        "an entry without hashes"
    )
    return [Requirement(found["requirement"]) for found in ENTRY.finditer(text)]


def test_each_group_has_a_lock_and_an_interpreter(environments: Any) -> None:
    assert (
        set(environments.INTERPRETERS)
        == set(GROUPS)
        == {path.stem for path in environments.LOCKS.glob("*.txt")}
    )


@pytest.mark.parametrize("group", sorted(GROUPS))
def test_a_lock_meets_its_group_on_every_interpreter(environments: Any, group: str) -> None:
    locked = read_lock(environments, group)
    for python in environments.INTERPRETERS[group]:
        here = {"python_version": python, "python_full_version": f"{python}.99", "sys_platform": "linux", "os_name": "posix",
                "platform_system": "Linux", "platform_python_implementation": "CPython", "implementation_name": "cpython"}  # fmt: skip
        chosen = {
            one.name.lower(): one for one in locked if not one.marker or one.marker.evaluate(here)
        }
        for wanted in map(Requirement, GROUPS[group]):
            (pin,) = chosen[wanted.name.lower()].specifier
            assert pin.operator == "=="
            assert wanted.specifier.contains(Version(pin.version), prereleases=True), (
                f"{wanted} on Python {python}: run `make lock`"
            )


@pytest.mark.parametrize("group", sorted(GROUPS))
def test_every_range_has_both_ends(group: str) -> None:
    for wanted in map(Requirement, GROUPS[group]):
        operators = {one.operator for one in wanted.specifier}
        assert operators >= {">=", "<"} or operators == {"=="}, str(wanted)


def test_what_the_product_depends_on_has_both_ends() -> None:
    lines = [
        line
        for line in (ROOT / "meta/ee-requirements.txt").read_text().splitlines()
        if line and not line.startswith("#")
    ]
    assert [
        line
        for line in lines
        if not {one.operator for one in Requirement(line).specifier} >= {">=", "<"}
    ] == []


@pytest.mark.parametrize(
    ("group", "requirement", "newest"),
    [
        ("dev", "ruff>=0.12,<0.18", "ruff>=0.12"),
        ("core-2-16", "ansible-core>=2.16.0,<2.17", "ansible-core>=2.16.0,<2.17"),
    ],
)
def test_newest_drops_upper_bounds_but_those_of_old_releases(
    environments: Any, group: str, requirement: str, newest: str
) -> None:
    assert requirement in environments.requirements(group)
    assert newest in environments.without_upper_bounds(group)
