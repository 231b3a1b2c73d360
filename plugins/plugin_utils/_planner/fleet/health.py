# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The second look at a host after its change: whether it is as desired, serves, and has its GPUs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import change, left_out


def why(result: Mapping[str, Any], host: str, gpus: int) -> str:
    """What is wrong with a host that was changed a while ago, '' where nothing is. gpus: how many it had before its change."""
    found = left_out.broken(result)
    if found:
        return found
    if result.get("differences"):
        return f"it is not as desired any more: {change.place(result['differences'][0])}"
    stopped = sorted({str(i.get("unit") or i.get("engine")) for i in chosen(result) if not i.get("running")})
    if stopped and (result.get("work") or {}).get("boot_id"):  # a directory tree has none, and nothing runs there
        return f"{', '.join(stopped)} does not run"
    now = len((result.get("driver") or {}).get("gpus") or ())
    return f"it had {gpus} GPUs before its change, and has {now}" if now < gpus else ""


def chosen(result: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The engines that were decided for."""
    keys = {str(d.get("instance")) for d in (result.get("decision") or {}).get("decisions") or ()}
    return [i for i in result.get("instances") or () if f"{i.get('engine')}:{i.get('config_path')}" in keys]
