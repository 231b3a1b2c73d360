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

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.spec.model import (
    Spec,
    convert_spec_to_document,
)

HEADER = (
    "# Written by gpufleet.nvidia from the driver on this host; changes are lost at its next run.\n"
)
# Texts that every YAML version reads as text without quotes. All else is quoted as JSON does it,
# which is a subset of YAML.
PLAIN = re.compile(r"/?[A-Za-z][A-Za-z0-9._/-]*[A-Za-z0-9]|/[A-Za-z0-9._/-]*")
WORDS = re.compile(r"y|n|yes|no|true|false|on|off|null|nan|inf", re.IGNORECASE)

# Neither of YAML's printable characters nor escaped by JSON; JSON's surrogate pairs would be two
# characters in YAML.
UNPRINTABLE = re.compile(r"[^\x20-\x7e]")


def render_spec(spec: Spec) -> str:
    """Return the whole file as text."""
    return (
        HEADER
        + "---\n"
        + "".join(f"{line}\n" for line in _render_mapping(convert_spec_to_document(spec), 0))
    )


def _render_mapping(value: dict[str, Any], depth: int) -> list[str]:
    lines: list[str] = []
    for key, item in value.items():
        lines += _render_item(f"{'  ' * depth}{_render_scalar(key)}:", item, depth + 1)
    return lines


def _render_item(prefix: str, value: Any, depth: int) -> list[str]:
    """Write `prefix` with a value behind it, or beneath it if the value has parts."""
    if isinstance(value, dict):
        return [prefix, *_render_mapping(value, depth)] if value else [f"{prefix} {{}}"]
    if isinstance(value, list):
        return [prefix, *_render_sequence(value, depth)] if value else [f"{prefix} []"]
    return [f"{prefix} {_render_scalar(value)}"]


def _render_sequence(items: list[Any], depth: int) -> list[str]:
    lines: list[str] = []
    for item in items:
        nested = (
            _render_item("", item, depth + 1)[1:]
            if isinstance(item, (dict, list)) and item
            else _render_item("", item, depth + 1)
        )
        first = nested[0].lstrip(" ")
        lines += [f"{'  ' * depth}- {first}", *nested[1:]]
    return lines


def _render_scalar(value: Any) -> str:
    return _render_text(value) if isinstance(value, str) else json.dumps(value)


# the hosts of a fleet have the same keys and mostly the same files
@functools.lru_cache(maxsize=8192)
def _render_text(value: str) -> str:
    return (
        value
        if needs_no_quotes(value)
        else UNPRINTABLE.sub(_escape, json.dumps(value, ensure_ascii=False))
    )


def needs_no_quotes(value: str) -> bool:
    """Tell whether a text needs no quotes."""
    return bool(PLAIN.fullmatch(value)) and not WORDS.fullmatch(value)


def _escape(found: re.Match[str]) -> str:
    return f"\\U{ord(found.group()):08x}"
