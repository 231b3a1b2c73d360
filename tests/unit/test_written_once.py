# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Values that have one place in the planner and one on the host, which share no code: equal on both
sides, and written nowhere else.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import host_files
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.transaction import health
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import arguments
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import (
    model,
    transaction,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import settings
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import traits

PLUGINS = Path(__file__).resolve().parents[2] / "plugins"
# what it is -> the planner's, the host's
BOTH: dict[str, tuple[Any, Any]] = {
    "where programs are looked for": (model.STANDARD_PATH, host_files.DEFAULT_PATH),
    "how long a unit may take to act": (transaction.UNIT_TIMEOUT, health.DEFAULT_TIMEOUT),
    "how long an engine may take to answer": (traits.SERVES_WITHIN, health.SERVES_WITHIN),
}


@pytest.mark.parametrize("what", BOTH)
def test_both_sides_have_the_same(what: str) -> None:
    planner, host = BOTH[what]
    assert planner == host


def literals(tree: ast.Module) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Every list and tuple of texts, with its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.List | ast.Tuple):
            yield node.lineno, tuple(str(e.value) for e in node.elts if isinstance(e, ast.Constant))


# the value -> the files that may write it
ONCE: dict[tuple[str, ...], set[str]] = {
    model.CDI_DIRS: {"model.py"},
    model.STANDARD_PATH: {"model.py", "host_files.py"},
}


@pytest.mark.parametrize("value", ONCE, ids=lambda value: value[0])
def test_it_is_written_in_one_place_of_each_side(value: tuple[str, ...]) -> None:
    found = {
        path.name
        for path in PLUGINS.rglob("*.py")
        for _line, items in literals(ast.parse(path.read_text()))
        if set(value) <= set(items)
    }
    assert found == ONCE[value]


# a part of a line -> the files that may have it
PARTS = {
    "1e-9": {"waves.py"},  # that rounds a percentage of hosts
    # a moment, on the controller and on the host
    '"%Y-%m-%dT%H:%M:%SZ"': {
        "values.py",
        "journal_writer.py",
    },
    ".disable_units or ": {"model.py"},  # whether a plan acts
    '("http://", "https://")': {"sink.py"},
}


@pytest.mark.parametrize("part", PARTS)
def test_a_rule_is_written_in_one_place(part: str) -> None:
    assert {
        path.name for path in PLUGINS.rglob("*.py") if part in path.read_text(encoding="utf-8")
    } == PARTS[part]


def test_a_rollout_has_the_defaults_that_its_module_names() -> None:
    named = {
        name: option.get("default")
        for name, option in arguments.derive_step_spec("rollout_settings").items()
    }
    assert (
        settings.build_rollout_settings(named)
        == settings.build_rollout_settings({})
        == settings.RolloutSettings()
    )


def test_an_absent_timeout_is_a_named_one() -> None:
    """How long a part of a transaction may take is used for the part, and summed for the deadline:
    a number of its own would part them.
    """
    paths = sorted((PLUGINS / "module_utils" / "_host" / "transaction").glob("*.py"))
    assert paths, "the transaction's files are elsewhere"
    numbers = [
        f"{path.name}:{node.lineno}"
        for path in paths
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(".get") and node.args
        if ast.unparse(node.args[0]) == "'timeout'"
        and any(isinstance(a, ast.Constant) for a in node.args[1:])
    ]
    assert numbers == []
