# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read what a host offers to images, from a look of its own. An ordinary look does not ask these questions."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner import decision_file, queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.driver import gpus as driver
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.driver import platforms
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.images import chips, cpu, cuda, dotted, facts
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.model import Gpu, Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.observation import Observation
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.projections.file_places import OWN_RECORD, WHOLE

CPUS = "/proc/cpuinfo"
MACHINE = queries.program("machine", {"path": CPUS})


def device_ids(policy: Policy) -> str:
    return f"{policy.sys_root.rstrip('/')}/bus/pci/devices/*/device"


def questions(policy: Policy) -> list[queries.Question]:
    ids = queries.glob(device_ids(policy), max=64, keep=WHOLE)
    return [*driver.questions(policy), ids, MACHINE, queries.file(decision_file.DECISION_PATH, keep=OWN_RECORD)]


def seen(policy: Policy, obs: Observation, targets: cpu.Targets) -> tuple[facts.Host, str]:
    """Return the host, and the reason if its driver serves no image, else ''."""
    found = driver.parse(policy, obs)
    machine = obs.attempt(MACHINE).get("value") or {}
    serves = found.state == "ok"
    release = dotted.parse(found.version) if serves else None
    ids = {file.path.rsplit("/", 2)[1]: file.text.strip() for file in obs.glob(device_ids(policy), WHOLE)}
    host = facts.Host(
        found.version if serves else "",
        cuda.of_driver(release) if release else None,
        tuple(gpu(g, ids.get(g.bus_id, "")) for g in found.gpus) if serves else (),
        processor(machine, targets),
        library(str(machine.get("library") or "")),
        engines(obs),
    )
    return host, "" if serves else found.evidence


def has_no_gpu(policy: Policy, obs: Observation) -> bool:
    """Tell whether it is certain that the host has no GPU. Then an image for a GPU is not missing there."""
    found = driver.parse(policy, obs)
    return found.state == "none" and found.platform not in platforms.OWN_MODES


def gpu(found: Gpu, device: str) -> facts.Gpu:
    return facts.Gpu(
        found.bus_id,
        found.model,
        chips.compute_capability(int(device, 16)) if facts.is_device(device) else None,
        chips.memory(found.model),
        found.migs > 0,
        chips.brands(found.model),
        chips.serves_forward(found.model),
    )


def processor(machine: dict[str, Any], targets: cpu.Targets) -> cpu.Cpu:
    flags = machine.get("flags")
    known = frozenset(map(str, flags)) if isinstance(flags, list) and flags else None
    return cpu.of(str(machine.get("architecture") or ""), str(machine.get("vendor") or ""), known, "", None, targets)


def library(text: str) -> dotted.Numbers | None:
    """Parse the version of `glibc 2.36`. Return None for another library."""
    name, _blank, version = text.partition(" ")
    return dotted.parse(version) if name == "glibc" else None


def engines(obs: Observation) -> tuple[facts.Engine, ...]:
    """Return the engines as this collection has decided on this host, () if it never did."""
    found = decision_file.parsed(obs.file(decision_file.DECISION_PATH, OWN_RECORD)).get("engines")
    known = [entry for entry in found if isinstance(entry, dict)] if isinstance(found, list) else []
    return tuple(facts.Engine(str(entry.get("engine")), str(entry.get("injection") or "")) for entry in known if entry.get("engine"))
