# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The limits of each client of an MPS daemon, as the option has them and as nvidia-cuda-mps-control
takes them.
"""

from __future__ import annotations

import dataclasses as dc
import re
from collections.abc import Mapping

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Sentence,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.sharing import messages
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.sharing.by_plugin import (
    MOST_CLIENTS,
)

CLIENTS, MEMORY, THREADS = KEYS = ("clients", "memory", "threads")
# The program takes a whole number with G or M. Kubernetes' forms mean the same binary units there.
SIZE = re.compile(r"([1-9]\d{0,6})(G|M)(?:i|iB)?")


@dc.dataclass(frozen=True)
class Limits:
    """The limits of an MPS client.

    clients: the number of processes that the GPU is divided for, 0: not set. memory: MiB for one of
    them. threads: percent. 0: no limit.
    """

    clients: int = 0
    memory: int = 0
    threads: int = 0

    @property
    def text(self) -> str:
        """The limits as tables show them."""
        parts = (
            (self.clients, f"{self.clients} clients"),
            (self.memory, f"{self.memory} MiB"),
            (self.threads, f"{self.threads} % of the threads"),
        )
        return ", ".join(text for value, text in parts if value)

    def complete_limits(self, total: int) -> Limits:
        """Return the limits, completed by equal parts if only the number of clients is set, as
        NVIDIA's device plugin gives its replicas.

        total: the memory of the GPU in MiB, 0 if it is not known.
        """
        if not self.clients:
            return self
        return dc.replace(
            self,
            memory=self.memory or total // self.clients,
            threads=self.threads or 100 // self.clients,
        )


def parse_mps_limits(where: str, more: object) -> Limits:
    """Return the settings of one entry. Raise PlanError for values that the program would not take."""
    if more is None or more is True:
        return Limits()
    if not isinstance(more, Mapping):
        raise PlanError(
            messages.LIMITS_NOT_DICTIONARY.fill(
                where=f"{where}.mps", value=repr(more), known=", ".join(KEYS)
            )
        )
    unknown = sorted(str(name) for name in more if name not in KEYS)
    if unknown:
        raise PlanError(
            messages.UNKNOWN_LIMIT.fill(
                where=f"{where}.mps", key=repr(unknown[0]), known=", ".join(KEYS)
            )
        )
    clients = _require_number(where, more.get(CLIENTS), MOST_CLIENTS, messages.TOO_MANY_CLIENTS)
    threads = _require_number(where, more.get(THREADS), 100, messages.THREADS_OUT_OF_RANGE)
    return Limits(clients, _read_memory_limit(where, more.get(MEMORY)), threads)


def _require_number(where: str, value: object, most: int, refusal: Sentence) -> int:
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise PlanError(refusal.fill(where=f"{where}.mps", value=repr(value), most=most))
    return value


def _read_memory_limit(where: str, value: object) -> int:
    if value is None:
        return 0
    match = SIZE.fullmatch(value) if isinstance(value, str) else None
    if not match:
        raise PlanError(messages.MEMORY_WITHOUT_UNIT.fill(where=f"{where}.mps", value=repr(value)))
    return int(match.group(1)) * (1024 if match.group(2) == "G" else 1)
