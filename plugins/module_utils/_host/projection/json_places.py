# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read JSON strictly, byte by byte, for the places and the values of its keys: a projection is made
from these.

A text that is not JSON is refused with a line and a code of our own. Linear in the length of the
text. Host side: standard library only, Python 3.6.
"""

import json
import re

from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.projection import placeholders
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.projection.placeholders import (
    UnreadableText,
    Value,
)

MAX_DEPTH = 64
_LONGEST_NUMBER = 1024

_SPACE = re.compile(r"[ \t\r\n]*")
_PLAIN = re.compile(r'[^"\\\x00-\x1f]*')
_ESCAPE = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})')
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)((?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)")
_WORDS = {"true": ("boolean", True), "false": ("boolean", False), "null": ("null", None)}


def scan_json(data):
    """Return the object of a JSON text as a placeholders.Value; None if the text is empty. Raise
    UnreadableText for a text that is not JSON.
    """
    placeholders.require_readable_size(data)
    return _JsonScanner(data.decode("latin-1")).scan_document()


class _JsonScanner(object):
    def __init__(self, text):
        self.text = text

    def build_error(self, code, at):
        return UnreadableText(code, placeholders.count_line(self.text, at))

    def scan_document(self):
        text = self.text
        if text.startswith(("\xff\xfe", "\xfe\xff")):
            raise UnreadableText("utf-16", 1)
        at = self.skip_space(3 if text.startswith("\xef\xbb\xbf") else 0)
        if at == len(text):
            return None
        if text[at] in "#/":
            raise self.build_error("json-comment", at)
        root = self.scan_value(at, 0)
        if root.kind != "table":
            raise self.build_error("json-object", at)
        rest = self.skip_space(root.end)
        if rest < len(text):
            raise self.build_error("json-more", rest)
        return root

    def skip_space(self, at):
        return _SPACE.match(self.text, at).end()

    def scan_value(self, at, depth):
        if depth > MAX_DEPTH:
            raise self.build_error("json-deep", at)
        sign = self.text[at : at + 1]
        if sign == "{":
            return self.scan_object(at, depth)
        if sign == "[":
            return self.scan_array(at, depth)
        if sign == '"':
            end = self.scan_string(at)
            return Value("string", at, end, self.decode_string(at, end), [])
        return self.scan_plain(at)

    def scan_string(self, at):
        here = at + 1
        while True:
            here = _PLAIN.match(self.text, here).end()
            if self.text[here : here + 1] == '"':
                return here + 1
            escape = _ESCAPE.match(self.text, here)
            if not escape:
                raise self.build_error("json-string", at)
            here = escape.end()

    def decode_string(self, start, end):
        raw = self.text[start + 1 : end - 1].encode("latin-1").decode("utf-8", "surrogateescape")
        return json.loads('"%s"' % raw) if "\\" in raw else raw

    def scan_plain(self, at):
        for word, (kind, meaning) in _WORDS.items():
            if self.text.startswith(word, at):
                return Value(kind, at, at + len(word), meaning, [])
        match = _NUMBER.match(self.text, at)
        if not match:
            raise self.build_error("json-value", at)
        if len(match.group()) > _LONGEST_NUMBER:
            raise self.build_error("json-number", at)
        whole = not match.group(1)
        return Value(
            "integer" if whole else "float",
            at,
            match.end(),
            int(match.group()) if whole else float(match.group()),
            [],
        )

    def scan_array(self, at, depth):
        items, here = [], self.skip_space(at + 1)
        while items or self.text[here : here + 1] != "]":
            items.append(self.scan_value(here, depth + 1))
            here, last = self.find_next_item(items[-1].end, "]", "json-array")
            if last:
                break
        return Value("array", at, here + 1, [item.data for item in items], items)

    def scan_object(self, at, depth):
        names, members, data = placeholders.Names(), [], {}
        here = self.skip_space(at + 1)
        while members or self.text[here : here + 1] != "}":
            if self.text[here : here + 1] != '"':
                raise self.build_error("json-key", here)
            end = self.scan_string(here)
            name = self.decode_string(here, end)
            if name in data:
                raise self.build_error("json-twice", here)
            colon = self.skip_space(end)
            if self.text[colon : colon + 1] != ":":
                raise self.build_error("json-colon", colon)
            item = self.scan_value(self.skip_space(colon + 1), depth + 1)
            members.append(placeholders.Member(here, [(name, here, end)], [names], item))
            data[name] = item.data
            here, last = self.find_next_item(item.end, "}", "json-comma")
            if last:
                break
        return Value("table", at, here + 1, data, members)

    def find_next_item(self, at, closing, code):
        """Return (where the next item begins, or where the closing bracket is; True for the
        bracket).
        """
        here = self.skip_space(at)
        sign = self.text[here : here + 1]
        if sign == closing:
            return here, True
        if sign != ",":
            raise self.build_error(code, here)
        return self.skip_space(here + 1), False
