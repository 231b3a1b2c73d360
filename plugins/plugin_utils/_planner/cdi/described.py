# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A CDI spec in a few words, as differences show it, and whether a file says the same as one."""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cdi.engine_view import reader
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cdi.spec import stand_ins
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cdi.spec.model import Spec
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.observation import File


def same(content: str, spec: Spec) -> bool:
    try:
        there = reader.parse(content)
    except ValueError:
        return False
    return there == spec or reader.equal(there, spec)


def summary(file: File) -> str | None:
    if not file.exists:
        return None
    if file.fault:
        return f"not a CDI spec that was read: line {file.fault.get('line')}: {stand_ins.fault(file.fault)}"
    try:
        return describe(reader.parse(file.content or ""))
    except ValueError as error:
        return f"not a CDI spec: {error}"


def describe(spec: Spec) -> str:
    return f"CDI {spec.version}: {', '.join(d.name for d in spec.devices)}"
