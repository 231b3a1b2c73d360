# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Choose the version of a CDI spec: as low as its content allows, never above what its consumers
accept.

A consumer knows a list of exact strings and loses the whole file on any other one, so "newest" is
never right (nvidia-container-toolkit issues 38, 1860, 1940).
"""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Callable, Mapping

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.spec import messages
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.spec.model import (
    Edits,
    Spec,
)

# specs-go/version.go of the reference library; 0.1.0 and 0.2.0 are known to it but never
# sufficient.
KNOWN = ("0.3.0", "0.4.0", "0.5.0", "0.6.0", "0.7.0", "0.8.0", "1.0.0", "1.1.0")
FLOOR = KNOWN[0]
# For hosts without a known limit of a consumer: what everything since containerd 1.7.12, CRI-O
# 1.28, Docker 25 and Podman 4.7 reads.
UNKNOWN_CAP = "0.6.0"

Rule = tuple[str, str, Callable[[Edits], bool]]
EDIT_RULES: tuple[Rule, ...] = (
    ("0.4.0", "a mount with a type", lambda e: any(m.type for m in e.mounts)),
    ("0.5.0", "a device node with a host path", lambda e: any(n.host_path for n in e.device_nodes)),
    ("0.7.0", "additional group ids", lambda e: bool(e.additional_gids)),
    ("0.7.0", "Intel RDT", lambda e: e.rdt is not None),
    ("1.1.0", "network devices", lambda e: bool(e.net_devices)),
    (
        "1.1.0",
        "the newer fields of Intel RDT",
        lambda e: bool(e.rdt) and bool({"schemata", "enableMonitoring"} & set(e.rdt or ())),
    ),
)
SPEC_RULES: tuple[tuple[str, str, Callable[[Spec], bool]], ...] = (
    (
        "0.5.0",
        "a device name that starts with a digit",
        lambda s: any(d.name[:1].isdigit() for d in s.devices),
    ),
    (
        "0.6.0",
        "annotations",
        lambda s: bool(s.annotations) or any(d.annotations for d in s.devices),
    ),
    ("0.6.0", "a dot in the class", lambda s: "." in s.kind.partition("/")[2]),
)


def get_spec_version_key(version: str) -> tuple[int, ...]:
    """Return a version for comparisons; a leading v is tolerated, as on read."""
    return tuple(int(part) for part in version.removeprefix("v").split("."))


def list_version_needs(spec: Spec) -> list[tuple[str, str]]:
    """List version and reason of everything in the spec that needs more than the floor."""
    needs = [
        (version, reason)
        for edits in (spec.edits, *(d.edits for d in spec.devices))
        for version, reason, applies in EDIT_RULES
        if applies(edits)
    ]
    needs += [(version, reason) for version, reason, applies in SPEC_RULES if applies(spec)]
    return sorted(set(needs), key=lambda need: (get_spec_version_key(need[0]), need[1]))


def get_minimum_version(spec: Spec) -> str:
    """Return the lowest version that the content allows."""
    return max(
        (version for version, _reason in list_version_needs(spec)),
        key=get_spec_version_key,
        default=FLOOR,
    )


def list_needs_above_cap(spec: Spec, cap: str) -> list[Message]:
    """List what a consumer with this limit does not accept in the spec. cap: '' takes UNKNOWN_CAP."""
    return [
        messages.SPEC_NEEDS_VERSION.fill(reason=reason, version=version)
        for version, reason in list_version_needs(spec)
        if get_spec_version_key(version) > get_spec_version_key(cap or UNKNOWN_CAP)
    ]


# Fields that a spec can lose and still give a container its GPUs. A group id lets a user other than
# root open /dev/dri; annotations inform tools.
DROPPABLE: Mapping[str, str] = {
    "additional_gids": "additional group ids",
    "net_devices": "network devices",
    "rdt": "Intel RDT",
}


def fit_spec_to_cap(spec: Spec, cap: str) -> tuple[Spec, tuple[str, ...]]:
    """Return the spec without what its consumers do not accept, and a sentence about each loss.

    Only what a spec can do without is left out.
    """
    too_new = {
        reason: needed
        for needed, reason in list_version_needs(spec)
        if get_spec_version_key(needed) > get_spec_version_key(cap or UNKNOWN_CAP)
    }
    fields = [
        field for field, reason in DROPPABLE.items() if any(reason in known for known in too_new)
    ]
    empty = {field: None if field == "rdt" else () for field in fields}
    lean = dc.replace(spec, edits=dc.replace(spec.edits, **empty))  # type: ignore[arg-type]
    devices = tuple(
        dc.replace(device, edits=dc.replace(device.edits, **empty))  # type: ignore[arg-type]
        for device in spec.devices
    )
    lean = dc.replace(lean, devices=devices)
    if "annotations" in too_new:
        lean = dc.replace(
            lean, annotations={}, devices=tuple(dc.replace(d, annotations={}) for d in lean.devices)
        )
    lost = [
        reason
        for reason in too_new
        if reason == "annotations" or any(DROPPABLE[field] in reason for field in fields)
    ]
    limit = cap or UNKNOWN_CAP
    return lean, tuple(
        messages.LEFT_OUT.fill(part=part, needed=too_new[part], limit=limit) for part in lost
    )
