# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The mutants of the planner: what is changed, what stays, and that a sample outlives edits
elsewhere.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.unit import tool_modules


@pytest.fixture(scope="module", autouse=True)
def tools() -> Iterator[None]:
    with tool_modules.reachable():
        yield


# a line of code -> the line as each mutant has it
CHANGED = {
    "a == b": ["a != b"],
    "a < b": ["a <= b"],
    "a not in b": ["a in b"],
    "a is None": ["a is not None"],
    "a < b < c": [],
    "a and b": ["a or b"],
    "not a": ["bool(a)"],
    "a - b": ["a + b"],
    "a + 1": ["a - 1", "a + 2"],
    "a + 'text'": [],
    "f'{a}' + b": [],
    "x = True": ["x = False"],
    "x: int = 3": ["x: int = 4"],
    "X = ((1, 2), (3, 4))": [],
    "X = (1, 2)": ["X = (2, 2)", "X = (1, 3)"],
    "x: int | None": [],
    "def f(a: int=0) -> bool:\n    return a": ["def f(a: int=1) -> bool:\n    return a", "def f(a: int=0) -> bool:\n    return None"],
    "def f():\n    return None": [],
    '"a text"': [],
}  # fmt: skip


@pytest.mark.parametrize("source", CHANGED)
def test_each_mutant_changes_one_place(source: str) -> None:
    import mutations

    count = len(mutations.list_mutations(ast.parse(source)))
    assert [ast.unparse(mutations.mutate(source, index)) for index in range(count)] == CHANGED[
        source
    ]


def test_a_key_has_the_function_and_no_line_and_equal_changes_are_numbered() -> None:
    import mutations

    source = "X = 1\n\n\nclass C:\n    def m(self, a):\n        if not a:\n            return a\n        return a\n"
    keys = [site.key for site in mutations.find_sites_in("p.py", source)]
    of_m = [
        "p.py:C.m: not a -> bool(a)",
        "p.py:C.m: return a -> return None",
        "p.py:C.m: return a -> return None #2",
    ]
    assert keys == ["p.py:<module>: 1 -> 2", *of_m]


def test_a_sample_keeps_what_stays_when_another_function_changes() -> None:
    import mutations

    functions = [f"def f{number}(a):\n    return a < {number}\n" for number in range(50)]
    before = [*mutations.find_sites_in("p.py", "".join(functions))]
    after = [*mutations.find_sites_in("p.py", "".join(["def g(a):\n    return a\n", *functions]))]
    kept = {site.key for site in mutations.sample(before, 20, 5)} & {
        site.key for site in mutations.sample(after, 20, 5)
    }
    assert len(kept) >= 19
    assert (
        mutations.sample(before, 20, 5)
        == mutations.sample(before, 20, 5)
        != mutations.sample(before, 20, 6)
    )


def test_each_mutant_without_an_effect_is_still_there() -> None:
    """A function that was renamed would have its reason forgotten."""
    from equivalent_mutants import EQUIVALENT
    from mutations import PLANNER, find_sites

    assert set(EQUIVALENT) <= {site.key for site in find_sites(PLANNER)}
