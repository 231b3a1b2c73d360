# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read what a host offers to images, from a look of its own. An ordinary look does not ask these
questions.
"""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import (
    host_paths,
    queries,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Policy,
    SeenGpu,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections.file_places import (
    OWN_RECORD,
    WHOLE,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import (
    decision_file,
    earlier_runs,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import (
    driver_state,
    gpus,
    platforms,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.workloads.images import (
    chips,
    cpu,
    cuda,
    dotted,
    facts,
)

CPUS = "/proc/cpuinfo"
MACHINE = queries.ask_for_probe("machine", {"path": CPUS})


def get_device_ids(policy: Policy) -> str:
    """Return the pattern of the files in sysfs that have the ids of PCI devices."""
    return f"{policy.sys_root.rstrip('/')}/bus/pci/devices/*/device"


def list_image_questions(policy: Policy) -> list[queries.Question]:
    """List what a host is asked before an image is chosen for it."""
    ids = queries.ask_for_glob(get_device_ids(policy), max=64, keep=WHOLE)
    return [
        *gpus.list_questions(policy),
        ids,
        MACHINE,
        queries.ask_for_file(decision_file.DECISION_PATH, keep=OWN_RECORD),
    ]


def read_image_host(
    policy: Policy, obs: Observation, targets: cpu.Targets
) -> tuple[facts.ImageHost, str]:
    """Return the host, and the reason if its driver serves no image, else ''."""
    driver = driver_state.read_driver(policy, obs)
    machine = obs.get_answer_or_error(MACHINE).get("value") or {}
    serves = driver.state == "ok"
    release = dotted.parse_dotted(driver.version) if serves else None
    ids = {
        host_paths.get_folder_name(file.path): file.text.strip()
        for file in obs.list_glob_files(get_device_ids(policy), WHOLE)
    }
    host = facts.ImageHost(
        driver.version if serves else "",
        cuda.get_cuda_of_driver(release) if release else None,
        tuple(read_image_gpu(g, ids.get(g.bus_id, "")) for g in driver.gpus) if serves else (),
        read_processor(machine, targets),
        parse_glibc(str(machine.get("library") or "")),
        list_image_engines(obs),
    )
    return host, "" if serves else driver.evidence


def has_no_gpu(policy: Policy, obs: Observation) -> bool:
    """Tell whether it is certain that the host has no GPU. Then an image for a GPU is not missing
    there.
    """
    driver = driver_state.read_driver(policy, obs)
    return driver.state == "none" and driver.platform not in platforms.OWN_MODES


def read_image_gpu(found: SeenGpu, device: str) -> facts.ImageGpu:
    """Return a GPU with what an image may need of it.

    device: its PCI device id, in hexadecimal.
    """
    return facts.ImageGpu(
        found.bus_id,
        found.model,
        chips.compute_capability(int(device, 16)) if facts.is_device(device) else None,
        chips.get_model_memory(found.model),
        found.migs > 0,
        chips.list_gpu_brands(found.model),
        chips.serves_forward(found.model),
    )


def read_processor(machine: dict[str, Any], targets: cpu.Targets) -> cpu.Cpu:
    """Return the CPU as the probe has found it."""
    flags = machine.get("flags")
    known = frozenset(map(str, flags)) if isinstance(flags, list) and flags else None
    return cpu.build_cpu(
        str(machine.get("architecture") or ""),
        str(machine.get("vendor") or ""),
        known,
        "",
        None,
        targets,
    )


def parse_glibc(text: str) -> dotted.Numbers | None:
    """Parse the version of `glibc 2.36`. Return None for another library."""
    name, _blank, version = text.partition(" ")
    return dotted.parse_dotted(version) if name == "glibc" else None


def list_image_engines(obs: Observation) -> tuple[facts.ImageEngine, ...]:
    """Return the engines as this collection has decided on this host, () if it never did."""
    engines = earlier_runs.parse_decision_record(
        obs.get_file(decision_file.DECISION_PATH, OWN_RECORD)
    ).get("engines")
    known = (
        [entry for entry in engines if isinstance(entry, dict)] if isinstance(engines, list) else []
    )
    return tuple(
        facts.ImageEngine(str(entry.get("engine")), str(entry.get("injection") or ""))
        for entry in known
        if entry.get("engine")
    )
