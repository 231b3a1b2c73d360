# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A judge for the JSON Schemas in docs/ and in tests/fixtures/, without a library."""

from __future__ import annotations

import re
from typing import Any


def judged(value: Any, schema: Any, where: str = "") -> list[str]:
    """List what of a value its schema does not allow, for the keywords that ours has."""
    kinds = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool}
    if "const" in schema and value != schema["const"]:
        return [f"{where}: {value!r}"]
    if value not in schema.get("enum", [value]):
        return [f"{where}: {value!r} is none of the values"]
    if "type" in schema and not isinstance(value, kinds[schema["type"]]):
        return [f"{where}: no {schema['type']}"]
    if isinstance(value, int) and value < schema.get("minimum", value):
        return [f"{where}: less than {schema['minimum']}"]
    if isinstance(value, list):
        few = [f"{where}: too short"] if len(value) < schema.get("minItems", 0) else []
        return few + [
            e
            for n, item in enumerate(value)
            for e in judged(item, schema.get("items", {}), f"{where}[{n}]")
        ]
    if not isinstance(value, dict):
        return []
    found = [f"{where}: no {key}" for key in schema.get("required", ()) if key not in value]
    pattern = schema.get("propertyNames", {}).get("pattern", "")
    for key, item in value.items():
        own = schema.get("properties", {}).get(key, schema.get("additionalProperties", {}))
        found += (
            judged(item, own, f"{where}.{key}")
            if own is not False
            else [f"{where}: {key} is unknown"]
        )
        found += [] if re.search(pattern, key) else [f"{where}: {key} is no {pattern}"]
    return found
