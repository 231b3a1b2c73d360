# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read TOML 1.0 strictly, byte by byte, for the places and the values of its keys: a projection is
made from these.

A text that is not TOML is refused with a line and a code of our own. Nothing of the text is
repeated: a parser's own message quotes keys. Linear in the length of the text. Host side: standard
library only, Python 3.6.
"""

import re

from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.projection import placeholders
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.projection.placeholders import (
    UnreadableText,
    Value,
)

MAX_DEPTH = 64  # of values in values
MAX_PARTS = 64  # of one key
_LONGEST_NUMBER = 1024

# The text is decoded as Latin-1: one character for each byte, and all of the syntax is ASCII.
_BLANK = re.compile(r"[ \t]*")
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_COMMENT = re.compile(r"#[^\x00-\x08\x0a-\x1f\x7f]*")
_LINE_END = re.compile(r"\r?\n")
_BASIC = re.compile(r'[^"\\\x00-\x08\x0a-\x1f\x7f]*')
_LITERAL = re.compile(r"[^'\x00-\x08\x0a-\x1f\x7f]*")
_BASIC_LINES = re.compile(r'[^"\\\x00-\x08\x0b-\x1f\x7f]*')
_LITERAL_LINES = re.compile(r"[^'\x00-\x08\x0b-\x1f\x7f]*")
# Rules that few files need, as texts: re takes longer to compile these than to read a file by the
# others, and keeps what it has compiled.
_CODE = r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8}))"
_FOLD = r"\\[ \t]*\r?\n(?:[ \t\n]+|\r\n)*"
_ESCAPED = {"\\b": "\b", "\\t": "\t", "\\n": "\n", "\\f": "\f", "\\r": "\r", '\\"': '"'}
# Escapes of one letter with the text before each: many at once, and so few that re stays small.
_ESCAPES = r'(?:[^"\\\x00-\x08\x0a-\x1f\x7f]*\\[btnfr"\\]){0,2000}'
_WORD = re.compile(r"true|false|[+-]?(?:inf|nan)")
# {0,2000} for *: longer ones are refused anyway, and re takes some hundred bytes for each step of a
# group.
_RADIX = (
    r"0(?:x[0-9A-Fa-f](?:_?[0-9A-Fa-f]){0,2000}|o[0-7](?:_?[0-7]){0,2000}|b[01](?:_?[01]){0,2000})"
)
_TIME = r"([01][0-9]|2[0-3]):([0-5][0-9]):([0-5][0-9])(\.[0-9]+)?"
_DATE = (
    r"([0-9]{4})-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])(?:[Tt ]%s(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])?)?"
    % _TIME
)
_NUMBER = re.compile(
    r"[+-]?(?:0|[1-9](?:_?[0-9]){0,2000})((?:\.[0-9](?:_?[0-9]){0,2000})?(?:[eE][+-]?[0-9](?:_?[0-9]){0,2000})?)"
)

# A key leads to one of these: a value, a table that only its own tables name, one with a header,
# one of dotted keys, an array of tables.
_VALUE, _IMPLIED, _HEADED, _DOTTED, _ARRAY = range(5)


class _Table(object):
    """A table as the text has built it so far."""

    __slots__ = ("kind", "children", "section", "names", "shared")

    def __init__(self, kind, section=0):
        self.kind = kind
        self.section = section
        self.children = {}
        self.names = placeholders.Names()
        self.shared = {}  # stand-ins for this table's own name, which an array of tables repeats

    def begin_element(self):
        """Begin the next element of an array of tables."""
        self.children = {}
        self.names = placeholders.Names()


_LEAF = _Table(_VALUE)


def scan_toml(data):
    """Return [placeholders.Header or placeholders.Pair, ...] and the spans of all comments of a
    TOML text.

    Raise UnreadableText for a text that is not TOML.
    """
    placeholders.require_readable_size(data)
    return _TomlScanner(data.decode("latin-1")).scan_document()


class _TomlScanner(object):
    def __init__(self, text):
        self.text = text
        self.comments = []
        self.root = _Table(_HEADED)
        self.table = self.root
        self.path = []
        self.parts = 0  # of all keys
        # which header, or which inline table, dotted keys belong to
        self.section = self.sections = 0

    def build_error(self, code, at):
        return UnreadableText(code, placeholders.count_line(self.text, at))

    # --- the text as a whole ---

    def scan_document(self):
        text, statements = self.text, []
        at = 3 if text.startswith("\xef\xbb\xbf") else 0
        if text.startswith(("\xff\xfe", "\xfe\xff")):
            raise UnreadableText("utf-16", 1)
        while True:
            at = self.skip_blanks(at)
            if at < len(text) and text[at] not in "#\r\n":
                item = self.scan_header(at) if text[at] == "[" else self.scan_pair(at)
                statements.append(item)
                at = self.skip_blanks(item.end)
            at = self.skip_comment(at)
            if at == len(text):
                return statements, self.comments
            end = _LINE_END.match(text, at)
            if not end:
                raise self.build_error("toml-line", at)
            at = end.end()

    def skip_blanks(self, at):
        return _BLANK.match(self.text, at).end()

    def skip_comment(self, at):
        match = _COMMENT.match(self.text, at)
        if not match:
            return at
        self.comments.append(match.span())
        return match.end()

    def skip_space(self, at):
        """Return the place behind blanks, line ends and comments, as they may stand inside arrays."""
        while True:
            start = at
            at = self.skip_comment(self.skip_blanks(at))
            end = _LINE_END.match(self.text, at)
            at = end.end() if end else at
            if at == start:
                return at

    # --- keys ---

    def scan_key(self, at):
        """Return the parts of a key as [(name, start, end)], and the end of the key with the blanks
        behind it.
        """
        parts = []
        while True:
            at = self.skip_blanks(at)
            match = _BARE.match(self.text, at)
            end = match.end() if match else self.scan_quoted_key(at)
            parts.append((self.name(at, end), at, end))
            if len(parts) > MAX_PARTS:
                raise self.build_error("toml-deep", at)
            self.parts += 1
            if self.parts > 2 * placeholders.MOST:
                raise self.build_error("too-many", at)
            at = self.skip_blanks(end)
            if self.text[at : at + 1] != ".":
                return parts, at
            at += 1

    def scan_quoted_key(self, at):
        quote = self.text[at : at + 1]
        if not quote or quote not in "\"'":
            raise self.build_error("toml-key", at)
        return self.scan_string(at, quote)

    def name(self, start, end):
        raw = self.text[start:end]
        return self.decode_string(start, end, False) if raw[0] in "\"'" else raw

    def scan_header(self, at):
        array = self.text.startswith("[[", at)
        parts, end = self.scan_key(at + 1 + array)
        closing = "]]" if array else "]"
        if not self.text.startswith(closing, end):
            raise self.build_error("toml-header", at)
        self.section = self.sections = self.sections + 1
        self.path = [name for name, _start, _end in parts]
        above, self.table = self.open_tables(at, array)
        return placeholders.Header(
            at,
            end + len(closing),
            self.path,
            parts,
            [table.names for table in above],
            self.table.shared,
            array,
        )

    def open_tables(self, at, array):
        """Return the tables above a header, the root first, and its own table, made if it does not
        exist.
        """
        above = [self.root]
        for name in self.path[:-1]:
            child = above[-1].children.setdefault(name, _Table(_IMPLIED))
            if child.kind == _VALUE:
                raise self.build_error("toml-twice", at)
            above.append(child)
        siblings, name = above[-1].children, self.path[-1]
        table = siblings.get(name)
        if table is None:
            table = siblings[name] = _Table(_ARRAY if array else _HEADED)
        elif array and table.kind == _ARRAY:
            table.begin_element()
        elif not array and table.kind == _IMPLIED:
            table.kind = _HEADED
        else:
            raise self.build_error("toml-twice", at)
        return above, table

    def scan_pair(self, at):
        parts, end = self.scan_key(at)
        above = [table.names for table in self.settle(self.table, parts, at)]
        if self.text[end : end + 1] != "=":
            raise self.build_error("toml-equals", end)
        value = self.scan_value(self.skip_blanks(end + 1), 0)
        path = self.path + [name for name, _start, _end in parts]
        return placeholders.Pair(at, value.end, path, parts, above, value, len(self.path))

    def settle(self, table, parts, at):
        """Note a key in its table, and the tables that its dots make. Return the tables on the way,
        its own first.
        """
        above = [table]
        for name, _start, _end in parts[:-1]:
            child = above[-1].children.get(name)
            if child is None:
                child = above[-1].children[name] = _Table(_DOTTED, self.section)
            elif child.kind == _IMPLIED:
                child.kind, child.section = _DOTTED, self.section
            elif child.kind != _DOTTED or child.section != self.section:
                raise self.build_error("toml-twice", at)
            above.append(child)
        if parts[-1][0] in above[-1].children:
            raise self.build_error("toml-twice", at)
        above[-1].children[parts[-1][0]] = _LEAF
        return above

    # --- values ---

    def scan_value(self, at, depth):
        if depth > MAX_DEPTH:
            raise self.build_error("toml-deep", at)
        sign = self.text[at : at + 1]
        if sign == "[":
            return self.scan_array(at, depth)
        if sign == "{":
            return self.scan_inline_table(at, depth)
        if sign and sign in "\"'":
            return self.scan_quoted(at, sign)
        return self.scan_plain(at)

    def scan_quoted(self, at, quote):
        lines = self.text.startswith(quote * 3, at)
        end = self.scan_string_lines(at, quote) if lines else self.scan_string(at, quote)
        return Value("string", at, end, self.decode_string(at, end, lines), [])

    def scan_array(self, at, depth):
        items, here = [], self.skip_space(at + 1)
        while self.text[here : here + 1] != "]":
            items.append(self.scan_value(here, depth + 1))
            here = self.skip_space(items[-1].end)
            if self.text[here : here + 1] == ",":
                here = self.skip_space(here + 1)
            elif self.text[here : here + 1] != "]":
                raise self.build_error("toml-array", here)
        return Value("array", at, here + 1, [item.data for item in items], items)

    def scan_inline_table(self, at, depth):
        table, members, data = _Table(_HEADED), [], {}
        self.sections += 1
        outer, own = self.section, self.sections
        here = self.skip_blanks(at + 1)
        while members or self.text[here : here + 1] != "}":
            parts, end = self.scan_key(here)
            self.section = own
            above = self.settle(table, parts, here)
            self.section = outer
            if self.text[end : end + 1] != "=":
                raise self.build_error("toml-equals", end)
            value = self.scan_value(self.skip_blanks(end + 1), depth + 1)
            members.append(
                placeholders.Member(here, parts, [inner.names for inner in above], value)
            )
            placeholders.put_at_path(data, [name for name, _start, _end in parts], value.data)
            here = self.skip_blanks(value.end)
            if self.text[here : here + 1] == "}":
                break
            if self.text[here : here + 1] != ",":
                raise self.build_error("toml-inline", here)
            here = self.skip_blanks(here + 1)
        return Value("table", at, here + 1, data, members)

    def scan_plain(self, at):
        for read in (self.scan_word, self.scan_date, self.number):
            value = read(at)
            if value:
                return value
        raise self.build_error("toml-value", at)

    def scan_word(self, at):
        match = _WORD.match(self.text, at)
        if not match:
            return None
        word = match.group()
        if word in ("true", "false"):
            return Value("boolean", at, match.end(), word == "true", [])
        return Value("float", at, match.end(), float(word), [])

    def scan_date(self, at):
        if self.text[at + 4 : at + 5] != "-" and self.text[at + 2 : at + 3] != ":":
            return None
        match = re.compile(_DATE).match(self.text, at)
        if not match:
            match = re.compile(_TIME).match(self.text, at)
            return Value("date", at, match.end(), ("date", match.group()), []) if match else None
        import datetime  # here, since few files have a date

        try:
            datetime.date(*[int(part) for part in match.groups()[:3]])
        except ValueError:
            raise self.build_error("toml-value", at)
        return Value("date", at, match.end(), ("date", match.group()), [])

    def number(self, at):
        radix = self.text.startswith(("0x", "0o", "0b"), at) and re.compile(_RADIX).match(
            self.text, at
        )
        match = radix or _NUMBER.match(self.text, at)
        if not match:
            return None
        digits = match.group().replace("_", "")
        if len(digits) > _LONGEST_NUMBER:
            raise self.build_error("toml-value", at)
        if not radix and match.group(1):
            return Value("float", at, match.end(), float(digits), [])
        return Value("integer", at, match.end(), int(digits, 0) if radix else int(digits), [])

    # --- strings ---

    def scan_string(self, at, quote):
        """Return the end of a string of one line."""
        here = at + 1
        while True:
            here = (_LITERAL if quote == "'" else _BASIC).match(self.text, here).end()
            sign = self.text[here : here + 1]
            if sign == quote:
                return here + 1
            if sign != "\\":
                raise self.build_error("toml-string", at)
            here = self.scan_escapes(here)

    def scan_string_lines(self, at, quote):
        """Return the end of a string in three quotes: up to two quotes may stand before the closing
        three.
        """
        here = at + 3
        while True:
            here = (_LITERAL_LINES if quote == "'" else _BASIC_LINES).match(self.text, here).end()
            sign = self.text[here : here + 1]
            if sign == "\\":
                folded = re.compile(_FOLD).match(self.text, here)
                here = folded.end() if folded else self.scan_escapes(here)
                continue
            if self.text.startswith("\r\n", here):
                here += 2
                continue
            if sign != quote:
                raise self.build_error("toml-string", at)
            run = here
            while run - here < 5 and self.text[run : run + 1] == quote:
                run += 1
            if run - here >= 3:
                return run
            here = run

    def scan_escapes(self, at):
        """Return the end of the escape here, and of those of one letter that follow it."""
        end = re.compile(_ESCAPES).match(self.text, at).end()
        if end > at:
            return end
        match = re.compile(_CODE).match(self.text, at)
        code = int(match.group(1) or match.group(2), 16) if match else -1
        if not match or code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
            raise self.build_error("toml-escape", at)
        return match.end()

    def decode_string(self, start, end, lines):
        """Return the text of a string. Bytes that are not UTF-8 become lone surrogates."""
        quotes = 3 if lines else 1
        raw = self.text[start + quotes : end - quotes]
        if lines and raw.startswith(("\n", "\r\n")):
            raw = raw[raw.index("\n") + 1 :]
        raw = raw.encode("latin-1").decode("utf-8", "surrogateescape")
        raw = raw.replace("\r\n", "\n")
        if self.text[start] == "'" or "\\" not in raw:
            return raw
        return "\\".join(map(_decode_escapes, raw.split("\\\\")))


def _decode_escapes(raw):
    """Return the meaning of a text in which each backslash begins an escape, and no escape is for a
    backslash. Folds go first and codes last: a backslash that a code makes begins no escape.
    """
    if "\\" not in raw:
        return raw
    raw = re.sub(_FOLD, "", raw)
    for escape, meaning in _ESCAPED.items():
        raw = raw.replace(escape, meaning)
    return re.sub(_CODE, lambda found: chr(int(found.group(1) or found.group(2), 16)), raw)
