# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""YAML of others: what it says, or an error that is known, in little time."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.formats import yaml_text

READ: list[tuple[str, Any]] = [
    ("", None),
    ("a: {b: [1, 'x']}", {"a": {"b": [1, "x"]}}),
    ("a: &a {x: 1}\nb: {<<: *a, y: 2}", {"a": {"x": 1}, "b": {"x": 1, "y": 2}}),
]


@pytest.mark.parametrize(("text", "value"), READ)
def test_what_is_read(text: str, value: Any) -> None:
    assert yaml_text.read(text) == value


def merged(depth: int) -> str:
    """Half a kilobyte whose tables are nine times as large at every line."""
    lines = [f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 9)}]}}" for n in range(1, depth)]
    return "\n".join(["a0: &a0 {x: 1, y: 2}", *lines])


BAD = {
    "a bracket": "a: [",
    "depth": "[" * 10_000,
    "a date that is none": "a: 2026-99-99",
    "a number that Python refuses": f"a: {'9' * 5000}",
    "a word that is not of its tag": "a: !!timestamp x",
    "a truth that is none": "a: !!bool x",
    "a key that is a list": "? [a]\n: b",
    "an object": "a: !!python/object/apply:os.getcwd []",
    "merged without end": merged(12),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_read_ends_soon(case: str) -> None:
    with pytest.raises(yaml_text.NO_YAML):
        yaml_text.read(BAD[case])
