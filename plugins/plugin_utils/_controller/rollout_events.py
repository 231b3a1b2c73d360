# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Report the events of a rollout, and record what became of its hosts."""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    base,
    outside,
    run_messages,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import (
    events,
    progress,
)


class EventWriter:
    """The sink of events of one task. A rollout reports only once that it failed."""

    def __init__(
        self, action: ActionBase, variables: Mapping[str, Any], sink: Sequence[str]
    ) -> None:
        self.sink = sink
        self.reference = base.read_run_reference(action, variables).text if sink else ""
        self.result: dict[str, Any] = {}

    def write(
        self, found: progress.Progress, event: str, values: Mapping[str, Any]
    ) -> progress.Progress:
        """Write one event, and return the progress, which knows whether an event was lost."""
        if not self.sink:
            return found
        at = outside.format_present_time()
        why = outside.emit(self.sink, events.build_event_line(event, at, self.reference, **values))
        if why and not found.unheard:
            self.result = {"warnings": [run_messages.EVENTS_FAILED.fill(cause=why)]}
        return dc.replace(found, unheard=found.unheard or bool(why))


def note_host_outcomes(write: Callable[[], None]) -> list[str]:
    """Record, for a later rollout of this controller, what became of hosts. Return warnings if that
    fails, since a full disk must not prevent the report.
    """
    try:
        write()
    except (PlanError, OSError) as error:
        return [run_messages.NOT_RECORDED.fill(cause=str(error))]
    return []


def report_rollout_stop(
    writer: EventWriter, earlier: progress.Progress, found: progress.Progress
) -> progress.Progress:
    """Report the stop of a rollout when it happens, and not again for every batch that does not
    start.
    """
    if earlier.ended or not found.ended:
        return found
    return writer.write(found, events.STOP, {"why": found.ended, "paused": found.paused})
