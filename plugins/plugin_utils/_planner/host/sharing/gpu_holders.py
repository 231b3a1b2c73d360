# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The owners of processes that have a GPU's device node open: containers by the short form of their
IDs, all others by control groups.

Programs that watch GPUs for as long as the host runs, above all nvidia-persistenced, do not count
(queries.WATCHERS).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.text import names
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.sharing import messages

NODE = r"(/.*)?/dev/nvidia(?P<device>\d+)( \(deleted\))?$"
HOLDERS = queries.ask_for_holders("each GPU", NODE, queries.WATCHERS, groups=True)
# Engines name a container's control group by its identifier: docker-ID.scope,
# cri-containerd-ID.scope, libpod-ID.scope, or ID alone.
CONTAINER = re.compile(r"(?:^|[/:-])([0-9a-f]{64})(?:\.scope)?(?:/|$)")

MOST, LONGEST = 5, 120  # of what stands in a sentence; a result has all


def map_groups_to_holders(
    answer: Mapping[str, Any], minor: str, without: re.Pattern[str] | None = None
) -> dict[str, list[int]]:
    """Return control group -> the processes in it that have this GPU's node open.

    without: groups that do not count.
    """
    groups: dict[str, list[int]] = {}
    for row in answer.get("held") or ():
        pid, devices, group = row if isinstance(row, list) and len(row) == 3 else (None, None, None)
        # Any other row comes from a host that does not answer as this collection's programs do.
        if (
            not (isinstance(pid, int) and isinstance(devices, list) and isinstance(group, str))
            or minor not in devices
        ):
            continue
        if not (without and without.match(group)):
            groups.setdefault(group, []).append(pid)
    return {group: sorted(pids) for group, pids in sorted(groups.items())}


def name_holder(group: str) -> str:
    match = CONTAINER.search(group)
    return f"container {match.group(1)[:12]}" if match else group or "/"


def describe_some_holders(groups: Mapping[str, list[int]]) -> str:
    """Return the processes and their owners for a sentence, shortened: a user may have many, in
    groups with long names.
    """
    return join_few_texts(
        [f"{name_holder(group)} ({describe_processes(pids)})" for group, pids in groups.items()]
    )


def describe_processes(pids: Sequence[int]) -> str:
    return f"{'process' if len(pids) == 1 else 'processes'} {join_few_texts([str(pid) for pid in pids])}"


def explain_unknown_holders(answer: Mapping[str, Any]) -> Message | None:
    """Return why some holders are not known; None if all are known.

    The look failed, the kernel refuses access, or users have more files open than a look may read.
    """
    if "error" in answer:
        problem = answer["error"].get("message")
        return (
            messages.HOLDERS_LOOK_FAILED.fill(problem=problem)
            if problem
            else messages.HOLDERS_LOOK_FAILED_SILENTLY.fill()
        )
    closed, left = answer.get("closed") or 0, answer.get("partial") or {}
    said = (
        [messages.CLOSED_PROCESSES.fill(processes=names.count_noun(closed, "process", "processes"))]
        if closed
        else []
    )
    if left:
        users = [str(user) for user in left.get("users") or ()]
        whose = (
            f" of {'user' if len(users) == 1 else 'users'} {join_few_texts(users)}" if users else ""
        )
        number = names.count_noun(int(left.get("processes") or 0), "process", "processes")
        said.append(messages.PROCESSES_LEFT.fill(processes=number + whose))
    if len(said) > 1:
        return messages.PROCESSES_CLOSED_AND_LEFT.fill(closed=said[0], left=said[1])
    return said[0] if said else None


def join_few_texts(texts: Sequence[str]) -> str:
    return names.show_few_texts(
        [text if len(text) <= LONGEST else f"...{text[-LONGEST:]}" for text in texts], MOST
    )
