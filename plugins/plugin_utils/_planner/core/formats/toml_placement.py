# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the place of a new key in a TOML text, and the lines of an old one. A new key goes next to
its siblings, in the form that the file uses.
"""

from __future__ import annotations

import dataclasses as dc
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import (
    messages,
    toml_scanner,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats.toml_document import (
    TomlDocument,
    build_toml_refusal,
    count_toml_line,
    dump_toml_value,
    indent_of,
    split_toml_lines,
    write_dotted_path,
    write_toml_key,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats.toml_scanner import (
    Pair,
    Path,
    TomlHeader,
)


def insert(
    doc: TomlDocument, places: toml_scanner.Statements, path: Path, value: Any
) -> TomlDocument:
    """Insert a new key next to its siblings, in their form, otherwise in a new table next to its
    relatives.
    """
    container = path[:-1]
    for size in range(len(container), 0, -1):
        ancestor = container[:size]
        if any(t.array and t.path == ancestor for t in places.tables):
            raise build_toml_refusal(doc, path, messages.WOULD_BE_IN_ARRAY.fill())
        inline = next((p for p in places.pairs if p.path == ancestor), None)
        if inline:
            return _insert_inline(doc, places, inline, path[size:], value)
        if any(t.path == ancestor for t in places.tables):
            break
        siblings = [
            p
            for p in places.pairs
            if p.inline is None
            and not p.in_array
            and len(p.table) < size
            and p.path[:size] == ancestor
        ]
        if siblings:  # the table is made by dotted keys, and cannot be opened again by a header
            return _insert_pair(doc, siblings[-1], path[len(siblings[-1].table) :], value)
    else:
        size = 0
    if size < len(container):
        return _insert_table(doc, places, container, path[-1], value)
    pairs = [
        p for p in places.pairs if p.table == container and p.inline is None and not p.in_array
    ]
    if pairs:
        return _insert_pair(doc, pairs[-1], path[-1:], value)
    if not container:
        top = _find_line_after_comments(doc, 0)
        line = f"{write_toml_key(path[-1])} = {dump_toml_value(value)}"
        return replace_toml_lines(doc, [(top, top, (line,))])
    header = next(t for t in places.tables if t.path == container)
    at = count_toml_line(doc, header.start)
    indent = indent_of(doc.lines[at]) + _get_step_indent(doc, places)
    return replace_toml_lines(
        doc, [(at + 1, at + 1, (f"{indent}{write_toml_key(path[-1])} = {dump_toml_value(value)}",))]
    )


def _insert_pair(doc: TomlDocument, sibling: Pair, relative: Path, value: Any) -> TomlDocument:
    after = count_toml_line(doc, sibling.value[1]) + 1
    indent = indent_of(doc.lines[count_toml_line(doc, sibling.start)])
    return replace_toml_lines(
        doc,
        [(after, after, (f"{indent}{write_dotted_path(relative)} = {dump_toml_value(value)}",))],
    )


def _insert_inline(
    doc: TomlDocument, places: toml_scanner.Statements, outer: Pair, relative: Path, value: Any
) -> TomlDocument:
    if outer.in_array or not doc.clean.startswith("{", outer.value[0]):
        raise build_toml_refusal(doc, outer.path, messages.NOT_TABLE.fill())
    new = f"{write_dotted_path(relative)} = {dump_toml_value(value)}"
    inner = [p for p in places.pairs if p.inline == outer.path]
    if not inner:
        return replace_span(doc, outer.value, f"{{ {new} }}")
    last = max(p.value[1] for p in inner)
    return replace_span(doc, (last, last), f", {new}")


def _insert_table(
    doc: TomlDocument, places: toml_scanner.Statements, container: Path, name: str, value: Any
) -> TomlDocument:
    lines = [f"{_get_header_indent(doc, places, container)}[{_write_header(places, container)}]"]
    lines.append(
        f"{indent_of(lines[0])}{_get_step_indent(doc, places)}{write_toml_key(name)} = {dump_toml_value(value)}"
    )
    at = _find_line_after_family(doc, places, container)
    if at and doc.lines[at - 1].strip() and _is_spaced(doc, places):
        lines.insert(0, "")
    return replace_toml_lines(doc, [(at, at, tuple(lines))])


def _write_header(places: toml_scanner.Statements, container: Path) -> str:
    """Return the new header's key, with its first parts written as the file writes them."""
    for size in range(len(container), 0, -1):
        for table in places.tables:
            if table.path[:size] == container[:size]:
                return ".".join((*table.raw[:size], *(write_toml_key(p) for p in container[size:])))
    return write_dotted_path(container)


def _get_header_indent(doc: TomlDocument, places: toml_scanner.Statements, container: Path) -> str:
    near = [t for t in places.tables if t.path[:-1] == container[:-1]]
    if near:
        return indent_of(doc.lines[count_toml_line(doc, near[-1].start)])
    for size in range(len(container) - 1, 0, -1):
        parent = next((t for t in places.tables if t.path == container[:size]), None)
        if parent:
            return indent_of(doc.lines[count_toml_line(doc, parent.start)]) + (
                _get_nesting_indent(doc, places) if size == len(container) - 1 else ""
            )
    return ""


def _get_nesting_indent(doc: TomlDocument, places: toml_scanner.Statements) -> str:
    """Return the indent by which this file moves a table to the right of its parent's header. '' if
    it does not.
    """
    indents = {t.path: indent_of(doc.lines[count_toml_line(doc, t.start)]) for t in places.tables}
    for path, indent in indents.items():
        above = indents.get(path[:-1])
        if above is not None and len(indent) > len(above) and indent.startswith(above):
            return indent[len(above) :]
    return ""


def _get_step_indent(doc: TomlDocument, places: toml_scanner.Statements) -> str:
    """Return the indent by which this file moves keys to the right of their header. '' if it does
    not.
    """
    headers = {t.path: indent_of(doc.lines[count_toml_line(doc, t.start)]) for t in places.tables}
    step_indent = ""
    for pair in places.pairs:
        if pair.table and pair.inline is None:
            indent, above = (
                indent_of(doc.lines[count_toml_line(doc, pair.start)]),
                headers[pair.table],
            )
            step_indent = indent[len(above) :] if indent.startswith(above) else ""
    return step_indent


def _is_spaced(doc: TomlDocument, places: toml_scanner.Statements) -> bool:
    at = [count_toml_line(doc, t.start) for t in places.tables]
    return len(at) < 2 or any(i > 0 and not doc.lines[i - 1].strip() for i in at)


def _find_line_after_family(
    doc: TomlDocument, places: toml_scanner.Statements, container: Path
) -> int:
    """Return the line behind the last one that belongs to the nearest relatives of this table."""
    ends: list[tuple[Path, int]] = [(t.path, t.start) for t in places.tables]
    ends += [(p.path, p.value[1]) for p in places.pairs if p.inline is None]
    for size in range(len(container), 0, -1):
        family = [
            end for path, end in ends if path[:size] == container[:size] and len(path) >= size
        ]
        if family:
            return _find_line_after_comments(doc, count_toml_line(doc, max(family)) + 1)
    return len(doc.lines)


def _find_line_after_comments(doc: TomlDocument, at: int) -> int:
    """Return the line behind the comments here. Comments right under a table's last key belong to
    it, and those at the top of a file to the file, unless a statement follows them.
    """
    end = at
    while end < len(doc.lines) and doc.lines[end].lstrip().startswith("#"):
        end += 1
    return end if end == len(doc.lines) or not doc.lines[end].strip() else at


def list_key_regions(
    doc: TomlDocument, places: toml_scanner.Statements, path: Path
) -> list[tuple[int, int]]:
    """Return the line ranges of a key, or of a table and all below it."""
    gone = [t for t in places.tables if t.path[: len(path)] == path]
    if any(t.array for t in gone) or any(
        t.array and t.path == path[: len(t.path)] for t in places.tables
    ):
        raise build_toml_refusal(doc, path, messages.IN_ARRAY.fill())
    regions = [get_table_lines(doc, places, t) for t in gone]
    for pair in places.pairs:
        if pair.inline is None and pair.path[: len(path)] == path and len(pair.table) < len(path):
            regions.append(
                (count_toml_line(doc, pair.start), count_toml_line(doc, pair.value[1]) + 1)
            )
    return sorted(regions)


def get_table_lines(
    doc: TomlDocument, places: toml_scanner.Statements, table: TomlHeader
) -> tuple[int, int]:
    """Return the first line of a table, and the line behind it, counted from 0.

    The blank line above it is part of it if none follows.
    """
    ends = [p.value[1] for p in places.pairs if p.table == table.path and p.inline is None]
    start, end = (
        count_toml_line(doc, table.start),
        count_toml_line(doc, max(ends, default=table.start)) + 1,
    )
    after = doc.lines[end].strip() if end < len(doc.lines) else ""
    if start and not doc.lines[start - 1].strip() and (not after or after.startswith("[")):
        start -= 1
    return start, end


def remove_inline(doc: TomlDocument, places: toml_scanner.Statements, pair: Pair) -> TomlDocument:
    """Return the document without this pair of an inline table."""
    siblings = sorted((p for p in places.pairs if p.inline == pair.inline), key=lambda p: p.start)
    at = siblings.index(pair)
    if at:
        return replace_span(doc, (siblings[at - 1].value[1], pair.value[1]), "")
    return replace_span(
        doc, (pair.start, siblings[1].start if len(siblings) > 1 else pair.value[1]), ""
    )


def replace_span(doc: TomlDocument, span: tuple[int, int], new: str) -> TomlDocument:
    """Return the document with the characters from the first position to the second replaced."""
    first, last = count_toml_line(doc, span[0]), count_toml_line(doc, span[1])
    before = doc.starts[first]
    text = "".join(doc.lines[first : last + 1])
    return replace_toml_lines(
        doc, [(first, last + 1, (text[: span[0] - before] + new + text[span[1] - before :],))]
    )


def replace_toml_lines(
    doc: TomlDocument, changes: list[tuple[int, int, tuple[str, ...]]]
) -> TomlDocument:
    """Replace line ranges. New lines get the file's own line end."""
    lines, origin = list(doc.lines), list(doc.origin)
    for start, end, new in sorted(changes, reverse=True):
        texts = [
            t for n in new for t in split_toml_lines(n if n.endswith("\n") else n + doc.newline)
        ]
        # behind a last line without an end
        if texts and start == len(lines) and lines and not lines[-1].endswith("\n"):
            texts, start = [lines[-1] + doc.newline, *texts], start - 1
        elif texts and start < end == len(lines) and not lines[-1].endswith("\n"):
            texts[-1] = texts[-1].rstrip("\r\n")
        lines[start:end] = texts
        origin[start:end] = [-1] * len(texts)
    return dc.replace(doc, lines=tuple(lines), origin=tuple(origin))
