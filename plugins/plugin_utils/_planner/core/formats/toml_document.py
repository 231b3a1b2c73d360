# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read a TOML text as lines and as data, and write single values."""

from __future__ import annotations

import bisect
import contextlib
import dataclasses as dc
import functools
import importlib
import itertools
import json
import re
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import (
    messages,
    toml_limits,
    toml_scanner,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats.toml_scanner import (
    Path,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections.messages import (
    INVALID_TOML,
    UTF16_TOML,
)

BOM = "\ufeff"
UTF16 = ("\udcff\udcfe", "\udcfe\udcff")  # its byte order mark, as bytes that are not UTF-8 arrive
WHY = messages.REFUSED_HERE.fill()  # its own words would quote the text
# The parser that load_toml() uses, where it is: imported by the process that loads the collection,
# and not again by that of each host.
with contextlib.suppress(ImportError):
    importlib.import_module("tomllib")
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


class TomlError(PlanError):
    """A text that is not TOML, or a place in it that cannot be changed alone."""


@dc.dataclass(frozen=True)
class TomlDocument:
    """A parsed file. `origin` maps each line to its line in the original, -1 for lines of this
    collection.
    """

    path: str
    lines: tuple[str, ...]
    origin: tuple[int, ...]
    original: tuple[str, ...]
    data: Mapping[str, Any]
    bom: bool = False
    # the list by which the host made this text of the file; None: it is the file's own
    keep: Mapping[str, Any] | None = None
    foreign_bytes: int | None = None  # the first line that is not UTF-8

    @property
    def text(self) -> str:
        return (BOM if self.bom else "") + "".join(self.lines)

    @functools.cached_property
    def starts(self) -> tuple[int, ...]:
        """Return the place at which each line begins, and the end of the text."""
        return (0, *itertools.accumulate(len(line) for line in self.lines))

    @functools.cached_property
    def clean(self) -> str:
        """Return the text as it is parsed. Places in it are places in the lines."""
        return "".join(self.lines)

    @property
    def newline(self) -> str:
        return "\r\n" if self.lines and self.lines[0].endswith("\r\n") else "\n"


@functools.lru_cache(maxsize=64)
def parse_toml(text: str, path: str) -> TomlDocument:
    """Read a file's text. `path` is its name in messages.

    A plan reads the same file many times. A document is never changed: each change makes a new one.
    """
    bom = text.startswith(BOM)
    body = text[1:] if bom else text
    data = load_toml(body, path)
    lines = split_toml_lines(body)
    return TomlDocument(path, lines, tuple(range(len(lines))), lines, data, bom)


def load_toml(text: str, path: str) -> dict[str, Any]:
    """Return the data of a TOML text. Raise TomlError if it is not TOML."""
    toml_limits.require_bounded_toml(text, path)
    try:
        import tomllib  # noqa: PLC0415  in Python since 3.11
    except ImportError:
        return _loads_tomlkit(text, path)
    try:
        return tomllib.loads(text)
    except RecursionError as exc:
        raise TomlError(messages.CONFIGURATION_TOO_DEEP.fill(), where=path) from exc
    except tomllib.TOMLDecodeError as exc:
        if text.startswith(UTF16):
            raise TomlError(UTF16_TOML.fill(), where=path, line=1) from exc
        match = re.search(r"at line (\d+)", str(exc))
        line = int(match.group(1)) if match else len(split_toml_lines(text)) or 1
        raise TomlError(INVALID_TOML.fill(reason=WHY), where=path, line=line) from None
    except ValueError as exc:  # a number of more digits than Python turns into one
        raise TomlError(messages.TOML_NUMBER_TOO_LONG.fill(), where=path) from exc


def _loads_tomlkit(text: str, path: str) -> dict[str, Any]:
    try:
        import tomlkit  # noqa: PLC0415  only needed by Python 3.10 on the controller
        from tomlkit.exceptions import ParseError  # noqa: PLC0415
    except ImportError as exc:
        raise PlanError(messages.NO_PARSER.fill()) from exc
    try:
        data: dict[str, Any] = tomlkit.parse(text).unwrap()
    except ParseError as exc:
        invalid = INVALID_TOML.fill(reason=WHY)
        raise TomlError(invalid, where=path, line=exc.line) from None
    except ValueError:  # tomlkit lets some wrong dates and numbers through as this
        raise TomlError(INVALID_TOML.fill(reason=WHY), where=path, line=1) from None
    return data


def look_up_toml(data: Mapping[str, Any], path: Path, default: Any = None) -> Any:
    """Return the value at a path, else the default."""
    for key in path:
        # nearly always a dict, which is found out much faster
        if not isinstance(data, (dict, Mapping)) or key not in data:
            return default
        data = data[key]
    return data


def copy_toml_value(value: Any) -> Any:
    """Return a copy with tables and arrays of its own. copy.deepcopy, which handles more kinds of
    values, takes ten times as long.
    """
    if isinstance(value, dict):
        return {name: copy_toml_value(inner) for name, inner in value.items()}
    return [copy_toml_value(inner) for inner in value] if isinstance(value, list) else value


def find_key_line(doc: TomlDocument, path: Path) -> int | None:
    """Return the line (from 1) on which this key or table is first named. None if it is not named."""
    places = toml_scanner.scan_toml_statements(doc.clean)
    starts = [t.start for t in places.tables if t.path[: len(path)] == path]
    starts += [p.start for p in places.pairs if p.path[: len(path)] == path]
    return count_toml_line(doc, min(starts)) + 1 if starts else None


def dump_toml_value(value: Any) -> str:
    """Write a value as TOML on one line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, Mapping):
        return (
            "{ "
            + ", ".join(f"{write_toml_key(k)} = {dump_toml_value(v)}" for k, v in value.items())
            + " }"
            if value
            else "{}"
        )
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(dump_toml_value(v) for v in value) + "]"
    if isinstance(value, (int, float)):
        return str(value)
    return value.isoformat() if hasattr(value, "isoformat") else dump_toml_value(str(value))


def write_toml_key(name: str) -> str:
    """Return a key as TOML writes it, in quotes if it needs them."""
    return (
        name
        if _BARE_KEY.fullmatch(name)
        else json.dumps(name, ensure_ascii=False).replace("\x7f", "\\u007f")
    )


def write_dotted_path(path: Path) -> str:
    """Write a path as a person reads it."""
    return ".".join(write_toml_key(p) for p in path)


def split_toml_lines(text: str) -> tuple[str, ...]:
    """Return the lines with their ends, as TOML (and the transaction) counts them: only a line feed
    ends one.
    """
    return tuple(_LINE.findall(text))


def count_toml_line(doc: TomlDocument, at: int) -> int:
    """Return the line of a place. Behind the last line end there is one more line, an empty one."""
    last = len(doc.lines) - (0 if not doc.lines or doc.lines[-1].endswith("\n") else 1)
    return min(bisect.bisect_right(doc.starts, at) - 1, last)


def indent_of(line: str) -> str:
    """Return the blanks at the beginning of a line."""
    return line[: len(line) - len(line.lstrip(" \t"))]


def build_toml_refusal(doc: TomlDocument, path: Path, why: str) -> TomlError:
    """Return the error about a key that cannot be edited alone, at the nearest line that is known."""
    line = None
    for size in range(len(path), 0, -1):
        line = line or find_key_line(doc, path[:size])
    entangled = messages.TOO_ENTANGLED.fill(key=write_dotted_path(path), reason=why)
    return TomlError(entangled, where=doc.path, line=line or 1)
