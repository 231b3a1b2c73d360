# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Edits of TOML: the key that was asked for changes, and no other character."""

from __future__ import annotations

import re
import sys
import tomllib
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import toml
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.unit.toml_cases import NAMES, PATHS, SETS, VALUES, texts, with_value


def applied(original: str, edits: list[dict[str, Any]]) -> str:
    """What the executor does on the node: line ranges of the bytes, from the bottom."""
    lines = original.encode().split(b"\n")
    lines = [line + b"\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])
    for edit in sorted(edits, key=lambda e: e["start"], reverse=True):
        lines[edit["start"] : edit["end"]] = [edit["text"].encode()]
    return b"".join(lines).decode()


def edited(text: str, key: str, value: Any) -> str:
    doc = toml.set_value(toml.parse_toml(text, "f.toml"), tuple(key.split("/")), value)
    assert applied(text, toml.list_toml_edits(doc)) == doc.text
    return doc.text


# A text, and how much of it stands before its first comment; None where it has none.
COMMENTS: list[tuple[str, str | None]] = [
    ("a = 1 # why\n", "a = 1 "),
    ("# why\na = 1\n", ""),
    ('a = "/opt/#1"\n', None),
    ("a = '#'\nb = 2 #\n", "a = '#'\nb = 2 "),
    ('a = "\\"#"\n', None),
    ('a = """\n#"\n"" # no\n""" # yes\n', 'a = """\n#"\n"" # no\n""" '),
    ("a = '''\n# no\\''' # yes", "a = '''\n# no\\''' "),
    ('"#" = 1\n', None),
    ("a = [ # why\n]\n", "a = [ "),
]


@pytest.mark.parametrize(("text", "before"), COMMENTS)
def test_where_the_first_comment_begins(text: str, before: str | None) -> None:
    tomllib.loads(text)
    assert toml.find_first_toml_comment(text) == (None if before is None else len(before))


@pytest.mark.parametrize(("text", "key", "value", "wanted"), SETS.values(), ids=SETS)
def test_set(text: str, key: str, value: Any, wanted: str) -> None:
    assert edited(text, key, value) == wanted


REMOVES = {
    "a key": ("[t]\na = 1\nb = 2\n", "t/a", "[t]\nb = 2\n"),
    "a table and all below it": (
        "[a]\nx = 1\n\n[a.b]\ny = 1\n\n[a.b.c]\nz = 1\n\n[d]\n",
        "a/b",
        "[a]\nx = 1\n\n[d]\n",
    ),
    "the last table": ("a = 1\n\n[t]\nb = 1\n", "t", "a = 1\n"),
    "the first of an inline table": ("t = { a = 1, b = 2 }\n", "t/a", "t = { b = 2 }\n"),
    "the last of an inline table": ("t = { a = 1, b = 2 }\n", "t/b", "t = { a = 1 }\n"),
    "a dotted key": ("a.b = 1\na.c = 2\n", "a/b", "a.c = 2\n"),
    "a table of dotted keys": ("x = 1\na.b = 1\na.c = 2\n", "a", "x = 1\n"),
    "what is not there": ("a = 1\n", "b/c", "a = 1\n"),
}


@pytest.mark.parametrize(("text", "key", "wanted"), REMOVES.values(), ids=REMOVES)
def test_remove(text: str, key: str, wanted: str) -> None:
    doc = toml.remove_toml_key(toml.parse_toml(text, "f.toml"), tuple(key.split("/")))
    assert doc.text == applied(text, toml.list_toml_edits(doc)) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", 'i = ["x"]\n'),
        ("version = 2\n", 'version = 2\ni = ["x"]\n'),
        ("i = []\n", 'i = ["x"]\n'),
        ('i = ["a"] # c\n', 'i = ["a", "x"] # c\n'),
        ('i = ["a",]\n', 'i = ["a", "x",]\n'),
        ('i = [\n  "a", # c\n]\n', 'i = [\n  "a",\n  "x", # c\n]\n'),
    ],
)
def test_append_and_discard(text: str, wanted: str) -> None:
    before = toml.parse_toml(text, "f.toml")
    after = toml.append(before, ("i",), "x")
    assert after.text == applied(text, toml.list_toml_edits(after)) == wanted
    back = toml.discard(toml.parse_toml(after.text, "f.toml"), ("i",), "x")
    assert back.data.get("i", []) == before.data.get("i", [])


@pytest.mark.parametrize(
    ("text", "key", "line"),
    [
        ("x = 1\n[[t]]\na = 1\n", "t/a", 3),
        ("x = 1\ny = [1]\n", "y/a", 2),
        ("x = 1\n\n[t]\na = 1\n", "t", 3),
    ],
)
def test_what_cannot_be_changed_alone_is_refused_with_its_line(
    text: str, key: str, line: int
) -> None:
    with pytest.raises(toml.TomlError, match=rf"^f\.toml:{line}: ") as refusal:
        toml.set_value(toml.parse_toml(text, "f.toml"), tuple(key.split("/")), 5)
    assert refusal.value.line == line


@pytest.mark.parametrize(
    ("text", "line"),
    [("a = 1\nb = \n", 2), ("[t\n", 1), ("a = 1\na = 2\n", 2), ("a = 1\n\n= 3\n", 3)],
)
def test_broken_text_is_named_by_file_and_line(text: str, line: int) -> None:
    with pytest.raises(toml.TomlError, match=rf"^f\.toml:{line}: this is not valid TOML"):
        toml.parse_toml(text, "f.toml")


def test_line_of_names_keys_and_tables() -> None:
    doc = toml.parse_toml("a = 1\n\n[t.u]\nb = 2\n", "f.toml")
    assert [toml.find_key_line(doc, p) for p in (("a",), ("t",), ("t", "u", "b"), ("x",))] == [
        1,
        3,
        4,
        None,
    ]


def test_without_any_toml_library_the_message_says_which_file_lists_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "tomllib", None)
    monkeypatch.setitem(sys.modules, "tomlkit", None)
    toml.parse_toml.cache_clear()
    with pytest.raises(PlanError, match=r"meta/execution-environment\.yml"):
        toml.parse_toml("a = 1\n", "f.toml")


def test_tomlkit_reads_the_same_where_the_standard_library_has_no_parser(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "tomllib", None)
    toml.parse_toml.cache_clear()
    assert edited("[t]\na = 1 # c\n", "t/b", [1, "x"]) == '[t]\na = 1 # c\nb = [1, "x"]\n'
    with pytest.raises(toml.TomlError, match=r"^f\.toml:2: "):
        toml.parse_toml("a = 1\nb = = 2\n", "f.toml")


def test_a_value_that_tomlkit_lets_through_and_then_rejects_names_the_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def reject(_text: str) -> None:
        raise ValueError("month must be in 1..12")

    monkeypatch.setitem(sys.modules, "tomllib", None)
    monkeypatch.setattr("tomlkit.parse", reject)
    toml.parse_toml.cache_clear()
    with pytest.raises(toml.TomlError) as caught:
        toml.parse_toml("a = 1\nb = 2\n", "f.toml")
    assert (caught.value.where, caught.value.line) == ("f.toml", 1)


# ---------------------------------------------------------------- for all texts


@given(texts(), PATHS, VALUES)
def test_the_data_changes_by_the_key_and_the_other_lines_stay(
    text: str, path: tuple[str, ...], value: Any
) -> None:
    before = toml.parse_toml(text, "f.toml")
    at: Any = before.data
    for name in path[:-1]:
        at = at.get(name, {}) if isinstance(at, dict) else None
    assume(not isinstance(at, dict) or not isinstance(at.get(path[-1]), dict))
    if not isinstance(at, dict):
        with pytest.raises(toml.TomlError, match=r"^f\.toml:\d+: "):
            toml.set_value(before, path, value)
        return
    after = toml.set_value(before, path, value)
    assert tomllib.loads(after.text) == with_value(dict(before.data), path, value)
    assert applied(text, toml.list_toml_edits(after)) == after.text
    kept = [line for line, origin in zip(after.lines, after.origin, strict=True) if origin >= 0]
    assert len(before.lines) - len(kept) <= 1 + text.count("\\n")
    assert not re.search(r"(?<!\r)\n", after.text) if "\r\n" in text else "\r" not in after.text


@given(texts(), PATHS, VALUES)
def test_what_was_added_can_be_taken_out_again(
    text: str, path: tuple[str, ...], value: Any
) -> None:
    before = toml.parse_toml(text, "f.toml")
    assume(toml.look_up_toml(before.data, path) is None)
    try:
        after = toml.set_value(before, path, value)
    except toml.TomlError:
        return
    back = toml.remove_toml_key(toml.parse_toml(after.text, "f.toml"), path)
    assert toml.look_up_toml(back.data, path) is None


@given(st.dictionaries(st.lists(NAMES, min_size=2, max_size=4).map(tuple), VALUES, max_size=6))
def test_a_document_of_our_own_says_what_the_edits_of_an_empty_one_say(
    values: dict[tuple[str, ...], Any],
) -> None:
    assume(not any(one != other and other[: len(one)] == one for one in values for other in values))
    doc = toml.build_own_toml("f.toml", "# ours\nversion = 3\n", list(values.items()))
    edited = toml.set_values(
        toml.parse_toml("# ours\nversion = 3\n", "f.toml"), list(values.items())
    )
    assert tomllib.loads(doc.text) == doc.data == edited.data
    assert toml.set_values(doc, list(values.items())) is doc
    assert doc.text.count("\n[") == len({path[:-1] for path in values})


def test_a_key_that_is_a_table_as_well_is_refused_in_a_document_of_our_own() -> None:
    with pytest.raises(toml.TomlError, match=r"^f\.toml:\d+: "):
        toml.build_own_toml("f.toml", "", [(("a", "b"), 1), (("a", "b", "c"), 2)])
