# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kinds of CDI devices for what links GPUs: IMEX channels between hosts, NVSwitches within one.

Each kind has an option of its own. A channel is the boundary between tenants of an NVLink domain:
its holder reads and writes the memory that others export there. A process that opens an NVSwitch's
node talks to its firmware. So neither is part of a GPU; a container asks for it beside its GPUs, as
upstream has it (nvidia-container-toolkit, pkg/nvcdi/lib-imex.go and gated.go).
"""

from __future__ import annotations

import dataclasses as dc
import posixpath
from collections.abc import Mapping, Sequence

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.facts import Fact
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Plan,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi import messages
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.devices.inventory import (
    Hardware,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.generate import (
    layouts,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.spec.model import (
    KIND,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import gpus
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver.gpus import (
    DeviceFile,
)

VENDOR = KIND.partition("/")[0]
CLASSES = {layouts.CHANNELS: "imex-channel", layouts.SWITCHES: "nvswitch"}
# The kinds that upstream's modes imex and nvswitch write.
UPSTREAM = tuple(f"{VENDOR}/{name}" for name in CLASSES.values())
OPTIONS = {
    layouts.CHANNELS: "gpufleet_cdi_imex_channels",
    layouts.SWITCHES: "gpufleet_cdi_nvswitch",
}
EVERY = "all"


def is_fabric_kind_asked(policy: Policy, layout: str) -> bool:
    return bool(policy.cdi_imex_channels) if layout == layouts.CHANNELS else policy.cdi_nvswitch


def grants(policy: Policy, layout: str, name: str) -> bool:
    """Tell whether the options ask for the device of this name.

    A device that they ask for and that goes all the same has no node any more.
    """
    return is_fabric_kind_asked(policy, layout) and (
        layout != layouts.CHANNELS or bool({EVERY, name} & set(policy.cdi_imex_channels))
    )


def list_withdrawn_layouts(policy: Policy, going: tuple[str, ...]) -> tuple[str, ...]:
    """Return the layouts among `going` whose file goes.

    A kind that is asked for stays while its nodes are missing. Nodes of switches are missing while
    the driver or Fabric Manager starts, and containers ask for them by the name from before.
    """
    return tuple(
        layout
        for layout in going
        if layout not in layouts.FABRIC or not is_fabric_kind_asked(policy, layout)
    )


def keep_fabric_kind(policy: Policy, nodes: Fact[Mapping[str, DeviceFile]], layout: str) -> bool:
    """Tell whether the options ask for a kind whose nodes are there.

    Nodes of switches are there if virtual machines have the GPUs.
    """
    listers = {layouts.CHANNELS: gpus.list_channel_nodes, layouts.SWITCHES: gpus.list_switch_nodes}
    return (
        layout in listers
        and is_fabric_kind_asked(policy, layout)
        and bool(listers[layout](nodes.value))
    )


def list_unasked_layouts(policy: Policy) -> tuple[str, ...]:
    return tuple(layout for layout in layouts.FABRIC if not is_fabric_kind_asked(policy, layout))


def list_fabric_kinds(policy: Policy) -> tuple[tuple[str, str], ...]:
    """List the kinds with their layouts.

    A run for the whole host includes kinds that no option asks for, since they may have been there.
    A single module has what its options name: other tasks write other kinds.
    """
    vendor = policy.cdi_vendor or VENDOR
    return tuple(
        (f"{vendor}/{CLASSES[layout]}", layout)
        for layout in layouts.FABRIC
        if not policy.single or is_fabric_kind_asked(policy, layout)
    )


def get_fabric_part(policy: Policy, look: Hardware, layout: str) -> Hardware:
    """Return what the policy grants of one of these kinds; for other layouts all hardware."""
    if layout not in layouts.FABRIC:
        return look
    return dc.replace(
        look,
        boards=(),
        granted=list_granted_nodes(policy, look, layout)
        if is_fabric_kind_asked(policy, layout)
        else (),
    )


def list_granted_nodes(policy: Policy, look: Hardware, layout: str) -> tuple[str, ...]:
    """List the nodes that the policy grants.

    A channel that is asked for by number is named whether it is there or not: a missing one has to
    be reported.
    """
    if layout == layouts.SWITCHES:
        return look.switches
    numbers = (
        ()
        if EVERY in policy.cdi_imex_channels
        else sorted({int(number) for number in policy.cdi_imex_channels})
    )
    return (
        look.channels
        if EVERY in policy.cdi_imex_channels
        else tuple(f"{gpus.CHANNELS}{number}" for number in numbers)
    )


def suggest_channels_remedy(missing: Sequence[str]) -> str:
    """Return how IMEX channels are made. "" if other nodes are missing as well: then the driver's
    programs come first, and they make no channel.
    """
    if not all(path.startswith(gpus.CHANNELS) for path in missing):
        return ""
    first = missing[0]
    return messages.MAKE_CHANNELS.fill(
        folder=posixpath.dirname(first), node=first, number=first[len(gpus.CHANNELS) :]
    )


def advise_on_fabric_kinds(
    policy: Policy, nodes: Fact[Mapping[str, DeviceFile]], plan: Plan
) -> tuple[str, ...]:
    """Return advice if a spec is written, and channels are there and none is offered.

    Each HGX has NVSwitches that no container has a use for, so they alone are not worth advice.
    """
    offers_none = (
        plan.changes
        and layouts.CHANNELS in list_unasked_layouts(policy)
        and gpus.list_channel_nodes(nodes.value)
    )
    return (messages.FABRIC_ON_REQUEST.fill(),) if offers_none else ()


def list_unheard_options(policy: Policy, why: str) -> tuple[str, ...]:
    """Name the options that have no effect because this collection writes no spec; () if none is
    set.

    Silence would look like success.
    """
    without = [OPTIONS[layout] for layout in layouts.FABRIC if is_fabric_kind_asked(policy, layout)]
    return (
        (messages.OPTION_WITHOUT_EFFECT.fill(reason=why, options=", ".join(without)),)
        if without
        else ()
    )
