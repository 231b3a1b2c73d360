# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hold what is found of the health of a host's GPUs, as plans, verifications and rollouts take it."""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Literal

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
    Sentence,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import gpus
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.health import (
    messages,
    xids,
)

# files: procfs and sysfs, as they are now. log: what the kernel log tells of this boot. nvml: what
# the driver answers now.
Source = Literal["files", "log", "nvml"]
STEP_SENTENCES: Mapping[xids.Step, Sentence] = {
    "none": messages.STEP_NONE,
    "application": messages.STEP_APPLICATION,
    "driver": messages.STEP_DRIVER,
    "fabric": messages.STEP_FABRIC,
    "update": messages.STEP_UPDATE,
    "reset": messages.STEP_RESET,
    "reboot": messages.STEP_REBOOT,
    "replace": messages.STEP_REPLACE,
    "support": messages.STEP_SUPPORT,
}


@dc.dataclass(frozen=True)
class Finding:
    """One thing that is wrong with the GPUs of a host.

    message: what, without the step. gpu: the PCI address of the device, '' for the host as a whole.
    step: what a person does about it. source: what shows it. waits: the GPU works, and the step can
    wait until the host is out of service anyway. accepted: the host's owner accepts it.
    """

    message: Message
    gpu: str
    step: xids.Step
    source: Source
    waits: bool = False
    accepted: bool = False

    @property
    def stops(self) -> bool:
        """Tell whether it stops a wave: whether a GPU of the host is sick."""
        return xids.is_sick(self.step) and not self.waits and not self.accepted

    @property
    def next(self) -> Message:
        """Return the step for a person."""
        row = messages.STEP_ACCEPTED if self.accepted else STEP_SENTENCES[self.step]
        return row.fill()

    @property
    def text(self) -> Message:
        """The finding and its step, as one message."""
        return Message(self.message.what, self.message.code, self.message.values, next=self.next)


def is_accepted(accepted: Collection[str], code: str, gpu: str) -> bool:
    """Tell whether the owner of a host accepts a finding. gpu: its address, '' for none."""
    wanted = (code, shorten_pci(gpu))
    return any(
        (other, shorten_pci(device)) == wanted
        for other, _space, device in (entry.partition(" ") for entry in accepted)
    )


def shorten_pci(address: str) -> str:
    """Return an address as all sources spell it: four digits of the domain, no function. A text
    that is not an address stays.
    """
    return gpus.shorten_bus_id(address).partition(".")[0] if ":" in address else address


def mark_accepted(found: Iterable[Finding], accepted: Collection[str]) -> list[Finding]:
    """Return the findings, each with whether the owner of the host accepts it."""
    return [
        dc.replace(finding, accepted=True)
        if is_accepted(accepted, str(finding.message.code), finding.gpu)
        else finding
        for finding in found
    ]


def convert_findings(found: Iterable[Finding]) -> list[dict[str, Any]]:
    """Return findings as a result has them."""
    return [
        {
            "code": finding.message.code,
            "what": str(finding.message),
            "gpu": finding.gpu,
            "step": finding.step,
            "next": str(finding.next),
            "source": finding.source,
            "stops": finding.stops,
            "accepted": finding.accepted,
        }
        for finding in found
    ]


def list_sick_findings(health: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the findings of a result that stop a wave."""
    return [entry for entry in health.get("findings") or () if entry.get("stops")]


def list_present_findings(health: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return those of them that are so now, and not only told by the kernel log of this boot."""
    return [entry for entry in list_sick_findings(health) if entry.get("source") != "log"]


def name_findings(found: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return findings of a result as sentences, each with its code."""
    return [f"{entry.get('what')} [{entry.get('code')}]" for entry in found]


def advise_on_findings(found: Iterable[Finding]) -> tuple[str, ...]:
    """Return the findings as advice of a plan, but for the findings that the driver's own notes
    tell.
    """
    told = messages.NOT_SERVED.code
    return tuple(finding.text for finding in found if finding.message.code != told)
