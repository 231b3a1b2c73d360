# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of known-bad combinations, row by row: a host that has it, its neighbours that do not,
and a host that does not tell.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import versions
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.known_bad import (
    rules,
    table,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.known_bad.rules import (
    HostView,
    Is,
    JudgedRows,
    KnownBadRow,
    ReleaseCondition,
)
from hypothesis import given
from hypothesis import strategies as st

BAD, GOOD, UNKNOWN = "bad", "good", "not known"
NOT_KNOWN = "?"
BY_ID = {row.id: row for row in table.ROWS}


def host(programs: dict[str, str], *states: str) -> HostView:
    """programs: name -> releases, with blanks between several, "?" for one that is not known.
    states: what is so; `x?`: not known.
    """
    releases = {
        name: [None if v == NOT_KNOWN else versions.parse_engine_version(v) for v in text.split()]
        for name, text in programs.items()
    }
    so: dict[Any, bool | None] = {
        s.removesuffix(NOT_KNOWN): None if s.endswith(NOT_KNOWN) else True for s in states
    }
    return HostView(releases, so)


def verdict(name: str, *hosts: HostView) -> str:
    judged = rules.judge_rows([BY_ID[name]], hosts)
    return BAD if judged.found else UNKNOWN if judged.open else GOOD


ABOVE, V3, SPEC, OWNS = "drop-in-above-root", "config-version-3", "stale-spec", "refresh-owns-spec"
TOOL, OLD, MIG = "toolkit-drop-in", "reader-below-0.7.0", "mig"
PACKED, CURRENT, CDI, REPO = (
    "module-compressed",
    "module-nvidia-current",
    "cdi-injection",
    "adds-nvidia-repository",
)
MOUNTS = "mounts-accepted"
SWARM = "swarm-gpus"
BIN_DIR = "cni-bin-dir"

CASES: dict[str, list[tuple[dict[str, str], tuple[str, ...], str]]] = {
    "containerd-refuses-newer-drop-in": [
        ({"containerd": "2.3.0"}, (ABOVE,), BAD),
        ({"containerd": "2.3.4"}, (ABOVE,), BAD),
        ({"containerd": "v2.3.2-k3s1"}, (ABOVE,), BAD),
        ({"containerd": "2.3.5"}, (ABOVE,), GOOD),
        ({"containerd": "2.2.7"}, (ABOVE,), GOOD),
        ({"containerd": "2.3.4"}, (), GOOD),
        ({"containerd": NOT_KNOWN}, (ABOVE,), UNKNOWN),
        ({"containerd": "2.3.4"}, (f"{ABOVE}?",), UNKNOWN),
        ({"containerd": "2.3.7"}, (f"{ABOVE}?",), GOOD),
    ],
    "containerd-loses-main-file": [
        ({"containerd": "2.0.0"}, (ABOVE,), BAD),
        ({"containerd": "2.2.7"}, (ABOVE,), BAD),
        ({"containerd": "2.3.0"}, (ABOVE,), GOOD),
        ({"containerd": "1.7.34"}, (ABOVE,), GOOD),
        ({"containerd": NOT_KNOWN}, (ABOVE,), UNKNOWN),
    ],
    "containerd-2.4-ignores-bin-dir": [
        ({"containerd": "2.4.0"}, (BIN_DIR,), BAD),
        ({"containerd": "2.4.2"}, (BIN_DIR,), BAD),
        ({"containerd": "2.3.7"}, (BIN_DIR,), GOOD),
        ({"containerd": "2.4.2"}, (), GOOD),
        ({"containerd": "2.4.2"}, (f"{BIN_DIR}?",), UNKNOWN),
        ({"containerd": NOT_KNOWN}, (BIN_DIR,), UNKNOWN),
    ],
    "containerd-2.4-will-ignore-bin-dir": [
        ({"containerd": "2.0.0"}, (BIN_DIR,), BAD),
        ({"containerd": "2.3.7"}, (BIN_DIR,), BAD),
        ({"containerd": "2.4.0"}, (BIN_DIR,), GOOD),
        ({"containerd": "1.7.24"}, (BIN_DIR,), GOOD),
        ({"containerd": "2.3.7"}, (), GOOD),
        ({"containerd": "2.3.7"}, (f"{BIN_DIR}?",), UNKNOWN),
    ],
    "containerd-2.4-ignores-cdi-switch": [
        ({"containerd": "2.4.0"}, ("cdi-switched-off",), BAD),
        ({"containerd": "2.3.7"}, ("cdi-switched-off",), GOOD),
        ({"containerd": "2.4.2"}, (), GOOD),
        ({"containerd": NOT_KNOWN}, ("cdi-switched-off",), UNKNOWN),
    ],
    "containerd-2.4-ignores-tracing": [
        ({"containerd": "2.4.0"}, ("tracing-in-files",), BAD),
        ({"containerd": "2.0.0"}, ("tracing-in-files",), BAD),
        ({"containerd": "1.7.24"}, ("tracing-in-files",), GOOD),
        ({"containerd": "2.3.7"}, ("tracing-in-files?",), UNKNOWN),
        ({"containerd": "2.4.2"}, (), GOOD),
    ],
    "toolkit-1.18.0-wrong-directory": [
        ({"toolkit": "1.18.0-1", "containerd": "1.7.24"}, (), BAD),
        ({"toolkit": "1.18.1~rc.1-1", "containerd": "2.3.7"}, (), BAD),
        ({"toolkit": "1.18.0-1", "containerd": NOT_KNOWN}, (), UNKNOWN),
        ({"toolkit": "1.18.1-1", "containerd": "1.7.24"}, (), GOOD),
        ({"toolkit": "1.17.9-1", "containerd": "1.7.24"}, (), GOOD),
        ({"toolkit": "1.18.0~rc.6-1", "containerd": "1.7.24"}, (), GOOD),
        ({"toolkit": "1.18.0-1", "docker": "28.5.2"}, (), GOOD),
        ({"containerd": "1.7.24"}, (), GOOD),
        ({"toolkit": NOT_KNOWN, "containerd": "1.7.24"}, (), UNKNOWN),
        ({"toolkit": "1.20.1-1 1.18.0-1", "containerd": "1.7.24"}, (), BAD),
    ],
    "toolkit-crio-wrong-directory": [
        ({"toolkit": "1.18.0-1", "crio": "1.34.0"}, (), BAD),
        ({"toolkit": "1.19.0-1", "crio": "1.34.0"}, (), BAD),
        ({"toolkit": "1.19.1-1", "crio": "1.34.0"}, (), GOOD),
        ({"toolkit": "1.17.8-1", "crio": "1.34.0"}, (), GOOD),
        ({"toolkit": "1.19.0-1", "containerd": "2.3.7"}, (), GOOD),
        ({"toolkit": NOT_KNOWN, "crio": "1.34.0"}, (), UNKNOWN),
    ],
    "toolkit-1.17.0-links": [
        ({"toolkit": "1.17.0-1"}, (CDI,), BAD),
        ({"toolkit": "1.17.1-1"}, (CDI,), GOOD),
        ({"toolkit": "1.16.2-1"}, (CDI,), GOOD),
        ({"toolkit": "1.17.0-1"}, (), GOOD),
        ({"toolkit": NOT_KNOWN}, (CDI,), UNKNOWN),
    ],
    "toolkit-1.17.7-direct-calls": [
        ({"toolkit": "1.17.7-1"}, ("enroot",), BAD),
        ({"toolkit": "1.17.7-1 1.17.8-1"}, ("enroot",), BAD),
        ({"toolkit": "1.17.8-1"}, ("enroot",), GOOD),
        ({"toolkit": "1.17.6-1"}, ("enroot",), GOOD),
        ({"toolkit": "1.17.7-1"}, (), GOOD),
        ({"toolkit": NOT_KNOWN}, ("enroot",), UNKNOWN),
    ],
    "toolkit-none-is-all": [
        ({"toolkit": "1.18.0-1"}, ("mode-jit-cdi",), BAD),
        ({"toolkit": "1.18.1-1"}, ("mode-jit-cdi",), BAD),
        ({"toolkit": "1.18.2-1"}, ("mode-jit-cdi",), GOOD),
        ({"toolkit": "1.17.8-1"}, ("mode-jit-cdi",), GOOD),
        ({"toolkit": "1.18.1-1"}, (), GOOD),
        ({"toolkit": NOT_KNOWN}, ("mode-jit-cdi",), UNKNOWN),
    ],
    "toolkit-mounts-beside-cdi": [
        ({"toolkit": "1.20.1-1"}, (CDI, MOUNTS), BAD),
        ({"toolkit": "1.17.8-1"}, (CDI, MOUNTS), BAD),
        ({"toolkit": "1.20.2-1"}, (CDI, MOUNTS), GOOD),
        ({"toolkit": "1.20.1-1"}, (CDI,), GOOD),
        ({"toolkit": "1.20.1-1"}, (MOUNTS,), GOOD),
        ({"toolkit": NOT_KNOWN}, (CDI, MOUNTS), UNKNOWN),
    ],
    "toolkit-without-swarm": [
        ({"toolkit": "1.18.2-1"}, (SWARM,), BAD),
        ({"toolkit": "1.17.8-1"}, (SWARM,), BAD),
        ({"toolkit": "1.19.0-1"}, (SWARM,), GOOD),
        ({"toolkit": "1.18.2-1"}, (), GOOD),
        ({"toolkit": NOT_KNOWN}, (SWARM,), UNKNOWN),
    ],
    "toolkit-handler-without-type": [
        ({"toolkit": "1.19.1-1", "containerd": "2.3.7"}, (V3, TOOL), BAD),
        ({"toolkit": "1.18.0-1", "containerd": "2.0.0"}, (V3, TOOL), BAD),
        ({"toolkit": "1.20.0-1", "containerd": "2.3.7"}, (V3, TOOL), GOOD),
        ({"toolkit": "1.17.9-1", "containerd": "2.3.7"}, (V3, TOOL), GOOD),
        ({"toolkit": "1.19.1-1", "containerd": "1.7.24"}, (V3, TOOL), GOOD),
        ({"toolkit": "1.19.1-1", "containerd": "2.3.7"}, (TOOL,), GOOD),
        ({"toolkit": "1.19.1-1", "containerd": "2.3.7"}, (V3,), GOOD),
        ({"toolkit": "1.19.1-1", "containerd": "2.3.7"}, (V3, f"{TOOL}?"), UNKNOWN),
        ({"toolkit": NOT_KNOWN, "containerd": "2.3.7"}, (V3, TOOL), UNKNOWN),
    ],
    "toolkit-without-config-version-3": [
        ({"toolkit": "1.17.3-1", "containerd": "2.1.5"}, (V3,), BAD),
        ({"toolkit": "1.17.3-1", "containerd": "2.0.0"}, (V3,), BAD),
        ({"toolkit": "1.17.4-1", "containerd": "2.1.5"}, (V3,), GOOD),
        ({"toolkit": "1.17.3-1", "containerd": "2.1.5"}, (), GOOD),
        ({"toolkit": "1.17.3-1", "containerd": "1.7.27"}, (V3,), GOOD),
        ({"toolkit": NOT_KNOWN, "containerd": "2.1.5"}, (V3,), UNKNOWN),
    ],
    "refresh-misses-nvidia-current": [
        ({"toolkit": "1.18.0-1"}, (OWNS, CURRENT), BAD),
        ({"toolkit": "1.18.1-1"}, (OWNS, CURRENT), GOOD),
        ({"toolkit": "1.18.0-1"}, (CURRENT,), GOOD),
        ({"toolkit": "1.18.0-1"}, (OWNS,), GOOD),
        ({"toolkit": "1.18.0-1"}, (OWNS, f"{CURRENT}?"), UNKNOWN),
        ({"toolkit": NOT_KNOWN}, (OWNS, CURRENT), UNKNOWN),
    ],
    "refresh-misses-compressed-modules": [
        ({"toolkit": "1.18.1-1"}, (OWNS, PACKED), BAD),
        ({"toolkit": "1.18.0-1"}, (OWNS, PACKED), GOOD),
        ({"toolkit": "1.18.2-1"}, (OWNS, PACKED), GOOD),
        ({"toolkit": "1.18.1-1"}, (OWNS,), GOOD),
        ({"toolkit": "1.18.1-1"}, (PACKED,), GOOD),
        ({"toolkit": "1.18.1-1"}, (OWNS, f"{PACKED}?"), UNKNOWN),
        ({"toolkit": NOT_KNOWN}, (OWNS, PACKED), UNKNOWN),
    ],
    "refresh-after-the-engines": [
        ({"toolkit": "1.19.0-1"}, (OWNS,), BAD),
        ({"toolkit": "1.19.1-1"}, (OWNS,), GOOD),
        ({"toolkit": "1.18.2-1"}, (OWNS,), GOOD),
        ({"toolkit": "1.19.0-1"}, (), GOOD),
        ({"toolkit": NOT_KNOWN}, (OWNS,), UNKNOWN),
    ],
    "refresh-misses-mig": [
        ({"toolkit": "1.18.0-1"}, (OWNS, MIG), BAD),
        ({"toolkit": "1.20.1-1"}, (OWNS, MIG), BAD),
        ({"toolkit": "1.17.9-1"}, (OWNS, MIG), GOOD),
        ({"toolkit": "1.20.1-1"}, (OWNS,), GOOD),
        ({"toolkit": "1.20.1-1"}, (MIG,), GOOD),
        ({"toolkit": NOT_KNOWN}, (OWNS, MIG), UNKNOWN),
    ],
    "spec-too-new-for-its-reader": [
        ({"toolkit": "1.19.1-1"}, (OWNS, OLD), BAD),
        ({"toolkit": "1.20.1-1"}, (OWNS, OLD), BAD),
        ({"toolkit": "1.19.0-1"}, (OWNS, OLD), GOOD),
        ({"toolkit": "1.20.1-1"}, (OWNS,), GOOD),
        ({"toolkit": "1.20.1-1"}, (OLD,), GOOD),
        ({"toolkit": "1.20.1-1"}, (OWNS, f"{OLD}?"), UNKNOWN),
        ({"toolkit": NOT_KNOWN}, (OWNS, OLD), UNKNOWN),
    ],
    "docker-gpus-by-stale-spec": [
        ({"docker": "29.2.0", "toolkit": "1.20.1-1"}, (SPEC,), BAD),
        ({"docker": "29.7.2", "toolkit": "1.16.0-1"}, (SPEC,), BAD),
        ({"docker": "29.1.5", "toolkit": "1.20.1-1"}, (SPEC,), GOOD),
        ({"docker": "29.2.0", "toolkit": "1.15.0-1"}, (SPEC,), GOOD),
        ({"docker": "29.2.0", "toolkit": "1.20.1-1"}, (), GOOD),
        ({"docker": "29.2.0"}, (SPEC,), GOOD),
        ({"docker": NOT_KNOWN, "toolkit": "1.20.1-1"}, (SPEC,), UNKNOWN),
        ({"docker": "29.2.0", "toolkit": NOT_KNOWN}, (SPEC,), UNKNOWN),
    ],
    "toolkit-before-driver-550.40": [
        ({"toolkit": "1.14.5-1", "driver": "550.40.07"}, (), BAD),
        ({"toolkit": "1.13.5-1", "driver": "580.95.05"}, (), BAD),
        ({"toolkit": "1.14.6-1", "driver": "550.40.07"}, (), GOOD),
        ({"toolkit": "1.14.5-1", "driver": "545.29.06"}, (), GOOD),
        ({"toolkit": "1.14.5-1"}, (), GOOD),
        ({"toolkit": "1.14.5-1", "driver": NOT_KNOWN}, (), UNKNOWN),
        ({"toolkit": NOT_KNOWN, "driver": "550.40.07"}, (), UNKNOWN),
    ],
    "toolkit-escape-2024-0132": [
        ({"toolkit": "1.16.1-1"}, (), BAD),
        ({"toolkit": "1.16.2-1"}, (), GOOD),
        ({"toolkit": NOT_KNOWN}, (), UNKNOWN),
        ({}, (), GOOD),
    ],
    "toolkit-escape-2025-23359": [
        ({"toolkit": "1.16.2-1"}, (), BAD),
        ({"toolkit": "1.17.3-1"}, (), BAD),
        ({"toolkit": "1.17.4-1"}, (), GOOD),
        ({"toolkit": "1.16.1-1"}, (), GOOD),
        ({"toolkit": NOT_KNOWN}, (), UNKNOWN),
    ],
    "toolkit-escape-2025-23266": [
        ({"toolkit": "1.17.4-1"}, (), BAD),
        ({"toolkit": "1.17.7-1"}, (), BAD),
        ({"toolkit": "1.17.8-1"}, (), GOOD),
        ({"toolkit": "1.17.3-1"}, (), GOOD),
        ({"toolkit": NOT_KNOWN}, (), UNKNOWN),
    ],
    "repository-key-with-expired-subkey": [
        ({}, (REPO,), BAD),
        ({"toolkit": "1.20.1-1"}, (), GOOD),
        ({}, (f"{REPO}?",), UNKNOWN),
    ],
}
ROWS = [
    (name, programs, states, wanted)
    for name, rows in CASES.items()
    for programs, states, wanted in rows
]


@pytest.mark.parametrize(("name", "programs", "states", "wanted"), ROWS, ids=str)
def test_a_row(name: str, programs: dict[str, str], states: tuple[str, ...], wanted: str) -> None:
    assert verdict(name, host(programs, *states)) == wanted


@pytest.mark.parametrize("name", BY_ID)
def test_every_row_has_a_host_that_has_it_one_that_has_not_and_one_of_which_it_is_not_known(
    name: str,
) -> None:
    assert {wanted for _programs, _states, wanted in CASES[name]} == {BAD, GOOD, UNKNOWN}


@pytest.mark.parametrize("row", table.ROWS, ids=lambda row: row.id)
def test_both_ends_of_a_range_are_tried(row: KnownBadRow) -> None:
    """The first release that has the fault, and the first without it, each stand in a case of the
    row.
    """
    for condition in (c for c in row.when if isinstance(c, ReleaseCondition)):
        tried = [
            versions.parse_engine_version(v)
            for programs, _states, _wanted in CASES[row.id]
            for v in programs.get(condition.of, "").split()
        ]
        for bound in filter(None, (condition.first, condition.fixed)):
            numbers = tuple(int(part) for part in bound.split("."))
            assert any(v and v.release[: len(numbers)] == numbers for v in tried), bound


def test_the_table_is_of_one_form() -> None:
    assert len(BY_ID) == len(table.ROWS) > 12
    for row in table.ROWS:
        assert re.fullmatch(r"[a-z0-9][a-z0-9.-]+", row.id), row.id
        assert row.when, row.id
        assert row.links, row.id
        assert all(link.startswith("https://") for link in row.links), row.id
        assert not row.what.endswith("."), row.id
        assert not row.way.endswith("."), row.id
        for release in (c for c in row.when if isinstance(c, ReleaseCondition)):
            first, fixed = (
                versions.parse_engine_version(release.first),
                versions.parse_engine_version(release.fixed),
            )
            assert (first is None, fixed is None) == (not release.first, not release.fixed), row.id
            assert first is None or fixed is None or first < fixed, row.id
        assert {c.state for c in row.when if isinstance(c, Is)} <= set(rules.WORDS), row.id


# After these a host serves no GPU, or the wrong one. The other rows are said, and the run goes on.
STOPS = {
    "containerd-refuses-newer-drop-in",
    "containerd-loses-main-file",
    "toolkit-1.18.0-wrong-directory",
    "toolkit-1.17.0-links",
    "toolkit-1.17.7-direct-calls",
    "toolkit-without-swarm",
    "refresh-misses-nvidia-current",
    "refresh-misses-compressed-modules",
    "spec-too-new-for-its-reader",
    "docker-gpus-by-stale-spec",
}


def test_which_rows_stop_a_run() -> None:
    assert {row.id for row in table.ROWS if row.stops} == STOPS


# A host with two engines: what is so of one says nothing of the other.
TWO = [
    (host({"containerd": "2.3.4"}, ABOVE), host({"docker": "29.2.0"}), BAD),
    (host({"containerd": "2.3.4"}), host({"docker": "29.2.0"}, ABOVE), GOOD),
    (host({"containerd": "2.3.7"}, ABOVE), host({"containerd": "2.3.4"}), GOOD),
    (host({"containerd": "2.3.4"}, f"{ABOVE}?"), host({"containerd": "2.3.4"}, ABOVE), BAD),
    (host({"containerd": "2.3.4"}, f"{ABOVE}?"), host({"containerd": "2.3.4"}), UNKNOWN),
]


@pytest.mark.parametrize(("one", "other", "wanted"), TWO)
def test_each_engine_is_judged_by_itself(one: HostView, other: HostView, wanted: str) -> None:
    assert (
        verdict("containerd-refuses-newer-drop-in", one, other)
        == verdict("containerd-refuses-newer-drop-in", other, one)
        == wanted
    )


KNOWN = st.sampled_from([True, False, None])


@given(st.lists(KNOWN, min_size=1, max_size=5))
def test_what_is_not_known_is_neither_good_nor_bad(held: list[bool | None]) -> None:
    """New knowledge turns "not known" into one of the other two, and never one of those into the
    other.
    """
    names = list(rules.WORDS)[: len(held)]
    row = KnownBadRow("x", "y", tuple(Is(name) for name in names), "z", ("https://example.org",))

    def judged(values: list[bool | None]) -> JudgedRows:
        return rules.judge_rows([row], [HostView({}, dict(zip(names, values, strict=True)))])

    now = judged(held)
    later = [judged([to if v is None else v for v in held]) for to in (True, False)]
    assert bool(now.found) == (False not in held and None not in held)
    assert bool(now.open) == (False not in held and None in held)
    if not now.open:
        assert [bool(j.found) for j in later] == [bool(now.found)] * 2
