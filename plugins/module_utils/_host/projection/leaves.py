# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tag the keys and values that a projection hides, so an asker who must not see them can compare
two files.

A leaf is a key whose value is not a table. A value is tagged together with its key, so equal values
of different keys have different tags. The form of a file makes no difference: dotted keys, inline
tables and headers, the order, the base of a number. Host side: standard library only, Python 3.6.
"""

import bisect
import re

from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import host_files, keyed
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.projection import (
    placeholders,
    projector,
    selection,
    toml_places,
)
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.projection.placeholders import (
    Header,
    UnreadableText,
)

MOST = 20000  # of one text
# of tables and arrays in each other: dotted keys in inline tables make more levels than any program
# writes
MAX_DEPTH = 256


def tag_leaves(data, keep, prefixes, moves=()):
    """Return the tags of the leaves that `keep` does not show, below the longest of the prefixes
    that leads to each.

    {"prefixes": as asked, "leaves": [[number of the prefix, line, tag of the path below it, tag of
    the value], ...], "fault": None}

    A value that is zero or empty has the tag "": programs that print all settings also print keys
    that are not set. fault: why the text is not TOML, by code and line. moves: [[path, path], ...].
    A string at the first path is tagged as a list with this string at the second, for programs that
    read it so. If the second exists as well, both are tagged as they are. Raise HostError for more
    than MOST leaves.
    """
    try:
        root, lines = _read_toml(data)
    except UnreadableText as exc:
        return {"prefixes": prefixes, "leaves": [], "fault": {"code": exc.code, "line": exc.line}}
    places = keep.get("places") or []
    tagged = []
    for path, value in _list_leaves(root, []):
        line = _find_line(lines, path)
        path, value = _list_moved(root, moves, path, value)
        under = [
            number for number, prefix in enumerate(prefixes) if path[: len(prefix)] == list(prefix)
        ]
        if not under or _is_shown(places, path, value):
            continue
        number = max(under, key=lambda at: len(prefixes[at]))
        below = path[len(prefixes[number]) :]
        tagged.append([number, line, keyed.tag(below), keyed.tag([below, value]) if value else ""])
        if len(tagged) > MOST:
            raise host_files.HostError(
                "too-large", "a text with more than %d keys that are not shown" % MOST
            )
    return {"prefixes": prefixes, "leaves": tagged, "fault": None}


def _list_moved(root, moves, path, value):
    for source, target in moves:
        if path == source and isinstance(value, str) and value and not _get_there(root, target):
            return target, [value]
    return path, value


def _get_there(root, path):
    for name in path:
        if not isinstance(root, dict) or name not in root:
            return False
        root = root[name]
    return True


def _is_shown(places, path, value):
    shape = selection.get_listed_shape(places, path)
    return shape is not None and projector.fits_scanned_shape(shape, value)


def _read_toml(data):
    """Return the values of a TOML text, and the line that first names each key or table."""
    root, lines, ends = {}, {}, [match.end() for match in re.finditer(b"\n", data)]
    for item in toml_places.scan_toml(data)[0]:
        line = bisect.bisect_right(ends, item.start) + 1
        at = list(item.path)
        if len(at) + (0 if isinstance(item, Header) else _measure_depth(item.value)) > MAX_DEPTH:
            raise UnreadableText("toml-deep", line)
        lines.setdefault(tuple(at), line)
        if not isinstance(item, Header):
            placeholders.put_at_path(_make_table(root, at[:-1]), at[-1:], item.value.data)
        elif item.array:
            _make_table(root, at[:-1]).setdefault(at[-1], []).append({})
        else:
            _make_table(root, at)
    return root, lines


def _measure_depth(value):
    """Return how deep tables and arrays are nested in a value. The scanner bounds the depth of
    values, not the parts of their keys.
    """
    inner = (
        [(0, item) for item in value.inner]
        if value.kind == "array"
        else [(len(m.parts), m.value) for m in value.inner]
    )
    return 1 + max([parts + _measure_depth(item) for parts, item in inner] or [0])


def _make_table(root, path):
    """Return the table at a path, made if it does not exist; the last one of an array of tables."""
    for name in path:
        root = root.setdefault(name, {})
        root = root[-1] if isinstance(root, list) else root
    return root


def _list_leaves(table, path):
    for name in sorted(table):
        value = table[name]
        if isinstance(value, dict):
            yield from _list_leaves(value, path + [name])
        else:
            yield path + [name], value


def _find_line(lines, path):
    """Return the line of a key itself, or of the statement or table that contains it."""
    while path and tuple(path) not in lines:
        path = path[:-1]
    return lines.get(tuple(path), 1)
