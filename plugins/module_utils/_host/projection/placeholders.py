# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make the placeholders of a projection: as long as the hidden text, in the same lines.

A placeholder tells nothing else about the text. A key becomes another key that is unique in its
table. A comment becomes a comment of "x". A value becomes a string of blanks, or brackets around a
number if it covers several lines; neither has the shape of any listed value. So the projection has
the statements, tables and commas of the original, and an edit of one is an edit of the other. Host
side: standard library only, Python 3.6.
"""

import collections
import itertools
import re

# Lines, commas and opening brackets of one text. Each may take a kilobyte here, and real files have
# a tenth of this number.
MOST = 30000
STEPS = 30000  # of a rule with a group that repeats: re takes some hundred bytes for each
_MANY = re.compile(b"[\n,\\[{]")
_DIGITS = "xabcdefghijklmnopqrstuvwyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_-"

# A value and its place. `data`: its meaning; `inner`: an array's values, a table's members.
Value = collections.namedtuple("Value", "kind start end data inner")
# A key in an object or inline table. `parts`: [(name, start, end)]; `above`: the Names of the
# tables that its parts stand in.
Member = collections.namedtuple("Member", "start parts above value")
# A statement `key = value`; its path begins with that of the table it stands in, which has `depth`
# parts.
Pair = collections.namedtuple("Pair", "start end path parts above value depth")
# A line that opens a table. `shared`: earlier stand-ins for this table's name, which an array of
# tables repeats.
Header = collections.namedtuple("Header", "start end path parts above shared array")


class UnreadableText(Exception):
    """A text that does not have its format: our code and the line. Never the text's own words, nor
    a parser's.
    """

    def __init__(self, code, line):
        super(UnreadableText, self).__init__("%s in line %d" % (code, line))
        self.code = code
        self.line = line


def require_readable_size(data):
    """Refuse a text that would take more time or memory than a configuration, before it is read.
    Raise UnreadableText.
    """
    if sum(data.count(sign) for sign in (b"\n", b",", b"[", b"{")) > MOST:
        last = next(itertools.islice(_MANY.finditer(data), MOST, None))
        raise UnreadableText("too-many", data.count(b"\n", 0, last.start()) + 1)


class Names(object):
    """The names of one table in the projection: shown ones, and stand-ins for others."""

    __slots__ = ("taken", "next")

    def __init__(self):
        self.taken = set()
        self.next = {}

    def show(self, name):
        self.taken.add(name)

    def make_stand_in(self, length):
        """Return another name of this length. There are as many as the original can have had."""
        while True:
            number = self.next.get(length, 0)
            self.next[length] = number + 1
            name = _make_numbered(number, length)
            if name is None:
                raise UnreadableText("names", 1)
            if name not in self.taken:
                self.taken.add(name)
                return name


def _make_numbered(number, length):
    """Return the stand-in with this number: `xxxx`, `xxxa`, `xxxb` ...; None if there are no more
    of this length.
    """
    name = ""
    while number:
        number, digit = divmod(number, len(_DIGITS))
        name = _DIGITS[digit] + name
    return name.rjust(length, "x") if len(name) <= length else None


def make_value_placeholder(text):
    """Return the placeholder of a value."""
    if len(text) == 1:
        return "1"
    if "\n" in text:
        return "[" + re.sub(" ", "1", re.sub(r"[^\r\n]", " ", text[1:-1]), count=1) + "]"
    return '"' + " " * (len(text) - 2) + '"'


def withhold_value(kind, text):
    """Return the placeholder of a value whose kind may be known: one of the same kind, and of no
    shape that is listed.
    """
    if kind == "boolean":
        return text  # its length shows it
    if kind in ("integer", "float"):
        return "1." + "1" * (len(text) - 2) if len(text) > 2 else "1" * len(text)
    if "\n" not in text and kind == "array" and len(text) > 2:
        return "[1" + " " * (len(text) - 3) + "]"
    if "\n" not in text and kind == "table":
        return "{" + " " * (len(text) - 2) + "}"
    return make_value_placeholder(text)


def make_comment_placeholder(text):
    """Return a comment of the same length without its words."""
    return "#" + "x" * (len(text) - 1)


def count_line(text, at):
    """Return the line of a place, from 1. A place behind the end of the last line belongs to that
    line.
    """
    return text.count("\n", 0, min(at, max(len(text) - 1, 0))) + 1


def put_at_path(data, path, item):
    """Set a value at a path of keys."""
    for name in path[:-1]:
        data = data.setdefault(name, {})
    data[path[-1]] = item
