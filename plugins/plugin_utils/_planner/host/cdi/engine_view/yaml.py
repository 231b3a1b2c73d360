# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the YAML of a CDI spec as far as engines agree on it.

That is its structure, the line of each value, and the scalars that are numbers.

The reference library has had two readers: sigs.k8s.io/yaml up to 1.1.0, go-yaml 3 from 1.1.1 on.
PyYAML does the grammar, which all have from libyaml. Where the readers differ, a value stays as it
is written and the difference is told; tags are not read at all, as on the host.
"""

from __future__ import annotations

import dataclasses as dc
import math
import re
from collections.abc import Iterator
from typing import Any

import yaml
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import (
    messages as format_messages,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import yaml_text
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    put_line_before,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.engine_view import (
    messages,
)

WORDS: dict[str, Any] = {
    **dict.fromkeys(
        ("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True
    ),
    **dict.fromkeys(
        ("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False
    ),
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}
INTEGER = re.compile(r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|(0|[1-9][0-9]*))")
DECIMAL = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
# An escape of JSON that libyaml reads, and no release of go-yaml.
SLASH = re.compile(r"(?<!\\)(?:\\\\)*\\/")


class UnreadableYaml(ValueError):
    """An error: the text is not a document. `rule` is an id of the table of rules."""

    def __init__(self, message: str, line: int | None = None, rule: str = "yaml") -> None:
        super().__init__(put_line_before(message, line) if line else message)
        self.message, self.line, self.rule = message, line, rule


@dc.dataclass(frozen=True)
class YamlTree:
    """A value and the line it begins in (that of its key, in a mapping).

    Keys are pairs of type and value, since 1, "1" and true are three keys in YAML.
    """

    value: Any
    line: int
    text: str = ""  # of a scalar, as it is written


Key = tuple[str, Any]


@dc.dataclass(frozen=True)
class YamlDocument:
    """The first document of a text.

    more: whether there is another, which no engine looks at. merged_twice: keys, with their lines,
    that a merge brings and that are there besides. The newer reader lets one of them win.
    """

    tree: YamlTree
    more: bool = False
    merged_twice: tuple[tuple[str, int], ...] = ()


class _Node:
    """An event of the parser with what belongs to it. It is mutable only while it is being read."""

    def __init__(self, kind: str, event: Any, value: str = "") -> None:
        self.kind, self.value, self.line = kind, value, event.start_mark.line + 1
        implicit = getattr(event, "implicit", False)
        self.plain = bool(implicit[0]) if isinstance(implicit, tuple) else False
        self.children: list[_Node] = []
        self.target: _Node | None = None
        if getattr(event, "tag", None):
            raise UnreadableYaml(
                messages.SPEC_HAS_TAG.fill(tag=event.tag[:60]), self.line, "not-read"
            )


def read_yaml_document(data: bytes) -> YamlDocument:
    """Read the first document of a file. Raise UnreadableYaml if it is not one."""
    try:
        top, more = _compose(data)
    except yaml_text.YamlError as error:
        raise UnreadableYaml(error.problem, error.line) from None
    decoder = _Decoder()
    return YamlDocument(
        YamlTree(None, 1) if top is None else decoder.decode_value(top),
        more,
        tuple(decoder.merged_twice),
    )


def _compose(data: bytes) -> tuple[_Node | None, bool]:
    stack: list[_Node] = []
    anchors: dict[str, _Node] = {}
    top: _Node | None = None
    events = yaml_text.list_yaml_events(data)
    text = data.decode("utf-8-sig", "replace") if b"\\/" in data else ""
    for event in events:
        if isinstance(event, yaml.DocumentEndEvent):
            break
        if isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
            stack.pop()
            continue
        node = _read_node(event, anchors)
        if node is None:
            continue
        if text:
            _require_escapes(text, event)
        if stack:
            stack[-1].children.append(node)
        top = top or node
        if node.kind in ("map", "list"):
            stack.append(node)
    return top, _has_more_documents(events)


def _require_escapes(text: str, event: Any) -> None:
    quoted = getattr(event, "style", None) == '"'
    if quoted and SLASH.search(text[event.start_mark.index : event.end_mark.index]):
        raise UnreadableYaml(messages.SPEC_HAS_SLASH_ESCAPE.fill(), event.start_mark.line + 1)


def _has_more_documents(events: Iterator[Any]) -> bool:
    try:
        return any(isinstance(event, yaml.DocumentStartEvent) for event in events)
    except yaml_text.YamlError:  # no engine reads on after the first document, so this does no harm
        return True


def _read_node(event: Any, anchors: dict[str, _Node]) -> _Node | None:
    if isinstance(event, yaml.AliasEvent):
        node = _Node("alias", event)
        node.target = anchors.get(event.anchor or "")
        if node.target is None:
            raise UnreadableYaml(messages.SPEC_ANCHOR_UNKNOWN.fill(anchor=event.anchor), node.line)
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
    """A decoder of nodes to values.

    Values that aliases share are decoded once, and counted as often as they are there.
    """

    def __init__(self) -> None:
        self.count = 0
        self.done: dict[int, tuple[YamlTree, int]] = {}
        self.open: set[int] = set()
        self.merged_twice: list[tuple[str, int]] = []

    def decode_value(self, node: _Node) -> YamlTree:
        self._count_steps(node, 1)
        if node.kind == "alias":
            return self._decode_alias(node)
        before = self.count
        tree = YamlTree(
            _read_scalar(node) if node.kind == "scalar" else self._decode_parts(node),
            node.line,
            node.value,
        )
        self.done[id(node)] = tree, self.count - before + 1
        return tree

    def _decode_parts(self, node: _Node) -> Any:
        if id(node) in self.open:
            raise UnreadableYaml(format_messages.ANCHOR_IN_ITSELF.fill(), node.line)
        self.open.add(id(node))
        decoded: Any = (
            [self.decode_value(child) for child in node.children]
            if node.kind == "list"
            else self._decode_mapping(node)
        )
        self.open.discard(id(node))
        return decoded

    def _count_steps(self, node: _Node, steps: int) -> None:
        self.count += steps
        if self.count > yaml_text.MOST:
            raise UnreadableYaml(
                format_messages.YAML_REPEATS_VALUES.fill(limit=yaml_text.MOST),
                node.line,
            )

    def _decode_alias(self, node: _Node) -> YamlTree:
        target = node.target or node  # _read_node() saw to it
        decoded = self.done.get(id(target))
        if decoded:
            self._count_steps(node, decoded[1])
        return dc.replace(decoded[0] if decoded else self.decode_value(target), line=node.line)

    def _decode_mapping(self, node: _Node) -> dict[Key, YamlTree]:
        mapping: dict[Key, YamlTree] = {}
        merges: list[tuple[dict[Key, YamlTree], int]] = []
        pairs = iter(node.children)
        for key, value in zip(pairs, pairs, strict=True):
            if key.kind == "scalar" and key.value == "<<" and key.plain:
                merges += [(part, key.line) for part in self._list_merged(value)]
                continue
            name = self.decode_value(key).value
            if isinstance(name, (dict, list)):
                raise UnreadableYaml(messages.SPEC_KEY_NOT_TEXT.fill(), key.line)
            pair = (type(name).__name__, name)
            if pair in mapping:
                raise UnreadableYaml(
                    messages.SPEC_KEY_TWICE.fill(key=name, first=mapping[pair].line),
                    key.line,
                    "duplicate-key",
                )
            mapping[pair] = dc.replace(self.decode_value(value), line=key.line)
        for part, line in merges:
            self.merged_twice += [(str(pair[1]), line) for pair in part if pair in mapping]
            mapping = {**part, **mapping}
        return mapping

    def _list_merged(self, node: _Node) -> list[dict[Key, YamlTree]]:
        """Return the mappings that a merge names, the one that counts most first."""
        parts = node.children if node.kind == "list" else [node]
        ends = [p.target if p.kind == "alias" else p for p in parts]
        if any(e is None or e.kind != "map" for e in ends):
            raise UnreadableYaml(messages.SPEC_MERGES_NO_MAPPING.fill(), node.line)
        return [self.decode_value(part).value for part in parts]


def _read_scalar(node: _Node) -> Any:
    return convert_plain_scalar(node.value) if node.plain else node.value


def convert_plain_scalar(text: str) -> Any:
    """Return the value of a scalar without quotes."""
    if text in WORDS:
        return WORDS[text]
    number = _parse_yaml_number(text.replace("_", "")) if text[0] in "+-.0123456789" else None
    return text if number is None else number


def _parse_yaml_number(text: str) -> int | float | None:
    """Read a number as Go's strconv does; None if the text is not one.

    010 is eight. 08 is not an octal number and becomes a fraction.
    """
    match = INTEGER.fullmatch(text)
    if match:
        sign, *parts = match.groups()
        base, digits = next(
            (b, d) for b, d in zip((16, 2, 8, 10), parts, strict=True) if d is not None
        )
        if len(digits) <= 64 and -(1 << 63) <= (number := int(sign + digits, base)) < 1 << (
            63 if sign else 64
        ):
            return number
    if DECIMAL.fullmatch(text):
        fraction = float(text)
        return None if math.isinf(fraction) else fraction
    return None
