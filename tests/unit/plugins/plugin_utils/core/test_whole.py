# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Numbers in a host's texts: what is none is None, whatever `isdigit` says of it."""

from __future__ import annotations

import pathlib
import re

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import versions
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.whole import read_whole

PLANNER = pathlib.Path(versions.__file__).parent.parent


@pytest.mark.parametrize(
    ("text", "number"),
    [("0", 0), ("007", 7), ("9" * 19, 10**19 - 1), ("9" * 20, None), ("1" * 5000, None), ("²", None), ("٣", None), ("-1", None),
     (" 1", None), ("1\n", None), ("", None), (None, None)],
)  # fmt: skip
def test_a_number(text: str | None, number: int | None) -> None:
    assert read_whole(text) == number


@pytest.mark.parametrize(
    "text",
    [
        "1" * 5000 + ".2",
        "1." + "2" * 5000,
        "1.2." + "3" * 5000,
        "1.2.3-rc" + "4" * 5000,
        "1" * 5000,
    ],
)
def test_a_version_of_thousands_of_digits_is_no_error(text: str) -> None:
    found = versions.parse_engine_version(text)
    assert found is None or hash(found) is not None


def test_no_text_of_a_host_is_taken_for_a_number_by_isdigit() -> None:
    """`isdigit` is true for signs that int() refuses; elsewhere it decides about names, and counts
    nothing.
    """
    found = [
        path.name
        for path in PLANNER.rglob("*.py")
        if re.search(r"int\([^)\n]*\).*\.isdigit\(\)|\.isdigit\(\).*int\(", path.read_text())
    ]
    assert sorted(found) == ["listed.py", "wanted.py"], "with isascii(), and for a user's own key"
