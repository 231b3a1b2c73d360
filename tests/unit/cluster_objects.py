# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Objects as the API of a cluster returns them, with who has written what."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster import live, objects


def by(manager: str, thing: Mapping[str, Any]) -> dict[str, Any]:
    """Return a manager's entry for all that an object has."""
    parts = {
        f"f:{part}": {f"f:{k}": {} for k in thing["metadata"].get(part) or {}}
        for part in ("labels", "annotations")
    }
    operation = "Apply" if manager == objects.MANAGER else "Update"
    return {"manager": manager, "operation": operation, "fieldsV1": {"f:metadata": parts}}


def node(name: str, boot_id: str = "boot", **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": f"uid-{name}", **metadata},
        "spec": {},
        "status": {"nodeInfo": {"bootID": boot_id}},
    }


def made(thing: Mapping[str, Any], manager: str = objects.MANAGER) -> dict[str, Any]:
    """Return an object as a manager has applied it."""
    found = copy.deepcopy(dict(thing))
    found["metadata"]["managedFields"] = [by(manager, found)]
    return found


def empty(*names: str, **more: Any) -> live.Live:
    fields = {
        "nodes": {name: node(name) for name in names},
        "config_map": None,
        "classes": {},
        "namespace": True,
        **more,
    }
    return live.Live(**fields)


def doing(plan: live.ClusterPlan) -> list[str]:
    return [call.doing for call in plan.calls]
