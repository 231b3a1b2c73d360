# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ask a host about its MPS daemons, and read the facts and the leftovers of an earlier run."""

from __future__ import annotations

import contextlib
import dataclasses as dc
import re
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import (
    queries,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    PlanError,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.facts import (
    AskedQuestions,
    Fact,
    Lookup,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import (
    json_bounds,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
    ObservedCommand,
    ObservedFile,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections.file_places import (
    WHOLE,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import (
    host_service,
    owned_file,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.sharing import (
    messages,
    mps_files,
    wanted,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.sharing.gpu_holders import (
    HOLDERS,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.sharing.wanted import (
    GpuEntry,
)

FOUND = queries.ask_for_program([mps_files.CONTROL])
MEMORY = queries.ask_for_command(
    ["nvidia-smi", "--query-gpu=uuid,memory.total", "--format=csv,noheader,nounits"],
    timeout=20,
    shows=(r"(GPU-[0-9a-f-]+), (\d{1,9})\b",),
)
DAEMONS = queries.ask_for_processes([mps_files.CONTROL])
# The group of the daemon and of the servers that it starts, below the host's own systemd. In a
# group that is delegated, to a user's manager or a container, its owner names groups at will.
OWN_GROUP = re.compile(
    rf"/system\.slice/(?:[^/]+\.slice/)?gpufleet-{mps_files.NAME}@([0-9A-Za-z-]+)\.service(?:/|$)"
)
# The names that guides and packages give a unit for one daemon of all GPUs.
OTHER_UNITS = ("nvidia-mps.service", "nvidia-cuda-mps.service", "nvidia-cuda-mps-control.service")


def list_mps_entries(policy: Policy) -> tuple[GpuEntry, ...]:
    return tuple(entry for entry in wanted.list_host_entries(policy.sharing) if entry.limits)


def needs_memory(every: Iterable[GpuEntry]) -> bool:
    return any(entry.limits and entry.limits.clients and not entry.limits.memory for entry in every)


def list_mps_questions(policy: Policy) -> list[queries.Question]:
    """Return the questions about what an earlier run has left, and about what daemons need if some
    are wanted.

    The unit of a GPU is asked for by its UUID.
    """
    every = list_mps_entries(policy) if policy.state != "absent" else ()
    units = [mps_files.name_mps_service(entry.key) for entry in every if entry.kind == "uuid"]
    asked = [FOUND, DAEMONS] if every else []
    asked += [MEMORY] if needs_memory(every) else []
    asked += [queries.ask_for_units([*OTHER_UNITS, *units])] if every else []
    return [*asked, *list_mps_files()]


def list_mps_files() -> list[queries.Question]:
    # a template has no state
    return [
        q
        for q in host_service.list_service_questions(mps_files.NAME, mps_files.TEMPLATES)
        if q["kind"] != "units"
    ]


@dc.dataclass(frozen=True)
class MpsFacts:
    """A host's facts about MPS daemons.

    asked: the questions that the look has answered. asked_units: whether any look asked for a unit.
    files: by path. units: the properties of a unit. control: the control program is there. processes: the
    verified ones of the host; unverified: root's other ones; others: how many processes other users
    have, by name. memory: what nvidia-smi reports of GPUs' memory. holders: who has GPUs open, or
    the error.
    """

    asked: AskedQuestions
    asked_units: Lookup[str, bool]
    files: Lookup[str, ObservedFile]
    units: Lookup[str, Mapping[str, str]]
    control: Fact[bool]
    processes: Fact[tuple[Mapping[str, Any], ...]]
    unverified: Fact[tuple[Mapping[str, Any], ...]]
    others: Fact[Mapping[str, int]]
    memory: Fact[ObservedCommand]
    holders: Fact[Mapping[str, Any]]
    service: host_service.ServiceFacts


def read_mps_facts(obs: Observation) -> MpsFacts:
    return MpsFacts(
        obs.get_asked(),
        Lookup(obs.was_unit_asked),
        Lookup(lambda path: obs.get_file(path, WHOLE if path == mps_files.SETTINGS else None)),
        Lookup(obs.get_unit),
        Fact(lambda: bool((obs.get_answer(FOUND).get("found") or {}).get(mps_files.CONTROL))),
        Fact(obs.processes),
        Fact(obs.list_unverified),
        Fact(obs.count_others),
        Fact(lambda: obs.get_command(MEMORY["argv"])),
        Fact(lambda: obs.get_answer_or_error(HOLDERS)),
        host_service.read_service_facts(obs),
    )


def is_mps_running(facts: MpsFacts, gpu: str) -> bool:
    return get_mps_unit_state(facts, mps_files.name_mps_service(gpu)) == "active"


def get_mps_unit_state(facts: MpsFacts, unit: str) -> str:
    """Return a unit's state as systemctl is-active has it, which does not tell a unit that has
    ended from one that was never there.
    """
    return facts.units.get(unit).get("ActiveState", "inactive")


def map_gpu_memory(facts: MpsFacts) -> dict[str, int]:
    """Return UUID -> MiB. Raise PlanError if the memory of the GPUs is not known."""
    said = facts.memory.value
    memory = {
        match.group(1): int(match.group(2))
        for match in re.finditer(str(MEMORY["shows"][0]), said.stdout)
    }
    command = " ".join(MEMORY["argv"])
    if said.rc != 0:
        raise PlanError(messages.MEMORY_UNKNOWN.fill(command=command, status=said.rc))
    if not memory:
        raise PlanError(messages.MEMORY_NOT_NAMED.fill(command=command))
    return memory


def read_kept_limits(facts: MpsFacts) -> dict[str, Any]:
    """Return UUID -> the limits that an earlier run gave its daemon.

    Raise PlanError if the file does not name the daemons that run.
    """
    file = owned_file.require_readable(facts.files.get(mps_files.SETTINGS))
    if not file.exists:
        return {}
    with contextlib.suppress(ValueError, KeyError, TypeError):
        daemons = json_bounds.load_bounded_json(file.content or "")["daemons"]
        if isinstance(daemons, dict) and all(wanted.UUID.fullmatch(gpu) for gpu in daemons):
            return daemons
    raise PlanError(
        messages.DAEMON_RECORD_BROKEN.fill(units=mps_files.name_mps_service("*")),
        where=mps_files.SETTINGS,
    )


def find_unrecorded_daemons(facts: MpsFacts) -> dict[str, Any]:
    """Return the daemons that run although their record was removed, by their control groups."""
    if not facts.files.get(f"{host_service.UNITS}/{mps_files.TEMPLATE}").exists:
        return {}
    facts.asked.require([DAEMONS])
    return {gpu: {} for gpu in own_daemons(facts)}


def own_daemons(facts: MpsFacts) -> list[str]:
    """List the GPUs whose daemons run, by the control groups of services of the host's systemd."""
    groups = (OWN_GROUP.match(str(p.get("cgroup", ""))) for p in facts.processes.value)
    return [match.group(1) for match in groups if match and wanted.UUID.fullmatch(match.group(1))]
