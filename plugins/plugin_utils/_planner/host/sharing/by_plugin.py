# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sharing as NVIDIA's device plugin does it: one policy, with a number of replicas, for all whole
GPUs of a node.

The plugin ignores settings that select GPUs or give a resource another name (k8s-device-plugin
v0.17 to v0.20, disableResoureRenaming in api/config/v1/replicas.go), so any difference between the
GPUs of a node is refused here.
"""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import SeenGpu
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.sharing import (
    gpu_names,
    messages,
)

PluginPolicy = Literal["time_slicing", "mps"]
POLICIES: tuple[PluginPolicy, ...] = ("time_slicing", "mps")
NUMBER, RENAME, FAIL, ALLOCATION = KEYS = (
    "replicas",
    "rename_by_default",
    "fail_requests_greater_than_one",
    "shared_devices_allocation_policy",
)
# How the plugin chooses among replicas, from v0.20.0 on (SharedDevicesAllocationPolicy in
# api/config/v1/flags.go); distributed is what it does without the setting.
ALLOCATIONS = ("distributed", "packed")
# Clients of an MPS server from Volta on; before that 16. The plugin's own daemon refuses more, and
# takes Volta (7.0) for an older one: it compares the compute capability with 7.5
# (cmd/mps-control-daemon/mps/device.go).
MOST_CLIENTS = 48


@dc.dataclass(frozen=True)
class Replicas:
    """The number of pods that get each GPU of a node. fail: a container that wants more than one is
    refused; None: as the plugin has it. allocation: one of ALLOCATIONS, '' as the plugin has it.

    With MPS the plugin has true, which it takes from its file from v0.20.0 on
    (api/config/v1/config.go).
    """

    policy: PluginPolicy
    number: int
    rename: bool = False
    fail: bool | None = None
    allocation: str = ""


class NamesGpus(Protocol):
    """An entry of the option (wanted.GpuEntry, whose module imports this one)."""

    @property
    def key(self) -> str:
        """Return the text by which the entry names GPUs."""

    @property
    def replicas(self) -> Replicas | None:
        """Return how the GPUs are shared; None if they are not."""

    def names(self, uuid: str, bus: str, model: str, index: int) -> bool:
        """Tell whether the entry names a GPU."""


def is_meant_for_plugin(settings: Mapping[str, Any]) -> bool:
    """Tell whether an entry is for the plugin, since only the plugin makes replicas."""
    return any(
        isinstance(settings.get(policy), Mapping) and NUMBER in settings[policy]
        for policy in POLICIES
    )


def parse_replicas(where: str, settings: Mapping[str, Any]) -> Replicas:
    """Return the entry. Raise PlanError for settings that the plugin would refuse or ignore."""
    if len(settings) != 1:
        said = " and ".join(str(name) for name in settings)
        raise PlanError(
            messages.TWO_PLUGIN_POLICIES.fill(where=where, given=said, policies=", ".join(POLICIES))
        )
    ((policy, more),) = ((name, more) for name, more in settings.items() if name in POLICIES)
    where = f"{where}.{policy}"
    unknown = sorted(str(name) for name in more if name not in KEYS)
    if unknown:
        raise PlanError(
            messages.NOT_WITH_REPLICAS.fill(
                where=where, key=repr(unknown[0]), known=", ".join(KEYS)
            )
        )
    number, rename, fail = more[NUMBER], more.get(RENAME, False), more.get(FAIL)
    if isinstance(number, bool) or not isinstance(number, int) or number < 2:
        raise PlanError(messages.REPLICAS_NOT_A_NUMBER.fill(where=where, value=repr(number)))
    if policy == "mps" and number > MOST_CLIENTS:
        raise PlanError(
            messages.TOO_MANY_REPLICAS.fill(where=where, value=number, most=MOST_CLIENTS)
        )
    for name, value in ((RENAME, rename), (FAIL, False if fail is None else fail)):
        if not isinstance(value, bool):
            raise PlanError(
                messages.SETTING_NOT_BOOLEAN.fill(where=where, name=name, value=repr(value))
            )
    allocation = more.get(ALLOCATION, "")
    if not isinstance(allocation, str) or allocation not in ("", *ALLOCATIONS):
        raise PlanError(
            messages.UNKNOWN_ALLOCATION.fill(
                where=where, name=ALLOCATION, value=repr(allocation), known=", ".join(ALLOCATIONS)
            )
        )
    return Replicas(policy, number, rename, fail, allocation)


def get_common_replicas(option: str, entries: Sequence[NamesGpus]) -> Replicas | None:
    """Return the policy that all entries share, as they are of one node; None if none is for the
    plugin.

    Raise PlanError if they differ.
    """
    of_plugin = [entry for entry in entries if entry.replicas]
    for entry in entries if of_plugin else ():
        if entry.replicas != of_plugin[0].replicas:
            raise PlanError(
                messages.PLUGIN_POLICIES_DIFFER.fill(
                    option=option, gpu=of_plugin[0].key, other=entry.key
                )
            )
    return of_plugin[0].replicas if of_plugin else None


def require_all_gpus(option: str, entries: Sequence[NamesGpus], gpus: Sequence[SeenGpu]) -> None:
    """Raise PlanError if the entries leave out a whole GPU, name a divided one or name none: the
    plugin shares each whole GPU of a node.

    gpus: empty for a directory tree, whose GPUs are not known.
    """
    for gpu in gpus:
        named = any(entry.names(gpu.uuid, gpu.bus_id, gpu.model, gpu.index) for entry in entries)
        if named and gpu.migs:
            raise PlanError(messages.DIVIDED_GPU_NAMED.fill(option=option, gpu=gpu.bus_id))
        if not named and not gpu.migs:
            raise PlanError(
                messages.GPU_LEFT_OUT.fill(
                    option=option, gpu=gpu.bus_id, model=gpu.model or gpu.uuid
                )
            )
    for entry in entries if gpus else ():
        if not any(entry.names(gpu.uuid, gpu.bus_id, gpu.model, gpu.index) for gpu in gpus):
            raise gpu_names.build_unknown_gpu_error(
                option, entry.key, ((gpu.uuid, gpu.bus_id, gpu.model) for gpu in gpus)
            )


def require_mig(option: str, replicas: Replicas, gpus: Sequence[SeenGpu], strategy: str) -> None:
    """Raise PlanError for a combination with MIG that fails: MPS goes with none, time slices only
    if whole GPUs have their own resource.
    """
    divided = [gpu.bus_id for gpu in gpus if gpu.migs]
    if replicas.policy == "mps" and divided:
        raise PlanError(messages.MPS_ON_DIVIDED_GPU.fill(option=option, gpu=divided[0]))
    if replicas.policy == "mps" and strategy == "mixed":
        raise PlanError(messages.MPS_WITH_MIXED_MIG.fill(option=option))
    if divided and strategy != "mixed":
        raise PlanError(
            messages.SLICES_ON_DIVIDED_GPU.fill(option=option, gpu=divided[0], strategy=strategy)
        )
