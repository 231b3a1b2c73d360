# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""YAML that a host, a cluster or a person has written, read by PyYAML's safe loader, which has to come to an end."""

from __future__ import annotations

from typing import Any

import yaml

# Not YAMLError alone: a date that is none, a number of thousands of digits and a scalar that is not of its tag end otherwise.
NO_YAML = (yaml.YAMLError, ValueError, LookupError, AttributeError, TypeError, RecursionError)
MOST = 10_000  # keys of one table: merge keys (`<<`) of merge keys make billions of them from a few lines


class Loader(yaml.SafeLoader):
    """The safe one, which makes no table larger than anybody means it."""

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        super().flatten_mapping(node)
        if len(node.value) > MOST:
            raise yaml.constructor.ConstructorError(None, None, f"a table has more than {MOST} keys", node.start_mark)


def read(text: str) -> Any:
    """One of NO_YAML where that is not possible."""
    return yaml.load(text, Loader=Loader)  # noqa: S506  it is a safe one
