# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Texts of TOML, and values to set in them."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import toml
from hypothesis import strategies as st

SETS = {
    "replace a value, keep its comment": ("a = 1 # one\n", "a", 2, "a = 2 # one\n"),
    "replace a multi-line array": ("a = [\n  1, # x\n  2,\n]\nb = 1\n", "a", [3], "a = [3]\nb = 1\n"),
    "replace a multi-line string": ('a = """\nx = 1\n"""\nb = 1\n', "a", "y", 'a = "y"\nb = 1\n'),
    "a key beside its siblings": ("[t]\n  a = 1\n\n[u]\n", "t/b", True, "[t]\n  a = 1\n  b = true\n\n[u]\n"),
    "a key of a table behind an array of tables": ("[[l]]\na = 1\n\n[t]\na = 1\n", "t/a", 2, "[[l]]\na = 1\n\n[t]\na = 2\n"),
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
NAMES = st.sampled_from(["a", "b", "c", "io.x", "it's", 'q"'])
VALUES = st.one_of(
    st.integers(-9, 9),
    st.booleans(),
    st.text("ab #\\\"'\n=[]{}é\x7f", max_size=5),
    st.lists(st.integers(0, 3), max_size=3),
)
DATA = st.recursive(
    VALUES, lambda inner: st.dictionaries(NAMES, inner, max_size=3), max_leaves=12
).filter(lambda d: isinstance(d, dict))
PATHS = st.lists(NAMES, min_size=1, max_size=4).map(tuple)


@st.composite
def texts(draw: st.DrawFn) -> str:
    """The same data written in one of the ways in which people write TOML, with comments and blank
    lines in between.
    """
    data = draw(DATA)
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    lines: list[str] = []

    def comment() -> None:
        lines.extend(draw(st.sampled_from([[], [], [""], ["# [x]"], ["", "# y = 1", ""]])))

    def table(path: tuple[str, ...], content: dict[str, Any]) -> None:
        indent = "  " * len(path) if draw(st.booleans()) else ""
        if path:
            lines.append(
                indent
                + "["
                + toml.write_dotted_path(path)
                + "]"
                + draw(st.sampled_from(["", " # t"]))
            )
        inner = {}
        for name, value in content.items():
            if isinstance(value, dict) and draw(st.booleans()):
                inner[name] = value
                continue
            comment()
            lines.append(
                f"{indent}{toml.write_toml_key(name)} = {toml.dump_toml_value(value)}{draw(st.sampled_from(['', ' # v']))}"
            )
        for name, value in inner.items():
            comment()
            table((*path, name), value)

    table((), data)
    return newline.join(lines) + draw(st.sampled_from(["", newline]))


def with_value(data: Any, path: tuple[str, ...], value: Any) -> Any:
    head, *rest = path
    return {**data, head: with_value(data.get(head, {}), tuple(rest), value) if rest else value}
