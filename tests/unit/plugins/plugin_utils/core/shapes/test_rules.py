# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each kind of shape: what it reads, what it refuses, and the rule that it names then."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.shapes import rules

HALF = "\ud800"  # half a pair of UTF-16, which stands for no byte
FLAG, DIGIT = rules.Flag(), rules.Whole(0, 9)
ASKED = {"names": ["a", "b"], "keep": [[["a"], "int"]]}
TREE = (
    "values at most 24 deep, with texts of at most 4096 characters and integers of at most 64 bits"
)


def nest(depth: int, kind: type) -> Any:
    """Return an empty list or table within others, `depth` in all."""
    found: Any = kind()
    for _level in range(depth - 1):
        found = [found] if kind is list else {"a": found}
    return found


# name -> shape, what it reads, what it refuses, the rule
KINDS: dict[str, tuple[rules.Shape, list[Any], list[Any], str]] = {
    "Text": (rules.Text(2), ["", "é2"], ["123", 1, None, HALF, "\udcff"], "text of at most 2 characters"),
    "Whole": (DIGIT, [0, 9], [-1, 10, 1.0, True, "1"], "an integer between 0 and 9"),
    "Real": (rules.Real(0, 9), [0, 0.5, 9], [-0.5, 9.5, float("nan"), True, "1"], "a number between 0 and 9"),
    "Flag": (FLAG, [True, False], [0, 1, None, "true"], "true or false"),
    "ChoiceShape": (rules.ChoiceShape(("a", "")), ["a", ""], ["b", "A", None, ["a"]], "one of a, the empty text"),
    "Maybe": (rules.Maybe(FLAG), [None, True], [0], "true or false, or null"),
    "QueryPlace": (rules.QueryPlace("names"), [0, 1], [-1, 2, True, "0"], "the number of one of the query's names"),
    "QueryPlace, of nothing": (rules.QueryPlace("more"), [], [0], "the number of one of the query's more"),
    "Items": (rules.Items(FLAG, 2), [[], [True, False]], [[True] * 3, [1], {}, "ab"], "a list of at most 2"),
    "Items, without a bound of its own": (
        rules.Items(FLAG), [[True] * 131072], [[True] * 131073], "a list of at most 131072"
    ),
    "Items, as many as asked for": (
        rules.Items(FLAG, exactly="names"), [[True, False]], [[], [True], [True] * 3], "a list of at most 131072"
    ),
    "Items, of nothing": (rules.Items(FLAG, exactly="more"), [[]], [[True]], "a list of at most 131072"),
    "RowShape": (rules.RowShape((FLAG, DIGIT)), [[True, 1]], [[], [True], [True, 1, 1], [1, True], {}], "a list of 2"),
    "TableShape": (
        rules.TableShape({"a": FLAG, "b?": DIGIT}), [{"a": True}, {"a": True, "b": 1}],
        [{}, {"b": 1}, {"a": 1}, {"a": True, "b": True}, []], "a table"
    ),
    "TableShape, at least one": (
        rules.TableShape({"a?": FLAG, "b?": DIGIT, "c?": DIGIT}, ("a", "b")), [{"a": False}, {"b": 0}], [{}, {"c": 0}], "a table"
    ),
    "Keyed": (
        rules.Keyed(rules.Text(1), FLAG, 2), [{}, {"a": True, "b": False}],
        [{"a": True, "b": True, "c": True}, {"ab": True}, {"a": 1}, []], "a table of at most 2"
    ),
    "Named": (
        rules.Named("names", FLAG), [{"a": True, "b": False}], [{"a": True}, {"a": True, "b": 1}, []], "a table with the query's names"
    ),
    "Named, some": (rules.Named("names", FLAG, some=True), [{}, {"b": True}], [{"a": 1}], "a table with the query's names"),
    "Named, more": (
        rules.Named("names", FLAG, ("c",)), [{"c": True, "a": True, "b": True}], [{"a": True, "b": True}],
        "a table with the query's names"
    ),
    "Named, of nothing": (rules.Named("more", FLAG), [{}], [None], "a table with the query's more"),
    "ListedShape": (
        rules.ListedShape(), [{}, {"a": 1}], [{"b": 1}, {"a": 1, "b": 1}, {"a": HALF}], "the listed values, each with its shape"
    ),
    "TreeShape": (
        rules.TreeShape(),
        [None, True, 0, 0.5, 2**64 - 1, 1 - 2**64, "x" * 4096, nest(24, list), nest(24, dict), {"a": [{"b": ""}]}],
        [2**64, -(2**64), "x" * 4097, HALF, nest(25, list), nest(25, dict), float("nan"), {"x" * 4097: 1}, {"a": HALF}, (1,)],
        TREE
    ),
    "Base64": (rules.Base64(8), ["", "AAAA", "AAAABBB="], ["AAAABBBBCCCC", "A", "é", "AA\n==", 1], "base64 of at most 8 characters"),
    "When": (
        rules.When("k", {"a": rules.TableShape({"k": rules.Text(1)}), "": rules.TableShape({"x": FLAG})}),
        [{"k": "a"}, {"x": True}], [{}, {"k": "b"}, {"k": ["a"]}, [], "k"], "a table"
    ),
    "Has": (
        rules.Has("k", rules.TableShape({"k": FLAG}), rules.TableShape({"x": FLAG})), [{"k": True}, {"x": True}],
        [{"k": 1, "x": True}, {}, [], "k"], "a table"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", KINDS)
def test_a_kind_of_shape_reads_its_values_and_refuses_others_by_its_rule(name: str) -> None:
    shape, within, beyond, rule = KINDS[name]
    assert [shape.read(value, ASKED) for value in within] == within
    assert shape.rule == rule
    for value in beyond:
        with pytest.raises(rules.BrokenShape):
            shape.read(value, ASKED)


DROPPED: list[tuple[rules.Shape, Any, Any]] = [
    # shape, what is given, what is read of it
    (rules.TableShape({"a?": FLAG}), {"a": True, "more": 1}, {"a": True}),
    (rules.Named("names", FLAG, some=True), {"a": True, "more": 1}, {"a": True}),
    (rules.Items(rules.TableShape({})), [{"more": 1}], [{}]),
]


@pytest.mark.parametrize(("shape", "given", "read"), DROPPED)
def test_keys_that_a_shape_does_not_name_are_dropped(
    shape: rules.Shape, given: Any, read: Any
) -> None:
    assert shape.read(given, ASKED) == read
