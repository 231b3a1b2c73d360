# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Declare the steps that a drain asks of each orchestrator."""

from __future__ import annotations

from typing import Protocol

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster import (
    drain,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    end_with_code,
)

CALL = 60  # seconds that one call which changes something may take
HUNG = (124, 137)  # exit statuses of timeout(1)


class Refused(Exception):
    """An error of an orchestrator that did not do what it was asked. Its text ends with its code."""

    def __init__(self, sentence: str) -> None:
        super().__init__(end_with_code(sentence))


class Orchestrator(Protocol):
    """An orchestrator that can take a host out of service.

    try_only: judge the change as far as that is possible, and change nothing.
    left: the seconds that a question may take if it waits itself.
    """

    def get_standing(self) -> drain.Standing:
        """Return how the orchestrator sees the host."""

    def take_out(self, *, try_only: bool = False) -> None:
        """Take the host out of service."""

    def describe_waiting(self, left: int, /) -> str:
        """Return the work that is still there, in words; '' if there is none."""

    def give_back(self, *, try_only: bool = False) -> None:
        """Put the host back into service."""

    def keep(self, why: str, *, try_only: bool = False) -> None:
        """Leave the host out of service, with the reason."""
