# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Distinguish a GPU that is gone from one that is off the bus.

A GPU is gone if neither PCI nor a device node has it any more. A GPU that has fallen off the bus
(Xid 79) stays a PCI device, or at least keeps its device node, until the host boots without it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
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


def list_unserved_gpus(policy: Policy, obs: Observation, driver: Driver) -> list[str]:
    """List the NVIDIA GPUs on PCI that the driver has to serve and does not.

    GPUs of another driver, and those that the driver excludes, do not count.
    """
    p = gpus.get_gpu_paths(policy)
    told = (
        {g.bus_id for g in driver.gpus}
        | set(gpus.map_gpus_held_by_others(obs, p))
        | gpus.list_excluded_gpus(obs, p)
    )
    return [bus for bus in gpus.list_pci_gpus(obs, p) if bus not in told]


def list_stray_nodes(policy: Policy, obs: Observation, driver: Driver) -> list[str]:
    """List the device nodes of GPUs that the driver does not have."""
    minors = {g.minor for g in driver.gpus}
    found = (
        (NODE.fullmatch(path), path)
        for path in gpus.map_device_files(obs, gpus.get_dev_root(policy))
    )
    return sorted(path for match, path in found if match and int(match.group(1)) not in minors)


def require_gone(
    policy: Policy, obs: Observation, driver: Driver, where: str, names: Iterable[str]
) -> None:
    """Raise PlanError if a GPU of these devices may be there. where: the file that names them."""
    lost = f"{where} would lose {', '.join(names)}"
    require_bus(policy, obs, lost)
    buses = list_unserved_gpus(policy, obs, driver)
    if buses:
        raise PlanError(messages.GPU_NOT_SERVED.fill(bus=buses[0], lost=lost))
    nodes = list_stray_nodes(policy, obs, driver)
    if nodes:
        raise PlanError(messages.NODE_WITHOUT_GPU.fill(path=nodes[0], lost=lost))


def require_bus(policy: Policy, obs: Observation, lost: str) -> None:
    """Raise PlanError if the host's PCI bus cannot be seen: it cannot show that a GPU is gone.

    Every kernel that the driver runs on shows that directory.
    """
    bus = gpus.get_gpu_paths(policy).pci_vendor.rpartition("/*/")[0]
    if gpus.is_pci_shown(obs, gpus.get_gpu_paths(policy)) or obs.get_answer(
        queries.ask_for_file(bus, content=False)
    ).get("exists"):
        return
    raise PlanError(messages.NO_PCI_BUS.fill(lost=lost), where=bus)
