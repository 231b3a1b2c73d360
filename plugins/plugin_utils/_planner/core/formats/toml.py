# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Change single keys of a TOML file, and return the edits of its lines.

Everything around the changed lines stays as it is, comments, order, indentation, line ends and a
byte order mark included. Each change is proven by parsing the result: if it has any other effect
than the wanted one, it is refused with file and line.
"""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import transaction
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import (
    messages,
    toml_placement,
    toml_scanner,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats.toml_document import (
    BOM,
    TomlDocument,
    TomlError,
    build_toml_refusal,
    copy_toml_value,
    count_toml_line,
    dump_toml_value,
    find_key_line,
    indent_of,
    load_toml,
    look_up_toml,
    parse_toml,
    split_toml_lines,
    write_dotted_path,
    write_toml_key,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats.toml_scanner import (
    Path,
    find_first_toml_comment,
)

__all__ = [
    "TomlDocument",
    "TomlError",
    "append",
    "copy_toml_value",
    "discard",
    "write_dotted_path",
    "dump_toml_value",
    "list_toml_edits",
    "find_first_toml_comment",
    "write_toml_key",
    "find_key_line",
    "load_toml",
    "look_up_toml",
    "own_headers",
    "parse_toml",
    "remove_toml_key",
    "remove_header",
    "set_tree",
    "set_value",
    "set_values",
    "split_toml_lines",
    "build_own_toml",
]


def list_toml_edits(doc: TomlDocument) -> list[transaction.Line]:
    """Return the transaction's line edits that turn the original into this document."""
    edits: list[transaction.Line] = []
    at, new = 0, ""
    for origin, line in [*zip(doc.origin, doc.lines, strict=True), (len(doc.original), "")]:
        if origin < 0:
            new += line
            continue
        if origin != at or new:
            edits.append({"start": at, "end": origin, "text": new})
        at, new = origin + 1, ""
    if doc.bom and edits and edits[0]["start"] == 0:
        first = edits[0]
        kept = doc.original[0] if first["end"] == 0 and doc.original else ""
        edits[0] = {
            "start": 0,
            "end": max(first["end"], min(1, len(doc.original))),
            "text": BOM + first["text"] + kept,
        }
    return edits


def build_own_toml(path: str, head: str, values: Sequence[tuple[Path, Any]]) -> TomlDocument:
    """Build a document of this collection alone: the head, then each table with its keys, in the
    order in which they are given.
    """
    tables: dict[Path, list[str]] = {}
    for where, value in values:
        tables.setdefault(where[:-1], []).append(
            f"{write_toml_key(where[-1])} = {dump_toml_value(value)}\n"
        )
    doc = parse_toml(
        "\n".join(
            [
                head,
                *(
                    f"[{write_dotted_path(table)}]\n{''.join(lines)}"
                    for table, lines in tables.items()
                ),
            ]
        ),
        path,
    )
    wrong = next((where for where, value in values if look_up_toml(doc.data, where) != value), None)
    if wrong:
        raise build_toml_refusal(doc, wrong, messages.READ_BACK_DIFFERS.fill())
    return doc


def set_value(doc: TomlDocument, path: Path, value: Any) -> TomlDocument:
    """Return the document with this key set. Nothing else differs."""
    changed = _set(doc, path, value)
    return changed if changed is doc else _require_proven(doc, changed, path)


def set_values(doc: TomlDocument, values: Sequence[tuple[Path, Any]]) -> TomlDocument:
    """Return the document with several keys set, proven once.

    If that fails, the keys are set one after the other, so that the refusal names the key.
    """
    changed = doc
    for path, value in values:
        changed = _set(changed, path, value)
    try:
        return changed if changed is doc else _require_proven(doc, changed, values[-1][0])
    except TomlError:
        for path, value in values:
            doc = set_value(doc, path, value)
        return doc


def _set(doc: TomlDocument, path: Path, value: Any) -> TomlDocument:
    """Return the text with this key set, and the data that it should have. The text is not proven
    yet.
    """
    missing = object()
    old = look_up_toml(doc.data, path, missing)
    if old is not missing and type(old) is type(value) and old == value:
        return doc
    places = toml_scanner.scan_toml_statements(doc.clean)
    pair = next((p for p in places.pairs if p.path == path and not p.in_array), None)
    if pair:
        changed = toml_placement.replace_span(doc, pair.value, dump_toml_value(value))
    elif old is not missing:
        raise build_toml_refusal(doc, path, messages.IS_TABLE.fill())
    else:
        changed = toml_placement.insert(doc, places, path, value)
    expected, at = _copy_along(doc.data, path[:-1])
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


def remove_toml_key(doc: TomlDocument, path: Path) -> TomlDocument:
    """Return the document without this key, or without this table and all below it."""
    missing = object()
    if look_up_toml(doc.data, path, missing) is missing:
        return doc
    places = toml_scanner.scan_toml_statements(doc.clean)
    inline = next((p for p in places.pairs if p.path == path and p.inline is not None), None)
    if inline:
        changed = toml_placement.remove_inline(doc, places, inline)
    else:
        changed = toml_placement.replace_toml_lines(
            doc, [(a, b, ()) for a, b in toml_placement.list_key_regions(doc, places, path)]
        )
    expected, inner = _copy_along(doc.data, path[:-1])
    del inner[path[-1]]
    return _require_proven(doc, dc.replace(changed, data=expected), path)


def own_headers(doc: TomlDocument) -> Mapping[Path, bool]:
    """Return each table that has a header line, and whether it has keys of its own."""
    places = toml_scanner.scan_toml_statements(doc.clean)
    full = {pair.table for pair in places.pairs}
    return {table.path: table.path in full for table in places.tables if not table.array}


def remove_header(doc: TomlDocument, path: Path) -> TomlDocument:
    """Return the document without the header of a table that has no key of its own.

    Tables below it stay. A header with a comment stays as well.
    """
    if own_headers(doc).get(path, True):
        return doc
    places = toml_scanner.scan_toml_statements(doc.clean)
    header = next(table for table in places.tables if table.path == path)
    if not doc.lines[count_toml_line(doc, header.start)].rstrip().endswith("]"):
        return doc
    return _require_proven(
        doc,
        toml_placement.replace_toml_lines(
            doc, [(*toml_placement.get_table_lines(doc, places, header), ())]
        ),
        path,
    )


def append(doc: TomlDocument, path: Path, value: Any) -> TomlDocument:
    """Return the document with one more element in this array. The array is made if it does not
    exist.
    """
    old = look_up_toml(doc.data, path)
    if old is None:
        return set_value(doc, path, [value])
    pair = next(
        (
            p
            for p in toml_scanner.scan_toml_statements(doc.clean).pairs
            if p.path == path and not p.in_array
        ),
        None,
    )
    if pair is None or not isinstance(old, list):
        raise build_toml_refusal(doc, path, messages.NOT_ARRAY.fill())
    spans, end = toml_scanner.list_array_elements(doc.clean, pair.value[0])
    if not spans:
        changed = toml_placement.replace_span(doc, (pair.value[0], end), dump_toml_value([value]))
    else:
        start, stop = spans[-1]
        before = spans[-2][0] if len(spans) > 1 else pair.value[0]
        own_line = count_toml_line(doc, before) != count_toml_line(doc, start)
        lead = doc.newline + indent_of(doc.lines[count_toml_line(doc, start)]) if own_line else " "
        changed = toml_placement.replace_span(doc, (stop, stop), f",{lead}{dump_toml_value(value)}")
    expected, inner = _copy_along(doc.data, path[:-1])
    inner[path[-1]] = [*old, value]
    return _require_proven(doc, dc.replace(changed, data=expected), path)


def discard(doc: TomlDocument, path: Path, value: Any) -> TomlDocument:
    """Return the document without this element of an array. An array that becomes empty goes as
    well.
    """
    old = look_up_toml(doc.data, path)
    if not isinstance(old, list) or value not in old:
        return doc
    if len(old) == 1:
        return remove_toml_key(doc, path)
    pair = next(
        (
            p
            for p in toml_scanner.scan_toml_statements(doc.clean).pairs
            if p.path == path and not p.in_array
        ),
        None,
    )
    if pair is None:
        raise build_toml_refusal(doc, path, messages.NOT_ARRAY.fill())
    spans = toml_scanner.list_array_elements(doc.clean, pair.value[0])[0]
    at = old.index(value)
    gone = (spans[at - 1][1], spans[at][1]) if at else (spans[0][0], spans[1][0])
    expected, inner = _copy_along(doc.data, path[:-1])
    inner[path[-1]] = old[:at] + old[at + 1 :]
    return _require_proven(
        doc, dc.replace(toml_placement.replace_span(doc, gone, ""), data=expected), path
    )


def _copy_along(data: Mapping[str, Any], path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the data with the tables along a path copied, and the last of these tables.

    All other tables are shared, and stay unchanged.
    """
    top = dict(data)
    here = top
    for name in path:
        here[name] = dict(here.get(name, {}))
        here = here[name]
    return top, here


def _require_proven(before: TomlDocument, after: TomlDocument, path: Path) -> TomlDocument:
    """Return the document if its text, read again, has the wanted data. Raise TomlError otherwise."""
    try:
        data = load_toml(after.clean, after.path)
    except TomlError as exc:
        raise build_toml_refusal(before, path, messages.EDIT_INVALID.fill(reason=exc.why)) from exc
    if _prune_empty_tables(data) != _prune_empty_tables(after.data):
        raise build_toml_refusal(before, path, messages.EDIT_TOO_WIDE.fill())
    return dc.replace(after, data=data)


def _prune_empty_tables(data: Any) -> Any:
    """Return the data without empty tables: a table that only its removed content had implied goes
    with that content.
    """
    if not isinstance(data, Mapping):
        return data
    inner = {k: _prune_empty_tables(v) for k, v in data.items()}
    return {k: v for k, v in inner.items() if v != {}}
