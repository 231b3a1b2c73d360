# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kinds of CDI devices for shared GPUs, one for time slices and one for MPS.

A container that asks by these kinds gets no dedicated GPU.
"""

from __future__ import annotations

import dataclasses as dc

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.devices.inventory import (
    Hardware,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.generate import (
    layouts,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.sharing import wanted

SUFFIX = "-shared"  # nvidia.com/gpu-shared
CLASS = "mps"  # nvidia.com/mps
POLICIES = {layouts.SHARED: "time_slicing", layouts.MPS: "mps"}


def list_shared_kinds(policy: Policy, kind: str) -> tuple[tuple[str, str], ...]:
    """List the kinds with their layouts if GPUs are shared, were, or may have been; else ()."""
    concerned = policy.sharing is not None or policy.state == "absent"
    if not concerned or policy.single or policy.cdi_layout != layouts.WORKLOADS:
        return ()
    return (kind + SUFFIX, layouts.SHARED), (f"{kind.partition('/')[0]}/{CLASS}", layouts.MPS)


def get_shared_part(policy: Policy, look: Hardware, layout: str) -> Hardware:
    """Return the part of the hardware that a layout is about."""
    if layout not in POLICIES:
        return look
    entries = [
        entry
        for entry in wanted.list_host_entries(policy.sharing)
        if entry.policy == POLICIES[layout]
    ]
    named = (
        b
        for b in look.boards
        if any(entry.names(b.gpu.uuid, b.gpu.bus_id, b.gpu.model, b.gpu.index) for entry in entries)
    )
    return dc.replace(look, boards=tuple(named))
