# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What NVML adds to the look: the UUIDs that the driver does not tell before its GPUs were used. Asked in a child on the host, once."""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils import ask
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils.model import Gpu, NeedMore, PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils.observation import Observation

MISMATCH, NOT_LOADED, LOST = 18, 9, 15
FATAL = {
    MISMATCH: "Reboot, or reload the kernel module, so that it is of the same version as the libraries",
    NOT_LOADED: "Load the driver: modprobe nvidia",
    LOST: "Reset or replace the GPU; the kernel log tells its Xid",
}


def question(source: str) -> ask.Question:
    return ask.probe("nvml", source, {"library": ""})


def complete(obs: Observation, gpus: tuple[Gpu, ...], source: str) -> tuple[Gpu, ...]:
    """The same GPUs with NVML's UUIDs, by bus id; without them where NVML cannot be asked. A driver that NVML calls sick is an error."""
    if not obs.asked(question(source)):
        raise NeedMore([question(source)])
    answer = obs.raw(question(source))
    value = answer.get("value") or {}
    for error in value.get("errors") or ():
        refuse(error)
    uuids = {str(g.get("bus_id")): str(g.get("uuid") or "") for g in value.get("gpus") or ()}
    return tuple(dc.replace(g, uuid=g.uuid or uuids.get(g.bus_id, "")) for g in gpus)


def refuse(error: Mapping[str, Any]) -> None:
    if error.get("code") in FATAL:
        raise PlanError(f"NVML answers {error.get('message')}", where=str(error.get("call") or "NVML"), next=FATAL[error["code"]])
