# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Distinguish a GPU that is gone from one that is off the bus.

A GPU is gone if neither PCI nor a device node has it any more. A GPU that has fallen off the bus
(Xid 79) stays a PCI device, or at least keeps its device node, until the host boots without it.
"""

from __future__ import annotations

import dataclasses as dc
import re
from collections.abc import Iterable, Mapping

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.facts import Fact
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Driver,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import (
    gpus,
    messages,
)

NODE = re.compile(r"/dev/nvidia(\d{1,9})")


@dc.dataclass(frozen=True)
class MissingGpuFacts:
    """A host's facts about GPUs that the driver may have lost.

    held: the GPUs of other drivers, by bus. excluded: the GPUs that the driver excludes. buses: all
    NVIDIA GPUs on PCI. nodes: the device nodes. shown: the PCI bus can be seen.
    """

    held: Fact[Mapping[str, str]]
    excluded: Fact[set[str]]
    buses: Fact[list[str]]
    nodes: Fact[Mapping[str, gpus.DeviceFile]]
    shown: Fact[bool]


def read_missing_gpu_facts(policy: Policy, obs: Observation) -> MissingGpuFacts:
    p = gpus.get_gpu_paths(policy)
    bus = queries.ask_for_file(get_pci_directory(policy), content=False)
    return MissingGpuFacts(
        Fact(lambda: gpus.map_gpus_held_by_others(obs, p)),
        Fact(lambda: gpus.list_excluded_gpus(obs, p)),
        Fact(lambda: gpus.list_pci_gpus(obs, p)),
        Fact(lambda: gpus.map_device_files(obs, gpus.get_dev_root(policy))),
        Fact(lambda: gpus.is_pci_shown(obs, p) or bool(obs.get_answer(bus).get("exists"))),
    )


def get_pci_directory(policy: Policy) -> str:
    return gpus.get_gpu_paths(policy).pci_vendor.rpartition("/*/")[0]


def list_unserved_gpus(facts: MissingGpuFacts, driver: Driver) -> list[str]:
    """List the NVIDIA GPUs on PCI that the driver has to serve and does not.

    A GPU of another driver does not count, and neither does one that the driver excludes.
    """
    told = {g.bus_id for g in driver.gpus} | set(facts.held.value) | facts.excluded.value
    return [bus for bus in facts.buses.value if bus not in told]


def list_stray_nodes(facts: MissingGpuFacts, driver: Driver) -> list[str]:
    """List the device nodes of GPUs that the driver does not have."""
    minors = {g.minor for g in driver.gpus}
    nodes = ((NODE.fullmatch(path), path) for path in facts.nodes.value)
    return sorted(path for match, path in nodes if match and int(match.group(1)) not in minors)


def require_gone(
    policy: Policy, facts: MissingGpuFacts, driver: Driver, where: str, names: Iterable[str]
) -> None:
    """Raise PlanError if a GPU of these devices may be there. where: the file that names them."""
    lost = messages.WOULD_LOSE.fill(where=where, names=", ".join(names))
    require_bus(policy, facts, lost)
    buses = list_unserved_gpus(facts, driver)
    if buses:
        raise PlanError(messages.GPU_NOT_SERVED.fill(bus=buses[0], lost=lost))
    nodes = list_stray_nodes(facts, driver)
    if nodes:
        raise PlanError(messages.NODE_WITHOUT_GPU.fill(path=nodes[0], lost=lost))


def require_bus(policy: Policy, facts: MissingGpuFacts, lost: str) -> None:
    """Raise PlanError if the host's PCI bus cannot be seen: it cannot show that a GPU is gone.

    Every kernel that the driver runs on shows that directory.
    """
    if not facts.shown.value:
        raise PlanError(messages.NO_PCI_BUS.fill(lost=lost), where=get_pci_directory(policy))
