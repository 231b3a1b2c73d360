# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""YAML as the engines' own reader reads it (sigs.k8s.io/yaml over go-yaml 2.4, the same in every release of the reference library).

PyYAML does the grammar, which both have from libyaml. What a scalar means is decided here, since the two differ where it hurts: PyYAML
makes a number of base 60 out of the MIG name `0:1`, and lets the second of two equal keys win. Every value keeps its line.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses as dc
import math
import re
from collections.abc import Iterator
from typing import Any

import yaml
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.formats import yaml_text

TAGS = "tag:yaml.org,2002:"
STR, BOOL, INT, FLOAT, NULL, TIME, BINARY, MERGE = (
    TAGS + t for t in ("str", "bool", "int", "float", "null", "timestamp", "binary", "merge")
)
RESOLVABLE = ("", STR, BOOL, INT, FLOAT, NULL, TIME)

WORDS: dict[str, tuple[str, Any]] = {
    **{w: (BOOL, True) for w in ("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON")},
    **{w: (BOOL, False) for w in ("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF")},
    **{w: (NULL, None) for w in ("", "~", "null", "Null", "NULL")},
    **{w: (FLOAT, math.nan) for w in (".nan", ".NaN", ".NAN")},
    **{w: (FLOAT, math.inf) for w in (".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF")},
    **{w: (FLOAT, -math.inf) for w in ("-.inf", "-.Inf", "-.INF")},
}
INTEGER = re.compile(r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|(0|[1-9][0-9]*))")
DECIMAL = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
FRACTION = re.compile(r"\.[0-9]+(_[0-9]+)*([eE][-+]?[0-9]+)?")
TIMESTAMP = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt ][0-9]{1,2}:[0-9]{1,2}:[0-9]{1,2}(\.[0-9]+)?(Z|[-+][0-9]{2}:[0-9]{2})?)?")

# go-yaml's limit against documents whose aliases stand for more than there is in them, which is lower beyond 400 000 values. Here
# yaml_text.MOST comes first.
SHARE = 0.99


class Unreadable(ValueError):
    """The text is no document. `rule` is an id of the table of rules."""

    def __init__(self, message: str, line: int | None = None, rule: str = "yaml") -> None:
        super().__init__(f"line {line}: {message}" if line else message)
        self.message, self.line, self.rule = message, line, rule


@dc.dataclass(frozen=True)
class Tree:
    """A value and the line it begins in (that of its key, in a mapping).

    Keys are pairs of type and value, since 1, "1" and true are three keys in YAML.
    """

    value: Any
    line: int
    text: str = ""  # of a scalar, as it is written


Key = tuple[str, Any]


class _Node:
    """One event of the parser with what belongs to it. Mutable while it is being read, which nobody outside sees."""

    def __init__(self, kind: str, event: Any, value: str = "") -> None:
        self.kind, self.value, self.line = kind, value, event.start_mark.line + 1
        self.tag: str = getattr(event, "tag", None) or ""
        implicit = getattr(event, "implicit", False)
        self.plain = bool(implicit[0]) if isinstance(implicit, tuple) else False
        self.children: list[_Node] = []
        self.target: _Node | None = None


def read(data: bytes) -> tuple[Tree, bool]:
    """The first document, and whether there is another, which no engine looks at. Raises Unreadable."""
    try:
        top, more = _compose(data)
    except yaml_text.YamlError as error:
        raise Unreadable(error.problem, error.line) from None
    return (Tree(None, 1) if top is None else _Decoder().value(top)), more


def _compose(data: bytes) -> tuple[_Node | None, bool]:
    stack: list[_Node] = []
    anchors: dict[str, _Node] = {}
    top: _Node | None = None
    events = yaml_text.events(data)  # go-yaml allows a depth of 10000; no field of a CDI spec is deeper than eight
    for event in events:
        if isinstance(event, yaml.DocumentEndEvent):
            break
        if isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
            stack.pop()
            continue
        node = _node(event, anchors)
        if node is None:
            continue
        if stack:
            stack[-1].children.append(node)
        top = top or node
        if node.kind in ("map", "list"):
            stack.append(node)
    return top, _more(events)


def _more(events: Iterator[Any]) -> bool:
    try:
        return any(isinstance(event, yaml.DocumentStartEvent) for event in events)
    except yaml_text.YamlError:  # no engine reads on after the first document, so nobody is hurt
        return True


def _node(event: Any, anchors: dict[str, _Node]) -> _Node | None:
    if isinstance(event, yaml.AliasEvent):
        node = _Node("alias", event)
        node.target = anchors.get(event.anchor or "")
        if node.target is None:
            raise Unreadable(f"the anchor {event.anchor} is not known", node.line)
        return node
    if isinstance(event, yaml.ScalarEvent):
        node = _Node("scalar", event, event.value)
    elif isinstance(event, yaml.MappingStartEvent):
        node = _Node("map", event)
    elif isinstance(event, yaml.SequenceStartEvent):
        node = _Node("list", event)
    else:
        return None
    if event.anchor:
        anchors[event.anchor] = node
    return node


class _Decoder:
    """go-yaml's decoder for values without a type. Counts as it does, but decodes what aliases share only once."""

    def __init__(self) -> None:
        self.count, self.aliased, self.depth = 0, 0, 0
        self.done: dict[int, tuple[Tree, int]] = {}
        self.open: set[int] = set()

    def value(self, node: _Node) -> Tree:
        self._tick(node, 1)
        if node.kind == "alias":
            return self._alias(node)
        before = self.count
        tree = Tree(self._scalar(node) if node.kind == "scalar" else self._parts(node), node.line, node.value)
        self.done[id(node)] = tree, self.count - before + 1
        return tree

    def _parts(self, node: _Node) -> Any:
        if id(node) in self.open:
            raise Unreadable("an anchor's value contains itself", node.line)
        self.open.add(id(node))
        found: Any = [self.value(child) for child in node.children] if node.kind == "list" else self._mapping(node)
        self.open.discard(id(node))
        return found

    def _tick(self, node: _Node, steps: int) -> None:
        self.count += steps
        self.aliased += steps if self.depth else 0
        if self.count > yaml_text.MOST:
            raise Unreadable(f"it has more than {yaml_text.MOST} values, of which aliases repeat many", node.line)
        if self.aliased > 100 and self.count > 1000 and self.aliased / self.count > SHARE:
            raise Unreadable("its aliases stand for far more than what is written", node.line)

    def _alias(self, node: _Node) -> Tree:
        target = node.target or node  # _node() saw to it
        self.depth += 1
        seen = self.done.get(id(target))
        if seen:
            self._tick(node, seen[1])
        tree = seen[0] if seen else self.value(target)
        self.depth -= 1
        return dc.replace(tree, line=node.line)

    def _mapping(self, node: _Node) -> dict[Key, Tree]:
        found: dict[Key, Tree] = {}
        pairs = iter(node.children)
        for key, value in zip(pairs, pairs, strict=True):
            if key.kind == "scalar" and key.value == "<<" and (key.plain or key.tag == MERGE):
                for part in self._merged(value):
                    for name, tree in part.items():
                        _put(found, name, tree, key.line)
                continue
            name = self.value(key).value
            if isinstance(name, (dict, list)):
                raise Unreadable("a key must be text", key.line)
            _put(found, (type(name).__name__, name), dc.replace(self.value(value), line=key.line), key.line)
        return found

    def _merged(self, node: _Node) -> list[dict[Key, Tree]]:
        parts = node.children[::-1] if node.kind == "list" else [node]
        ends = [p.target if p.kind == "alias" else p for p in parts]
        if any(e is None or e.kind != "map" for e in ends):
            raise Unreadable("only a mapping can be merged", node.line)
        return [self.value(part).value for part in parts]

    def _scalar(self, node: _Node) -> Any:
        if not node.tag and not node.plain:
            return node.value
        try:
            tag, value = resolve(node.tag, node.value)
            return base64.b64decode(value.replace("\n", ""), validate=True).decode("utf-8", "replace") if tag == BINARY else value
        except binascii.Error as error:
            raise Unreadable("this is no base64", node.line) from error
        except ValueError as error:
            raise Unreadable(str(error), node.line) from error


def _put(found: dict[Key, Tree], key: Key, value: Tree, line: int) -> None:
    if key in found:
        raise Unreadable(f"the key {key[1]} is there twice (first in line {found[key].line})", line, "duplicate-key")
    found[key] = value


def resolve(tag: str, text: str) -> tuple[str, Any]:
    """What a scalar without quotes, or with a tag, is. Raises ValueError where tag and text do not fit."""
    if tag not in RESOLVABLE:
        return tag, text
    found, value = (STR, text) if tag == STR else _guess(tag, text)
    if tag in ("", STR, found):
        return found, value
    if tag == FLOAT and found == INT and int(value) < 1 << 63:
        return FLOAT, float(value)
    raise ValueError(f"{text!r} is no {tag.removeprefix(TAGS)}")


def _guess(tag: str, text: str) -> tuple[str, Any]:
    if text in WORDS:
        return WORDS[text]
    if text[0] == "." and FRACTION.fullmatch(text):
        return FLOAT, float(text)
    if text[0] in "+-0123456789":
        if tag == TIME and TIMESTAMP.fullmatch(text):
            return TIME, text
        return _number(text.replace("_", "")) or (STR, text)
    return STR, text


def _number(text: str) -> tuple[str, Any] | None:
    """As Go's strconv does it: 010 is eight, and 08, which is no octal number, becomes a fraction."""
    found = INTEGER.fullmatch(text)
    if found:
        sign, *parts = found.groups()
        base, digits = next((b, d) for b, d in zip((16, 2, 8, 10), parts, strict=True) if d is not None)
        if len(digits) <= 64 and -(1 << 63) <= (number := int(sign + digits, base)) < 1 << (63 if sign else 64):
            return INT, number
    if DECIMAL.fullmatch(text):
        number_ = float(text)
        return None if math.isinf(number_) else (FLOAT, number_)
    return None
