# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the places of keys in a TOML text, so that one key can be changed and every other character
stays.

The text has been parsed by a real parser before: the scanner only finds places in text that is
known to be valid.
"""

from __future__ import annotations

import dataclasses as dc
import functools
import re

Path = tuple[str, ...]

_ESCAPED = re.compile(r"\\(u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|x[0-9A-Fa-f]{2}|.)")
_BLANK = re.compile(r"[ \t]*")
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_SCALAR = re.compile(r"[^,\]}#\n\r]*")
_STRING_OR_COMMENT = re.compile(
    r'"""[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*){0,60000}"{3,5}|\'{3}.*?\'{3,5}|"[^"\\]*(?:\\.[^"\\]*)*"|\'[^\']*\'|#',
    re.DOTALL,
)
_ESCAPES = {
    "b": "\b",
    "t": "\t",
    "n": "\n",
    "f": "\f",
    "r": "\r",
    "e": "\x1b",
    '"': '"',
    "\\": "\\",
}


@dc.dataclass(frozen=True)
class TomlHeader:
    """A header line. `raw` has the key's parts as they are written, quotes included."""

    path: Path
    raw: Path
    start: int
    array: bool


@dc.dataclass(frozen=True)
class Pair:
    """A key and its value. `table` is the header above it. `inline` is the inline table that
    contains it, if any.
    """

    path: Path
    table: Path
    start: int
    value: tuple[int, int]
    in_array: bool = False  # under an array of tables: its path is not unique
    inline: Path | None = None


@dc.dataclass(frozen=True)
class Statements:
    """The headers and pairs of a TOML text, with their places."""

    tables: tuple[TomlHeader, ...]
    pairs: tuple[Pair, ...]


def unquote(raw: str) -> str:
    """Return the key or string that a TOML text stands for."""
    if raw.startswith("'"):
        return raw[1:-1]
    if not raw.startswith('"'):
        return raw

    def replace(match: re.Match[str]) -> str:
        code = match.group(1)
        return chr(int(code[1:], 16)) if code[0] in "uUx" else _ESCAPES[code]

    return _ESCAPED.sub(replace, raw[1:-1])


def _skip_blanks(text: str, at: int) -> int:
    match = _BLANK.match(text, at)
    return match.end() if match else at


def _skip_space(text: str, at: int) -> int:
    """Skip blanks, line ends and comments, as arrays may contain them. Return the place behind
    them.
    """
    while at < len(text):
        if text[at] in " \t\r\n":
            at += 1
        elif text[at] == "#":
            end = text.find("\n", at)
            at = len(text) if end < 0 else end
        else:
            break
    return at


def _skip_string(text: str, at: int) -> int:
    quote = text[at]
    if text.startswith(quote * 3, at):
        at += 3
        while not text.startswith(quote * 3, at):
            at += 2 if quote == '"' and text[at] == "\\" else 1
        at += 3
        # up to two quotes may stand before the closing three
        while at < len(text) and text[at] == quote:
            at += 1
        return at
    at += 1
    while text[at] != quote:
        at += 2 if quote == '"' and text[at] == "\\" else 1
    return at + 1


def _read_key(text: str, at: int) -> tuple[Path, int]:
    """Read the raw parts of a (dotted) key. Return them and the place behind them."""
    raw: list[str] = []
    while True:
        at = _skip_blanks(text, at)
        match = _BARE.match(text, at)
        end = match.end() if match else _skip_string(text, at)
        raw.append(text[at:end])
        at = _skip_blanks(text, end)
        if text[at] != ".":
            return tuple(raw), at
        at += 1


def list_array_elements(text: str, at: int) -> tuple[list[tuple[int, int]], int]:
    """Return the spans of an array's elements, and the end of the array. `at` is its opening
    bracket.
    """
    spans: list[tuple[int, int]] = []
    at = _skip_space(text, at + 1)
    while text[at] != "]":
        end = _skip_value(text, at, [], (), ())
        spans.append((at, end))
        at = _skip_space(text, end)
        if text[at] == ",":
            at = _skip_space(text, at + 1)
    return spans, at + 1


def _skip_value(text: str, at: int, pairs: list[Pair], path: Path, table: Path) -> int:
    """Return the end of the value that begins here. Pairs of inline tables are added to `pairs` on
    the way.
    """
    if text[at] in "\"'":
        return _skip_string(text, at)
    if text[at] == "[":
        return list_array_elements(text, at)[1]
    if text[at] == "{":
        return _skip_inline_table(text, at, pairs, path, table)
    match = _SCALAR.match(text, at)
    return at + len(match.group().rstrip()) if match else at


def _skip_inline_table(text: str, at: int, pairs: list[Pair], path: Path, table: Path) -> int:
    at = _skip_space(text, at + 1)
    while text[at] != "}":
        start = at
        raw, at = _read_key(text, at)
        at = _skip_space(text, at + 1)
        full = path + tuple(unquote(r) for r in raw)
        end = _skip_value(text, at, pairs, full, table)
        pairs.append(Pair(full, table, start, (at, end), inline=path))
        at = _skip_space(text, end)
        if text[at] == ",":
            at = _skip_space(text, at + 1)
    return at + 1


def find_first_toml_comment(text: str) -> int | None:
    """Return the place of the first comment of a valid TOML text. None if there is none: a # within
    a string does not begin one.
    """
    return next(
        (token.start() for token in _STRING_OR_COMMENT.finditer(text) if token.group() == "#"), None
    )


@functools.lru_cache(maxsize=8)  # of the same text many places are asked for
def scan_toml_statements(text: str) -> Statements:
    """Return all headers and pairs of a valid TOML text, in order."""
    tables: list[TomlHeader] = []
    pairs: list[Pair] = []
    table: Path = ()
    arrays: set[Path] = set()
    at = _skip_space(text, 0)
    while at < len(text):
        start = at
        if text[at] == "[":
            array = text.startswith("[[", at)
            raw, at = _read_key(text, at + 1 + array)
            at += 1 + array
            table = tuple(unquote(r) for r in raw)
            tables.append(TomlHeader(table, raw, start, array))
            if array:
                arrays.add(table)
        else:
            raw, at = _read_key(text, at)
            at = _skip_blanks(text, at + 1)
            path = table + tuple(unquote(r) for r in raw)
            inner: list[Pair] = []
            end = _skip_value(text, at, inner, path, table)
            doubtful = bool(arrays) and any(
                table[:size] in arrays for size in range(1, len(table) + 1)
            )
            pairs.append(Pair(path, table, start, (at, end), doubtful))
            pairs.extend(dc.replace(p, in_array=doubtful) for p in inner)
            at = end
        at = _skip_space(text, at)
    return Statements(tuple(tables), tuple(pairs))
