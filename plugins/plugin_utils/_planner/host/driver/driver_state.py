# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge the state of a host's driver by the facts of the everyday look, with the reason and the
remedy.
"""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Mapping

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.facts import Fact
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Driver,
    Policy,
    SeenGpu,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import (
    gpus,
    messages,
    mismatch,
    outer_host,
    platforms,
)


@dc.dataclass(frozen=True)
class DriverFacts:
    """A host's facts about its GPUs and their driver, in which no GPU is used.

    outer: the kind of container that this host is, '' for any other host. disk: the kernel modules
    on disk. pci_directory: where the kernel lists PCI devices. pci: the NVIDIA GPUs on PCI. held:
    the other kernel driver that has a GPU, by its bus. loaded: whether NVIDIA's module is. version:
    its version, and the file that shows it. gpus: the GPUs that the driver lists, and a complaint
    about the first file that is not whole. excluded: the GPUs that its options exclude. libraries:
    the version of each library. platform: one whose GPU is not a PCI device, None for no such.
    vgpu: what shows that the driver serves virtual machines alone, '' if it does not.
    """

    outer: Fact[str]
    disk: Fact[mismatch.Modules]
    pci_directory: str
    pci: Fact[list[str]]
    held: Fact[Mapping[str, str]]
    loaded: Fact[bool]
    version: Fact[tuple[str, str]]
    gpus: Fact[tuple[tuple[SeenGpu, ...], Message | None]]
    excluded: Fact[set[str]]
    libraries: Fact[Mapping[str, str]]
    platform: Fact[platforms.Name | None]
    vgpu: Fact[str]

    @property
    def usable(self) -> list[str]:
        """The GPUs on PCI that no other kernel driver has."""
        return [bus for bus in self.pci.value if bus not in self.held.value]


def read_driver_facts(policy: Policy, obs: Observation) -> DriverFacts:
    p = gpus.get_gpu_paths(policy)
    outer = Fact(lambda: outer_host.get_outer_host_kind(policy, obs))

    def read_gpus() -> tuple[tuple[SeenGpu, ...], Message | None]:
        listed, complaint = gpus.read_gpus(obs, p)
        parts = gpus.count_mig_devices(policy, obs)
        return tuple(dc.replace(g, migs=parts.get(g.minor, 0)) for g in listed), complaint

    def read_vgpu() -> str:
        nodes = gpus.map_device_files(obs, gpus.get_dev_root(policy))
        devices = gpus.map_device_majors(policy, obs)
        return platforms.find_vgpu_mark(obs, nodes, devices, policy.cdi_driver_root)

    return DriverFacts(
        outer=outer,
        # A container's kernel modules are never loaded.
        disk=Fact(lambda: mismatch.NO_MODULES if outer.value else mismatch.read_disk_modules(obs)),
        pci_directory=p.pci_vendor.rsplit("/", 2)[0],
        pci=Fact(lambda: gpus.list_pci_gpus(obs, p)),
        held=Fact(lambda: gpus.map_gpus_held_by_others(obs, p)),
        loaded=Fact(lambda: gpus.is_module_loaded(obs, p)),
        version=Fact(lambda: gpus.read_module_version(obs, p)),
        gpus=Fact(read_gpus),
        excluded=Fact(lambda: gpus.list_excluded_gpus(obs, p)),
        libraries=Fact(lambda: gpus.map_library_versions(obs, policy.cdi_driver_root)),
        platform=Fact(lambda: platforms.find_platform_without_pci(obs, p.tegra_family)),
        vgpu=Fact(read_vgpu),
    )


def read_driver(policy: Policy, obs: Observation) -> Driver:
    """Return the driver of a host, as its facts show it."""
    return judge_driver(read_driver_facts(policy, obs))


def judge_driver(facts: DriverFacts) -> Driver:
    """Judge the state of the driver, with the reason and the remedy."""
    judged = (
        judge_loaded_module(facts) if facts.loaded.value else judge_driver_without_module(facts)
    )
    return outer_host.add_outer_host_remedy(judged, facts.outer.value)


def judge_loaded_module(facts: DriverFacts) -> Driver:
    """Judge a driver whose kernel module is loaded."""
    version, where = facts.version.value
    if not version:
        return Driver("broken", "", (), messages.NO_VERSION.fill(path=where))
    served, complaint = facts.gpus.value
    elsewhere = describe_loaded_platform(facts, version, served)
    if elsewhere:
        return elsewhere
    if complaint:
        return Driver("broken", version, served, complaint)
    difference = mismatch.compare(version, where, facts.libraries.value, facts.disk.value)
    if difference.broken:
        return Driver("broken", version, served, difference.message)
    notes = [difference.message] if difference.message else []
    told = {*facts.excluded.value, *(g.bus_id for g in served)}
    lost = [bus for bus in facts.usable if bus not in told]
    notes += [messages.GPUS_LOST.fill(gpus=", ".join(lost))] if served and lost else []
    withheld = describe_withheld_gpus(facts)
    notes += withheld if served else []
    return dc.replace(judge_loaded_driver(facts, withheld, lost), notes=tuple(notes))


def describe_withheld_gpus(facts: DriverFacts) -> list[Message]:
    """Describe the GPUs that a person has taken away from containers, a message for each way."""
    pci, held = facts.pci.value, facts.held.value
    withheld = [
        messages.GPUS_HELD.fill(
            gpus=", ".join(bus for bus in pci if held.get(bus) == name),
            holder=name_gpu_holder(name),
        )
        for name in sorted({held[bus] for bus in pci if bus in held})
    ]
    kept = [bus for bus in pci if bus in facts.excluded.value and bus not in held]
    return withheld + ([messages.GPUS_EXCLUDED.fill(gpus=", ".join(kept))] if kept else [])


def describe_loaded_platform(
    facts: DriverFacts, version: str, served: tuple[SeenGpu, ...]
) -> Driver | None:
    """Describe a platform that has the module loaded and whose GPUs get no spec. served: the GPUs
    of the driver.
    """
    if not facts.usable and not served:
        name = facts.platform.value
        return dc.replace(platforms.describe_platform(name), version=version) if name else None
    on_chip = platforms.describe_chip_by_model(version, [g.model for g in served])
    if on_chip:
        return on_chip
    mark = facts.vgpu.value
    return platforms.describe_vgpu_manager(version, mark) if mark else None


def judge_driver_without_module(facts: DriverFacts) -> Driver:
    """Judge a driver whose kernel module is not loaded."""
    name = None if facts.usable else facts.platform.value
    if name:
        return platforms.describe_platform(name)
    pci, held = facts.pci.value, facts.held.value
    if not pci:
        return Driver("none", "", (), messages.NO_GPU.fill(path=facts.pci_directory))
    if all(is_kept_for_machines(held.get(bus, "")) for bus in pci):
        return Driver(
            "none",
            "",
            (),
            messages.GPU_HELD.fill(bus=pci[0], holder=name_gpu_holder(held[pci[0]])),
            platform="vfio",
        )
    return describe_unloaded_driver((facts.usable or pci)[0], held, facts.disk.value)


def describe_unloaded_driver(bus: str, held: Mapping[str, str], disk: mismatch.Modules) -> Driver:
    """Describe why the driver of a GPU is not loaded. bus: of the GPU."""
    if bus in held:
        return Driver(
            "not-loaded",
            "",
            (),
            messages.NOT_LOADED_GPU_HELD.fill(bus=bus, holder=name_gpu_holder(held[bus])),
        )
    if mismatch.is_running_module_missing(disk):
        evidence = messages.NOT_LOADED_NO_MODULE.fill(
            bus=bus, kernel=disk.kernel, kernels=", ".join(sorted(disk.kernels))
        )
        return Driver("not-loaded", "", (), evidence)
    return Driver("not-loaded", "", (), messages.GPU_WITHOUT_MODULE.fill(bus=bus))


def judge_loaded_driver(facts: DriverFacts, withheld: list[Message], lost: list[str]) -> Driver:
    """Judge whether the driver serves the GPUs. The module is loaded, its files are whole, and the
    libraries have its version.

    withheld: a message for each way in which a person keeps GPUs from containers. lost: the GPUs
    that this driver should serve and does not.
    """
    version, where = facts.version.value
    served = facts.gpus.value[0]
    if not served and lost:
        return Driver(
            "broken", version, (), messages.DRIVES_NO_GPU.fill(version=version, bus=lost[0])
        )
    if not served and withheld:
        return Driver(
            "none", version, (), messages.LOADED_GPU_HELD.fill(version=version, held=withheld[0])
        )
    if not served:
        return Driver("none", version, (), messages.LOADED_WITHOUT_GPU.fill(version=version))
    row = messages.SERVES if facts.libraries.value else messages.SERVES_WITHOUT_LIBRARIES
    count = f"{len(served)} GPU{'s' if len(served) > 1 else ''}"
    evidence = row.fill(version=version, path=where, gpus=count)
    if lost:
        evidence = messages.SERVES_SOME.fill(served=evidence, lost=", ".join(lost))
    return Driver("ok", version, served, evidence)


def is_kept_for_machines(name: str) -> bool:
    """Tell whether a kernel driver keeps devices for virtual machines. Variants are called
    nvgrace_gpu_vfio_pci, for example.
    """
    return "vfio" in name or name == "pci-stub"


def name_gpu_holder(name: str) -> Message:
    return (messages.PASSED_THROUGH if is_kept_for_machines(name) else messages.BOUND).fill(
        driver=name
    )
