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
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.formats import toml
from hypothesis import assume, given
from hypothesis import strategies as st


def applied(original: str, edits: list[dict[str, Any]]) -> str:
    """What the executor does on the node: line ranges of the bytes, from the bottom."""
    lines = original.encode().split(b"\n")
    lines = [line + b"\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])
    for edit in sorted(edits, key=lambda e: e["start"], reverse=True):
        lines[edit["start"] : edit["end"]] = [edit["text"].encode()]
    return b"".join(lines).decode()


def edited(text: str, key: str, value: Any) -> str:
    doc = toml.set_value(toml.parse(text, "f.toml"), tuple(key.split("/")), value)
    assert applied(text, toml.edits(doc)) == doc.text
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
    assert toml.first_comment(text) == (None if before is None else len(before))


SETS = {
    "replace a value, keep its comment": ("a = 1 # one\n", "a", 2, "a = 2 # one\n"),
    "replace a multi-line array": ("a = [\n  1, # x\n  2,\n]\nb = 1\n", "a", [3], "a = [3]\nb = 1\n"),
    "replace a multi-line string": ('a = """\nx = 1\n"""\nb = 1\n', "a", "y", 'a = "y"\nb = 1\n'),
    "a key beside its siblings": ("[t]\n  a = 1\n\n[u]\n", "t/b", True, "[t]\n  a = 1\n  b = true\n\n[u]\n"),
    "a key in an empty table": ("[t]\n", "t/a", "x", '[t]\na = "x"\n'),
    "a table that is only implied": ("[a.b.c]\nx = 1\n", "a/b/y", 2, "[a.b.c]\nx = 1\n\n[a.b]\ny = 2\n"),
    "a new table at the end": ("a = 1\n", "t/x", 1, "a = 1\n\n[t]\nx = 1\n"),
    "a new table beside its family": (
        "[p.r.a]\nx = 1\n\n[z]\n", "p/r/b/x", 1, "[p.r.a]\nx = 1\n\n[p.r.b]\nx = 1\n\n[z]\n"),
    "comments under the family stay with it": (
        "[p.r.a]\nx = 1\n# y = 2\n\n[z]\n", "p/r/b/x", 1, "[p.r.a]\nx = 1\n# y = 2\n\n[p.r.b]\nx = 1\n\n[z]\n"),
    "indented as the file is": (
        '[p]\n  [p."q.r"]\n    x = 1\n', "p/q.r/s/y", 1, '[p]\n  [p."q.r"]\n    x = 1\n    [p."q.r".s]\n      y = 1\n'),
    "quoted as the file quotes": ("[p.'q.r']\nx = 1\n", "p/q.r/s/y", 1, "[p.'q.r']\nx = 1\n\n[p.'q.r'.s]\ny = 1\n"),
    "tabs": ("[t]\n\ta = 1\n", "t/b", 1, "[t]\n\ta = 1\n\tb = 1\n"),
    "carriage returns": ("a = 1\r\n[t]\r\nb = 1\r\n", "t/c", 1, "a = 1\r\n[t]\r\nb = 1\r\nc = 1\r\n"),
    "no line end at the end": ("[t]\na = 1", "t/b", 1, "[t]\na = 1\nb = 1\n"),
    "last value without a line end": ("a = 1", "a", 2, "a = 2"),
    "byte order mark, first line": ("\ufeffa = 1\n", "a", 2, "\ufeffa = 2\n"),
    "byte order mark, before the first line": ("\ufeff[t]\na = 1\n", "b", 2, "\ufeffb = 2\n[t]\na = 1\n"),
    "a first top-level key stands before the tables": ("# about\n\n[t]\na = 1\n", "b", 2, "# about\nb = 2\n\n[t]\na = 1\n"),
    "an empty file": ("", "a/b", 1, "[a]\nb = 1\n"),
    "dotted keys go on as dotted keys": ("[t]\na.b = 1\n", "t/a/c", 2, "[t]\na.b = 1\na.c = 2\n"),
    "dotted from the top": ('a."b.c".d = 1\n', "a/b.c/e/f", 2, 'a."b.c".d = 1\na."b.c".e.f = 2\n'),
    "into an inline table": ("t = { a = 1 }\n", "t/b", 2, "t = { a = 1, b = 2 }\n"),
    "into an empty inline table": ("t = {}\n", "t/b", 2, "t = { b = 2 }\n"),
    "inside an inline table": ("t = { a = 1, b = { c = 1 } } # x\n", "t/b/c", 2, "t = { a = 1, b = { c = 2 } } # x\n"),
    "a hash in a string is no comment": ('a = "#1" # c\n', "a", "#2", 'a = "#2" # c\n'),
    "a bracket in a comment is no table": ("[t]\na = 1\n# [u]\nb = 2\n", "t/c", 3, "[t]\na = 1\n# [u]\nb = 2\nc = 3\n"),
    "nothing to do": ("a = 1\n", "a", 1, "a = 1\n"),
    "a number is no truth": ("a = 1\n", "a", True, "a = true\n"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "key", "value", "wanted"), SETS.values(), ids=SETS)
def test_set(text: str, key: str, value: Any, wanted: str) -> None:
    assert edited(text, key, value) == wanted


REMOVES = {
    "a key": ("[t]\na = 1\nb = 2\n", "t/a", "[t]\nb = 2\n"),
    "a table and all below it": ("[a]\nx = 1\n\n[a.b]\ny = 1\n\n[a.b.c]\nz = 1\n\n[d]\n", "a/b", "[a]\nx = 1\n\n[d]\n"),
    "the last table": ("a = 1\n\n[t]\nb = 1\n", "t", "a = 1\n"),
    "the first of an inline table": ("t = { a = 1, b = 2 }\n", "t/a", "t = { b = 2 }\n"),
    "the last of an inline table": ("t = { a = 1, b = 2 }\n", "t/b", "t = { a = 1 }\n"),
    "a dotted key": ("a.b = 1\na.c = 2\n", "a/b", "a.c = 2\n"),
    "a table of dotted keys": ("x = 1\na.b = 1\na.c = 2\n", "a", "x = 1\n"),
    "what is not there": ("a = 1\n", "b/c", "a = 1\n"),
}


@pytest.mark.parametrize(("text", "key", "wanted"), REMOVES.values(), ids=REMOVES)
def test_remove(text: str, key: str, wanted: str) -> None:
    doc = toml.remove(toml.parse(text, "f.toml"), tuple(key.split("/")))
    assert doc.text == applied(text, toml.edits(doc)) == wanted


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
    before = toml.parse(text, "f.toml")
    after = toml.append(before, ("i",), "x")
    assert after.text == applied(text, toml.edits(after)) == wanted
    back = toml.discard(toml.parse(after.text, "f.toml"), ("i",), "x")
    assert back.data.get("i", []) == before.data.get("i", [])


@pytest.mark.parametrize(
    ("text", "key", "line"),
    [
        ("x = 1\n[[t]]\na = 1\n", "t/a", 3),
        ("x = 1\ny = [1]\n", "y/a", 2),
        ("x = 1\n\n[t]\na = 1\n", "t", 3),
    ],
)
def test_what_cannot_be_changed_alone_is_refused_with_its_line(text: str, key: str, line: int) -> None:
    with pytest.raises(toml.TomlError, match=rf"^f\.toml:{line}: ") as refusal:
        toml.set_value(toml.parse(text, "f.toml"), tuple(key.split("/")), 5)
    assert refusal.value.line == line


@pytest.mark.parametrize(("text", "line"), [("a = 1\nb = \n", 2), ("[t\n", 1), ("a = 1\na = 2\n", 2), ("a = 1\n\n= 3\n", 3)])
def test_broken_text_is_named_by_file_and_line(text: str, line: int) -> None:
    with pytest.raises(toml.TomlError, match=rf"^f\.toml:{line}: this is not valid TOML"):
        toml.parse(text, "f.toml")


def test_line_of_names_keys_and_tables() -> None:
    doc = toml.parse("a = 1\n\n[t.u]\nb = 2\n", "f.toml")
    assert [toml.line_of(doc, p) for p in (("a",), ("t",), ("t", "u", "b"), ("x",))] == [1, 3, 4, None]


def test_without_any_toml_library_the_message_says_which_file_lists_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tomllib", None)
    monkeypatch.setitem(sys.modules, "tomlkit", None)
    toml.parse.cache_clear()
    with pytest.raises(PlanError, match=r"meta/execution-environment\.yml"):
        toml.parse("a = 1\n", "f.toml")


def test_tomlkit_reads_the_same_where_the_standard_library_has_no_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tomllib", None)
    toml.parse.cache_clear()
    assert edited("[t]\na = 1 # c\n", "t/b", [1, "x"]) == '[t]\na = 1 # c\nb = [1, "x"]\n'
    with pytest.raises(toml.TomlError, match=r"^f\.toml:2: "):
        toml.parse("a = 1\nb = = 2\n", "f.toml")


# ---------------------------------------------------------------- for all texts

NAMES = st.sampled_from(["a", "b", "c", "io.x", "it's", 'q"'])
VALUES = st.one_of(st.integers(-9, 9), st.booleans(), st.text("ab #\\\"'\n=[]{}é\x7f", max_size=5), st.lists(st.integers(0, 3), max_size=3))
DATA = st.recursive(VALUES, lambda inner: st.dictionaries(NAMES, inner, max_size=3), max_leaves=12).filter(lambda d: isinstance(d, dict))
PATHS = st.lists(NAMES, min_size=1, max_size=4).map(tuple)


@st.composite
def texts(draw: st.DrawFn) -> str:
    """The same data written in one of the ways in which people write TOML, with comments and blank lines in between."""
    data = draw(DATA)
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    lines: list[str] = []

    def comment() -> None:
        lines.extend(draw(st.sampled_from([[], [], [""], ["# [x]"], ["", "# y = 1", ""]])))

    def table(path: tuple[str, ...], content: dict[str, Any]) -> None:
        indent = "  " * len(path) if draw(st.booleans()) else ""
        if path:
            lines.append(indent + "[" + toml.dotted(path) + "]" + draw(st.sampled_from(["", " # t"])))
        inner = {}
        for name, value in content.items():
            if isinstance(value, dict) and draw(st.booleans()):
                inner[name] = value
                continue
            comment()
            lines.append(f"{indent}{toml.key(name)} = {toml.dumps(value)}{draw(st.sampled_from(['', ' # v']))}")
        for name, value in inner.items():
            comment()
            table((*path, name), value)

    table((), data)
    return newline.join(lines) + draw(st.sampled_from(["", newline]))


def with_value(data: Any, path: tuple[str, ...], value: Any) -> Any:
    head, *rest = path
    return {**data, head: with_value(data.get(head, {}), tuple(rest), value) if rest else value}


@given(texts(), PATHS, VALUES)
def test_the_data_changes_by_the_key_and_the_other_lines_stay(text: str, path: tuple[str, ...], value: Any) -> None:
    before = toml.parse(text, "f.toml")
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
    assert applied(text, toml.edits(after)) == after.text
    kept = [line for line, origin in zip(after.lines, after.origin, strict=True) if origin >= 0]
    assert len(before.lines) - len(kept) <= 1 + text.count("\\n")
    assert not re.search(r"(?<!\r)\n", after.text) if "\r\n" in text else "\r" not in after.text


@given(texts(), PATHS, VALUES)
def test_what_was_added_can_be_taken_out_again(text: str, path: tuple[str, ...], value: Any) -> None:
    before = toml.parse(text, "f.toml")
    assume(toml.lookup(before.data, path) is None)
    try:
        after = toml.set_value(before, path, value)
    except toml.TomlError:
        return
    back = toml.remove(toml.parse(after.text, "f.toml"), path)
    assert toml.lookup(back.data, path) is None


@given(st.dictionaries(st.lists(NAMES, min_size=2, max_size=4).map(tuple), VALUES, max_size=6))
def test_a_document_of_our_own_says_what_the_edits_of_an_empty_one_say(values: dict[tuple[str, ...], Any]) -> None:
    assume(not any(one != other and other[: len(one)] == one for one in values for other in values))
    doc = toml.written("f.toml", "# ours\nversion = 3\n", list(values.items()))
    edited = toml.set_values(toml.parse("# ours\nversion = 3\n", "f.toml"), list(values.items()))
    assert tomllib.loads(doc.text) == doc.data == edited.data
    assert toml.set_values(doc, list(values.items())) is doc
    assert doc.text.count("\n[") == len({path[:-1] for path in values})


def test_a_key_that_is_a_table_as_well_is_refused_in_a_document_of_our_own() -> None:
    with pytest.raises(toml.TomlError, match=r"^f\.toml:\d+: "):
        toml.written("f.toml", "", [(("a", "b"), 1), (("a", "b", "c"), 2)])
