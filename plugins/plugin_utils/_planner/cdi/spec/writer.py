# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write a CDI spec as text: YAML in block style that strict and lenient readers read alike.

The same spec gives the same bytes.
"""

from __future__ import annotations

import functools
import json
import re
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cdi.spec.model import Spec, to_document

HEADER = "# Written by gpufleet.nvidia from the driver on this host; changes are lost at its next run.\n"
# What every YAML version reads as text without quotes. All else is quoted as JSON does it, which is a subset of YAML.
PLAIN = re.compile(r"/?[A-Za-z][A-Za-z0-9._/-]*[A-Za-z0-9]|/[A-Za-z0-9._/-]*")
WORDS = re.compile(r"y|n|yes|no|true|false|on|off|null|nan|inf", re.IGNORECASE)

# Neither of YAML's printable characters nor escaped by JSON; JSON's surrogate pairs would be two characters in YAML.
UNPRINTABLE = re.compile(r"[^\x20-\x7e]")


def render(spec: Spec) -> str:
    """Return the whole file as text."""
    return HEADER + "---\n" + "".join(f"{line}\n" for line in _mapping(to_document(spec), 0))


def _mapping(value: dict[str, Any], depth: int) -> list[str]:
    lines: list[str] = []
    for key, item in value.items():
        lines += _item(f"{'  ' * depth}{_scalar(key)}:", item, depth + 1)
    return lines


def _item(prefix: str, value: Any, depth: int) -> list[str]:
    """Write `prefix` with a value behind it, or beneath it if the value has parts."""
    if isinstance(value, dict):
        return [prefix, *_mapping(value, depth)] if value else [f"{prefix} {{}}"]
    if isinstance(value, list):
        return [prefix, *_sequence(value, depth)] if value else [f"{prefix} []"]
    return [f"{prefix} {_scalar(value)}"]


def _sequence(items: list[Any], depth: int) -> list[str]:
    lines: list[str] = []
    for item in items:
        nested = _item("", item, depth + 1)[1:] if isinstance(item, (dict, list)) and item else _item("", item, depth + 1)
        first = nested[0].lstrip(" ")
        lines += [f"{'  ' * depth}- {first}", *nested[1:]]
    return lines


def _scalar(value: Any) -> str:
    return _text(value) if isinstance(value, str) else json.dumps(value)


@functools.lru_cache(maxsize=8192)  # the hosts of a fleet have the same keys and mostly the same files
def _text(value: str) -> str:
    return value if plain(value) else UNPRINTABLE.sub(_escape, json.dumps(value, ensure_ascii=False))


def plain(value: str) -> bool:
    """Tell whether a text needs no quotes."""
    return bool(PLAIN.fullmatch(value)) and not WORDS.fullmatch(value)


def _escape(found: re.Match[str]) -> str:
    return f"\\U{ord(found.group()):08x}"
