# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tables of docs/cdi.md: versions of CDI, what differs from nvidia-ctk, the validator's rules."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi import deviations
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.lint import rules
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.spec import version
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines import (
    cdi_versions,
)
from page_table import ENGINE_TITLES, join_number, table


def build_caps_table() -> str:
    """Return a table of CDI: one row per version of the specification, one column per engine.

    A cell lists the releases that read this version and no newer one.
    """
    columns = {engine: list_ranges(rows) for engine, rows in cdi_versions.MAX_CDI.items()}
    known = [
        newest
        for newest in ("", *version.KNOWN)
        if any(newest in column for column in columns.values())
    ]
    body = [
        [newest or "no CDI", *("; ".join(column.get(newest, ())) for column in columns.values())]
        for newest in known
    ]
    return table(["newest version read", *(ENGINE_TITLES[engine] for engine in columns)], body)


def list_ranges(rows: Sequence[tuple[tuple[int, int, int], str]]) -> Mapping[str, list[str]]:
    """Return the releases in words, by the newest version that they read.

    Releases that follow each other are joined: {"0.8.0": ["1.7.27 to before 2.0.0", "from 2.1.0"]}.
    """
    found: dict[str, list[str]] = {}
    joined = [row for index, row in enumerate(rows) if index == 0 or rows[index - 1][1] != row[1]]
    for (first, newest), following in zip(joined, (*joined[1:], None), strict=True):
        words = (
            f"from {join_number(first)}"
            if following is None
            else f"{join_number(first)} to before {join_number(following[0])}"
        )
        found.setdefault(newest, []).append(re.sub(r"^0\.0\.0 to before", "before", words))
    return found


def build_library_table() -> str:
    rows = [
        [ENGINE_TITLES[engine], join_number(first)]
        for engine, first in cdi_versions.NEWER_LIBRARY.items()
    ]
    return table(["engine", "CDI library 1.1.1 from"], rows)


def build_packaged_table() -> str:
    rows = [
        [
            ENGINE_TITLES[engine],
            name,
            newest,
            cdi_versions.get_max_cdi_version(engine, name.partition("~")[0]),
        ]
        for engine, name, newest in (
            (engine, read_pattern(pattern), newest)
            for engine, pattern, newest in cdi_versions.MAX_CDI_PACKAGED
        )
    ]
    return table(
        ["engine", "release", "newest version read", "the same release from upstream"], rows
    )


def read_pattern(pattern: str) -> str:
    """Return the release in the pattern that recognises it: v?1\\.7\\.24~ds1.* is 1.7.24~ds1."""
    return pattern.replace("\\", "").replace("v?", "").replace(".*", "")


def build_needs_table() -> str:
    rules = [(first, what) for first, what, _applies in (*version.EDIT_RULES, *version.SPEC_RULES)]
    return table(
        ["content", "needs version"],
        [
            [what, first]
            for first, what in sorted(
                rules, key=lambda r: (version.get_spec_version_key(r[0]), r[1])
            )
        ],
    )


def build_difference_table() -> str:
    head = ["", "`nvidia-ctk cdi generate`", "this collection", "why", "what users met"]
    return table(
        head,
        [
            [d.topic, d.nvidia_ctk, d.collection, d.why, ", ".join(d.issues)]
            for d in deviations.DEVIATIONS
        ],
    )


def build_check_table() -> str:
    order = ("error", "warning", "note")
    rows = sorted(rules.RULES.items(), key=lambda item: order.index(item[1].level))
    return table(["rule", "level", "what is right", "what an engine does otherwise", "what to do"], [
        [f"`{name}`", r.level, r.what, r.effect, r.remedy + (f". Of NVIDIA's: {r.of_nvidia}" if r.of_nvidia else "")] for name, r in rows
    ])  # fmt: skip
