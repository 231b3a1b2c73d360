# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Handle the specs of others that define the devices of this collection: what is taken over, what
goes, and what the plan stops at.
"""

from __future__ import annotations

import dataclasses as dc
import posixpath
from collections.abc import Callable

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Leftover,
    Plan,
    Policy,
    merge_plans,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
    ObservedFile,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import owned_file
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.adoption import (
    cdi_files,
    cdi_refresh,
    gpu_operator,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi import (
    described,
    files,
    messages,
    other_files,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.engine_view import (
    reader,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.spec.model import (
    KIND,
    Spec,
)


@dc.dataclass(frozen=True)
class ContestedFacts:
    """A host's facts about specs that others may have written for the same devices."""

    files: files.SpecFileFacts
    refresh: cdi_refresh.RefreshFacts


def read_contested_facts(obs: Observation) -> ContestedFacts:
    return ContestedFacts(
        files.read_spec_file_facts(obs),
        cdi_refresh.read_refresh_facts(obs),
    )


def plan_refresh_removal(policy: Policy, facts: ContestedFacts) -> Plan:
    """Plan the removal of nvidia-cdi-refresh's file.

    The module `cdi_refresh` plans the units, and the file of units that come with this run's
    packages.
    """
    if (
        policy.root != "/"
        or not files.has_refresh_kind(policy)
        or files.get_spec_path(policy, KIND) == cdi_refresh.REFRESH_FILE
    ):
        return Plan()
    file = files.get_seen_file(policy, facts.files, cdi_refresh.REFRESH_FILE)
    if not file.exists or files.is_own_spec(file):
        return Plan()
    mine = files.get_spec_path(policy, KIND)
    if not facts.refresh.state.value.present:
        other_files.require_explained(policy, file, messages.WOULD_HIDE.fill(mine=mine))
    why = messages.REFRESH_HIDES.fill(mine=mine)
    left = Leftover(
        cdi_files.REFRESH, cdi_refresh.REFRESH_FILE, (), True, "adopted", why, cdi_refresh.LEAVE_IT
    )
    return dc.replace(
        owned_file.plan_owned_file_removal(file, why=why, cause="adoption"), leftovers=(left,)
    )


def plan_specs_of_others(policy: Policy, facts: ContestedFacts, spec: Spec) -> Plan:
    """Plan the handling of other files that define our devices: what nvidia-ctk wrote goes.

    Raise PlanError if engines would drop or hide our spec for another.
    """
    mine = files.get_spec_path(policy, spec.kind)
    if spec.kind == KIND and (generator := facts.refresh.generator.value):
        raise generator.build_refusal()
    own = {
        *(files.get_spec_path(policy, name) for name, _layout in files.list_spec_kinds(policy)),
        *(f.path for f in files.list_specs_elsewhere(policy, facts.files)),
    }
    themselves = files.list_real_spec_paths(policy, facts.files)
    there = files.get_seen_file(policy, facts.files, mine)
    plans = (
        []
        if files.is_own_spec(there) or leaves_as_it_is(policy, facts, there, spec)
        else [other_files.plan_spec_at_own_path(policy, there, spec)]
    )
    if policy.root == "/" and files.has_refresh_kind(policy) and mine != cdi_refresh.REFRESH_FILE:
        other_files.require_no_chosen_names(
            policy,
            files.get_seen_file(policy, facts.files, cdi_refresh.REFRESH_FILE),
            spec,
            messages.WOULD_HIDE.fill(mine=mine),
        )
    for directory in files.list_cdi_directories(policy):
        for file in facts.files.directories.get(directory):
            itself = file.path in (*own, cdi_refresh.REFRESH_FILE) or (
                file.real in themselves and not file.is_link
            )
            if not itself and (file.error or file.type == "file"):
                plans.append(
                    other_files.plan_other_spec(
                        policy, file, mine, spec, outranked=is_outranked(policy, directory, mine)
                    )
                )
    return merge_plans(plans)


def list_management_specs(
    policy: Policy, facts: files.SpecFileFacts, state: Callable[[str], gpu_operator.State]
) -> tuple[Leftover, ...]:
    """Return the specs of others for management containers. state: gives that of the GPU Operator's
    toolkit that left a file.
    """
    own = {files.get_spec_path(policy, name) for name, _layout in files.list_spec_kinds(policy)}
    every = [
        file
        for directory in files.list_cdi_directories(policy)
        for file in facts.directories.get(directory)
        if not files.is_own_spec(file)
    ]
    return tuple(
        left
        for file in every
        if file.path not in own
        for left in other_files.list_management_leftover(file, state)
    )


def advise_on_dropped_devices(policy: Policy, facts: files.SpecFileFacts) -> tuple[Message, ...]:
    """Name the files of one directory that define the same device, where another program owns the
    spec: engines give such a device to no container.
    """
    said = []
    for directory in files.list_cdi_directories(policy):
        first: dict[str, str] = {}
        for file in facts.directories.get(directory):
            unread = file.error or file.fault or not file.path.endswith(reader.SUFFIXES)
            spec = None if unread else other_files.parse_other_spec(file)
            names = list(spec.names) if spec else []
            double = next((name for name in names if name in first), "")
            if double:
                values = {"path": file.path, "other": first[double], "device": double}
                said.append(messages.DROPPED_FOR_ANOTHER.fill(**values))
            for name in names:
                first.setdefault(name, file.path)
    return tuple(said)


def leaves_as_it_is(policy: Policy, facts: ContestedFacts, there: ObservedFile, spec: Spec) -> bool:
    """Tell whether adopt: never leaves a file at our path.

    It leaves a file that defines the same as our spec, and that of nvidia-cdi-refresh, which
    cdi_owner decides about.
    """
    if policy.adopt != "never":
        return False
    of_units = there.path == cdi_refresh.REFRESH_FILE and facts.refresh.state.value.present
    return of_units or (
        not there.is_link
        and owned_file.has_right_mode(there, files.SPEC_MODE)
        and described.is_same_spec(there.content or "", spec)
    )


def is_outranked(policy: Policy, directory: str, mine: str) -> bool:
    """Tell whether engines prefer our spec to those of this directory."""
    order = files.list_cdi_directories(policy)
    return order.index(directory) < order.index(posixpath.dirname(mine))
