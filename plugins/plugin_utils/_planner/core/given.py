# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge values as YAML returns them, before they become options: dates, sets, binary data, and
versions that it has turned into numbers.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator, Mapping, Set

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import messages
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    OptionName,
    Sentence,
)

# Types that YAML makes of a value without quotes or with a tag, and that neither JSON nor an
# engine's file can hold. Each has the sentence about such a value, and about such a key.
ODD: tuple[tuple[type, Sentence, Sentence], ...] = (
    (datetime.datetime, messages.READ_AS_TIME, messages.KEY_READ_AS_TIME),
    (datetime.date, messages.READ_AS_DATE, messages.KEY_READ_AS_DATE),
    (bytes, messages.READ_AS_BYTES, messages.KEY_READ_AS_BYTES),
    (Set, messages.READ_AS_SET, messages.KEY_READ_AS_SET),
)


def require_plain_options(options: Mapping[str, object]) -> None:
    """Raise PlanError for the first option that is, or contains, a value that JSON cannot express."""
    for name, value in options.items():
        require_plain_option(name, value)


def require_plain_option(name: str, value: object) -> None:
    """Raise PlanError for the first value in an option that is neither text, number, truth value,
    list nor dictionary.

    name: the name of the option; the message adds the keys that lead to the value.
    """
    if isinstance(value, Mapping):
        for key, item in value.items():
            _require_scalar(name, key, is_key=True)
            require_plain_option(f"{name}.{key}", item)
    elif isinstance(value, list | tuple):
        for number, item in enumerate(value):
            require_plain_option(f"{name}[{number}]", item)
    else:
        _require_scalar(name, value, is_key=False)


def _require_scalar(name: str, value: object, *, is_key: bool) -> None:
    option = OptionName(name)
    for kind, of_value, of_key in ODD:
        if isinstance(value, kind):
            raise PlanError((of_key if is_key else of_value).fill(option=option, value=value))
    if isinstance(value, float) and not math.isfinite(value):
        row = messages.KEY_NOT_FINITE if is_key else messages.NOT_FINITE
        raise PlanError(row.fill(option=option, value=value))


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
    """Yield an error for each version that YAML has read as a number: it turns 1.30 into 1.3, which
    is another version.
    """
    several = isinstance(value, list | tuple)
    row = messages.VERSIONS_HAVE_NUMBER if several else messages.VERSION_IS_NUMBER
    for one in value if isinstance(value, list | tuple) else [value]:
        if isinstance(one, float):
            yield PlanError(row.fill(option=OptionName(name), value=one))
