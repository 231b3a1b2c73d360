# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge the health of a host's GPUs by the lines that the driver and the kernel have written to the
kernel log.

A state that cannot be read is not known, and is never taken for healthy.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.text import (
    names,
    values,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.health import (
    log_lines,
    messages,
    xids,
)

KERNEL_LOG = "/dev/kmsg"
SHOWN = 3  # lines that a sentence names


def log_question(path: str) -> queries.Question:
    return queries.ask_for_probe("kernel_log", {"path": path, "pattern": log_lines.PATTERN})


def read_kernel_log(obs: Observation, path: str) -> dict[str, Any]:
    """Return the lines of this boot that tell of a GPU's health: Xid errors, and lines of another
    form. If they are not known, `known` is False, and `why` and `code` have the reason.
    """
    answer = obs.get_answer_or_error(log_question(path))
    value = answer.get("value") or {}
    why = str((answer.get("error") or {}).get("message") or value.get("why") or "")
    if why:
        return describe_unknown_log(messages.LOG_UNREADABLE.fill(cause=why))
    parsed = ((log_lines.parse_line(e["groups"]), e) for e in value.get("found") or ())
    told = [
        {**line, "time": format_log_time(e["time"]), "sequence": int(e["sequence"])}
        for line, e in parsed
        if line
    ]
    ends = {key: -1 if value.get(key) is None else int(value[key]) for key in ("first", "last")}
    return {
        "known": True,
        "why": "",
        "code": "",
        "boot": str(value.get("boot")),
        **ends,
        "complete": bool(value.get("complete")),
        "errors": [line for line in told if "xid" in line],
        "lines": [line for line in told if "kind" in line],
    }


def describe_unknown_log(why: Message) -> dict[str, Any]:
    """Return the result for an unknown kernel log."""
    return {"known": False, "why": why, "code": why.code, "errors": [], "lines": []}


def format_log_time(seconds: int) -> str:
    return values.format_moment(
        datetime.datetime.fromtimestamp(int(seconds), tz=datetime.timezone.utc)
    )


# --- what is new since an earlier look
# ----------------------------------------------------------------------------------


def list_lines_since(
    before: Mapping[str, Any], after: Mapping[str, Any]
) -> tuple[list[Mapping[str, Any]], str]:
    """Return the lines that only the later log has, and a reason why some may be missing, '' if
    all are known.
    """
    if not after.get("known"):
        return [], after.get("why") or messages.LOG_NOT_READ.fill()
    if not before.get("known"):
        return [], before.get("why") or messages.LOG_NOT_READ_BEFORE.fill()
    last = int(before["last"]) if before.get("boot") == after.get("boot") else -1
    gap = int(after["first"]) > last + 1 or not after.get("complete")
    why = messages.LOG_WRITTEN_OVER.fill() if gap else ""
    return [line for line in list_lines(after) if int(line["sequence"]) > last], why


def list_lines(log: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return all lines of a log that tell of a GPU's health, oldest first."""
    every = (*(log.get("errors") or ()), *(log.get("lines") or ()))
    return sorted(every, key=lambda line: int(line["sequence"]))


def get_line_step(line: Mapping[str, Any]) -> xids.Step:
    """Return the step that a line asks for. A result of an older release has none."""
    step: xids.Step = line.get("step") or xids.get_xid_step(int(line["xid"]))
    return step


def list_sick_lines(lines: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the lines after which a GPU is sick."""
    return [line for line in lines if xids.is_sick(get_line_step(line))]


def list_harmless_lines(lines: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the lines after which a GPU is as healthy as before."""
    return [line for line in lines if not xids.is_sick(get_line_step(line))]


def choose_step(lines: Sequence[Mapping[str, Any]]) -> xids.Step:
    """Return the largest step that these lines ask for."""
    return max(map(get_line_step, lines), key=xids.ORDER.index, default="none")


def describe_lines(lines: Sequence[Mapping[str, Any]]) -> str:
    """List lines in words: `Xid 79 of the GPU 0000:41:00 (2026-01-31T16:58:44Z), Xid 31 ... and 3
    more`.
    """
    return names.show_few_texts([log_lines.describe_line(line) for line in lines], SHOWN)
