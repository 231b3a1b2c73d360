# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge values as YAML returns them, before they become options: dates, sets, binary data, and versions that it has turned into numbers."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator, Mapping, Set

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.errors import PlanError

IN_QUOTES = "Write it in quotes"
# What YAML makes of a value without quotes or with a tag, which neither JSON nor an engine's file can hold as it is.
ODD: tuple[tuple[type, str, str], ...] = (
    (datetime.datetime, "a time", IN_QUOTES),
    (datetime.date, "a date", IN_QUOTES),
    (bytes, "binary data", "Write it as text"),
    (Set, "a set", "Write it as a list"),
)


def require_plain_options(options: Mapping[str, object]) -> None:
    """Raise PlanError for the first option that is, or contains, a value that JSON cannot express."""
    for name, value in options.items():
        require_plain(name, value)


def require_plain(name: str, value: object) -> None:
    """Raise PlanError for the first value in an option that is neither text, number, truth value, list nor dictionary.

    name: the name of the option; the message adds the keys that lead to the value.
    """
    if isinstance(value, Mapping):
        for key, item in value.items():
            _require_scalar(f"{name} has the key {key}, which", key)
            require_plain(f"{name}.{key}", item)
    elif isinstance(value, list | tuple):
        for number, item in enumerate(value):
            require_plain(f"{name}[{number}]", item)
    else:
        _require_scalar(f"{name} is {value!s}, which", value)


def _require_scalar(what: str, value: object) -> None:
    for kind, title, step in ODD:
        if isinstance(value, kind):
            raise PlanError(f"{what} YAML reads as {title}", next=step)
    if isinstance(value, float) and not math.isfinite(value):
        raise PlanError(f"{what} is not a finite number", next="Write a number, or put it in quotes")


def holds_versions(option: str) -> bool:
    """Tell by its name whether an option holds a version or a list of them."""
    return option.endswith(("_version", "versions"))


def require_versions(values: Mapping[str, object]) -> None:
    """Raise PlanError for the first version that YAML has read as a number."""
    for name, value in values.items():
        if holds_versions(name):
            for error in find_versions_as_numbers(name, value):
                raise error


def find_versions_as_numbers(name: str, value: object) -> Iterator[PlanError]:
    """Yield an error for each version that YAML has read as a number: it turns 1.30 into 1.3, which is another version."""
    several = isinstance(value, list | tuple)
    for one in value if isinstance(value, list | tuple) else [value]:
        if isinstance(one, float):
            what = f"{name} {'has' if several else 'is'} the number {one}, of which YAML drops a last 0"
            example = f'{name}: ["1.30"]' if several else f'{name}: "1.30"'
            yield PlanError(what, next=f"Write the version in quotes: {example}")
