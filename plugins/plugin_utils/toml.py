# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""TOML with an eye for the lines: read a file, change a key, and say which lines that takes.

Everything around the changed lines stays as it is, comments, order, indentation, line ends and a byte order mark included. Each change is
proven by parsing the result: had it any other effect than the one asked for, it is refused with file and line.
"""

from __future__ import annotations

import copy
import dataclasses as dc
import json
import re
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils import toml_scan
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils.model import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils.toml_scan import Pair, Path, Table

BOM = "\ufeff"
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
# The eyes blank secrets with asterisks of equal length, quotes included; as a string of that length the text parses again.
_MASK = re.compile(r"([=:][ \t]*)(\*+)")


class TomlError(PlanError):
    """A text that is not TOML, or a place in it that cannot be changed alone."""


@dc.dataclass(frozen=True)
class Document:
    """A parsed file. `origin` tells for each line which line of the original it is, -1 for lines of ours."""

    path: str
    lines: tuple[str, ...]
    origin: tuple[int, ...]
    original: tuple[str, ...]
    data: Mapping[str, Any]
    bom: bool = False
    redacted: bool = False

    @property
    def text(self) -> str:
        return (BOM if self.bom else "") + "".join(self.lines)

    @property
    def clean(self) -> str:
        """The text as it is parsed; places in it are places in the lines."""
        return _unmask("".join(self.lines)) if self.redacted else "".join(self.lines)

    @property
    def newline(self) -> str:
        return "\r\n" if self.lines and self.lines[0].endswith("\r\n") else "\n"


def parse(text: str, path: str, *, redacted: bool = False) -> Document:
    """Read a file's text; `path` is for messages."""
    bom = text.startswith(BOM)
    body = text[1:] if bom else text
    data = loads(_unmask(body) if redacted else body, path)
    lines = split(body)
    return Document(path, lines, tuple(range(len(lines))), lines, data, bom, redacted)


def loads(text: str, path: str) -> dict[str, Any]:
    """The data of a TOML text."""
    try:
        import tomllib  # noqa: PLC0415  in Python since 3.11
    except ImportError:
        return _loads_tomlkit(text, path)
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as exc:
        match = re.search(r"at line (\d+)", str(exc))
        line = int(match.group(1)) if match else len(split(text)) or 1
        raise TomlError("this is not valid TOML", where=path, line=line, why=str(exc), next="Repair this line first.") from exc


def _loads_tomlkit(text: str, path: str) -> dict[str, Any]:
    try:
        import tomlkit  # noqa: PLC0415  only needed by Python 3.10 on the controller
        from tomlkit.exceptions import ParseError  # noqa: PLC0415
    except ImportError as exc:
        raise PlanError(
            "the controller's Python cannot read TOML", why="it is older than 3.11 and tomlkit is not installed",
            next="Install tomlkit for the Python that runs Ansible (meta/execution-environment.yml lists it), or use Python 3.11 or newer.",
        ) from exc
    try:
        data: dict[str, Any] = tomlkit.parse(text).unwrap()
    except ParseError as exc:
        raise TomlError("this is not valid TOML", where=path, line=exc.line, why=str(exc), next="Repair this line first.") from exc
    except ValueError as exc:  # tomlkit lets some wrong dates and numbers through as this
        raise TomlError("this is not valid TOML", where=path, line=1, why=str(exc), next="Repair this file first.") from exc
    return data


def edits(doc: Document) -> list[dict[str, Any]]:
    """What turns the original into this document, as the transaction's line edits."""
    found: list[dict[str, Any]] = []
    at, new = 0, ""
    for origin, line in [*zip(doc.origin, doc.lines, strict=True), (len(doc.original), "")]:
        if origin < 0:
            new += line
            continue
        if origin != at or new:
            found.append({"start": at, "end": origin, "text": new})
        at, new = origin + 1, ""
    if doc.bom and found and found[0]["start"] == 0:
        first = found[0]
        kept = doc.original[0] if first["end"] == 0 and doc.original else ""
        found[0] = {"start": 0, "end": max(first["end"], min(1, len(doc.original))), "text": BOM + first["text"] + kept}
    return found


def lookup(data: Mapping[str, Any], path: Path, default: Any = None) -> Any:
    for key in path:
        if not isinstance(data, Mapping) or key not in data:
            return default
        data = data[key]
    return data


def line_of(doc: Document, path: Path) -> int | None:
    """The line (from 1) on which this key or table is first named."""
    places = toml_scan.scan(doc.clean)
    starts = [t.start for t in places.tables if t.path[: len(path)] == path]
    starts += [p.start for p in places.pairs if p.path[: len(path)] == path]
    return _line(doc, min(starts)) + 1 if starts else None


def set_value(doc: Document, path: Path, value: Any) -> Document:
    """The document with this key set; nothing else differs."""
    missing = object()
    old = lookup(doc.data, path, missing)
    if old is not missing and type(old) is type(value) and old == value:
        return doc
    places = toml_scan.scan(doc.clean)
    pair = next((p for p in places.pairs if p.path == path and not p.in_array), None)
    if pair:
        changed = _replace_span(doc, pair.value, dumps(value))
    elif old is not missing:
        raise _refusal(doc, path, "it is a table or an array of tables here, not a key with a value")
    else:
        changed = _insert(doc, places, path, value)
    expected = copy.deepcopy(dict(doc.data))
    at = expected
    for key in path[:-1]:
        at = at.setdefault(key, {})
    at[path[-1]] = value
    return _proven(doc, changed, expected, path)


def set_tree(doc: Document, path: Path, values: Mapping[str, Any]) -> Document:
    """Set all keys of a mapping; inner mappings become tables."""
    plain = {k: v for k, v in values.items() if not isinstance(v, Mapping)}
    for key, value in plain.items():
        doc = set_value(doc, (*path, key), value)
    for key, value in values.items():
        if key not in plain:
            doc = set_tree(doc, (*path, key), value)
    return doc


def remove(doc: Document, path: Path) -> Document:
    """The document without this key, or without this table and all below it."""
    missing = object()
    if lookup(doc.data, path, missing) is missing:
        return doc
    places = toml_scan.scan(doc.clean)
    inline = next((p for p in places.pairs if p.path == path and p.inline is not None), None)
    changed = _remove_inline(doc, places, inline) if inline else _splice(doc, [(a, b, ()) for a, b in _regions(doc, places, path)])
    expected = copy.deepcopy(dict(doc.data))
    del lookup(expected, path[:-1])[path[-1]]
    return _proven(doc, changed, expected, path)


def append(doc: Document, path: Path, value: Any) -> Document:
    """The document with one more element in this array, which is made when it is not there."""
    old = lookup(doc.data, path)
    if old is None:
        return set_value(doc, path, [value])
    pair = next((p for p in toml_scan.scan(doc.clean).pairs if p.path == path and not p.in_array), None)
    if pair is None or not isinstance(old, list):
        raise _refusal(doc, path, "it is not an array here")
    spans, end = toml_scan.elements(doc.clean, pair.value[0])
    if not spans:
        changed = _replace_span(doc, (pair.value[0], end), dumps([value]))
    else:
        start, stop = spans[-1]
        own_line = len(spans) > 1 and _line(doc, spans[-2][0]) != _line(doc, start) or _line(doc, pair.value[0]) != _line(doc, start)
        lead = doc.newline + _indent(doc.lines[_line(doc, start)]) if own_line else " "
        changed = _replace_span(doc, (stop, stop), f",{lead}{dumps(value)}")
    expected = copy.deepcopy(dict(doc.data))
    lookup(expected, path[:-1])[path[-1]] = [*old, value]
    return _proven(doc, changed, expected, path)


def dumps(value: Any) -> str:
    """A value as TOML on one line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key(k)} = {dumps(v)}" for k, v in value.items()) + " }" if value else "{}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(dumps(v) for v in value) + "]"
    if isinstance(value, (int, float)):
        return str(value)
    return value.isoformat() if hasattr(value, "isoformat") else dumps(str(value))


def key(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else json.dumps(name, ensure_ascii=False).replace("\x7f", "\\u007f")


def dotted(path: Path) -> str:
    """A path as a person reads it."""
    return ".".join(key(p) for p in path)


def split(text: str) -> tuple[str, ...]:
    """Lines with their ends, as TOML (and the transaction) counts them: only a line feed ends one."""
    return tuple(re.findall(r"[^\n]*\n|[^\n]+", text))


# ---------------------------------------------------------------- places


def _unmask(text: str) -> str:
    def string(match: re.Match[str]) -> str:
        stars = len(match.group(2))
        return match.group(1) + ("0" if stars == 1 else '"' + "*" * (stars - 2) + '"')

    return _MASK.sub(string, text)


def _line(doc: Document, at: int) -> int:
    return "".join(doc.lines).count("\n", 0, at)


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t"))]


def _insert(doc: Document, places: toml_scan.Places, path: Path, value: Any) -> Document:
    """A new key: beside its siblings, however they are written; else in a new table next to its relatives."""
    container = path[:-1]
    for size in range(len(container), 0, -1):
        ancestor = container[:size]
        if any(t.array and t.path == ancestor for t in places.tables):
            raise _refusal(doc, path, "it would stand in an array of tables")
        inline = next((p for p in places.pairs if p.path == ancestor), None)
        if inline:
            return _insert_inline(doc, places, inline, path[size:], value)
        if any(t.path == ancestor for t in places.tables):
            break
        siblings = [p for p in places.pairs if p.inline is None and not p.in_array and len(p.table) < size and p.path[:size] == ancestor]
        if siblings:  # the table is made by dotted keys, and cannot be opened again by a header
            return _insert_pair(doc, siblings[-1], path[len(siblings[-1].table):], value)
    else:
        size = 0
    if size < len(container):
        return _insert_table(doc, places, container, path[-1], value)
    pairs = [p for p in places.pairs if p.table == container and p.inline is None and not p.in_array]
    if pairs:
        return _insert_pair(doc, pairs[-1], path[-1:], value)
    if not container:
        return _splice(doc, [(_top(doc), _top(doc), (f"{key(path[-1])} = {dumps(value)}",))])
    header = next(t for t in places.tables if t.path == container)
    at = _line(doc, header.start)
    indent = _indent(doc.lines[at]) + _step(doc, places)
    return _splice(doc, [(at + 1, at + 1, (f"{indent}{key(path[-1])} = {dumps(value)}",))])


def _insert_pair(doc: Document, sibling: Pair, relative: Path, value: Any) -> Document:
    after = _line(doc, sibling.value[1]) + 1
    indent = _indent(doc.lines[_line(doc, sibling.start)])
    return _splice(doc, [(after, after, (f"{indent}{dotted(relative)} = {dumps(value)}",))])


def _insert_inline(doc: Document, places: toml_scan.Places, outer: Pair, relative: Path, value: Any) -> Document:
    if outer.in_array or not doc.clean.startswith("{", outer.value[0]):
        raise _refusal(doc, outer.path, "it is not a table here")
    new = f"{dotted(relative)} = {dumps(value)}"
    inner = [p for p in places.pairs if p.inline == outer.path]
    if not inner:
        return _replace_span(doc, outer.value, f"{{ {new} }}")
    last = max(p.value[1] for p in inner)
    return _replace_span(doc, (last, last), f", {new}")


def _insert_table(doc: Document, places: toml_scan.Places, container: Path, name: str, value: Any) -> Document:
    lines = [f"{_header_indent(doc, places, container)}[{_header(places, container)}]"]
    lines.append(f"{_indent(lines[0])}{_step(doc, places)}{key(name)} = {dumps(value)}")
    at = _after_family(doc, places, container)
    if at and doc.lines[at - 1].strip() and _spaced(doc, places):
        lines.insert(0, "")
    return _splice(doc, [(at, at, tuple(lines))])


def _header(places: toml_scan.Places, container: Path) -> str:
    """The new header's key, its first parts written as the file writes them."""
    for size in range(len(container), 0, -1):
        for table in places.tables:
            if table.path[:size] == container[:size]:
                return ".".join((*table.raw[:size], *(key(p) for p in container[size:])))
    return dotted(container)


def _header_indent(doc: Document, places: toml_scan.Places, container: Path) -> str:
    near = [t for t in places.tables if t.path[:-1] == container[:-1]]
    if near:
        return _indent(doc.lines[_line(doc, near[-1].start)])
    for size in range(len(container) - 1, 0, -1):
        parent = next((t for t in places.tables if t.path == container[:size]), None)
        if parent:
            return _indent(doc.lines[_line(doc, parent.start)]) + (_nesting(doc, places) if size == len(container) - 1 else "")
    return ""


def _nesting(doc: Document, places: toml_scan.Places) -> str:
    """By how much this file indents a table below its parent's header."""
    indents = {t.path: _indent(doc.lines[_line(doc, t.start)]) for t in places.tables}
    for path, indent in indents.items():
        above = indents.get(path[:-1])
        if above is not None and len(indent) > len(above) and indent.startswith(above):
            return indent[len(above):]
    return ""


def _step(doc: Document, places: toml_scan.Places) -> str:
    """By how much this file indents keys below their header."""
    headers = {t.path: _indent(doc.lines[_line(doc, t.start)]) for t in places.tables}
    found = ""
    for pair in places.pairs:
        if pair.table and pair.inline is None:
            indent, above = _indent(doc.lines[_line(doc, pair.start)]), headers[pair.table]
            found = indent[len(above):] if indent.startswith(above) else ""
    return found


def _spaced(doc: Document, places: toml_scan.Places) -> bool:
    at = [_line(doc, t.start) for t in places.tables]
    return len(at) < 2 or any(i > 0 and not doc.lines[i - 1].strip() for i in at)


def _after_family(doc: Document, places: toml_scan.Places, container: Path) -> int:
    """Behind the last line that belongs to the nearest relatives of this table."""
    ends: list[tuple[Path, int]] = [(t.path, t.start) for t in places.tables]
    ends += [(p.path, p.value[1]) for p in places.pairs if p.inline is None]
    for size in range(len(container), 0, -1):
        family = [end for path, end in ends if path[:size] == container[:size] and len(path) >= size]
        if family:
            return _past_comments(doc, _line(doc, max(family)) + 1)
    return len(doc.lines)


def _past_comments(doc: Document, at: int) -> int:
    """Comments right under a table's last key belong to it, unless a header follows them."""
    end = at
    while end < len(doc.lines) and doc.lines[end].lstrip().startswith("#"):
        end += 1
    return end if end == len(doc.lines) or not doc.lines[end].strip() else at


def _top(doc: Document) -> int:
    """Where a first top-level key goes: behind the comment that opens the file."""
    end = 0
    while end < len(doc.lines) and doc.lines[end].lstrip().startswith("#"):
        end += 1
    return end if end == len(doc.lines) or not doc.lines[end].strip() else 0


def _regions(doc: Document, places: toml_scan.Places, path: Path) -> list[tuple[int, int]]:
    """The lines that make up a key or a table and all below it."""
    gone = [t for t in places.tables if t.path[: len(path)] == path]
    if any(t.array for t in gone) or any(t.array and t.path == path[: len(t.path)] for t in places.tables):
        raise _refusal(doc, path, "it stands in an array of tables")
    regions = [_table_lines(doc, places, t) for t in gone]
    for pair in places.pairs:
        if pair.inline is None and pair.path[: len(path)] == path and len(pair.table) < len(path):
            regions.append((_line(doc, pair.start), _line(doc, pair.value[1]) + 1))
    return sorted(regions)


def _table_lines(doc: Document, places: toml_scan.Places, table: Table) -> tuple[int, int]:
    ends = [p.value[1] for p in places.pairs if p.table == table.path and p.inline is None]
    start, end = _line(doc, table.start), _line(doc, max(ends, default=table.start)) + 1
    after = doc.lines[end].strip() if end < len(doc.lines) else ""
    if start and not doc.lines[start - 1].strip() and (not after or after.startswith("[")):
        start -= 1
    return start, end


def _remove_inline(doc: Document, places: toml_scan.Places, pair: Pair) -> Document:
    siblings = sorted((p for p in places.pairs if p.inline == pair.inline), key=lambda p: p.start)
    at = siblings.index(pair)
    if at:
        return _replace_span(doc, (siblings[at - 1].value[1], pair.value[1]), "")
    return _replace_span(doc, (pair.start, siblings[1].start if len(siblings) > 1 else pair.value[1]), "")


# ---------------------------------------------------------------- changes


def _replace_span(doc: Document, span: tuple[int, int], new: str) -> Document:
    first, last = _line(doc, span[0]), _line(doc, span[1])
    before = sum(len(x) for x in doc.lines[:first])
    text = "".join(doc.lines[first : last + 1])
    return _splice(doc, [(first, last + 1, (text[: span[0] - before] + new + text[span[1] - before:],))])


def _splice(doc: Document, changes: list[tuple[int, int, tuple[str, ...]]]) -> Document:
    """Replace line ranges; new lines get the file's own line end."""
    lines, origin = list(doc.lines), list(doc.origin)
    for start, end, new in sorted(changes, reverse=True):
        texts = [t for n in new for t in split(n if n.endswith("\n") else n + doc.newline)]
        if texts and start == len(lines) and lines and not lines[-1].endswith("\n"):  # behind a last line without an end
            texts, start = [lines[-1] + doc.newline, *texts], start - 1
        elif texts and start < end == len(lines) and not lines[-1].endswith("\n"):
            texts[-1] = texts[-1].rstrip("\r\n")
        if doc.redacted and any("**" in t or _MASK.search(t) for t in texts):
            raise TomlError(
                "this line carries a secret that was not sent here, so it cannot be rewritten", where=doc.path, line=start + 1,
                next="Put the secret and the key to be changed on lines of their own.")
        lines[start:end] = texts
        origin[start:end] = [-1] * len(texts)
    return dc.replace(doc, lines=tuple(lines), origin=tuple(origin))


def _proven(before: Document, after: Document, expected: Mapping[str, Any], path: Path) -> Document:
    try:
        data = loads(after.clean, after.path)
    except TomlError as exc:
        raise _refusal(before, path, f"the edit would leave a text that is not TOML: {exc.why}") from exc
    if _pruned(data) != _pruned(expected):
        raise _refusal(before, path, "the edit would change other keys, too")
    return dc.replace(after, data=data)


def _pruned(data: Any) -> Any:
    """Without empty tables: a table that only its own removed content had implied is gone with it."""
    if not isinstance(data, Mapping):
        return data
    inner = {k: _pruned(v) for k, v in data.items()}
    return {k: v for k, v in inner.items() if v != {}}


def _refusal(doc: Document, path: Path, why: str) -> TomlError:
    line = None
    for size in range(len(path), 0, -1):
        line = line or line_of(doc, path[:size])
    return TomlError(
        f"{dotted(path)} cannot be changed here without touching other lines", where=doc.path, line=line or 1, why=why,
        next="Write it as a table with a header of its own, or make the change by hand.")

