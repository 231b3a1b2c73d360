# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Shapes of values from a host: each reads a value of JSON, and raises BrokenShape for one that
has another shape.

`read` builds a new value of the parts that the shape names. Other keys are dropped, so no reader of
the answer sees them. BrokenShape names the rule that was broken and the place. A place is a name of
the tables here, [] for an item of a list, or * for any other key. So it is never a word of the
host.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses as dc
import functools
import math
import re
from collections.abc import Mapping
from typing import Any, Protocol, TypeGuard, TypeVar

from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.projection import selection
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.shapes import messages

MOST = 1 << 17  # items of a list, or keys of a table, if no smaller number is known
DEEPEST = 24  # lists and tables in each other, of values whose places a query lists
ESCAPES = re.compile("[\ud800-\udc7f\udd00-\udfff]")  # surrogates that stand for no byte (PEP 383)
SURROGATES = re.compile("[\ud800-\udfff]")
# The rules of texts are compiled by a first value: before Ansible makes a process for each host.
for _shape in selection.TEXT_RULES:
    selection.fits_listed_shape(_shape, "")
AskedQuery = Mapping[str, Any]
T = TypeVar("T")


def is_exactly(value: Any, kind: type[T]) -> TypeGuard[T]:
    """Tell whether a value is of this very type. In JSON true is not an integer, though Python
    takes it for one.
    """
    return type(value) in (kind,)


class BrokenShape(Exception):
    """A value that does not have its shape: the rule, and the place from the outermost name
    inwards.
    """

    def __init__(self, rule: Message, place: tuple[str, ...] = ()) -> None:
        super().__init__(Message(": ".join((*place, rule)), rule.code, rule.values))
        self.rule, self.place = rule, place

    def place_below(self, name: str) -> BrokenShape:
        """Return this error at a place within `name`."""
        return BrokenShape(self.rule, (name, *self.place))


class Shape(Protocol):
    """A requirement on a value. asked: the query that the value answers."""

    @property
    def rule(self) -> str:
        """Return the sentence of the requirement."""

    def read(self, value: Any, asked: AskedQuery) -> Any:
        """Return the value as it is read. Raise BrokenShape with the rule that it breaks."""


@dc.dataclass(frozen=True)
class Text:
    """A text of at most `most` characters. pattern: a regular expression for all of it; `called`
    describes both in words.

    bytes: whether the text may contain bytes that are not UTF-8, as names of files do.
    """

    most: int
    pattern: str = ""
    called: str = ""
    bytes: bool = False

    def __post_init__(self) -> None:
        # `re` keeps it for the processes that Ansible makes later, one for each host's task
        re.compile(self.pattern)

    @property
    def rule(self) -> str:
        return self.called or f"text of at most {self.most} characters"

    def read(self, value: Any, asked: AskedQuery) -> str:
        if not is_exactly(value, str) or len(value) > self.most:
            raise BrokenShape(messages.NOT_OF_SHAPE.fill(shape=self.rule))
        if not value.isascii() and (ESCAPES if self.bytes else SURROGATES).search(value):
            raise BrokenShape(messages.NOT_UTF8.fill())
        if self.pattern and not re.fullmatch(self.pattern, value):
            raise BrokenShape(messages.NOT_OF_SHAPE.fill(shape=self.rule))
        return value


@dc.dataclass(frozen=True)
class Whole:
    """An integer within bounds, both included."""

    low: int
    high: int

    @property
    def rule(self) -> str:
        return f"an integer between {self.low} and {self.high}"

    def read(self, value: Any, asked: AskedQuery) -> int:
        if not is_exactly(value, int) or not self.low <= value <= self.high:
            raise BrokenShape(messages.NOT_OF_SHAPE.fill(shape=self.rule))
        return value


@dc.dataclass(frozen=True)
class QueryPlace:
    """The number of an item of a list in the query: 0 for its first."""

    key: str

    @property
    def rule(self) -> str:
        return f"the number of one of the query's {self.key}"

    def read(self, value: Any, asked: AskedQuery) -> int:
        if not is_exactly(value, int) or not 0 <= value < len(asked.get(self.key) or ()):
            raise BrokenShape(messages.NOT_OF_SHAPE.fill(shape=self.rule))
        return value


@dc.dataclass(frozen=True)
class Real:
    """A number within bounds, both included: NaN is in none."""

    low: float
    high: float

    @property
    def rule(self) -> str:
        return f"a number between {self.low:.0f} and {self.high:.0f}"

    def read(self, value: Any, asked: AskedQuery) -> float:
        if (
            not (is_exactly(value, int) or is_exactly(value, float))
            or not self.low <= value <= self.high
            or not math.isfinite(value)
        ):
            raise BrokenShape(messages.NOT_OF_SHAPE.fill(shape=self.rule))
        number: float = value
        return number


@dc.dataclass(frozen=True)
class Flag:
    """The value true or false."""

    @property
    def rule(self) -> str:
        return "true or false"

    def read(self, value: Any, asked: AskedQuery) -> bool:
        if not is_exactly(value, bool):
            raise BrokenShape(messages.NOT_OF_SHAPE.fill(shape=self.rule))
        return value


@dc.dataclass(frozen=True)
class ChoiceShape:
    """A word out of a few."""

    words: tuple[str, ...]

    @property
    def rule(self) -> str:
        return "one of " + ", ".join(word or "the empty text" for word in self.words)

    def read(self, value: Any, asked: AskedQuery) -> str:
        if not is_exactly(value, str) or value not in self.words:
            raise BrokenShape(messages.NOT_OF_SHAPE.fill(shape=self.rule))
        return value


@dc.dataclass(frozen=True)
class Maybe:
    """A value that is null or has the shape `inner`."""

    inner: Shape

    @property
    def rule(self) -> str:
        return f"{self.inner.rule}, or null"

    def read(self, value: Any, asked: AskedQuery) -> Any:
        return None if value is None else self.inner.read(value, asked)


@dc.dataclass(frozen=True)
class Items:
    """A list. exactly: as many items as the query has at that key."""

    each: Shape
    most: int = MOST
    exactly: str = ""

    @property
    def rule(self) -> str:
        return f"a list of at most {self.most}"

    def read(self, value: Any, asked: AskedQuery) -> list[Any]:
        if not is_exactly(value, list) or len(value) > self.most:
            raise BrokenShape(messages.NOT_OF_SHAPE.fill(shape=self.rule))
        if self.exactly and len(value) != len(asked.get(self.exactly) or ()):
            raise BrokenShape(messages.OTHER_COUNT.fill(names=self.exactly))
        try:
            return [self.each.read(item, asked) for item in value]
        except BrokenShape as broken:
            raise broken.place_below("[]") from None


@dc.dataclass(frozen=True)
class RowShape:
    """A list with a meaning for each of its places."""

    parts: tuple[Shape, ...]

    @property
    def rule(self) -> str:
        return f"a list of {len(self.parts)}"

    def read(self, value: Any, asked: AskedQuery) -> list[Any]:
        if not is_exactly(value, list) or len(value) != len(self.parts):
            raise BrokenShape(messages.NOT_OF_SHAPE.fill(shape=self.rule))
        try:
            return [part.read(item, asked) for part, item in zip(self.parts, value, strict=True)]
        except BrokenShape as broken:
            raise broken.place_below("[]") from None


@dc.dataclass(frozen=True)
class TableShape:
    """A table with known keys; `key?` may be missing. needs: at least one of these has to be there."""

    fields: Mapping[str, Shape]
    needs: tuple[str, ...] = ()

    @property
    def rule(self) -> str:
        return "a table"

    @functools.cached_property
    def _rows(self) -> tuple[tuple[str, bool, Shape], ...]:
        """Each key, whether it may be missing, and its shape. A look reads hundreds of tables."""
        return tuple(
            (name.removesuffix("?"), name.endswith("?"), shape)
            for name, shape in self.fields.items()
        )

    def read(self, value: Any, asked: AskedQuery) -> dict[str, Any]:
        if not is_exactly(value, dict):
            raise BrokenShape(messages.NOT_OF_SHAPE.fill(shape=self.rule))
        fields: dict[str, Any] = {}
        for key, may_miss, shape in self._rows:
            if key in value:
                try:
                    fields[key] = shape.read(value[key], asked)
                except BrokenShape as broken:
                    raise broken.place_below(key) from None
            elif not may_miss:
                raise BrokenShape(messages.KEY_MISSING.fill(), (key,))
        if self.needs and not any(key in fields for key in self.needs):
            raise BrokenShape(messages.NONE_OF_KEYS.fill(names=", ".join(self.needs)))
        return fields


@dc.dataclass(frozen=True)
class Keyed:
    """A table whose keys have a shape."""

    key: Shape
    each: Shape
    most: int = MOST

    @property
    def rule(self) -> str:
        return f"a table of at most {self.most}"

    def read(self, value: Any, asked: AskedQuery) -> dict[str, Any]:
        if not is_exactly(value, dict) or len(value) > self.most:
            raise BrokenShape(messages.NOT_OF_SHAPE.fill(shape=self.rule))
        try:
            return {
                self.key.read(key, asked): self.each.read(inner, asked)
                for key, inner in value.items()
            }
        except BrokenShape as broken:
            raise broken.place_below("*") from None


@dc.dataclass(frozen=True)
class Named:
    """A table with a value for each name in the query; keys that the query does not name are
    dropped.

    more: names that are there in addition; some: whether names may be missing.
    """

    names: str
    each: Shape
    more: tuple[str, ...] = ()
    some: bool = False

    @property
    def rule(self) -> str:
        return f"a table with the query's {self.names}"

    def read(self, value: Any, asked: AskedQuery) -> dict[str, Any]:
        if not is_exactly(value, dict):
            raise BrokenShape(messages.NOT_OF_SHAPE.fill(shape=self.rule))
        wanted = (*self.more, *(asked.get(self.names) or ()))
        if not self.some and any(name not in value for name in wanted):
            raise BrokenShape(messages.NAME_MISSING.fill(names=self.names))
        try:
            return {name: self.each.read(value[name], asked) for name in wanted if name in value}
        except BrokenShape as broken:
            raise broken.place_below("*") from None


@dc.dataclass(frozen=True)
class ListedShape:
    """The values that a query lists by their places (`keep`), each with the shape that it has
    there.
    """

    @property
    def rule(self) -> str:
        return "the listed values, each with its shape"

    def read(self, value: Any, asked: AskedQuery) -> Any:
        TreeShape().read(value, asked)
        if selection.select(value, asked.get("keep") or ()) != value:
            raise BrokenShape(messages.NOT_OF_SHAPE.fill(shape=self.rule))
        return value


@dc.dataclass(frozen=True)
class TreeShape:
    """A value of JSON within bounds: of depth, of the length of a text, of the size of a number."""

    most: int = 4096

    @property
    def rule(self) -> str:
        return f"values at most {DEEPEST} deep, with texts of at most {self.most} characters and integers of at most 64 bits"

    def read(self, value: Any, asked: AskedQuery) -> Any:
        if not self._fits(value, 0):
            raise BrokenShape(messages.NOT_OF_SHAPE.fill(shape=self.rule))
        return value

    def _fits(self, value: Any, depth: int) -> bool:
        if is_exactly(value, dict):
            return depth < DEEPEST and all(
                self._fits(key, depth) and self._fits(inner, depth + 1)
                for key, inner in value.items()
            )
        if is_exactly(value, list):
            return depth < DEEPEST and all(self._fits(inner, depth + 1) for inner in value)
        if is_exactly(value, str):
            return len(value) <= self.most and not SURROGATES.search(value)
        return (
            value is None
            or is_exactly(value, bool)
            or ((is_exactly(value, int) or is_exactly(value, float)) and abs(value) < 1 << 64)
        )


@dc.dataclass(frozen=True)
class Base64:
    """Bytes, written in base64."""

    most: int

    @property
    def rule(self) -> str:
        return f"base64 of at most {self.most} characters"

    def read(self, value: Any, asked: AskedQuery) -> str:
        if not is_exactly(value, str) or len(value) > self.most or not value.isascii():
            raise BrokenShape(messages.NOT_OF_SHAPE.fill(shape=self.rule))
        try:
            base64.b64decode(value, validate=True)
        except binascii.Error:
            raise BrokenShape(messages.NOT_OF_SHAPE.fill(shape=self.rule)) from None
        return value


@dc.dataclass(frozen=True)
class When:
    """A shape chosen by the word at a key of the table; the one of '' if the key has another word,
    or is missing.
    """

    key: str
    shapes: Mapping[str, Shape]

    @property
    def rule(self) -> str:
        return "a table"

    def read(self, value: Any, asked: AskedQuery) -> Any:
        if not is_exactly(value, dict):
            raise BrokenShape(messages.NOT_OF_SHAPE.fill(shape=self.rule))
        word = value.get(self.key)
        return self.shapes[word if is_exactly(word, str) and word in self.shapes else ""].read(
            value, asked
        )


@dc.dataclass(frozen=True)
class Has:
    """A choice of two shapes: `then` if the table has the key, else `other`."""

    key: str
    then: Shape
    other: Shape

    @property
    def rule(self) -> str:
        return "a table"

    def read(self, value: Any, asked: AskedQuery) -> Any:
        if not is_exactly(value, dict):
            raise BrokenShape(messages.NOT_OF_SHAPE.fill(shape=self.rule))
        return (self.then if self.key in value else self.other).read(value, asked)
