# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Change single keys of a TOML file, and return the edits of its lines.

Everything around the changed lines stays as it is, comments, order, indentation, line ends and a byte
order mark included. Each change is proven by parsing the result: if it has any other effect than the
wanted one, it is refused with file and line.
"""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner import transaction
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.formats import messages, toml_scanner
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.formats import toml_placement as places_of
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.formats.toml_document import (
    BOM,
    TomlDocument,
    TomlError,
    copied,
    dotted,
    dumps,
    indent_of,
    key,
    line_at,
    line_of,
    loads,
    lookup,
    parse,
    refusal,
    split,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.formats.toml_scanner import Path, first_comment

__all__ = [
    "TomlDocument",
    "TomlError",
    "append",
    "copied",
    "discard",
    "dotted",
    "dumps",
    "edits",
    "first_comment",
    "key",
    "line_of",
    "loads",
    "lookup",
    "own_headers",
    "parse",
    "remove",
    "remove_header",
    "set_tree",
    "set_value",
    "set_values",
    "split",
    "written",
]


def edits(doc: TomlDocument) -> list[transaction.Line]:
    """Return the transaction's line edits that turn the original into this document."""
    found: list[transaction.Line] = []
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


def written(path: str, head: str, values: Sequence[tuple[Path, Any]]) -> TomlDocument:
    """Build a document of this collection alone: the head, then each table with its keys, in the order in which they are given."""
    tables: dict[Path, list[str]] = {}
    for where, value in values:
        tables.setdefault(where[:-1], []).append(f"{key(where[-1])} = {dumps(value)}\n")
    doc = parse("\n".join([head, *(f"[{dotted(table)}]\n{''.join(lines)}" for table, lines in tables.items())]), path)
    wrong = next((where for where, value in values if lookup(doc.data, where) != value), None)
    if wrong:
        raise refusal(doc, wrong, messages.READ_BACK_DIFFERS.fill())
    return doc


def set_value(doc: TomlDocument, path: Path, value: Any) -> TomlDocument:
    """Return the document with this key set. Nothing else differs."""
    changed = _set(doc, path, value)
    return changed if changed is doc else _proven(doc, changed, path)


def set_values(doc: TomlDocument, values: Sequence[tuple[Path, Any]]) -> TomlDocument:
    """Return the document with several keys set, proven once.

    If that fails, the keys are set one after the other, so that the refusal names the key.
    """
    changed = doc
    for path, value in values:
        changed = _set(changed, path, value)
    try:
        return changed if changed is doc else _proven(doc, changed, values[-1][0])
    except TomlError:
        for path, value in values:
            doc = set_value(doc, path, value)
        return doc


def _set(doc: TomlDocument, path: Path, value: Any) -> TomlDocument:
    """Return the text with this key set, and the data that it should have. The text is not proven yet."""
    missing = object()
    old = lookup(doc.data, path, missing)
    if old is not missing and type(old) is type(value) and old == value:
        return doc
    places = toml_scanner.scan(doc.clean)
    pair = next((p for p in places.pairs if p.path == path and not p.in_array), None)
    if pair:
        changed = places_of.replace_span(doc, pair.value, dumps(value))
    elif old is not missing:
        raise refusal(doc, path, messages.IS_TABLE.fill())
    else:
        changed = places_of.insert(doc, places, path, value)
    expected, at = _along(doc.data, path[:-1])
    at[path[-1]] = value
    return dc.replace(changed, data=expected)


def set_tree(doc: TomlDocument, path: Path, values: Mapping[str, Any]) -> TomlDocument:
    """Set all keys of a mapping. Inner mappings become tables."""
    plain = {k: v for k, v in values.items() if not isinstance(v, Mapping)}
    for name, value in plain.items():
        doc = set_value(doc, (*path, name), value)
    for name, value in values.items():
        if name not in plain:
            doc = set_tree(doc, (*path, name), value)
    return doc


def remove(doc: TomlDocument, path: Path) -> TomlDocument:
    """Return the document without this key, or without this table and all below it."""
    missing = object()
    if lookup(doc.data, path, missing) is missing:
        return doc
    places = toml_scanner.scan(doc.clean)
    inline = next((p for p in places.pairs if p.path == path and p.inline is not None), None)
    if inline:
        changed = places_of.remove_inline(doc, places, inline)
    else:
        changed = places_of.splice(doc, [(a, b, ()) for a, b in places_of.regions(doc, places, path)])
    expected, inner = _along(doc.data, path[:-1])
    del inner[path[-1]]
    return _proven(doc, dc.replace(changed, data=expected), path)


def own_headers(doc: TomlDocument) -> Mapping[Path, bool]:
    """Return each table that has a header line, and whether it has keys of its own."""
    places = toml_scanner.scan(doc.clean)
    full = {pair.table for pair in places.pairs}
    return {table.path: table.path in full for table in places.tables if not table.array}


def remove_header(doc: TomlDocument, path: Path) -> TomlDocument:
    """Return the document without the header of a table that has no key of its own.

    Tables below it stay. A header with a comment stays as well.
    """
    if own_headers(doc).get(path, True):
        return doc
    places = toml_scanner.scan(doc.clean)
    header = next(table for table in places.tables if table.path == path)
    if not doc.lines[line_at(doc, header.start)].rstrip().endswith("]"):
        return doc
    return _proven(doc, places_of.splice(doc, [(*places_of.table_lines(doc, places, header), ())]), path)


def append(doc: TomlDocument, path: Path, value: Any) -> TomlDocument:
    """Return the document with one more element in this array. The array is made if it does not exist."""
    old = lookup(doc.data, path)
    if old is None:
        return set_value(doc, path, [value])
    pair = next((p for p in toml_scanner.scan(doc.clean).pairs if p.path == path and not p.in_array), None)
    if pair is None or not isinstance(old, list):
        raise refusal(doc, path, messages.NOT_ARRAY.fill())
    spans, end = toml_scanner.elements(doc.clean, pair.value[0])
    if not spans:
        changed = places_of.replace_span(doc, (pair.value[0], end), dumps([value]))
    else:
        start, stop = spans[-1]
        before = spans[-2][0] if len(spans) > 1 else pair.value[0]
        own_line = line_at(doc, before) != line_at(doc, start)
        lead = doc.newline + indent_of(doc.lines[line_at(doc, start)]) if own_line else " "
        changed = places_of.replace_span(doc, (stop, stop), f",{lead}{dumps(value)}")
    expected, inner = _along(doc.data, path[:-1])
    inner[path[-1]] = [*old, value]
    return _proven(doc, dc.replace(changed, data=expected), path)


def discard(doc: TomlDocument, path: Path, value: Any) -> TomlDocument:
    """Return the document without this element of an array. An array that becomes empty goes as well."""
    old = lookup(doc.data, path)
    if not isinstance(old, list) or value not in old:
        return doc
    if len(old) == 1:
        return remove(doc, path)
    pair = next((p for p in toml_scanner.scan(doc.clean).pairs if p.path == path and not p.in_array), None)
    if pair is None:
        raise refusal(doc, path, messages.NOT_ARRAY.fill())
    spans = toml_scanner.elements(doc.clean, pair.value[0])[0]
    at = old.index(value)
    gone = (spans[at - 1][1], spans[at][1]) if at else (spans[0][0], spans[1][0])
    expected, inner = _along(doc.data, path[:-1])
    inner[path[-1]] = old[:at] + old[at + 1 :]
    return _proven(doc, dc.replace(places_of.replace_span(doc, gone, ""), data=expected), path)


def _along(data: Mapping[str, Any], path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the data with the tables along a path copied, and the last of these tables.

    All other tables are shared, and stay unchanged.
    """
    top = dict(data)
    here = top
    for name in path:
        here[name] = dict(here.get(name, {}))
        here = here[name]
    return top, here


def _proven(before: TomlDocument, after: TomlDocument, path: Path) -> TomlDocument:
    """Return the document if its text, read again, has the wanted data. Raise TomlError otherwise."""
    try:
        data = loads(after.clean, after.path)
    except TomlError as exc:
        raise refusal(before, path, messages.EDIT_INVALID.fill(reason=exc.why)) from exc
    if _pruned(data) != _pruned(after.data):
        raise refusal(before, path, messages.EDIT_TOO_WIDE.fill())
    return dc.replace(after, data=data)


def _pruned(data: Any) -> Any:
    """Return the data without empty tables: a table that only its removed content had implied goes with that content."""
    if not isinstance(data, Mapping):
        return data
    inner = {k: _pruned(v) for k, v in data.items()}
    return {k: v for k, v in inner.items() if v != {}}
