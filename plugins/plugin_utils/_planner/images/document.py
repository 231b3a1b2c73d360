# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read YAML with the line of every value, so that an error about a file can name the place."""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.formats import yaml_text
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.images import messages
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.message_types import Sentence

Path = yaml_text.Path


@dc.dataclass(frozen=True)
class Document:
    """A document's data, and the line of each of its values. where: its file, '' for a value of a variable."""

    data: Any
    where: str = ""
    lines: Mapping[Path, int] = dc.field(default_factory=dict)

    def wrong(self, path: Path, row: Sentence, **values: object) -> PlanError:
        """Build an error about one of the values, with its line, or that of the nearest value around it.

        row: a sentence with the field `field`, the place of the value.
        """
        line = next((self.lines[path[:n]] for n in range(len(path), -1, -1) if path[:n] in self.lines), None)
        what = row.fill(field=shown(path) or "the catalogue", **values)
        return PlanError(what, where=self.where or "catalogue", line=line)


def read(text: str, where: str) -> Document:
    """Read a file's text.

    Raise PlanError with line and cause for text that is not YAML, or exceeds the limits (yaml_text).
    """
    try:
        data, lines = yaml_text.read_lines(text)
    except yaml_text.TooLarge as error:
        raise PlanError(messages.FILE_TOO_LARGE.fill(problem=error.problem), where=where, line=error.line) from None
    except yaml_text.Twice as error:
        raise PlanError(messages.FIELD_TWICE.fill(field=shown(error.path)), where=where, line=error.line) from None
    except yaml_text.YamlError as error:
        raise PlanError(messages.NOT_YAML.fill(problem=error.problem), where=where, line=error.line) from None
    return Document(data, where, lines)


def shown(path: Path) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")
