# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read JSON with the places of its tokens, and change single tokens, so that every other byte stays as it is.

A serialiser would sort keys, lose the indentation and pass numbers through a float. New members go in
front of the present ones, so no line that exists already gets another comma.
"""

from __future__ import annotations

import bisect
import dataclasses as dc
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner import transaction
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.formats import json_bounds, messages
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.message_types import Message

SPACE = re.compile(r"[ \t\r\n]*")
# Two rules and a loop: a rule of groups that repeat takes a hundred bytes of memory for each character.
PLAIN = re.compile(r'[^"\\\x00-\x1f]*')
ESCAPE = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})')
NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
WORDS = {"true": True, "false": False, "null": None}
BOM = "\ufeff"
DEPTH = 100

Path = tuple[str, ...]


@dc.dataclass(frozen=True)
class Token:
    """A value with its place. members: those of an object, in order."""

    start: int
    end: int
    value: Any
    members: tuple[Member, ...] = ()

    @property
    def is_object(self) -> bool:
        return isinstance(self.value, dict)


@dc.dataclass(frozen=True)
class Member:
    key: str
    before: int  # where the blank before the key begins: just behind { or ,
    start: int  # of the key
    key_end: int
    node: Token


@dc.dataclass(frozen=True)
class Splice:
    """A stretch of the original text, and the text that replaces it."""

    start: int
    end: int
    text: str


@dc.dataclass(frozen=True)
class JsonDocument:
    """A file that contains one object. root: None if the file does not exist or is empty."""

    path: str
    text: str
    root: Token | None

    @property
    def data(self) -> dict[str, Any]:
        return self.root.value if self.root else {}


# ---------------------------------------------------------------- reading


class _Reader:
    def __init__(self, text: str, path: str) -> None:
        self.text, self.path = text, path

    def wrong(self, at: int, what: Message) -> PlanError:
        return PlanError(what, where=self.path, line=line_at(self.text, at))

    def blank(self, at: int) -> int:
        found = SPACE.match(self.text, at)
        return found.end() if found else at

    def value(self, at: int, depth: int) -> Token:
        if depth > DEPTH:
            raise PlanError(messages.JSON_TOO_DEEP.fill(), where=self.path)
        sign = self.text[at : at + 1]
        if sign == "{":
            return self.object(at, depth)
        if sign == "[":
            return self.array(at, depth)
        if sign == '"':
            end = self.string(at)
            return Token(at, end, json.loads(self.text[at:end]))
        for word, meaning in WORDS.items():
            if self.text.startswith(word, at):
                return Token(at, at + len(word), meaning)
        found = NUMBER.match(self.text, at)
        if not found:
            raise self.wrong(at, messages.VALUE_EXPECTED.fill(found=self.said(at)))
        return Token(at, found.end(), self.number(found.group(), at))

    def number(self, text: str, at: int) -> Any:
        try:
            return json.loads(text)
        except ValueError as error:  # more digits than Python turns into a number
            raise self.wrong(at, messages.JSON_NUMBER_TOO_LONG.fill()) from error

    def string(self, at: int) -> int:
        here = at + 1
        while True:
            plain = PLAIN.match(self.text, here)
            here = plain.end() if plain else here
            if self.text[here : here + 1] == '"':
                return here + 1
            escape = ESCAPE.match(self.text, here)
            if not escape:
                raise self.wrong(at, messages.STRING_OPEN.fill())
            here = escape.end()

    def object(self, at: int, depth: int) -> Token:
        members: list[Member] = []
        value: dict[str, Any] = {}
        before, here = at + 1, self.blank(at + 1)
        while members or self.text[here : here + 1] != "}":
            if self.text[here : here + 1] != '"':
                raise self.wrong(here, messages.KEY_EXPECTED.fill(found=self.said(here)))
            key_end = self.string(here)
            key = json.loads(self.text[here:key_end])
            if key in value:
                raise self.wrong(here, messages.KEY_TWICE.fill(key=json.dumps(key)))
            colon = self.blank(key_end)
            if self.text[colon : colon + 1] != ":":
                raise self.wrong(colon, messages.COLON_EXPECTED.fill(found=self.said(colon)))
            node = self.value(self.blank(colon + 1), depth + 1)
            members.append(Member(key, before, here, key_end, node))
            value[key] = node.value
            here = self.blank(node.end)
            if self.text[here : here + 1] == "}":
                break
            if self.text[here : here + 1] != ",":
                row = messages.COMMA_EXPECTED
                raise self.wrong(here, row.fill(found=self.said(here), bracket="}"))
            before, here = here + 1, self.blank(here + 1)
        return Token(at, here + 1, value, tuple(members))

    def array(self, at: int, depth: int) -> Token:
        items: list[Any] = []
        here = self.blank(at + 1)
        while items or self.text[here : here + 1] != "]":
            node = self.value(here, depth + 1)
            items.append(node.value)
            here = self.blank(node.end)
            if self.text[here : here + 1] == "]":
                break
            if self.text[here : here + 1] != ",":
                row = messages.COMMA_EXPECTED
                raise self.wrong(here, row.fill(found=self.said(here), bracket="]"))
            here = self.blank(here + 1)
        return Token(at, here + 1, items)

    def said(self, at: int) -> str:
        return "the end of the file" if at >= len(self.text) else f"{self.text[at]!r}"


def parse(text: str, path: str) -> JsonDocument:
    """Parse a text as strictly as the programs that read it. Raise PlanError for any other text.

    No comments, no comma at the end, no key twice, and nothing behind the object.
    """
    try:
        json_bounds.require(text)
    except json_bounds.TooLarge as error:
        too_large = messages.JSON_TOO_LARGE.fill(problem=error.problem)
        raise PlanError(too_large, where=path, line=error.line) from None
    reader = _Reader(text, path)
    begin = reader.blank(1 if text.startswith(BOM) else 0)
    if begin == len(text):
        return JsonDocument(path, text, None)
    if text[begin] in "#/":
        raise reader.wrong(begin, messages.JSON_HAS_COMMENT.fill())
    root = reader.value(begin, 0)
    if not root.is_object:
        raise reader.wrong(begin, messages.NOT_OBJECT.fill())
    rest = reader.blank(root.end)
    if rest < len(text):
        raise reader.wrong(rest, messages.TEXT_AFTER_END.fill(found=repr(text[rest])))
    return JsonDocument(path, text, root)


def line_at(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


def member(doc: JsonDocument, path: Path) -> Member | None:
    """Return the member at a path of keys. None if there is none."""
    node, found = doc.root, None
    for key in path:
        found = next((m for m in (node.members if node else ()) if m.key == key), None)
        if found is None:
            return None
        node = found.node
    return found


def lookup(doc: JsonDocument, path: Path) -> Any:
    found = member(doc, path)
    return found.node.value if found else None


def line_of(doc: JsonDocument, path: Path) -> int | None:
    found = member(doc, path)
    return line_at(doc.text, found.start) if found else None


# ---------------------------------------------------------------- changing


def merge(doc: JsonDocument, wanted: Mapping[str, Any]) -> tuple[JsonDocument, tuple[Splice, ...]]:
    """Return the document with these keys, and what was done to the text. Tables are merged, everything else is set.

    Raise PlanError if the change would alter other keys.
    """
    if doc.root is None:
        after = _fresh(wanted, doc)
        splices: tuple[Splice, ...] = (Splice(0, len(doc.text), after),)
    else:
        splices = tuple(_merged(doc, doc.root, wanted, _Style.of(doc, doc.root)))
        after = spliced(doc.text, splices)
    changed = parse(after, doc.path)
    if changed.data != granted(doc.data, wanted):
        raise PlanError(messages.CHANGES_OTHERS.fill(), where=doc.path)
    return changed, splices


def granted(data: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return the data of a document together with our keys."""
    found = dict(data)
    for key, value in wanted.items():
        old = found.get(key)
        found[key] = granted(old if isinstance(old, Mapping) else {}, value) if isinstance(value, Mapping) else value
    return found


def spliced(text: str, splices: Sequence[Splice]) -> str:
    for splice in sorted(splices, key=lambda s: s.start, reverse=True):
        text = text[: splice.start] + splice.text + text[splice.end :]
    return text


@dc.dataclass(frozen=True)
class _Style:
    """The form of the members of one object. indent: '' for an object in one line."""

    newline: str
    indent: str
    unit: str
    colon: str
    comma: str  # what follows a comma in one line

    @classmethod
    def of(cls, doc: JsonDocument, node: Token) -> _Style:
        gaps = [doc.text[m.before : m.start] for m in node.members]
        colons = [doc.text[m.key_end : m.node.start] for m in node.members]
        colon = next((c for c in colons if "\n" not in c), ": ")
        first = gaps[0] if gaps else ""
        comma = next((g for g in gaps[1:] if "\n" not in g), "" if colon == ":" else " ")
        if "\n" not in first:
            return cls("", "", "  ", colon, comma)
        indent = first.rpartition("\n")[2]
        own = doc.text[: node.start].rpartition("\n")[2]
        outer = own[: len(own) - len(own.lstrip(" \t"))]
        unit = indent[len(outer) :] if indent.startswith(outer) and indent != outer else "  "
        return cls("\r\n" if "\r\n" in first else "\n", indent, unit, colon, comma)

    def inner(self) -> _Style:
        return dc.replace(self, indent=self.indent + self.unit) if self.newline else self


def _merged(doc: JsonDocument, node: Token, wanted: Mapping[str, Any], style: _Style) -> list[Splice]:
    """Return the splices that give an object these members."""
    present = {m.key: m.node for m in node.members}
    found: list[Splice] = []
    for key, value in wanted.items():
        old = present.get(key)
        if old is None:
            continue
        if isinstance(value, Mapping) and old.is_object:
            found += _merged(doc, old, value, _Style.of(doc, old) if old.members else style)
        elif type(old.value) is not type(value) or old.value != value:
            found.append(Splice(old.start, old.end, _rendered(value, style)))
    new = {key: value for key, value in wanted.items() if key not in present}
    if new:
        found.append(_inserted(doc, node, new, style))
    return found


def _inserted(doc: JsonDocument, node: Token, new: Mapping[str, Any], style: _Style) -> Splice:
    if not node.members:  # the style is then that of the object around it
        return Splice(node.start, node.end, _rendered(new, _outermost(doc.text) if node is doc.root else style))
    texts = [f"{json.dumps(key, ensure_ascii=False)}{style.colon}{_rendered(value, style)}" for key, value in new.items()]
    at = node.members[0].start
    if style.newline:  # whole lines, above that of the first key
        return Splice(at - len(style.indent), at - len(style.indent), "".join(f"{style.indent}{text},{style.newline}" for text in texts))
    return Splice(at, at, "".join(f"{text},{style.comma}" for text in texts))


def _rendered(value: Any, style: _Style) -> str:
    """Write a value behind a key of this style."""
    if not isinstance(value, (Mapping, list, tuple)) or not value:
        return json.dumps(dict(value) if isinstance(value, Mapping) else value, ensure_ascii=False)
    if isinstance(value, Mapping):
        opened, closed = "{}"
        inner = style.inner()
        parts = [f"{json.dumps(k, ensure_ascii=False)}{style.colon}{_rendered(v, inner)}" for k, v in value.items()]
    else:
        opened, closed = "[]"
        inner = style.inner()
        parts = [_rendered(v, inner) for v in value]
    if not style.newline:
        return opened + f",{style.comma}".join(parts) + closed
    ends = style.newline + inner.indent
    return f"{opened}{ends}{f',{ends}'.join(parts)}{style.newline}{style.indent}{closed}"


def _outermost(text: str) -> _Style:
    """Return the style for a file that shows none of its own. The outermost object has no key before it."""
    return _Style("\r\n" if "\r\n" in text else "\n", "", "  ", ": ", " ")


def _fresh(wanted: Mapping[str, Any], doc: JsonDocument) -> str:
    style = _outermost(doc.text)
    return (BOM if doc.text.startswith(BOM) else "") + _rendered(wanted, style) + style.newline


def removed(doc: JsonDocument, path: Path) -> JsonDocument:
    """Return the document without this member. An insertion in front of others is taken out to the byte."""
    parent = member(doc, path[:-1])
    node = parent.node if parent else doc.root
    gone = member(doc, path)
    if node is None or gone is None:
        return doc
    at = node.members.index(gone)
    if at + 1 < len(node.members):
        follower = node.members[at + 1]
        gaps = [doc.text[m.before : m.start] for m in (gone, follower)]
        indents = [len(gap.rpartition("\n")[2]) if all("\n" in g for g in gaps) else 0 for gap in gaps]
        start, end = gone.start - indents[0], follower.start - indents[1]
    else:
        start = node.members[at - 1].node.end if at else node.start + 1
        end = gone.node.end if at else node.end - 1
    return parse(doc.text[:start] + doc.text[end:], doc.path)


# ---------------------------------------------------------------- as edits of lines


def edits(text: str, splices: Sequence[Splice]) -> list[transaction.Line]:
    """Return the splices as the transaction's line edits. A line that stays equal is in none of them."""
    lines = _lines(text)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    groups: list[tuple[int, int, list[Splice]]] = []
    for splice in sorted(splices, key=lambda s: s.start):
        first, last = _line_index(starts, splice.start), _line_index(starts, max(splice.start, splice.end))
        if groups and first <= groups[-1][1]:
            low, high, together = groups.pop()
            groups.append((low, max(high, last), [*together, splice]))
        else:
            groups.append((first, last, [splice]))
    return [edit for low, high, together in groups for edit in _edit(lines, starts, low, high, together)]


def _edit(lines: list[str], starts: list[int], low: int, high: int, together: list[Splice]) -> list[transaction.Line]:
    before = lines[low : high + 1]
    moved = [Splice(s.start - starts[low], s.end - starts[low], s.text) for s in together]
    after = _lines(spliced("".join(before), moved))
    while before and after and before[0] == after[0]:
        before, after, low = before[1:], after[1:], low + 1
    while before and after and before[-1] == after[-1]:
        before, after = before[:-1], after[:-1]
    return [{"start": low, "end": low + len(before), "text": "".join(after)}] if before or after else []


def _lines(text: str) -> list[str]:
    r"""Return the lines with their ends, as the executor counts them: only \n ends one."""
    parts = text.split("\n")
    return [part + "\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


def _line_index(starts: list[int], at: int) -> int:
    return max(min(bisect.bisect_right(starts, at) - 1, len(starts) - 2), 0)
