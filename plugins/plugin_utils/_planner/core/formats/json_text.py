# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read JSON with the places of its tokens, and change single tokens, so that every other byte stays
as it is.

A serialiser would sort keys, lose the indentation and pass numbers through a float. New members go
in front of the present ones, so no line that exists already gets another comma.
"""

from __future__ import annotations

import bisect
import dataclasses as dc
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import transaction
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import (
    json_bounds,
    messages,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
)

SPACE = re.compile(r"[ \t\r\n]*")
# Two rules and a loop: a rule of groups that repeat takes a hundred bytes of memory for each
# character.
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
    members: tuple[JsonMember, ...] = ()

    @property
    def is_object(self) -> bool:
        return isinstance(self.value, dict)


@dc.dataclass(frozen=True)
class JsonMember:
    """A member of an object, with its place in the text."""

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

    def build_error(self, at: int, what: Message) -> PlanError:
        return PlanError(what, where=self.path, line=count_json_line(self.text, at))

    def skip_blanks(self, at: int) -> int:
        match = SPACE.match(self.text, at)
        return match.end() if match else at

    def read_value(self, at: int, depth: int) -> Token:
        if depth > DEPTH:
            raise PlanError(messages.CONFIGURATION_TOO_DEEP.fill(), where=self.path)
        sign = self.text[at : at + 1]
        if sign == "{":
            return self.read_object(at, depth)
        if sign == "[":
            return self.read_array(at, depth)
        if sign == '"':
            end = self.read_string(at)
            return Token(at, end, json.loads(self.text[at:end]))
        for word, meaning in WORDS.items():
            if self.text.startswith(word, at):
                return Token(at, at + len(word), meaning)
        match = NUMBER.match(self.text, at)
        if not match:
            raise self.build_error(at, messages.VALUE_EXPECTED.fill(found=self.describe_place(at)))
        return Token(at, match.end(), self.number(match.group(), at))

    def number(self, text: str, at: int) -> Any:
        try:
            return json.loads(text)
        except ValueError as error:  # more digits than Python turns into a number
            raise self.build_error(at, messages.JSON_NUMBER_TOO_LONG.fill()) from error

    def read_string(self, at: int) -> int:
        here = at + 1
        while True:
            plain = PLAIN.match(self.text, here)
            here = plain.end() if plain else here
            if self.text[here : here + 1] == '"':
                return here + 1
            escape = ESCAPE.match(self.text, here)
            if not escape:
                raise self.build_error(at, messages.STRING_OPEN.fill())
            here = escape.end()

    def read_object(self, at: int, depth: int) -> Token:
        members: list[JsonMember] = []
        value: dict[str, Any] = {}
        before, here = at + 1, self.skip_blanks(at + 1)
        while members or self.text[here : here + 1] != "}":
            if self.text[here : here + 1] != '"':
                raise self.build_error(
                    here, messages.KEY_EXPECTED.fill(found=self.describe_place(here))
                )
            key_end = self.read_string(here)
            key = json.loads(self.text[here:key_end])
            if key in value:
                raise self.build_error(here, messages.KEY_TWICE.fill(key=json.dumps(key)))
            colon = self.skip_blanks(key_end)
            if self.text[colon : colon + 1] != ":":
                raise self.build_error(
                    colon, messages.COLON_EXPECTED.fill(found=self.describe_place(colon))
                )
            node = self.read_value(self.skip_blanks(colon + 1), depth + 1)
            members.append(JsonMember(key, before, here, key_end, node))
            value[key] = node.value
            here = self.skip_blanks(node.end)
            if self.text[here : here + 1] == "}":
                break
            if self.text[here : here + 1] != ",":
                row = messages.COMMA_EXPECTED
                raise self.build_error(here, row.fill(found=self.describe_place(here), bracket="}"))
            before, here = here + 1, self.skip_blanks(here + 1)
        return Token(at, here + 1, value, tuple(members))

    def read_array(self, at: int, depth: int) -> Token:
        items: list[Any] = []
        here = self.skip_blanks(at + 1)
        while items or self.text[here : here + 1] != "]":
            node = self.read_value(here, depth + 1)
            items.append(node.value)
            here = self.skip_blanks(node.end)
            if self.text[here : here + 1] == "]":
                break
            if self.text[here : here + 1] != ",":
                row = messages.COMMA_EXPECTED
                raise self.build_error(here, row.fill(found=self.describe_place(here), bracket="]"))
            here = self.skip_blanks(here + 1)
        return Token(at, here + 1, items)

    def describe_place(self, at: int) -> str:
        return "the end of the file" if at >= len(self.text) else f"{self.text[at]!r}"


def parse_json_text(text: str, path: str) -> JsonDocument:
    """Parse a text as strictly as the programs that read it. Raise PlanError for any other text.

    No comments, no comma at the end, no key twice, and nothing behind the object.
    """
    try:
        json_bounds.require_bounded_json(text)
    except json_bounds.TooLargeJson as error:
        too_large = messages.JSON_TOO_LARGE.fill(problem=error.problem)
        raise PlanError(too_large, where=path, line=error.line) from None
    reader = _Reader(text, path)
    begin = reader.skip_blanks(1 if text.startswith(BOM) else 0)
    if begin == len(text):
        return JsonDocument(path, text, None)
    if text[begin] in "#/":
        raise reader.build_error(begin, messages.JSON_HAS_COMMENT.fill())
    root = reader.read_value(begin, 0)
    if not root.is_object:
        raise reader.build_error(begin, messages.NOT_OBJECT.fill())
    rest = reader.skip_blanks(root.end)
    if rest < len(text):
        raise reader.build_error(rest, messages.TEXT_AFTER_END.fill(found=repr(text[rest])))
    return JsonDocument(path, text, root)


def count_json_line(text: str, at: int) -> int:
    """Return the number of the line that has this position, from 1 on."""
    return text.count("\n", 0, at) + 1


def find_json_member(doc: JsonDocument, path: Path) -> JsonMember | None:
    """Return the member at a path of keys. None if there is none."""
    node, member = doc.root, None
    for key in path:
        member = next((m for m in (node.members if node else ()) if m.key == key), None)
        if member is None:
            return None
        node = member.node
    return member


def look_up_json(doc: JsonDocument, path: Path) -> Any:
    """Return the value at a path; None if there is none."""
    member = find_json_member(doc, path)
    return member.node.value if member else None


def find_member_line(doc: JsonDocument, path: Path) -> int | None:
    """Return the line of the member at a path, from 1 on; None if there is none."""
    member = find_json_member(doc, path)
    return count_json_line(doc.text, member.start) if member else None


# ---------------------------------------------------------------- changing


def merge_json_keys(
    doc: JsonDocument, wanted: Mapping[str, Any]
) -> tuple[JsonDocument, tuple[Splice, ...]]:
    """Return the document with these keys, and what was done to the text. Tables are merged,
    everything else is set.

    Raise PlanError if the change would alter other keys.
    """
    if doc.root is None:
        after = _render_new_object(wanted, doc)
        splices: tuple[Splice, ...] = (Splice(0, len(doc.text), after),)
    else:
        splices = tuple(_merge_members(doc, doc.root, wanted, _Style.find_style(doc, doc.root)))
        after = apply_json_splices(doc.text, splices)
    changed = parse_json_text(after, doc.path)
    if changed.data != apply_json_keys(doc.data, wanted):
        raise PlanError(messages.CHANGES_OTHERS.fill(), where=doc.path)
    return changed, splices


def apply_json_keys(data: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return the data of a document together with our keys."""
    changed = dict(data)
    for key, value in wanted.items():
        old = changed.get(key)
        changed[key] = (
            apply_json_keys(old if isinstance(old, Mapping) else {}, value)
            if isinstance(value, Mapping)
            else value
        )
    return changed


def apply_json_splices(text: str, splices: Sequence[Splice]) -> str:
    """Return the text with these parts replaced."""
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
    def find_style(cls, doc: JsonDocument, node: Token) -> _Style:
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

    def get_inner_style(self) -> _Style:
        return dc.replace(self, indent=self.indent + self.unit) if self.newline else self


def _merge_members(
    doc: JsonDocument, node: Token, wanted: Mapping[str, Any], style: _Style
) -> list[Splice]:
    """Return the splices that give an object these members."""
    present = {m.key: m.node for m in node.members}
    members: list[Splice] = []
    for key, value in wanted.items():
        old = present.get(key)
        if old is None:
            continue
        if isinstance(value, Mapping) and old.is_object:
            members += _merge_members(
                doc, old, value, _Style.find_style(doc, old) if old.members else style
            )
        elif type(old.value) is not type(value) or old.value != value:
            members.append(Splice(old.start, old.end, _render_value(value, style)))
    new = {key: value for key, value in wanted.items() if key not in present}
    if new:
        members.append(_insert_member(doc, node, new, style))
    return members


def _insert_member(doc: JsonDocument, node: Token, new: Mapping[str, Any], style: _Style) -> Splice:
    if not node.members:  # the style is then that of the object around it
        return Splice(
            node.start,
            node.end,
            _render_value(new, _get_outermost_style(doc.text) if node is doc.root else style),
        )
    texts = [
        f"{json.dumps(key, ensure_ascii=False)}{style.colon}{_render_value(value, style)}"
        for key, value in new.items()
    ]
    at = node.members[0].start
    if style.newline:  # whole lines, above that of the first key
        return Splice(
            at - len(style.indent),
            at - len(style.indent),
            "".join(f"{style.indent}{text},{style.newline}" for text in texts),
        )
    return Splice(at, at, "".join(f"{text},{style.comma}" for text in texts))


def _render_value(value: Any, style: _Style) -> str:
    """Write a value behind a key of this style."""
    if not isinstance(value, (Mapping, list, tuple)) or not value:
        return json.dumps(dict(value) if isinstance(value, Mapping) else value, ensure_ascii=False)
    if isinstance(value, Mapping):
        opened, closed = "{}"
        inner = style.get_inner_style()
        parts = [
            f"{json.dumps(k, ensure_ascii=False)}{style.colon}{_render_value(v, inner)}"
            for k, v in value.items()
        ]
    else:
        opened, closed = "[]"
        inner = style.get_inner_style()
        parts = [_render_value(v, inner) for v in value]
    if not style.newline:
        return opened + f",{style.comma}".join(parts) + closed
    ends = style.newline + inner.indent
    return f"{opened}{ends}{f',{ends}'.join(parts)}{style.newline}{style.indent}{closed}"


def _get_outermost_style(text: str) -> _Style:
    """Return the style for a file that shows none of its own. The outermost object has no key
    before it.
    """
    return _Style("\r\n" if "\r\n" in text else "\n", "", "  ", ": ", " ")


def _render_new_object(wanted: Mapping[str, Any], doc: JsonDocument) -> str:
    style = _get_outermost_style(doc.text)
    return (BOM if doc.text.startswith(BOM) else "") + _render_value(wanted, style) + style.newline


def remove_member(doc: JsonDocument, path: Path) -> JsonDocument:
    """Return the document without this member. An insertion in front of others is taken out to the
    byte.
    """
    parent = find_json_member(doc, path[:-1])
    node = parent.node if parent else doc.root
    gone = find_json_member(doc, path)
    if node is None or gone is None:
        return doc
    at = node.members.index(gone)
    if at + 1 < len(node.members):
        follower = node.members[at + 1]
        gaps = [doc.text[m.before : m.start] for m in (gone, follower)]
        indents = [
            len(gap.rpartition("\n")[2]) if all("\n" in g for g in gaps) else 0 for gap in gaps
        ]
        start, end = gone.start - indents[0], follower.start - indents[1]
    else:
        start = node.members[at - 1].node.end if at else node.start + 1
        end = gone.node.end if at else node.end - 1
    return parse_json_text(doc.text[:start] + doc.text[end:], doc.path)


# ---------------------------------------------------------------- as edits of lines


def list_json_edits(text: str, splices: Sequence[Splice]) -> list[transaction.Line]:
    """Return the splices as the transaction's line edits. A line that stays equal is in none of
    them.
    """
    lines = _split_lines(text)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    groups: list[tuple[int, int, list[Splice]]] = []
    for splice in sorted(splices, key=lambda s: s.start):
        first, last = (
            _find_line_index(starts, splice.start),
            _find_line_index(starts, max(splice.start, splice.end)),
        )
        if groups and first <= groups[-1][1]:
            low, high, together = groups.pop()
            groups.append((low, max(high, last), [*together, splice]))
        else:
            groups.append((first, last, [splice]))
    return [
        edit for low, high, together in groups for edit in _edit(lines, starts, low, high, together)
    ]


def _edit(
    lines: list[str], starts: list[int], low: int, high: int, together: list[Splice]
) -> list[transaction.Line]:
    before = lines[low : high + 1]
    moved = [Splice(s.start - starts[low], s.end - starts[low], s.text) for s in together]
    after = _split_lines(apply_json_splices("".join(before), moved))
    while before and after and before[0] == after[0]:
        before, after, low = before[1:], after[1:], low + 1
    while before and after and before[-1] == after[-1]:
        before, after = before[:-1], after[:-1]
    return (
        [{"start": low, "end": low + len(before), "text": "".join(after)}]
        if before or after
        else []
    )


def _split_lines(text: str) -> list[str]:
    r"""Return the lines with their ends, as the executor counts them: only \n ends one."""
    parts = text.split("\n")
    return [part + "\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


def _find_line_index(starts: list[int], at: int) -> int:
    return max(min(bisect.bisect_right(starts, at) - 1, len(starts) - 2), 0)
