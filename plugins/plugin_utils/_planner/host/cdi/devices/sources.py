# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Choose the source that lists the devices of a host: NVML, else nvidia-smi, else /proc alone.

Our spec on the host is read too, since it costs nothing and still knows what they reported.

NVML and nvidia-smi use the GPUs, so a sick one can keep them waiting. They are asked only when the
spec on the host cannot be what the everyday look leads to.
"""

from __future__ import annotations

import dataclasses as dc
import re
from collections.abc import Iterable

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.facts import Fact
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.devices import (
    inventory,
    messages,
    names,
    nvidia_smi,
    nvml,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.devices.inventory import (
    Board,
    Hardware,
    MigDevice,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.spec.model import (
    Device,
    Spec,
)

GPU_NODE = re.compile(r"/dev/nvidia\d{1,9}")
TIMEOUT = "timeout"


@dc.dataclass(frozen=True)
class SourceFacts:
    """The devices of a host as each source lists them. Reading a source that was not asked raises
    NeedMore, and one that calls the driver sick raises PlanError.

    timed_out: NVML did not answer in time.
    """

    nvml: Fact[inventory.SourceAnswer]
    timed_out: Fact[bool]
    nvidia_smi: Fact[inventory.SourceAnswer]


def read_source_facts(policy: Policy, obs: Observation, probe_source: str) -> SourceFacts:
    """Return the facts. probe_source: the program that asks NVML."""
    return SourceFacts(
        Fact(lambda: nvml.read_nvml_facts(policy, obs, probe_source)),
        Fact(lambda: has_timed_out(obs, nvml.ask_nvml(policy, obs, probe_source))),
        Fact(lambda: nvidia_smi.read_nvidia_smi_facts(policy, obs)),
    )


def has_timed_out(obs: Observation, question: queries.Question) -> bool:
    answer = obs.get_answer_or_error(question)
    return bool((answer.get("error") or {}).get("kind") == TIMEOUT)


def identify_hardware(facts: SourceFacts, seen: Hardware) -> tuple[Hardware, tuple[str, ...]]:
    """Return the hardware with all that the first source that answers knows, and sentences about
    it.

    If no source answers, the hardware stays as it was seen, and a sentence reports that. Raise
    NeedMore to ask the next source.
    """
    first = facts.nvml.value
    if first.gpus is not None:
        return inventory.complete(seen, first), describe_unserved_gpus(seen, first)
    if facts.timed_out.value:
        # nvidia-smi would wait for the same GPU
        return seen, (messages.NAMED_FROM_PROC.fill(problem=first.trouble),)
    second = facts.nvidia_smi.value
    if second.gpus is not None:
        return inventory.complete(seen, second), (
            messages.NAMED_BY_NVIDIA_SMI.fill(problem=first.trouble),
            *describe_unserved_gpus(seen, second),
        )
    return seen, (messages.NAMED_WITHOUT_BOTH.fill(problem=first.trouble, other=second.trouble),)


def describe_unserved_gpus(seen: Hardware, facts: inventory.SourceAnswer) -> tuple[str, ...]:
    known = {gpu.bus_id for gpu in facts.gpus or ()}
    lost = [b.gpu.bus_id for b in seen.boards if b.gpu.bus_id not in known]
    return (
        (messages.GPU_NOT_LISTED.fill(source=facts.source, gpus=", ".join(lost)),) if lost else ()
    )


# ---------------------------------------------------------------- what our spec on the host still
# knows


def restore_recorded_hardware(seen: Hardware, specs: Iterable[Spec]) -> Hardware:
    """Return the hardware with the UUIDs and counts that our own specs record for the very same
    nodes.

    Values that the specs do not know stay unknown. The instances of a MIG device are in its
    capability nodes, so a device counts as the same one only if those are the same.
    """
    devices = [
        (frozenset(n.path for n in d.edits.device_nodes), d)
        for spec in specs
        for d in spec.devices
        if d.name != names.ALL
    ]
    return dc.replace(
        seen, boards=tuple(restore_recorded_board(seen, board, devices) for board in seen.boards)
    )


def restore_recorded_board(
    seen: Hardware, board: Board, devices: list[tuple[frozenset[str], Device]]
) -> Board:
    if board.devices:
        migs = (
            restore_recorded_mig(
                board, mig, frozenset(inventory.list_mig_node_paths(seen, board, mig)), devices
            )
            for mig in board.devices
        )
        return dc.replace(board, devices=tuple(migs))
    named = [
        d.name
        for paths, d in devices
        if {p for p in paths if GPU_NODE.fullmatch(p)} == {board.path} and not list_cap_nodes(paths)
    ]
    uuid = next((name for name in named if name.startswith("GPU-")), "")
    # A GPU that is in none of our devices may be new, or in MIG mode without an instance: only NVML
    # knows.
    return dc.replace(board, gpu=dc.replace(board.gpu, uuid=board.gpu.uuid or uuid))


def restore_recorded_mig(
    board: Board,
    mig: MigDevice,
    nodes: frozenset[str],
    devices: list[tuple[frozenset[str], Device]],
) -> MigDevice:
    matching = [
        (paths, d.name)
        for paths, d in devices
        if list_cap_nodes(paths) == list_cap_nodes(nodes) and board.path in paths
    ]
    uuid = next((name for _paths, name in matching if name.startswith("MIG-")), "")
    places = [names.BY_INDEX.fullmatch(name) for _paths, name in matching]
    index = next((int(place[2]) for place in places if place and place[2]), mig.index)
    models = [names.BY_MODEL.fullmatch(name) for _paths, name in matching]
    profile = next((model["profile"] for model in models if model), "")
    graphics = any(p.startswith("/dev/dri/") for paths, _name in matching for p in paths)
    return dc.replace(mig, uuid=uuid, index=index, profile=profile, graphics=graphics)


def list_cap_nodes(paths: Iterable[str]) -> frozenset[str]:
    return frozenset(path for path in paths if path.startswith(inventory.CAPS))
