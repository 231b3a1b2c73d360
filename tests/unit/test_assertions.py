# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rules of tests: an assertion can fail, what tests share is in no test file, and what is drawn
is counted in one place.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TESTS = sorted((ROOT / "tests").rglob("*.py"))


@functools.cache
def read_tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def is_always_true(test: ast.expr) -> bool:
    """Tell whether a condition is true whatever the code does, as far as its form shows."""
    if isinstance(test, ast.Constant | ast.Tuple | ast.Lambda | ast.JoinedStr):
        return True
    if isinstance(test, ast.BoolOp):
        found = [is_always_true(value) for value in test.values]
        return any(found) if isinstance(test.op, ast.Or) else all(found)
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return False
    left, right = ast.unparse(test.left), ast.unparse(test.comparators[0])
    return left == right or (
        left.startswith("len(") and isinstance(test.ops[0], ast.GtE) and right == "0"
    )


def is_raises(item: ast.withitem) -> bool:
    """Tell whether a `with` expects an exception."""
    return (
        isinstance(item.context_expr, ast.Call)
        and ast.unparse(item.context_expr.func) == "pytest.raises"
    )


def find_vacuous(tree: ast.AST) -> Iterator[int]:
    """Yield the lines of assertions that never fail: they are always true, or stand behind what
    raises.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert) and is_always_true(node.test):
            yield node.lineno
        if isinstance(node, ast.With) and any(map(is_raises, node.items)):
            yield from (after.lineno for after in node.body[1:] if isinstance(after, ast.Assert))


def find_borrowed(tree: ast.AST) -> Iterator[str]:
    """Yield the test files that a file imports from."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and f"{node.module}.".startswith("tests."):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (
                name for name in names if any(part.startswith("test_") for part in name.split("."))
            )


def find_fixed_counts(tree: ast.AST) -> Iterator[int]:
    """Yield the lines that draw a fixed number of examples, whatever the run is for."""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.keyword)
            and node.arg == "max_examples"
            and isinstance(node.value, ast.Constant)
        ):
            yield node.value.lineno


def test_every_assertion_can_fail() -> None:
    assert [f"{path}:{line}" for path in TESTS for line in find_vacuous(read_tree(path))] == []


def test_what_tests_share_is_in_no_test_file() -> None:
    """A test file can then be renamed, split and removed; pytest would also import it twice."""
    assert [(str(path), name) for path in TESTS for name in find_borrowed(read_tree(path))] == []


def test_every_number_of_examples_follows_the_run() -> None:
    """tests/draws.py counts them, so that `make test` draws few and `make nightly` all."""
    assert [f"{path}:{line}" for path in TESTS for line in find_fixed_counts(read_tree(path))] == []
    assert [*find_fixed_counts(ast.parse("@settings(max_examples=40)\ndef f(): ..."))] == [1]


# code -> the lines that never fail
VACUOUS = {
    "assert True": [1],
    "assert (found, 'a sentence')": [1],
    "assert found or 'a sentence'": [1],
    "assert found == found": [1],
    "assert len(found) >= 0": [1],
    "with pytest.raises(ValueError):\n    read(text)\n    assert found": [3],
    "assert found": [],
    "assert len(found) >= 1": [],
    "assert found and wanted": [],
    "with pytest.raises(ValueError):\n    read(text)\nassert found": [],
}


@pytest.mark.parametrize("source", VACUOUS)
def test_the_search_finds_an_assertion_that_never_fails(source: str) -> None:
    assert [*find_vacuous(ast.parse(source))] == VACUOUS[source]


@pytest.mark.parametrize(
    ("source", "borrowed"),
    [
        ("from tests.unit.test_x import play", ["tests.unit.test_x.play"]),
        ("from tests.unit import test_x", ["tests.unit.test_x"]),
        ("from tests.unit import bare", []),
        ("from tests_of_others import test_x", []),
    ],
)
def test_the_search_finds_what_is_borrowed(source: str, borrowed: list[str]) -> None:
    assert [*find_borrowed(ast.parse(source))] == borrowed
