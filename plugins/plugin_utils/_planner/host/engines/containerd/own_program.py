# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Name the program of a containerd as a look runs it, to ask it something."""

from __future__ import annotations

import dataclasses as dc

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Instance


@dc.dataclass(frozen=True)
class OwnProgram:
    """A containerd's program.

    pid, ticks: the process whose file is run, and its start. Both are 0 if the program is run by
    its path.
    """

    path: str
    pid: int = 0
    ticks: int = 0

    @property
    def process(self) -> dict[str, int] | None:
        """The process as a question names it, None if the program is run by its path."""
        return {"pid": self.pid, "ticks": self.ticks} if self.pid else None


def get_own_program(instance: Instance) -> OwnProgram:
    """Return the program of an instance."""
    return (
        OwnProgram(instance.binary, instance.pid, instance.ticks)
        if instance.process
        else OwnProgram(instance.binary)
    )
