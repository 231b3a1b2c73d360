# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge the health of a host's GPUs by the Xid errors in the kernel log.

The driver writes these errors. A state that cannot be read is not known, and is never taken for
healthy.
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
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import (
    gpu_health_messages,
)

KERNEL_LOG = "/dev/kmsg"
# `NVRM: Xid (PCI:0000:41:00): 79, pid=1234, name=python, ...`; with MIG the instance follows the
# address, older drivers have no `PCI:`.
XID = r"^NVRM: Xid \((?:PCI:)?(?P<pci>[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2})[^)]{0,40}\): (?P<xid>\d{1,5})\b"
# Errors of applications leave the GPU as healthy as before. NVIDIA's device plugin ignores the same
# ones (k8s-device-plugin, internal/rm/health.go). The meaning of each:
# https://docs.nvidia.com/deploy/xid-errors/. All others count.
OF_APPLICATIONS: Mapping[int, str] = {
    13: "graphics engine exception",
    31: "GPU memory page fault",
    43: "GPU stopped processing",
    45: "preemptive cleanup",
    68: "video processor exception",
    109: "context switch timeout",
}
CATALOGUE = "https://docs.nvidia.com/deploy/xid-errors/"


def log_question(path: str) -> queries.Question:
    return queries.ask_for_probe("kernel_log", {"path": path, "pattern": XID})


def read_xid_errors(obs: Observation, path: str) -> dict[str, Any]:
    """Return the Xid errors of this boot. If they are not known, `known` is False, and `why` and
    `code` have the reason.
    """
    answer = obs.get_answer_or_error(log_question(path))
    value = answer.get("value") or {}
    why = str((answer.get("error") or {}).get("message") or value.get("why") or "")
    if why:
        return describe_unknown_log(gpu_health_messages.LOG_UNREADABLE.fill(cause=why))
    errors = [
        {
            "xid": int(e["groups"]["xid"]),
            "pci": str(e["groups"]["pci"]).lower(),
            "time": format_log_time(e["time"]),
            "sequence": int(e["sequence"]),
        }
        for e in value.get("found") or ()
    ]
    ends = {key: -1 if value.get(key) is None else int(value[key]) for key in ("first", "last")}
    return {
        "known": True,
        "why": "",
        "code": "",
        "boot": str(value.get("boot")),
        **ends,
        "complete": bool(value.get("complete")),
        "errors": errors,
    }


def describe_unknown_log(why: Message) -> dict[str, Any]:
    """Return the result for a kernel log of which nothing is known."""
    return {"known": False, "why": why, "code": why.code, "errors": []}


def format_log_time(seconds: int) -> str:
    return values.format_moment(
        datetime.datetime.fromtimestamp(int(seconds), tz=datetime.timezone.utc)
    )


# --- what is new since an earlier look
# ----------------------------------------------------------------------------------


def list_errors_since(
    before: Mapping[str, Any], after: Mapping[str, Any]
) -> tuple[list[Mapping[str, Any]], str]:
    """Return the errors that only the later log has, and a reason why some may be missing, '' if
    all are known.
    """
    if not after.get("known"):
        return [], after.get("why") or gpu_health_messages.LOG_NOT_READ.fill()
    if not before.get("known"):
        return [], before.get("why") or gpu_health_messages.LOG_NOT_READ_BEFORE.fill()
    last = int(before["last"]) if before.get("boot") == after.get("boot") else -1
    gap = int(after["first"]) > last + 1 or not after.get("complete")
    why = gpu_health_messages.LOG_WRITTEN_OVER.fill() if gap else ""
    return [e for e in after["errors"] if int(e["sequence"]) > last], why


def list_sick_errors(errors: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [e for e in errors if int(e["xid"]) not in OF_APPLICATIONS]


def describe_xid_errors(errors: Sequence[Mapping[str, Any]]) -> str:
    """List the errors in words: `Xid 79 of the GPU 0000:41:00 (2026-01-31T16:58:44Z), Xid 31 ...
    and 3 more`.
    """
    return names.show_few_texts(
        [f"Xid {e['xid']} of the GPU {e['pci']} ({e['time']})" for e in errors], SHOWN
    )


SHOWN = 3
