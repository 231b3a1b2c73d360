# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make the CDI specs of a host as they have to be, one for each kind of device."""

from __future__ import annotations

import contextlib
import dataclasses as dc
import functools
from collections.abc import Mapping

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    HostDecision,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    ObservedFile,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import (
    owned_file,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi import (
    described,
    driver_part,
    fabric_kinds,
    files,
    messages,
    shared_kinds,
    spec_facts,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.devices import (
    inventory,
    sources,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.driver_files import (
    catalogue,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.engine_view import (
    reader,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.generate import (
    build,
    layouts,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.spec import version
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.spec.model import (
    Spec,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import (
    outer_host,
)


@dc.dataclass(frozen=True)
class Made:
    """The specs as they have to be, by kind.

    source: what listed the devices. notes: what a person should know. missing: the nodes that the
    kinds lack, also of a kind that has no spec since all its nodes are missing.
    """

    specs: Mapping[str, build.Generated]
    source: str
    notes: tuple[str, ...] = ()
    of: driver_part.DriverPart | None = None
    missing: tuple[str, ...] = ()

    @property
    def devices(self) -> tuple[str, ...]:
        return tuple(name for made in self.specs.values() for name in made.spec.names)


NOTHING_MADE = Made({}, "")


def make_specs(policy: Policy, facts: spec_facts.SpecFacts, host: HostDecision) -> Made:
    """Make the specs as they have to be.

    NVML or nvidia-smi use the GPUs only if our specs on the host cannot be the right ones. Raise
    NeedMore to ask them.
    """
    look = facts.hardware.value
    make_of = functools.partial(generate_specs, policy, host, facts.of_driver.value)
    made = make_of(look)
    # before a source uses the GPUs: NVML makes missing nodes if root asks it, also in check mode
    require_spec_nodes(policy, facts, made)
    if policy.root != "/":
        return made
    known = sources.restore_recorded_hardware(look, list_recorded_specs(policy, facts.files))
    made = made if known == look else make_of(known)
    if all(
        is_right(get_own_spec_file(policy, facts.files, one.spec), one.spec)
        for one in made.specs.values()
    ):
        return made
    full, words = sources.identify_hardware(facts.sources, known)
    made = make_of(full, words)
    require_spec_nodes(policy, facts, made)
    return made


def generate_specs(
    policy: Policy,
    host: HostDecision,
    of: driver_part.DriverPart,
    look: inventory.Hardware,
    words: tuple[str, ...] = (),
) -> Made:
    """Make one spec for each kind, and none if no device would be in it."""
    parts = {
        name: (get_layout_part(policy, look, layout), layout)
        for name, layout in files.list_spec_kinds(policy)
    }
    all_of_them = {
        name: generate_one_spec(policy, host, of, part, name, layout)
        for name, (part, layout) in parts.items()
    }
    specs = {name: one for name, one in all_of_them.items() if one.spec.devices}
    optional = (*layouts.BY_SHARING, *fabric_kinds.list_unasked_layouts(policy))
    lacking = [
        name
        for name, (_part, layout) in parts.items()
        if name not in specs and layout not in optional
    ]
    empty = [messages.NO_DEVICE_OF_KIND.fill(kind=name) for name in lacking]
    notes = tuple(dict.fromkeys(note for one in all_of_them.values() for note in one.notes))
    missing = tuple(dict.fromkeys(path for one in all_of_them.values() for path in one.missing))
    return Made(specs, look.source, (*words, *notes, *of.notes, *empty), of, missing)


def get_layout_part(policy: Policy, look: inventory.Hardware, layout: str) -> inventory.Hardware:
    """Return the part of the hardware that a layout is about."""
    return fabric_kinds.get_fabric_part(
        policy, shared_kinds.get_shared_part(policy, look, layout), layout
    )


def generate_one_spec(
    policy: Policy,
    host: HostDecision,
    of: driver_part.DriverPart,
    look: inventory.Hardware,
    name: str,
    layout: str,
) -> build.Generated:
    options = build.Options(
        kind=name,
        cap=host.cdi_version_cap,
        layout=layout,
        names=policy.cdi_device_names,
        node_attributes=policy.cdi_node_attributes,
        group_ids=policy.cdi_group_ids,
        above_cap=policy.cdi_above_cap,
        assume_nodes=policy.root != "/" and not look.shows_nodes,
        features=frozenset(policy.cdi_features or catalogue.FEATURES),
        void_mount=of.void_mount,
    )
    made = build.generate(look, options, of.common, of.build_edits_of_drm)
    too_new = version.list_needs_above_cap(made.spec, host.cdi_version_cap)
    if too_new:
        raise PlanError(
            messages.READERS_TOO_OLD.fill(version=host.cdi_version_cap, needs="; ".join(too_new))
        )
    return made


def require_spec_nodes(policy: Policy, facts: spec_facts.SpecFacts, made: Made) -> None:
    if made.missing and policy.cdi_missing_nodes == "fail":
        inside = facts.outer.value
        row = messages.SPEC_NODE_MISSING if policy.root == "/" else messages.NODE_MISSING_IN_TREE
        step = outer_host.suggest_nodes_remedy(inside) if inside else ""
        step = step or fabric_kinds.suggest_channels_remedy(made.missing)
        raise PlanError(row.fill(nodes=", ".join(made.missing)), next=step)


def list_recorded_specs(policy: Policy, facts: files.SpecFileFacts) -> list[Spec]:
    """Return our own specs on the host, which know what NVML reported when they were made."""
    specs = []
    for file in (
        files.get_seen_file(policy, facts, files.get_spec_path(policy, name))
        for name, _layout in files.list_spec_kinds(policy)
    ):
        with contextlib.suppress(ValueError):
            specs += [reader.parse_spec(file.content or "")] if files.is_own_spec(file) else []
    return specs


def get_own_spec_file(policy: Policy, facts: files.SpecFileFacts, spec: Spec) -> ObservedFile:
    """Return the file that our spec is in, or will be. Raise PlanError if it is a link."""
    file = files.get_seen_file(policy, facts, files.get_spec_path(policy, spec.kind))
    if file.is_link:
        raise PlanError(messages.LINK.fill(target=file.real), where=file.path)
    return owned_file.require_readable(file)


def is_right(file: ObservedFile, spec: Spec) -> bool:
    return (
        file.exists
        and owned_file.has_right_mode(file, files.SPEC_MODE)
        and described.is_same_spec(file.content or "", spec)
    )
