# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""live-restore on a node of a Swarm: a reload takes it, and dockerd does not start with both (IsSwarmCompatible in moby's daemon/config).

The next restart ends Docker for good, since the file from before has live-restore as well. So no restart is planned there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.formats import json_text
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.model import PlanError, Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.observation import Observation

KEY = ("live-restore",)
# What dockerd goes by at its start (loadPersistentState in moby's daemon/cluster): without a certificate there is nothing to go back to.
STATE = "/var/lib/docker/swarm/docker-state.json"
CERTIFICATE = "/var/lib/docker/swarm/certificates/swarm-node.crt"


def questions(policy: Policy) -> list[queries.Question]:
    """Ask for the files in a tree. A daemon that runs says it itself."""
    return [] if policy.root == "/" else [queries.file(path, content=False) for path in (STATE, CERTIFICATE)]


def belongs(policy: Policy, obs: Observation, info: Mapping[str, Any]) -> bool:
    """Tell whether this Docker is a node of a Swarm. info: the daemon's own word, {} where none runs."""
    if policy.root != "/":
        return obs.exists(STATE) and obs.exists(CERTIFICATE)
    return str((info.get("Swarm") or {}).get("LocalNodeState") or "inactive") != "inactive"


def find_conflict(
    policy: Policy, obs: Observation, doc: json_text.JsonDocument, after: Mapping[str, Any], info: Mapping[str, Any], by_flag: bool
) -> PlanError | None:
    """Give the error for a Docker that would not start again, None where it would.

    doc: the file as it stands. after: what it says at that start. by_flag: the unit says --live-restore.
    """
    in_file = after.get(KEY[0]) is True
    if not (in_file or by_flag) or not belongs(policy, obs, info):
        return None
    way = 'Set "live-restore": false there' if in_file else "Remove the flag --live-restore from Docker's unit"
    step = ", run `systemctl reload docker`" if in_file and policy.root == "/" else ""
    return PlanError(
        "live-restore is on, and this host is a node of a Swarm",
        where=doc.path,
        line=json_text.line_of(doc, KEY) if in_file and doc.root else None,
        why="Docker does not start again with both",
        next=f"{way}{step}, and run again",
    )
