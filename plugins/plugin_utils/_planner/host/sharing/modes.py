# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The GPUs of one host with their compute modes and time slices, as nvidia-smi reports them, and
the option's entry for each.

Only the driver keeps compute modes and time slices, and they are gone when it is loaded again.
nvidia-smi is asked only on hosts for which the option is set: it asks NVML, which an everyday look
does not.
"""

from __future__ import annotations

import dataclasses as dc
import re
from collections.abc import Mapping

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.facts import Fact
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import SeenGpu
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
    ObservedCommand,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.sharing import (
    gpu_names,
    messages,
    wanted,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.sharing.wanted import (
    OPTION,
    GpuEntry,
    Interval,
)

SERVICE = "gpufleet-sharing.service"  # sets them at boot and whenever the driver is loaded
# with these a GPU is there, and keeps its modes
AFTER = "nvidia-persistenced.service gpufleet-device-nodes.service"
PROGRAM = "nvidia-smi"
SECONDS = 20
GOOD = (0, 14)  # 14: the infoROM of a GPU is damaged; the answer is whole
QUERY = [
    PROGRAM,
    "--query-gpu=index,uuid,pci.bus_id,compute_mode,mig.mode.current",
    "--format=csv,noheader",
]
ROW = re.compile(
    r"(\d{1,9}), (GPU-[0-9a-fA-F-]+), ([0-9A-Fa-f:.]+), (\[?\w[\w /]*\]?), (\[?\w[\w /]*\]?)"
)
# Its table is not documented. A row has the GPU's number, the name of the policy and its value,
# whatever stands between them.
SLICES = [PROGRAM, "compute-policy", "--list"]
SLICE = r"(?i)^\W*(?:GPU\W*)?(\d{1,9})\b.*\btime ?slice\W+(default|short|medium|long)\b"
VALUE = r"(?i)\btime ?slice\W+(default|short|medium|long)\b"
PROHIBITED = "PROHIBITED"  # no process at all: only a person sets that, to keep a GPU out of use
COMPUTE_MODES = ("DEFAULT", "EXCLUSIVE_THREAD", PROHIBITED, "EXCLUSIVE_PROCESS")
MODES = queries.ask_for_command(QUERY, timeout=SECONDS, shows=(ROW.pattern,))
TIME_SLICES = queries.ask_for_command(SLICES, timeout=SECONDS, shows=(SLICE,))


@dc.dataclass(frozen=True)
class Modes:
    """A GPU as it is now. interval: '' if it is not known. mig: MIG is switched on."""

    index: int
    uuid: str
    bus: str
    compute_mode: str
    mig: bool
    model: str = ""
    interval: Interval = ""

    @property
    def name(self) -> str:
        return gpu_names.name_shared_gpu(self.uuid, self.bus)


@dc.dataclass(frozen=True)
class ModeFacts:
    """A host's facts about the modes of its GPUs. Reading one raises NeedMore if nvidia-smi was not
    asked, and PlanError if its answer is not understood: what is not known is not changed.

    gpus: every GPU that serves. intervals: the time slice of each, by its index. served, slices_served:
    whether nvidia-smi has answered the question for modes, and the one for time slices.
    """

    gpus: Fact[tuple[Modes, ...]]
    intervals: Fact[Mapping[int, Interval]]
    served: Fact[bool]
    slices_served: Fact[bool]


def read_mode_facts(obs: Observation) -> ModeFacts:
    def read_whether_served(question: queries.Question) -> bool:
        answer = obs.get_answer_or_error(question)
        return not answer.get("error") and answer.get("rc") in GOOD

    return ModeFacts(
        Fact(lambda: _read_gpus(obs)),
        Fact(lambda: _read_intervals(obs)),
        Fact(lambda: read_whether_served(MODES)),
        Fact(lambda: read_whether_served(TIME_SLICES)),
    )


def get_gpu_modes(
    facts: ModeFacts, gpus: tuple[SeenGpu, ...], *, slices: bool
) -> tuple[Modes, ...]:
    """Return every GPU that serves, with what the everyday look knows of it. Raise PlanError if
    modes are not known.

    gpus: of the everyday look. slices: time slices count as well.
    """
    modes = facts.gpus.value
    by_index = facts.intervals.value if slices else {}
    models = {gpu.bus_id: gpu.model for gpu in gpus}
    shared = {gpu.bus_id for gpu in gpus if gpu.migs}
    return tuple(
        dc.replace(
            gpu,
            mig=gpu.mig or gpu.bus in shared,
            model=models.get(gpu.bus, ""),
            interval=by_index.get(gpu.index, ""),
        )
        for gpu in modes
    )


def _read_gpus(obs: Observation) -> tuple[Modes, ...]:
    said = obs.get_command(QUERY)
    require_smi_answer(said, QUERY)
    rows = [
        (line, ROW.fullmatch(line.strip())) for line in said.stdout.splitlines() if line.strip()
    ]
    broken = [
        line
        for line, match in rows
        if not match or parse_compute_mode(match.group(4)) not in COMPUTE_MODES
    ]
    if broken:
        raise PlanError(messages.ODD_MODES.fill(line=repr(broken[0]), command=" ".join(QUERY)))
    if not rows:
        raise PlanError(messages.NO_MODES.fill(command=" ".join(QUERY)))
    return tuple(
        Modes(
            index=int(row.group(1)),
            uuid=row.group(2),
            bus=wanted.format_bus_id(row.group(3)),
            compute_mode=parse_compute_mode(row.group(4)),
            mig=row.group(5).lower() == "enabled",
        )
        for row in (match for _line, match in rows if match)
    )


def require_smi_answer(said: ObservedCommand, argv: list[str]) -> None:
    if said.rc not in GOOD:
        raise PlanError(messages.MODES_FAILED.fill(command=" ".join(argv), status=said.rc))


def parse_compute_mode(text: str) -> str:
    """Return a compute mode in the form that sets it: EXCLUSIVE_PROCESS for Exclusive_Process in
    reports.
    """
    return text.strip().upper().replace(" ", "_")


def _read_intervals(obs: Observation) -> dict[int, Interval]:
    said = obs.get_command(SLICES)
    require_smi_answer(said, SLICES)
    matches = (re.search(SLICE, line) for line in said.stdout.splitlines())
    return {int(match.group(1)): match.group(2).lower() for match in matches if match}  # type: ignore[misc]


def require_known_modes(gpu: Modes) -> None:
    if not gpu.interval:
        raise PlanError(messages.NO_TIME_SLICE.fill(gpu=gpu.name, command=" ".join(SLICES)))


def resolve_mode_entries(
    entries: tuple[GpuEntry, ...], gpus: tuple[Modes, ...]
) -> tuple[tuple[tuple[Modes, GpuEntry], ...], tuple[str, ...]]:
    """Return each named GPU with its entry, and the warnings.

    Raise PlanError if an entry names none, if two name one, or if MIG is on.
    """
    resolved: dict[str, tuple[Modes, GpuEntry]] = {}
    advice = []
    for entry in entries:
        named = [gpu for gpu in gpus if entry.names(gpu.uuid, gpu.bus, gpu.model, gpu.index)]
        if not named:
            raise gpu_names.build_unknown_gpu_error(
                OPTION, entry.key, ((gpu.uuid, gpu.bus, gpu.model) for gpu in gpus)
            )
        for gpu in named:
            if gpu.uuid in resolved:
                raise wanted.build_two_entries_error(resolved[gpu.uuid][1], entry, gpu.name)
            if gpu.mig:
                raise PlanError(messages.MIG_ON.fill(key=entry.key, gpu=gpu.name))
            resolved[gpu.uuid] = (gpu, entry)
        if entry.kind == "index":
            advice.append(messages.NAMED_BY_INDEX.fill(index=entry.key, uuid=named[0].uuid))
    return tuple(resolved.values()), tuple(advice)
