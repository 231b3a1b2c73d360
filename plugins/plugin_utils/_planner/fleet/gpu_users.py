# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who uses the GPUs of a host now, against the policy: containers and services, by the device nodes that their processes hold open.

The kernel says it for every engine alike, and for what no engine has started. A container that was given a GPU and has not opened it yet
is not seen.
"""

from __future__ import annotations

import re
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.model import Driver, PlanError, Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.observation import Observation
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.sharing import modes, mps, wanted

NODE = r"(/.*)?/dev/nvidia(?P<device>\d+)( \(deleted\))?$"
USERS = queries.holders("each GPU", NODE, queries.WATCHERS, groups=True)
# Engines name a container's control group by its identifier: docker-ID.scope, cri-containerd-ID.scope, libpod-ID.scope, or ID alone.
CONTAINER = re.compile(r"(?:^|[/:-])([0-9a-f]{64})(?:\.scope)?(?:/|$)")


def questions(policy: Policy) -> list[queries.Question]:
    """GPUs that a device plugin shares have as many users as it lets in."""
    return [USERS] if wanted.on_host(policy.sharing) and policy.root == "/" and policy.state != "absent" else []


def as_result(policy: Policy, obs: Observation, driver: Driver) -> list[dict[str, Any]]:
    """Each GPU of the option with its policy, who uses it, and what of that the policy does not allow; null where that is not known."""
    if not questions(policy) or driver.state != "ok":
        return []
    try:
        entries = wanted.parse(policy.sharing or {})
        resolved, _advice = modes.resolve(entries, modes.read(obs, driver.gpus, slices=False))
    except PlanError:  # which is the result's `problem`
        return []
    answer = obs.attempt(USERS)
    known = "error" not in answer and not answer.get("closed")
    minors = {gpu.bus_id: str(gpu.minor) for gpu in driver.gpus}
    found = []
    for gpu, entry in resolved:
        users = by_group(answer, minors.get(gpu.bus, ""))
        too_many = entry.policy == "dedicated" and len(users) > 1
        sentence = f"{len(users)} users on a dedicated GPU: {', '.join(user['name'] for user in users)}" if too_many else ""
        state = daemon(obs, mps.service(gpu.uuid)) if entry.limits else ""
        if state and state != "active" and gpu.compute_mode != modes.PROHIBITED:
            sentence = f"its MPS daemon does not serve: {mps.service(gpu.uuid)} is {state}"
        row = {"gpu": gpu.uuid, "bus": gpu.bus, "policy": entry.text, "compute_mode": gpu.compute_mode, "daemon": state, "users": users}
        found.append({**row, "violation": sentence if sentence or known else None})
    return found


def daemon(obs: Observation, unit: str) -> str:
    """The state of its unit; '' where it was not asked for, since the plan was refused before."""
    return obs.unit(unit).get("ActiveState", "not there") if obs.unit_asked(unit) else ""


def by_group(answer: Any, minor: str) -> list[dict[str, Any]]:
    """The processes that hold a GPU's node, by the control group that they run in."""
    groups: dict[str, list[int]] = {}
    for row in answer.get("held") or ():
        if isinstance(row, list) and len(row) == 3 and minor in row[1]:
            groups.setdefault(str(row[2]), []).append(int(row[0]))
    return [{"name": name(group), "pids": sorted(pids)} for group, pids in sorted(groups.items())]


def name(group: str) -> str:
    """A container by the short form of its identifier, everything else by its control group."""
    found = CONTAINER.search(group)
    return f"container {found.group(1)[:12]}" if found else group or "/"
