# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""YAML with the line of every value, for files that people write: a mistake is said with its place."""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Mapping
from typing import Any

import yaml
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.formats import yaml_text
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.model import PlanError

Path = tuple[str | int, ...]
MOST = 100_000  # values: more is no list of images, and aliases of aliases can make a small file endless
DEEPEST = 20  # so does an alias within itself


@dc.dataclass(frozen=True)
class Document:
    """A document's data, and the line in which each of its values stands. where: its file, '' for a value of a variable."""

    data: Any
    where: str = ""
    lines: Mapping[Path, int] = dc.field(default_factory=dict)

    def wrong(self, path: Path, what: str, step: str) -> PlanError:
        """An error about one of its values, with its line, or that of the nearest value around it."""
        line = next((self.lines[path[:n]] for n in range(len(path), -1, -1) if path[:n] in self.lines), None)
        named = shown(path)
        return PlanError(f"{named}: {what}" if named else what, where=self.where or "catalogue", next=step, line=line)


def read(text: str, where: str) -> Document:
    step = "Correct the file; it is YAML"
    loader = yaml_text.Loader(text)
    try:
        node = loader.get_single_node()
        data = loader.construct_document(node) if node else None
    except yaml_text.NO_YAML as error:
        mark = getattr(error, "problem_mark", None)
        why = str(getattr(error, "problem", "") or type(error).__name__)
        raise PlanError("this file is no YAML", where=where, why=why, next=step, line=mark.line + 1 if mark else None) from None
    finally:
        loader.dispose()
    lines: dict[Path, int] = {}
    if node:
        _walk(node, (), lines, where)
    return Document(data, where, lines)


def _walk(node: yaml.Node, path: Path, lines: dict[Path, int], where: str) -> None:
    if len(lines) > MOST:
        raise PlanError(f"this file has more than {MOST} values", where=where, next="Correct the file; aliases may repeat too much")
    if len(path) > DEEPEST:
        raise PlanError(
            f"this file is deeper than {DEEPEST} levels", where=where, next="Correct the file; a value may be an alias of itself"
        )
    lines.setdefault(path, node.start_mark.line + 1)
    if isinstance(node, yaml.SequenceNode):
        for number, item in enumerate(node.value):
            _walk(item, (*path, number), lines, where)
    elif isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            below = (*path, str(key.value))
            if below in lines:
                raise PlanError(f"{shown(below)} stands twice", where=where, next="Leave one of them out", line=key.start_mark.line + 1)
            lines[below] = key.start_mark.line + 1
            _walk(value, below, lines, where)


def shown(path: Path) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")
