# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""YAML of others: its value, or an error with a line, by bounds that hold with every release of
PyYAML.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import yaml_text
from hypothesis import given
from hypothesis import strategies as st

READ: list[tuple[str, Any]] = [
    ("", None),
    ("# a comment\n", None),
    ("a: {b: [1, 'x']}", {"a": {"b": [1, "x"]}}),
    ("a: &a {x: 1}\nb: {<<: *a, y: 2}", {"a": {"x": 1}, "b": {"x": 1, "y": 2}}),
    ("a: &a {x: 1}\nb: {x: 2, <<: *a}", {"a": {"x": 1}, "b": {"x": 2}}),
    ("b: {<<: [{x: 1}, {x: 2, y: 2}]}", {"b": {"x": 1, "y": 2}}),
    ("b: {<<: {x: 1}, y: 2}", {"b": {"x": 1, "y": 2}}),
    ("a: &x 1\nb: &x 2\nc: *x", {"a": 1, "b": 2, "c": 2}),
    ("a: &a k\n*a : 1", {"a": "k", "k": 1}),
    ("a: 1\na: 2", {"a": 2}),
    ("a: '<<'\n", {"a": "<<"}),
    ("a: =\n", {"a": "="}),
    ("a: ! x", {"a": "x"}),
    (
        "a: !!str 5\nb: !!int '5'\nc: !!seq [x]\nd: !!map {}",
        {"a": "5", "b": 5, "c": ["x"], "d": {}},
    ),
    (
        "a: yes\nb: ~\nc: 1.5\nd: 0x1f\ne: 190:20:30",
        {"a": True, "b": None, "c": 1.5, "d": 31, "e": 685230},
    ),
    ("a: 2024-01-02\nb: !!binary aGk=", {"a": datetime.date(2024, 1, 2), "b": b"hi"}),
    ("a: 1e999999\nb: 1.0e+999999", {"a": "1e999999", "b": float("inf")}),
    ("\ufeffa: 1", {"a": 1}),
    (
        f"a: {'9' * 100}\nb: '{'9' * 5000}'\nc: {'x' * 5000}",
        {"a": int("9" * 100), "b": "9" * 5000, "c": "x" * 5000},
    ),
]


@pytest.fixture(params=["libyaml", "pure"], autouse=True)
def loader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read by libyaml, and by PyYAML's own parser as where that is missing."""
    if request.param == "pure":
        monkeypatch.setattr(yaml_text, "LOADER", yaml.SafeLoader)
    elif yaml_text.LOADER is yaml.SafeLoader:
        pytest.skip("this PyYAML has no libyaml")


@pytest.mark.parametrize(("text", "value"), READ)
def test_a_text_is_read(text: str, value: Any) -> None:
    assert yaml_text.read_bounded_yaml(text) == value


def test_a_text_of_the_greatest_depth_is_read() -> None:
    found = yaml_text.read_bounded_yaml("[" * yaml_text.DEEPEST + "]" * yaml_text.DEEPEST)
    for _level in range(yaml_text.DEEPEST - 1):
        (found,) = found
    assert found == []


def test_a_text_of_the_greatest_size_is_read_and_one_more_character_is_refused() -> None:
    most = 1 << 18 if yaml_text.LOADER is yaml.SafeLoader else 4 << 20
    assert yaml_text.read_bounded_yaml("a: 1 #".ljust(most, "x")) == {"a": 1}
    with pytest.raises(yaml_text.TooLargeYaml):
        yaml_text.read_bounded_yaml("a: 1 #".ljust(most + 1, "x"))


def merged(depth: int) -> str:
    """Half a kilobyte whose tables are nine times as large at every line."""
    lines = [f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 9)}]}}" for n in range(1, depth)]
    return "\n".join(["a0: &a0 {x: 1, y: 2}", *lines])


def repeated(depth: int) -> str:
    """The same with lists."""
    return "\n".join(
        [
            "a0: &a0 [x]",
            *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, depth)),
        ]
    )


# name -> text, and the line that is named (None: the text as a whole)
MUCH: dict[str, tuple[str, int | None]] = {
    "flow lists": ("a:\n  " + "[" * 10_000, 2),
    "flow lists, just too deep": ("[" * 101 + "]" * 101, 1),
    "flow tables": ("{a: " * 10_000, 1),
    "block lists": ("- " * 10_000 + "x", 1),
    "block tables": ("\n".join(f"{' ' * n}a:" for n in range(200)), 101),
    "merged without end": (merged(12), 6),
    "repeated without end": (repeated(12), 6),
    "one alias many times": ("a: &a [1, 2, 3]\nb: [" + "*a, " * 30_000 + "]", 2),
    "many values": ("a: [" + "1," * 100_001 + "]", 1),
    "many keys": ("\n".join(f"k{n}: 1" for n in range(50_001)), 50_000),
    "a number of a million digits": ("a: " + "9" * 1_000_000, 1),
    "a negative one": ("a: -" + "9" * 101, 1),
    "a hexadecimal one": ("a: 0x" + "f" * 101, 1),
    "an octal one": ("a: 0" + "7" * 101, 1),
    "a binary one": ("a: 0b" + "1" * 101, 1),
    "one with a tag": ("a: !!int '" + "9" * 101 + "'", 1),
    "a fraction": ("a: ." + "9" * 101, 1),
    "one of base 60": ("a: " + "1:" * 300_000 + "1", 1),
    "a time with a tag": ("a: !!timestamp '2001-01-01T00:00:00." + "0" * 101 + "'", 1),
    "ten megabytes": ("[" + "1," * (5 << 20) + "]", None),
}
BAD: dict[str, tuple[str, int | None]] = {
    "a bracket": ("a: [", 1),
    "a date that is none": ("a: 2026-99-99", 1),
    "a word that is not of its tag": ("a: !!timestamp x", 1),
    "a truth that is none": ("a: !!bool x", 1),
    "a fraction of base 60 beyond a float": (
        "a: " + "1:" * 45 + "1.5\nb: !!float '" + "9:" * 49 + "x'",
        2,
    ),
    "a key that is a list": ("? [a]\n: b", 1),
    "a key that is a table": ("x: 1\n? {a: b}\n: b", 2),
    "an object": ("a: !!python/object/apply:os.getcwd []", 1),
    "an object as a scalar": ("a: !!python/name:os.system ''", 1),
    "a tag of one's own": ("a: !vault x", 1),
    "a list within itself": ("a: &a [*a]", 1),
    "a table within itself": ("a: &a\n  b: *a", 2),
    "a table merged into itself": ("a: &a {<<: *a}", 1),
    "an alias of nothing": ("a: *b", 1),
    "a text that is merged": ("a: {<<: b}", 1),
    "a second document": ("a: 1\n---\nb: 1", 2),
    "a tab": ("a:\n\tb: 1", 2),
    "a zero": ("a: 1\nb: \0", 2),
    "half a character": ("a: \ud800", None),
    "UTF-16, decoded as UTF-8": ("\ufffd\ufffda\0:\0", 1),
}


@pytest.mark.parametrize("case", [*MUCH, *BAD])
def test_a_text_is_refused_with_its_line(case: str) -> None:
    text, line = {**MUCH, **BAD}[case]
    with pytest.raises(yaml_text.YamlError) as caught:
        yaml_text.read_bounded_yaml(text)
    much = isinstance(caught.value, yaml_text.TooLargeYaml)
    if yaml_text.LOADER is yaml.SafeLoader and len(text) > yaml_text.SLOW_SIZE:
        line = None  # it is refused as a whole
    assert (much, caught.value.line) == (case in MUCH, line) or (
        case == "half a character" and not much
    )
    assert len(str(caught.value)) < 200, "the text is not repeated"


READERS: list[Callable[[str], Any]] = [yaml_text.read_bounded_yaml, yaml_text.read_lines]


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(
    "case",
    [
        "flow lists",
        "block tables",
        "merged without end",
        "repeated without end",
        "one alias many times",
    ],
)
def test_no_more_is_asked_of_the_parser_than_the_bounds_allow(
    case: str, reader: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = 0
    real = yaml.parse

    def counted(*args: Any, **more: Any) -> Iterator[Any]:
        nonlocal asked
        for event in real(*args, **more):
            asked += 1
            yield event

    monkeypatch.setattr(yaml, "parse", counted)
    with pytest.raises(yaml_text.TooLargeYaml):
        reader(MUCH[case][0])
    assert asked < 2 * yaml_text.MOST
    if case != "one alias many times":
        assert asked < 400


def test_lines_of_values() -> None:
    data, lines = yaml_text.read_lines("a:\n  - x\n  - b: 1\nc: &c {d: 1}\ne: *c\n")
    assert data == {"a": ["x", {"b": 1}], "c": {"d": 1}, "e": {"d": 1}}
    assert lines == {
        (): 1,
        ("a",): 1,
        ("a", 0): 2,
        ("a", 1): 3,
        ("a", 1, "b"): 3,
        ("c",): 4,
        ("c", "d"): 4,
        ("e",): 5,
    }
    with pytest.raises(yaml_text.Twice) as caught:
        yaml_text.read_lines("a:\n  b: 1\n  b: 2\n")
    assert (caught.value.path, caught.value.line) == (("a", "b"), 3)
    with pytest.raises(yaml_text.TooLargeYaml):
        yaml_text.read_lines("[" * 21 + "]" * 21)


WORDS = st.sampled_from(
    ["a", "b", "1", "~", "yes", "1.5", "<<", "0x1f", "2024-01-01", "'q'", '"d"', "=", "1:30"]
)
FLOWS = st.recursive(
    WORDS,
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]")
        | st.lists(
            st.tuples(st.sampled_from("abcd"), inner), max_size=3, unique_by=lambda pair: pair[0]
        ).map(lambda pairs: f"{{{', '.join(f'{key}: {value}' for key, value in pairs)}}}")
    ),
    max_leaves=12,
)


@given(FLOWS)
def test_values_are_those_of_pyyaml(text: str) -> None:
    try:
        wanted = yaml.safe_load(text)
    except yaml.YAMLError:  # a `<<` or `=` where PyYAML has no value for it
        return
    assert yaml_text.read_bounded_yaml(text) == wanted
