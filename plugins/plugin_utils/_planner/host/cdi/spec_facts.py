# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The facts from which the CDI specs of a host are made, and those of the specs that are there."""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Mapping

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.facts import Fact
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Driver,
    HostDecision,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.adoption import (
    cdi_refresh,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi import (
    contested,
    driver_part,
    files,
    staleness,
    staleness_guard,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.devices import (
    inventory,
    sources,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import (
    gpus,
    missing,
    outer_host,
)


@dc.dataclass(frozen=True)
class SpecFacts:
    """The facts from which CDI specs are made, and those of the specs that are there.

    hardware: as the everyday look shows it. sources: the devices as NVML and nvidia-smi list them.
    of_driver: the driver's files. outer: the kind of container that this host is. spec_host: what a
    spec is compared with. nodes: the driver's device nodes. missing: whether a GPU is gone.
    runs_refresh: systemd knows nvidia-cdi-refresh. core_lost: the core libraries that the host's own
    driver lacks.
    """

    contested: contested.ContestedFacts
    watch: staleness_guard.WatchFacts
    hardware: Fact[inventory.Hardware]
    sources: sources.SourceFacts
    of_driver: Fact[driver_part.DriverPart]
    outer: Fact[str]
    spec_host: Fact[staleness.SpecHost]
    nodes: Fact[Mapping[str, gpus.DeviceFile]]
    missing: missing.MissingGpuFacts
    runs_refresh: Fact[bool]
    core_lost: Fact[tuple[str, ...]]

    @property
    def files(self) -> files.SpecFileFacts:
        return self.contested.files

    @property
    def refreshed(self) -> str:
        """The file that nvidia-cdi-refresh writes."""
        return self.contested.refresh.state.value.output


def read_spec_facts(
    policy: Policy, obs: Observation, host: HostDecision, driver: Driver, probe_source: str = ""
) -> SpecFacts:
    """Return the facts of this room. Sources that use the GPUs are asked only if a spec may be
    wrong.
    """
    return SpecFacts(
        contested.read_contested_facts(obs),
        staleness_guard.read_watch_facts(obs),
        Fact(lambda: inventory.observe(policy, obs, driver.gpus)),
        sources.read_source_facts(policy, obs, probe_source),
        Fact(lambda: driver_part.read_driver_part(policy, obs, host, driver)),
        Fact(lambda: outer_host.get_outer_host_kind(policy, obs)),
        Fact(
            lambda: staleness.read_spec_host(
                policy, obs, driver, host.cdi_version_cap, files.list_cdi_directories(policy)
            )
        ),
        Fact(lambda: gpus.map_device_files(obs, gpus.get_dev_root(policy))),
        missing.read_missing_gpu_facts(policy, obs),
        Fact(lambda: bool(obs.get_unit(cdi_refresh.SERVICE))),
        Fact(lambda: driver_part.read_lost_core_libraries(policy, obs, driver)),
    )


@dc.dataclass(frozen=True)
class SpecRemovalFacts:
    """A host's facts about specs and about their watch that can be taken back."""

    files: files.SpecFileFacts
    watch: staleness_guard.WatchFacts


def read_spec_removal_facts(obs: Observation) -> SpecRemovalFacts:
    return SpecRemovalFacts(files.read_spec_file_facts(obs), staleness_guard.read_watch_facts(obs))
