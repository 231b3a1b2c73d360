# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge whether a batch may start now, by its hosts, the wave, the windows and the gate's check."""

from __future__ import annotations

import datetime
import time
import zoneinfo
from collections.abc import Collection
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    outside,
    run_messages,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    end_with_code,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.text import (
    names,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import (
    progress,
    rollout,
    settings,
    sink,
    window,
)

WAIT = 10  # seconds between two questions of one gate


def ask_gate_check(found: progress.Progress, wanted: settings.RolloutSettings) -> progress.Progress:
    """Ask the check of the gate, again and again for a while: an alert may need some time to clear.

    Return the progress, ended if the check still fails.
    """
    why = ""
    for attempt in range(wanted.gate_retries + 1 if wanted.gate_check else 0):
        if attempt:
            # The pause that the setting gate_retries promises: neither an address nor a command
            # tells when its answer changes.
            time.sleep(WAIT)
        why = explain_gate_answer(wanted.gate_check)
        if not why:
            break
    return (
        progress.end_progress(found, run_messages.GATE_CHECK_ILL.fill(cause=why)) if why else found
    )


def ask_gate_before_first(
    found: progress.Progress, wanted: settings.RolloutSettings, number: int
) -> progress.Progress:
    """Ask the check before the first batch of a run too.

    The run before may have stopped because of an answer that is still the same.
    """
    return found if number or found.ended else ask_gate_check(found, wanted)


def explain_gate_answer(check: tuple[str, ...]) -> str:
    """Return why a check does not let the rollout go on; '' if it does.

    Never raise an error: it would end the playbook without its report.
    """
    if check[0].startswith(sink.SCHEMES):
        return outside.send_request(check[0], None, {}, "GET")
    return outside.run(check)


def check_planned_batch(
    found: progress.Progress, planned: Collection[str], batch: Collection[str]
) -> progress.Progress:
    """End the rollout if Ansible's batch has hosts that the plan does not have in it.

    Ansible makes the batches from a pattern. A name that has a meaning in a pattern, such as
    `&gpu1`, gives other batches than the plan's.
    """
    others = [host for host in batch if host not in planned]
    if not others:
        return found
    why = run_messages.NAME_IS_PATTERN.fill(hosts=names.show_some_runs(others))
    return progress.end_progress(found, why)


def limit_to_wave(
    found: progress.Progress, wanted: settings.RolloutSettings, wave: Any
) -> progress.Progress:
    """Return the progress, ended if only canaries are wanted and the batch is none."""
    if wanted.until == "end" or wave == rollout.CANARY:
        return found
    return progress.end_progress(found, run_messages.CANARIES_DONE.fill(), paused=True)


def explain_closed_window(wanted: settings.RolloutSettings) -> str:
    """Return why the windows let no batch start now; '' if one may start."""
    at = {w.zone: datetime.datetime.now(zoneinfo.ZoneInfo(w.zone)) for w in wanted.windows}
    now = {zone: (t.weekday(), t.hour * 60 + t.minute) for zone, t in at.items()}
    if window.is_open(wanted.windows, now):
        return ""
    named = "; ".join(w.text for w in wanted.windows)
    opens = window.opens(wanted.windows, now)
    return run_messages.WINDOW_CLOSED.fill(windows=named, time=opens)


def check_window(found: progress.Progress, wanted: settings.RolloutSettings) -> progress.Progress:
    """Return the progress, ended if no window is open now."""
    why = explain_closed_window(wanted)
    if not why:
        return found
    return progress.end_progress(found, run_messages.WAITS_FOR_WINDOW.fill(closed=why), paused=True)


def predict_pauses(wanted: settings.RolloutSettings, number: int) -> list[str]:
    """Return the lines of check mode before its first batch: a run now would pause there.

    Check mode goes on.
    """
    why = "" if number else explain_closed_window(wanted)
    return [end_with_code(run_messages.WOULD_PAUSE.fill(closed=why))] if why else []
