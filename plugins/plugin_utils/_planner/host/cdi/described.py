# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Describe a CDI spec in a few words, as differences show it, and compare a file with a spec."""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    ObservedFile,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import owned_file
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.engine_view import (
    reader,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.spec import (
    stand_ins,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.spec.model import (
    Spec,
)

PARTS = {
    "env": "variables",
    "device_nodes": "device nodes",
    "net_devices": "network devices",
    "hooks": "hooks",
    "mounts": "mounts",
    "additional_gids": "groups",
}


MANY, FEW = 128, 8  # 8 GPUs with 7 MIG devices each have 113 names


def is_same_spec(content: str, spec: Spec) -> bool:
    try:
        there = reader.parse_spec(content)
    except ValueError:
        return False
    return there == spec or reader.is_equal_spec(there, spec)


def summarise_spec_file(file: ObservedFile) -> str | None:
    if not file.exists:
        return None
    if file.fault:
        return f"not a CDI spec that was read: line {file.fault.get('line')}: {stand_ins.explain_unsent_file(file.fault)}"
    try:
        return describe_spec(reader.parse_spec(file.content or ""))
    except ValueError as error:
        return f"not a CDI spec: {error}"


def describe_file_before(file: ObservedFile, spec: Spec, mode: str) -> str | None:
    """Return the file as a difference shows it beside the spec, None if there is no file.

    If both would have the same words, the text adds what differs.
    """
    summary = summarise_spec_file(file)
    if summary != describe_spec(spec):
        return summary
    there = reader.parse_spec(file.content or "")
    if [d.name for d in there.devices] != [d.name for d in spec.devices]:
        return f"{summary}, with other names"
    pairs = [
        (there.edits, spec.edits),
        *((d.edits, s.edits) for d, s in zip(there.devices, spec.devices, strict=True)),
    ]
    parts = [
        f"other {words}"
        for field, words in PARTS.items()
        if any(getattr(of, field) != getattr(wanted, field) for of, wanted in pairs)
    ]
    parts += [] if owned_file.has_right_mode(file, mode) else [f"mode {file.mode & 0o7777:04o}"]
    return f"{summary}, with {' and '.join(parts or [owned_file.name_content(file.content)])}"


def describe_spec(spec: Spec) -> str:
    """Return the version and the names of the devices.

    For a spec with more than MANY devices, as IMEX channels can have, return the first names and
    the number of the others.
    """
    names = [d.name for d in spec.devices]
    shown = names if len(names) <= MANY else [*names[:FEW], f"and {len(names) - FEW} more"]
    return f"CDI {spec.version}: {', '.join(shown)}"
