# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Report values of the wrong type in a TOML file, with file and line.

An engine refuses the whole file if it has one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import (
    messages,
    toml,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections import (
    file_places,
)

Path = tuple[str, ...]
TABLE, STRING, BOOLEAN, STRINGS = "a table", "a string", "true or false", "an array of strings"
LONE_SURROGATE = re.compile("[\udc80-\udcff]")
# as the host names them
_KINDS = {
    TABLE: "table",
    STRING: "string",
    BOOLEAN: "boolean",
    STRINGS: "array",
}
_SAID = {
    "table": TABLE, "string": STRING, "boolean": BOOLEAN, "array": "an array", "integer": "a number", "float": "a number",
    "date": "a date",
}  # fmt: skip
ANY = "*"  # any key at this place of a path


def check_toml_types(
    doc: toml.TomlDocument,
    shapes: Mapping[Path, str],
    why: str,
    withheld: Iterable[Mapping[str, Any]] = (),
) -> None:
    """Raise PlanError for the first value that has another type than the engine's program expects.

    withheld: values that were not sent.
    """
    kinds = {tuple(entry["path"]): str(entry["kind"]) for entry in withheld}
    for pattern, wanted in shapes.items():
        for path, value in list_matching_values(doc.data, pattern):
            if path not in kinds and pattern[-1] == ANY and file_places.is_stand_in(value):
                continue  # under a name that is not shown
            if (
                kinds[path] != _KINDS[wanted]
                if path in kinds
                else not fits_toml_type(value, wanted)
            ):
                found_here = _SAID.get(kinds.get(path, ""), name_toml_type(value))
                values = {
                    "key": toml.write_dotted_path(path),
                    "found": found_here,
                    "wanted": wanted,
                }
                other = messages.TOML_WRONG_TYPE.fill(**values, reason=why)
                raise PlanError(other, where=doc.path, line=toml.find_key_line(doc, path))


def check_encoding(doc: toml.TomlDocument, why: str) -> None:
    """Raise PlanError for a text that is not UTF-8.

    The host reports the line of a wrong byte. In a text that came as it is, such a byte is a lone
    surrogate.
    """
    if doc.foreign_bytes:
        raise PlanError(
            messages.TOML_NOT_UTF8.fill(reason=why), where=doc.path, line=doc.foreign_bytes
        )
    for number, line in enumerate(doc.lines, 1):
        if LONE_SURROGATE.search(line):
            raise PlanError(messages.TOML_NOT_UTF8.fill(reason=why), where=doc.path, line=number)


def list_matching_values(data: Any, pattern: Path) -> list[tuple[Path, Any]]:
    """Return all values, with their places, that match a pattern. A value in something that is not
    a table is for another row.
    """
    places: list[tuple[Path, Any]] = [((), data)]
    for name in pattern:
        # a dict is found out much faster
        tables = [(at, value) for at, value in places if isinstance(value, (dict, Mapping))]
        places = [
            ((*at, key), value[key])
            for at, value in tables
            for key in (value if name == ANY else (name,))
            if key in value
        ]
        if not places:
            break
    return places


def fits_toml_type(value: Any, wanted: str) -> bool:
    """Tell whether a value has a type by our name for it."""
    if wanted == STRINGS:
        return isinstance(value, (list, tuple)) and all(isinstance(v, str) for v in value)
    return isinstance(value, {TABLE: Mapping, STRING: str, BOOLEAN: bool}[wanted])


def name_toml_type(value: Any) -> str:
    """Return a value's type in words for a person."""
    if isinstance(value, list) and value and all(isinstance(v, Mapping) for v in value):
        return "an array of tables"
    names = (
        (bool, "true or false"),
        (str, "a string"),
        ((int, float), "a number"),
        (Mapping, "a table"),
        (list, "an array"),
    )
    return next((name for types, name in names if isinstance(value, types)), "a date")
