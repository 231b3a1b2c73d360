# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read JSON strictly, byte by byte, for the places and the values of its keys: a projection is made from these.

A text that is not JSON is refused with a line and a code of our own. Linear in the length of the
text. Node side: standard library only, Python 3.6.
"""

import json
import re

from ansible_collections.gpufleet.nvidia.plugins.module_utils._node.projection import placeholders
from ansible_collections.gpufleet.nvidia.plugins.module_utils._node.projection.placeholders import Unreadable, Value

MAX_DEPTH = 64
_LONGEST_NUMBER = 1024

_SPACE = re.compile(r"[ \t\r\n]*")
_PLAIN = re.compile(r'[^"\\\x00-\x1f]*')
_ESCAPE = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})')
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)((?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)")
_WORDS = {"true": ("boolean", True), "false": ("boolean", False), "null": ("null", None)}


def scan(data):
    """Return the object of a JSON text as a placeholders.Value; None if the text is empty. Raise Unreadable for a text that is not JSON."""
    placeholders.require_few(data)
    return _Scanner(data.decode("latin-1")).document()


class _Scanner(object):
    def __init__(self, text):
        self.text = text

    def wrong(self, code, at):
        return Unreadable(code, placeholders.line_of(self.text, at))

    def document(self):
        text = self.text
        if text.startswith(("\xff\xfe", "\xfe\xff")):
            raise Unreadable("utf-16", 1)
        at = self.space(3 if text.startswith("\xef\xbb\xbf") else 0)
        if at == len(text):
            return None
        if text[at] in "#/":
            raise self.wrong("json-comment", at)
        root = self.value(at, 0)
        if root.kind != "table":
            raise self.wrong("json-object", at)
        rest = self.space(root.end)
        if rest < len(text):
            raise self.wrong("json-more", rest)
        return root

    def space(self, at):
        return _SPACE.match(self.text, at).end()

    def value(self, at, depth):
        if depth > MAX_DEPTH:
            raise self.wrong("json-deep", at)
        sign = self.text[at : at + 1]
        if sign == "{":
            return self.object(at, depth)
        if sign == "[":
            return self.array(at, depth)
        if sign == '"':
            end = self.string(at)
            return Value("string", at, end, self.said(at, end), [])
        return self.plain(at)

    def string(self, at):
        here = at + 1
        while True:
            here = _PLAIN.match(self.text, here).end()
            if self.text[here : here + 1] == '"':
                return here + 1
            escape = _ESCAPE.match(self.text, here)
            if not escape:
                raise self.wrong("json-string", at)
            here = escape.end()

    def said(self, start, end):
        raw = self.text[start + 1 : end - 1].encode("latin-1").decode("utf-8", "surrogateescape")
        return json.loads('"%s"' % raw) if "\\" in raw else raw

    def plain(self, at):
        for word, (kind, meaning) in _WORDS.items():
            if self.text.startswith(word, at):
                return Value(kind, at, at + len(word), meaning, [])
        found = _NUMBER.match(self.text, at)
        if not found:
            raise self.wrong("json-value", at)
        if len(found.group()) > _LONGEST_NUMBER:
            raise self.wrong("json-number", at)
        whole = not found.group(1)
        return Value("integer" if whole else "float", at, found.end(), int(found.group()) if whole else float(found.group()), [])

    def array(self, at, depth):
        items, here = [], self.space(at + 1)
        while items or self.text[here : here + 1] != "]":
            items.append(self.value(here, depth + 1))
            here, last = self.behind(items[-1].end, "]", "json-array")
            if last:
                break
        return Value("array", at, here + 1, [item.data for item in items], items)

    def object(self, at, depth):
        names, members, data = placeholders.Names(), [], {}
        here = self.space(at + 1)
        while members or self.text[here : here + 1] != "}":
            if self.text[here : here + 1] != '"':
                raise self.wrong("json-key", here)
            end = self.string(here)
            name = self.said(here, end)
            if name in data:
                raise self.wrong("json-twice", here)
            colon = self.space(end)
            if self.text[colon : colon + 1] != ":":
                raise self.wrong("json-colon", colon)
            item = self.value(self.space(colon + 1), depth + 1)
            members.append(placeholders.Member(here, [(name, here, end)], [names], item))
            data[name] = item.data
            here, last = self.behind(item.end, "}", "json-comma")
            if last:
                break
        return Value("table", at, here + 1, data, members)

    def behind(self, at, closing, code):
        """Return (where the next item begins, or where the closing bracket is; True for the bracket)."""
        here = self.space(at)
        sign = self.text[here : here + 1]
        if sign == closing:
            return here, True
        if sign != ",":
            raise self.wrong(code, here)
        return self.space(here + 1), False
