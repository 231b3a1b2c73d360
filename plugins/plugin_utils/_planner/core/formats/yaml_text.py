# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read YAML that a host, a cluster or a person has written, within bounds of our own.

PyYAML gives events (`[` begins, a scalar, an alias). This file counts them and builds the values.
So every bound holds before a value is made, and in the same way with every release of PyYAML and
libyaml. A small YAML text can be large as values. It may have aliases of aliases, merge keys (`<<`)
of merge keys, a value within itself, numbers of a million digits, or brackets without end.
"""

from __future__ import annotations

import dataclasses as dc
import re
from collections.abc import Iterator, Mapping
from typing import Any

import yaml
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import messages

SIZE = 4 << 20  # characters of a text, or bytes
# the same where PyYAML lacks libyaml, whose work it does at a twentieth of the speed
SLOW_SIZE = 1 << 18
DEEPEST = 100  # open tables and lists; the kubelet's file has fewer than ten
DEEPEST_WITH_LINES = 20  # each value's path is kept there, and people write no deeper
MOST = 100_000  # values and keys, each counted as often as aliases and merge keys repeat it
# characters; Python takes the square of them, and prints no number of more than 4 300 digits
LONGEST_NUMBER = 100

# The C reader is ten times as fast and comes with every wheel; a source build may lack it.
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
TAGS = "tag:yaml.org,2002:"
MERGE, VALUE, STR, MAP, SEQ = (TAGS + name for name in ("merge", "value", "str", "map", "seq"))
SCALARS = frozenset(
    TAGS + name for name in ("str", "int", "float", "bool", "null", "timestamp", "binary")
)
# one class of characters, so it takes the time of its length
_NUMERIC = re.compile(r"[-+]?\.?[0-9][-+.0-9a-fA-FxX_:]*")
_NUMBERS = frozenset(TAGS + name for name in ("int", "float", "timestamp"))
# A scalar that is not of its tag ends in one of these: a date that is none, base 60 beyond a float,
# a truth value that is none.
_ODD = (ValueError, ArithmeticError, LookupError, AttributeError, TypeError, yaml.YAMLError)

Path = tuple[str | int, ...]


class YamlError(ValueError):
    """A text that is not YAML, or that is beyond a bound. line: from 1, None if it is not known."""

    def __init__(self, problem: str, line: int | None = None) -> None:
        super().__init__(f"line {line}: {problem}" if line else problem)
        self.problem, self.line = problem, line


class TooLargeYaml(YamlError):
    """A text beyond a bound."""


class Twice(YamlError):
    """A key that a table has twice."""

    def __init__(self, path: Path, line: int) -> None:
        super().__init__(messages.YAML_KEY_TWICE.fill(), line)
        self.path = path


def read_bounded_yaml(text: str) -> Any:
    """Return the value of a text, None for an empty one. Raises YamlError. Of two equal keys the
    last counts, as in PyYAML.
    """
    return _Builder(lines=False).build_document(text)


def read_lines(text: str) -> tuple[Any, dict[Path, int]]:
    """Return the value and the line of each value in it. Raises YamlError, also for a key that a
    table has twice.
    """
    builder = _Builder(lines=True)
    data = builder.build_document(text)
    return data, builder.lines


def list_yaml_events(text: str | bytes, deepest: int = DEEPEST) -> Iterator[Any]:
    """Yield PyYAML's events as long as the text keeps the bounds of size, depth and number. Raises
    YamlError.
    """
    _require_size(text)
    depth = count = 0
    try:
        for event in yaml.parse(text, Loader=LOADER):
            if isinstance(event, yaml.NodeEvent):
                count += 1
                if count > MOST:
                    raise TooLargeYaml(
                        messages.YAML_TOO_MANY_VALUES.fill(limit=MOST), _get_line(event)
                    )
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
                if depth > deepest:
                    raise _build_too_deep(deepest, _get_line(event))
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
            yield event
    except RecursionError:
        raise _build_too_deep(deepest, None) from None
    except (yaml.YAMLError, UnicodeError) as error:
        raise _build_yaml_error(error, text, deepest) from None


def _require_size(text: str | bytes) -> None:
    most = SIZE if LOADER is not yaml.SafeLoader else SLOW_SIZE
    if len(text) > most:
        raise TooLargeYaml(messages.TEXT_TOO_LONG.fill(length=len(text), limit=most))


def _build_yaml_error(error: Exception, text: str | bytes, deepest: int) -> YamlError:
    """Make the error, with its line, from PyYAML's. Its own limit of nesting, which some releases
    of libyaml have, is reported as ours.
    """
    mark, position = getattr(error, "problem_mark", None), getattr(error, "position", None)
    newline = b"\n" if isinstance(text, bytes) else "\n"
    line = mark.line + 1 if mark else None
    if line is None and isinstance(position, int):
        line = text[:position].count(newline) + 1  # type: ignore[arg-type]
    if line:  # libyaml names the line behind the end
        line = min(line, text.rstrip(newline).count(newline) + 1)  # type: ignore[arg-type]
    problem = str(getattr(error, "problem", None) or getattr(error, "reason", None) or "")
    if "nesting depth" in problem:
        return _build_too_deep(deepest, line)
    return YamlError(problem or messages.YAML_REFUSED.fill(), line)


def _build_too_deep(deepest: int, line: int | None) -> TooLargeYaml:
    return TooLargeYaml(messages.TEXT_TOO_DEEP.fill(limit=deepest), line)


def _get_line(event: Any) -> int:
    return int(event.start_mark.line) + 1


@dc.dataclass
class _Frame:
    """A table or a list that is being read. size: the number of its values, with the repetitions by
    aliases.
    """

    value: dict[Any, Any] | list[Any]
    path: Path = ()
    size: int = 1
    key: Any = None
    keyed: bool = False  # a key was read, and its value comes next
    # of each `<<` its value, which may not be whole yet, and its line
    merges: list[tuple[Any, int]] = dc.field(default_factory=list)
    closed: bool = False


@dc.dataclass(frozen=True)
class _Scalar:
    """A scalar as an anchor keeps it."""

    value: Any
    size: int = 1
    closed: bool = True


class _Merge:
    """The key `<<`."""


class _Scalars(yaml.resolver.Resolver, yaml.constructor.SafeConstructor):
    """PyYAML's rules of what a scalar means, without its reader."""

    def __init__(self) -> None:
        yaml.resolver.Resolver.__init__(self)
        yaml.constructor.SafeConstructor.__init__(self)

    def resolve_scalar(self, event: Any) -> Any:
        """Return the value of a scalar, _Merge for `<<`. Raise YamlError if its tag and its text do
        not fit.
        """
        line, text = _get_line(event), event.value
        given = event.tag if event.tag not in (None, "!") else None
        if len(text) > LONGEST_NUMBER and (
            given in _NUMBERS or (not given and event.implicit[0] and _NUMERIC.fullmatch(text))
        ):
            raise TooLargeYaml(messages.NUMBER_TOO_LONG_HERE.fill(limit=LONGEST_NUMBER), line)
        tag = given or self.resolve(yaml.ScalarNode, text, event.implicit)  # type: ignore[no-untyped-call]
        if tag == MERGE:
            return _Merge
        if tag in (STR, VALUE):
            return text
        if tag not in SCALARS:
            raise YamlError(messages.TAG_NOT_READ.fill(tag=tag[:60]), line)
        try:
            return self.yaml_constructors[tag](self, yaml.ScalarNode(tag, text))
        except _ODD:
            raise YamlError(messages.WRONG_VALUE.fill(type=tag.removeprefix(TAGS)), line) from None


class _Builder:
    """A builder of values from events. It counts each value when it is added, with what aliases
    bring along, before anything is copied.
    """

    def __init__(self, lines: bool) -> None:
        self.scalars = _Scalars()
        self.anchors: dict[str, _Frame | _Scalar] = {}
        self.stack: list[_Frame] = []
        self.root: Any = None
        self.with_lines = lines
        self.lines: dict[Path, int] = {}

    def build_document(self, text: str) -> Any:
        documents = 0
        for event in list_yaml_events(text, DEEPEST_WITH_LINES if self.with_lines else DEEPEST):
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise YamlError(messages.SECOND_DOCUMENT.fill(), _get_line(event))
            elif isinstance(event, yaml.CollectionEndEvent):
                self.end(_get_line(event))
            elif isinstance(event, yaml.NodeEvent):
                self.build_node(event)
        return self.root

    def build_node(self, event: Any) -> None:
        line = _get_line(event)
        if isinstance(event, yaml.AliasEvent):
            self.build_alias(event, line)
        elif isinstance(event, yaml.ScalarEvent):
            value = self.scalars.resolve_scalar(event)
            self.keep(event, _Scalar(value))
            self.add(value, 1, line)
        else:
            self.begin(event, line)

    def begin(self, event: Any, line: int) -> None:
        table = isinstance(event, yaml.MappingStartEvent)
        if event.tag not in (None, "!", MAP if table else SEQ):
            raise YamlError(messages.TAG_NOT_READ.fill(tag=event.tag[:60]), line)
        frame = _Frame({} if table else [], self.get_path())
        self.keep(event, frame)
        self.add(frame.value, 0, line)
        self.stack.append(frame)

    def end(self, line: int) -> None:
        frame = self.stack.pop()
        if frame.merges and isinstance(frame.value, dict):
            own = dict(frame.value)
            frame.value.clear()
            for value, at in frame.merges:
                for part in _list_merged_tables(value, at):
                    frame.value.update(part)
            frame.value.update(own)
        frame.closed = True
        if self.stack:
            self.add_size(self.stack[-1], frame.size, line)

    def keep(self, event: Any, held: _Frame | _Scalar) -> None:
        if event.anchor:
            self.anchors[event.anchor] = held

    def build_alias(self, event: Any, line: int) -> None:
        held = self.anchors.get(event.anchor)
        if held is None:
            raise YamlError(messages.NO_ANCHOR.fill(), line)
        if not held.closed:
            raise YamlError(messages.ANCHOR_IN_ITSELF.fill(), line)
        self.add(held.value, held.size, line)

    def get_path(self) -> Path:
        """Return the path of the value that comes next."""
        if not self.with_lines or not self.stack:
            return ()
        frame = self.stack[-1]
        return (*frame.path, len(frame.value) if isinstance(frame.value, list) else str(frame.key))

    def add_size(self, frame: _Frame, size: int, line: int) -> None:
        frame.size += size
        if frame.size > MOST:
            raise TooLargeYaml(messages.YAML_REPEATS_VALUES.fill(limit=MOST), line)

    def add(self, value: Any, size: int, line: int) -> None:
        """Put a value, or a key, in its place. size: the values that it counts as, 0 for one whose
        parts are still to come.
        """
        if not self.stack:
            self.root = value
            self.note((), line)
            return
        frame = self.stack[-1]
        self.add_size(frame, size, line)
        if isinstance(frame.value, list):
            self.note(self.get_path(), line)
            frame.value.append(_convert_plain(value))
        elif not frame.keyed:
            self.add_key(frame, value, line)
        else:
            frame.keyed = False
            if frame.key is _Merge:
                frame.merges.append((value, line))
            else:
                frame.value[frame.key] = _convert_plain(value)

    def add_key(self, frame: _Frame, key: Any, line: int) -> None:
        if isinstance(key, (dict, list)):
            raise YamlError(messages.KEY_IS_TABLE.fill(), line)
        frame.key, frame.keyed = key, True
        if key is _Merge:
            return
        if self.with_lines and key in frame.value:
            raise Twice(self.get_path(), line)
        self.note(self.get_path(), line)

    def note(self, path: Path, line: int) -> None:
        if self.with_lines:
            self.lines.setdefault(path, line)


def _convert_plain(value: Any) -> Any:
    return "<<" if value is _Merge else value


def _list_merged_tables(value: Any, line: int) -> list[Mapping[Any, Any]]:
    """Return the tables of a merge key, the one that counts most last."""
    parts = value[::-1] if isinstance(value, list) else [value]
    if not all(isinstance(part, dict) for part in parts):
        raise YamlError(messages.ONLY_TABLES_MERGE.fill(), line)
    return parts
