# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the files that a plan writes."""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Plan
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.engine_view import (
    reader,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.spec.model import (
    Spec,
)


def map_written_files(plan: Plan) -> dict[str, str]:
    """Return the text of each file that a plan writes, by its path."""
    return {str(c["path"]): c["content"] for c in plan.changes if c["op"] == "write"}


def map_written_specs(plan: Plan) -> dict[str, Spec]:
    """Return each file that a plan writes, by its path, as the CDI spec that it is."""
    return {path: reader.parse_spec(text) for path, text in map_written_files(plan).items()}
