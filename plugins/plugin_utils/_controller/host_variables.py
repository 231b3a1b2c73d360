# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the variables of a fleet's hosts, as tasks do that run once for all of them."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    arguments,
    unreadable_variables,
)

# A result of a task has at least one of these keys, and so has a failure that was kept as a fact.
OF_RESULTS = frozenset({"changed", "failed", "skipped", "unreachable"})


class HostVariables(Mapping[str, Any]):
    """A mapping with the variables of a host, which reads each of them once.

    Ansible merges all variables of a host for each `hostvars[host]`, and templates a value each
    time that it is read: a result of this collection item by item, which takes 5 ms. But a result
    is data, and no text in it is a template. So results and constants are taken as they are.
    """

    def __init__(self, hostvars: Mapping[str, Any], host: str) -> None:
        self._hostvars, self._host = hostvars, host
        self._written = unreadable_variables.get_raw_variables(hostvars, host)
        self._read: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._read:
            written = self._written[name]
            self._read[name] = written if is_plain(written) else self._rendered[name]
        return self._read[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._written)

    def __len__(self) -> int:
        return len(self._written)

    @functools.cached_property
    def _rendered(self) -> Mapping[str, Any]:
        """The same variables, each of which Ansible templates when it is read."""
        rendered: Mapping[str, Any] = self._hostvars[self._host]
        return rendered


def wants_verification(variables: Mapping[str, Any]) -> bool:
    """Tell whether containers are to show that they get their GPUs. Where everything is taken back,
    they get none.
    """
    return bool(
        variables.get("gpufleet_verify_image") and variables.get("gpufleet_state") != "absent"
    )


def is_plain(value: Any) -> bool:
    """Tell whether a value has no template in it: the result of a task, or a constant."""
    if isinstance(value, Mapping):
        return not OF_RESULTS.isdisjoint(value)
    return arguments.is_constant(value)
