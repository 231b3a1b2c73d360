# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the GPUs that nvidia-smi reports.

It is the second source, for hosts whose Python cannot load NVML (no ctypes, another architecture).
"""

from __future__ import annotations

import re

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    NeedMore,
    PlanError,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
    ObservedCommand,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.devices import (
    messages,
    nvml,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.devices.inventory import (
    GpuFacts,
    MigDevice,
    SourceAnswer,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import gpus

SOURCE = "nvidia-smi"
QUERY = [
    "nvidia-smi",
    "--query-gpu=index,uuid,pci.bus_id,mig.mode.current,name",
    "--format=csv,noheader",
]
LIST = ["nvidia-smi", "-L"]
SECONDS = 20
GOOD = (0, 14)  # 14: the infoROM of a GPU is damaged; the answer is whole
ROW = re.compile(r"(\d{1,9}), (\S+), ([0-9A-Fa-f:.]+), (\[?\w[\w /]*\]?), (.+)")
GPU_LINE = re.compile(r"GPU (\d{1,9}): ")
# Drivers before R470 name a MIG device by its instances.
MIG_LINE = re.compile(
    r"\s+MIG (?P<profile>\S+)\s+Device\s+(?P<index>\d{1,9}): "
    r"\(UUID: (?P<uuid>MIG-[^)]+?(?:/(?P<gi>\d{1,9})/(?P<ci>\d{1,9}))?)\)"
)
FATAL = {
    nvml.MISMATCH: messages.NVIDIA_SMI_MISMATCH,
    nvml.NOT_LOADED: messages.NVIDIA_SMI_NOT_LOADED,
    nvml.LOST: messages.NVIDIA_SMI_GPU_LOST,
}
MODES = {"enabled": True, "disabled": False}


def list_nvidia_smi_questions(policy: Policy) -> list[queries.Question]:
    """List the two commands to run, in the driver's root if it has one of its own.

    Such a driver brings its own nvidia-smi, which finds its libraries only there.
    """
    root = policy.cdi_driver_root.rstrip("/")
    there = ["chroot", root] if root else []
    asked = (
        queries.ask_for_command([*there, *argv], timeout=SECONDS, shows=(".+",))
        for argv in (QUERY, LIST)
    )
    return [{**q, "loads": [f"/usr/bin/{QUERY[0]}"], "base": root} if root else q for q in asked]


def read_nvidia_smi_facts(policy: Policy, obs: Observation) -> SourceAnswer:
    wanted = list_nvidia_smi_questions(policy)
    if not all(obs.was_asked(q) for q in wanted):
        raise NeedMore(wanted)
    rows, listed = (obs.try_command(q["argv"]) for q in wanted)
    for said in (rows, listed):
        refuse_nvidia_smi_error(policy, obs, said)
        if said.error or said.rc not in GOOD:
            return SourceAnswer(
                SOURCE,
                None,
                messages.NVIDIA_SMI_FAILED.fill(problem=explain_nvidia_smi_error(said)),
            )
    migs = map_nvidia_smi_mig_devices(listed.stdout)
    matched = [
        (line, ROW.fullmatch(line.strip())) for line in rows.stdout.splitlines() if line.strip()
    ]
    if not matched:  # nvidia-smi reports that there is no GPU; no output is not such a report
        return SourceAnswer(SOURCE, None, messages.NVIDIA_SMI_SILENT.fill())
    gpus = tuple(read_nvidia_smi_gpu(match, migs) for _line, match in matched if match)
    if len(gpus) != len(matched):
        strange = next(line for line, match in matched if not match)
        return SourceAnswer(
            SOURCE, None, messages.NVIDIA_SMI_STRANGE.fill(line=strange.strip()[:80])
        )
    return SourceAnswer(SOURCE, gpus)


def refuse_nvidia_smi_error(policy: Policy, obs: Observation, said: ObservedCommand) -> None:
    """Raise PlanError if nvidia-smi ended with a fatal code: its exit status is NVML's code."""
    if said.rc in FATAL:
        what = FATAL[said.rc].fill(status=said.rc, problem=explain_nvidia_smi_error(said))
        raise PlanError(what, next=nvml.suggest_nvml_remedy(policy, obs, what))


def explain_nvidia_smi_error(said: ObservedCommand) -> str:
    first = next(
        (line.strip() for line in (said.stdout + "\n" + said.stderr).splitlines() if line.strip()),
        "",
    )
    return said.error or first[:200] or f"status {said.rc}"


def read_nvidia_smi_gpu(row: re.Match[str], migs: dict[int, tuple[MigDevice, ...]]) -> GpuFacts:
    index = int(row[1])
    mode = MODES.get(row[4].strip("[]").lower())
    return GpuFacts(
        index,
        gpus.shorten_bus_id(row[3]),
        gpus.get_known_uuid(row[2]),
        row[5].strip(),
        None,
        mode,
        migs.get(index, ()) if mode else (),
    )


def map_nvidia_smi_mig_devices(text: str) -> dict[int, tuple[MigDevice, ...]]:
    """Map the index of each GPU to its MIG devices.

    Since R470 `-L` does not print the numbers of their instances, so `gi` and `ci` are -1.
    """
    devices: dict[int, tuple[MigDevice, ...]] = {}
    index = -1
    for line in text.splitlines():
        header, mig = GPU_LINE.match(line), MIG_LINE.match(line)
        index = int(header[1]) if header else index
        if mig:
            gi, ci = (int(mig[key]) if mig[key] else -1 for key in ("gi", "ci"))
            device = MigDevice(
                gi, ci, int(mig["index"]), mig["uuid"], mig["profile"], "gfx" in mig["profile"]
            )
            devices[index] = (*devices.get(index, ()), device)
    return devices
