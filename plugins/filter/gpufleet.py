# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filters that make output for people. They hold no logic; that is in plugin_utils."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.report import fleet_hosts


def gpufleet_table(results: Any, details: bool = False) -> list[str]:
    """Lines of text from a dictionary of host names and results of the node or node_info module."""
    if not isinstance(results, Mapping):
        raise AnsibleFilterError(f"gpufleet_table wants a dictionary of host names and results, not {type(results).__name__}")
    known = {str(host): result if isinstance(result, Mapping) else {} for host, result in results.items()}
    return fleet_hosts.lines(known, fleet_hosts.View(details=details))


class FilterModule:
    def filters(self) -> dict[str, Any]:
        return {"gpufleet_table": gpufleet_table}
