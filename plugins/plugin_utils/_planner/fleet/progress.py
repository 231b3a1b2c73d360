# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Track how far a rollout has come, and decide whether its next batch may start.

The data is small: it names hosts only if something went wrong with them.
"""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import outcomes
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Sentence,
    end_with_code,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.text import names
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import budget, messages
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet.waves import Amount

# Outcomes of a canary that failed -> the reason why its class stops.
FAILED: Mapping[str, Sentence] = {
    "failed": messages.CANARY_FAILED,
    "rolled back": messages.CANARY_ROLLED_BACK,
    "lost": messages.CANARY_LOST,
}
BAD = tuple(FAILED)
# Outcomes of a canary that was not changed -> the reason why its class does not start.
UNTRIED: Mapping[str, Sentence] = {
    "left out": messages.CANARY_IN_SERVICE,
    "pending": messages.CANARY_IN_SERVICE_LATE,
    "refused": messages.CANARY_REFUSED,
}


@dc.dataclass(frozen=True)
class Progress:
    """The progress of a rollout.

    done: the number of hosts. bad: host -> outcome. unhealthy: host -> what the second look found.
    stopped: class -> why. untried: class -> why no canary has shown yet how its hosts fare, which
    is not a failure. full: why -> the hosts that waited, since too many of their group were out of
    service. ended: why no more batches start. paused: whether that is not a failure.
    """

    done: int = 0
    bad: Mapping[str, str] = dc.field(default_factory=dict)
    unhealthy: Mapping[str, str] = dc.field(default_factory=dict)
    stopped: Mapping[str, str] = dc.field(default_factory=dict)
    untried: Mapping[str, str] = dc.field(default_factory=dict)
    full: Mapping[str, Sequence[str]] = dc.field(default_factory=dict)
    ended: str = ""
    paused: bool = False
    unheard: bool = False  # events did not reach their sink, which is said once
    began: float = 0.0  # seconds since the epoch at which the first batch began; 0 in check mode


def read_progress(data: Mapping[str, Any]) -> Progress:
    """Return the progress from its form in a result. Unknown keys are left out."""
    return Progress(**{f.name: data[f.name] for f in dc.fields(Progress) if f.name in data})


@dc.dataclass(frozen=True)
class Ended:
    """The result of a batch. words: host -> outcome; classes: host -> class; canaries: whether its
    hosts were canaries.
    """

    words: Mapping[str, str]
    classes: Mapping[str, str]
    canaries: bool
    unhealthy: Mapping[str, str] = dc.field(default_factory=dict)


def update_progress(progress: Progress, batch: Ended, total: int, most: Amount) -> Progress:
    """Return the progress after a batch. Canaries have no budget: one that failed stops its class.

    It counts as a failure of the whole like any other host. A canary that was not changed has shown
    nothing of its class, which waits for a run in which one is changed.
    """
    bad = {host: word for host, word in batch.words.items() if word in BAD}
    bad.update({host: "failed" for host in batch.unhealthy if host not in bad})
    stopped, untried = dict(progress.stopped), dict(progress.untried)
    for host, word in bad.items() if batch.canaries else ():
        stopped.setdefault(batch.classes[host], FAILED[word].fill(host=host))
    for host, word in batch.words.items() if batch.canaries else ():
        if word in UNTRIED:
            untried.setdefault(batch.classes[host], UNTRIED[word].fill(host=host))
    updated = dc.replace(
        progress,
        done=progress.done + len(batch.words),
        bad={**progress.bad, **bad},
        unhealthy={**progress.unhealthy, **batch.unhealthy},
        stopped=stopped,
        untried=untried,
    )
    decision = budget.judge_failed_hosts(len(updated.bad), total, most)
    if updated.ended or decision.ok:
        return updated
    over = messages.ROLLOUT_OVER_LIMIT.fill(
        comparison=decision.sentence, limit=most.text, hosts=names.show_some_runs(updated.bad)
    )
    return end_progress(updated, over)


def end_progress(progress: Progress, why: str, *, paused: bool = False) -> Progress:
    """Return the progress of a rollout that ends. The reason ends with its code, and the first one
    stays.

    paused: whether that is a success.
    """
    if progress.ended:
        return progress
    return dc.replace(progress, ended=end_with_code(why), paused=paused)


def map_held_hosts(progress: Progress, classes: Mapping[str, str]) -> dict[str, str]:
    """Map the hosts of a batch that do not start to the reason."""
    if progress.ended:
        return {host: progress.ended for host in classes}
    return {
        host: why
        for host, c in classes.items()
        if (why := explain_stopped_class(progress, c) or explain_full_group(progress, host))
    }


def explain_full_group(progress: Progress, host: str) -> str:
    """Return the group without room that a host waits for; '' if it waits for none."""
    return next((why for why, hosts in progress.full.items() if host in hosts), "")


def explain_stopped_class(progress: Progress, label: str) -> str:
    """Explain why no more hosts of a class start, '' if they may."""
    if label in progress.stopped:
        return messages.CLASS_STOPPED.fill(cause=progress.stopped[label])
    if label in progress.untried:
        return messages.CLASS_UNTRIED.fill(cause=progress.untried[label])
    return ""


def get_outcome_word(result: outcomes.Result, steps: Sequence[outcomes.Result], check: bool) -> str:
    """Return the outcome of one host, from its convergence and the steps around it."""
    return outcomes.judge_outcome(outcomes.merge_failures(result, {False: steps}), check).word
