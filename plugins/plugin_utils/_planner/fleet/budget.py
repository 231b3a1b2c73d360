# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge by its budget whether a change of many hosts goes on: the number of hosts that may fail."""

from __future__ import annotations

import dataclasses as dc

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import messages, waves


@dc.dataclass(frozen=True)
class BudgetVerdict:
    """A verdict whether the next wave may start. A host that was rolled back or lost has failed.

    allowed: the number of hosts that may fail in all.
    """

    ok: bool
    allowed: int
    failed: int
    total: int

    @property
    def sentence(self) -> Message:
        """A comparison of both numbers, in words that are true of either outcome."""
        row = messages.WITHIN_LIMIT if self.ok else messages.OVER_LIMIT
        return row.fill(failed=self.failed, total=self.total, allowed=self.allowed)


def judge_failed_hosts(failed: int, total: int, most: waves.Amount) -> BudgetVerdict:
    """Compare the failed hosts of all waves so far with the limit.

    A percentage is rounded down: 10% of 15 hosts is one host.
    """
    allowed = most.compute_number(total)
    return BudgetVerdict(failed <= allowed, allowed, failed, total)
