# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Request a GPU that is shared by MPS, if the CDI spec of the host has one.

The spec on the host tells it, and not the option `sharing`: the module host_verify has no such
option, and verifies what a host has.
"""

from __future__ import annotations

from collections.abc import Iterable

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Driver,
    HostDecision,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    ObservedFile,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi import files
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.engine_view import (
    lookup,
    reader,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.verification import (
    cases,
    messages,
)

KIND = "nvidia.com/mps"


def find_mps_devices(directories: Iterable[tuple[ObservedFile, ...]]) -> frozenset[str]:
    """Return the names of the devices in this collection's specs of the kind `nvidia.com/mps`.

    directories: the files of each CDI directory.
    """
    return frozenset(
        name
        for listed in directories
        for file in listed
        if lookup.is_read(file.path) and file.exists and files.is_own_spec(file)
        for name in _read_names(file)
    )


def _read_names(file: ObservedFile) -> list[str]:
    """Return the names of the devices in a spec; [] if it is of another kind.

    The plan for CDI judges a spec that cannot be read.
    """
    try:
        spec = reader.parse_spec(file.content or "")
    except ValueError:
        return []
    return [device.name for device in spec.devices] if spec.kind == KIND else []


def ask_for_mps_gpu(
    record: HostDecision, driver: Driver, devices: frozenset[str]
) -> tuple[cases.Ask, ...]:
    """Return a request for the first GPU among these devices; () if none is.

    Without its daemon's directory a container that asks for it does not start.
    """
    if record.cdi_owner != "collection":
        return ()
    named = (
        (gpu.minor, name)
        for gpu in driver.gpus
        for name in (str(gpu.index), gpu.uuid)
        if name in devices
    )
    why = messages.BY_MPS.fill()
    return tuple(cases.Ask("mps", (minor,), name, why, KIND) for minor, name in list(named)[:1])
