# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read YAML with the line of every value, so that an error about a file can name the place."""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import yaml_text
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Sentence,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.workloads.images import (
    messages,
)

Path = yaml_text.Path


@dc.dataclass(frozen=True)
class YamlFile:
    """A document's data, and the line of each of its values. where: its file, '' for a value of a
    variable.
    """

    data: Any
    where: str = ""
    lines: Mapping[Path, int] = dc.field(default_factory=dict)

    def build_error(self, path: Path, row: Sentence, **values: object) -> PlanError:
        """Build an error about one of the values, with its line, or that of the nearest value
        around it.

        row: a sentence with the field `field`, the place of the value.
        """
        line = next(
            (self.lines[path[:n]] for n in range(len(path), -1, -1) if path[:n] in self.lines), None
        )
        what = row.fill(field=show_place(path) or "the catalogue", **values)
        return PlanError(what, where=self.where or "catalogue", line=line)


def read_yaml_file(text: str, where: str) -> YamlFile:
    """Read a file's text.

    Raise PlanError with line and cause for text that is not YAML, or exceeds the limits
    (yaml_text).
    """
    try:
        data, lines = yaml_text.read_lines(text)
    except yaml_text.TooLargeYaml as error:
        raise PlanError(
            messages.FILE_TOO_LARGE.fill(problem=error.problem), where=where, line=error.line
        ) from None
    except yaml_text.Twice as error:
        raise PlanError(
            messages.FIELD_TWICE.fill(field=show_place(error.path)), where=where, line=error.line
        ) from None
    except yaml_text.YamlError as error:
        raise PlanError(
            messages.NOT_YAML.fill(problem=error.problem), where=where, line=error.line
        ) from None
    return YamlFile(data, where, lines)


def show_place(path: Path) -> str:
    """Return a place in a document, in words: `images[0].requires.cuda`."""
    return "".join(
        f"[{part}]" if isinstance(part, int) else f".{part}" for part in path
    ).removeprefix(".")
