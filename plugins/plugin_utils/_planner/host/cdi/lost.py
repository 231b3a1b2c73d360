# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find devices that a spec of this collection would lose, and the cause.

A GPU that is off the bus is not gone: after a reset or a boot it is back, and containers ask for it
by the name from before.
"""

from __future__ import annotations

import dataclasses as dc
import re
from collections.abc import Iterable

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import versions
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Cause,
    Driver,
    Plan,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    ObservedFile,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi import (
    fabric_kinds,
    messages,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.engine_view import (
    reader,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.generate import (
    layouts,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.spec.model import (
    Spec,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import missing
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.lowering import (
    Decided,
    add_cause,
)

INDEX, UUID = re.compile(r"\d{1,9}(:\d{1,9})?"), re.compile(r"(GPU|MIG)-.+")


def find_loss_cause(
    policy: Policy,
    facts: missing.MissingGpuFacts,
    driver: Driver,
    file: ObservedFile,
    spec: Spec,
    layout: str,
    decided: Decided,
) -> Cause | None:
    """Return the cause by which devices of our file go once `spec` replaces it; None if none goes.

    Raise PlanError if a GPU may be there and does not answer. `decided` raises it if a newer CDI
    version could lock out an engine that does not answer.
    """
    try:
        was = reader.parse_spec(file.content or "")
    except ValueError:
        return None  # no engine reads it
    if is_later_version(spec.version, was.version):
        decided()
    gone = {d.name for d in was.devices} - {d.name for d in spec.devices}
    if gone and layout in layouts.FABRIC:
        return (
            "hardware_gone"
            if any(fabric_kinds.grants(policy, layout, name) for name in gone)
            else "policy"
        )
    wanted = [
        name
        for name in sorted(gone)
        if layout not in layouts.BY_SHARING and is_name_asked(policy, name)
    ]
    if not wanted:
        return "policy" if gone else None
    require_named(policy, spec, file, wanted)
    missing.require_gone(policy, facts, driver, file.path, wanted)
    return "hardware_gone"


def explain_spec_loss(
    policy: Policy, facts: missing.MissingGpuFacts, driver: Driver, decided: Decided,
    planned: Plan, file: ObservedFile, spec: Spec, layout: str, *, own: bool,
) -> Plan:  # fmt: skip
    """Return the plan that writes `spec` over `file`, with the cause of what goes.

    own: whether the file is this collection's.
    """
    if not planned.changes or not file.exists:
        return planned
    why = find_loss_cause(policy, facts, driver, file, spec, layout, decided) if own else "adoption"
    return dc.replace(
        planned,
        differences=tuple(d if d.cause else dc.replace(d, cause=why) for d in planned.differences),
    )


def explain_spec_handover(policy: Policy, owner: str, gone: Plan, decided: Decided) -> Plan:
    """Return the plan by which our specs go, with its cause.

    They go to another owner, or because nothing reads them. The engines' answers give the cause,
    unless the policy names the owner.
    """
    theirs = owner == "toolkit"
    if not gone.changes or (theirs and policy.cdi_owner == "toolkit"):
        return add_cause(gone, "policy")
    why = decided()
    return add_cause(gone, "adoption" if theirs else why)


def explain_hardware_loss(
    policy: Policy, facts: missing.MissingGpuFacts, driver: Driver, gone: Plan
) -> Plan:
    """Return the plan by which our specs go with the last GPU, with its cause.

    Raise PlanError if a GPU may be there.
    """
    for change in gone.changes:
        missing.require_gone(policy, facts, driver, change["path"], ["all its devices"])
    return add_cause(gone, "hardware_gone")


def is_later_version(version: str, than: str) -> bool:
    one, other = versions.parse_engine_version(version), versions.parse_engine_version(than)
    return bool(one and other and other < one)


def is_name_asked(policy: Policy, name: str) -> bool:
    """Tell whether the policy asks for devices with names of this form."""
    style = "index" if INDEX.fullmatch(name) else "uuid" if UUID.fullmatch(name) else ""
    return not style or style in policy.cdi_device_names


def require_named(policy: Policy, spec: Spec, file: ObservedFile, gone: Iterable[str]) -> None:
    """Raise PlanError for a spec that lacks names only because the UUIDs of its GPUs are not known."""
    names = [d.name for d in spec.devices]
    indexes, uuids = (sum(bool(form.fullmatch(name)) for name in names) for form in (INDEX, UUID))
    if {"index", "uuid"} <= set(policy.cdi_device_names) and uuids < indexes:
        raise PlanError(messages.UUIDS_UNKNOWN.fill(names=", ".join(gone)), where=file.path)
