# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Our own spec, read back without a YAML reader, which takes longer than the rest of the plan for a converged host.

What is read is rendered again and must be the text byte for byte, so nothing but bytes of this collection is ever read here.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cdi.spec import writer
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cdi.spec.model import Spec, from_document

START = writer.HEADER + "---\n"
DECODER = json.JSONDecoder()
NUMBERS = ("major", "minor", "fileMode", "uid", "gid", "timeout")


def own(text: str) -> Spec | None:
    """The spec that was rendered as this text; None where it was not, or not by this release."""
    if not text.startswith(START):
        return None
    try:
        lines = [(len(line) - len(line.lstrip(" ")), line.lstrip(" ")) for line in text[len(START) :].splitlines()]
        spec = from_document(_block(lines[::-1], 0))
    except (ValueError, IndexError):
        return None
    return spec if writer.render(spec) == text else None


Lines = list[tuple[int, str]]  # (indentation, text), the next one last


def _block(lines: Lines, indent: int) -> Any:
    if lines[-1][1].startswith("- "):
        return list(_items(lines, indent))
    if _colon(lines[-1][1]) < 0:
        return _scalar(lines.pop()[1])
    return dict(_pairs(lines, indent))


def _items(lines: Lines, indent: int) -> Iterator[Any]:
    while lines and lines[-1][0] == indent and lines[-1][1].startswith("- "):
        lines.append((indent + 2, lines.pop()[1][2:]))
        yield _block(lines, indent + 2)


def _pairs(lines: Lines, indent: int) -> Iterator[tuple[str, Any]]:
    while lines and lines[-1][0] == indent:
        text = lines.pop()[1]
        colon = _colon(text)
        if colon < 0:
            raise ValueError(text)
        key, value = _scalar(text[:colon]), text[colon + 2 :]
        read = _scalar(value) if value else _block(lines, lines[-1][0])
        if value and (isinstance(read, bool) or not isinstance(read, int if key in NUMBERS else str)):
            raise ValueError(text)
        yield key, read


def _colon(text: str) -> int:
    """Where a key ends; -1 where the line is not a key with a value. A plain scalar of this collection has no colon."""
    if text.startswith('"'):
        _key, end = DECODER.raw_decode(text)
        return end if text[end : end + 1] == ":" else -1
    return text.find(":")


@functools.lru_cache(maxsize=8192)
def _scalar(text: str) -> Any:
    return text if writer.plain(text) else json.loads(text)
