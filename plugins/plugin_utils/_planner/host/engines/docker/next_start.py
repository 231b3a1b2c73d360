# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find what keeps Docker from starting again, whatever is written: the next restart fails, and the
file from before does not help.

One case is a key that a flag sets as well (findConfigurationConflicts in moby's daemon/config): a
reload does not accept it either. The other is live-restore on a node of a Swarm (IsSwarmCompatible
there), which a reload accepts.
"""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import json_text
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Instance,
    Plan,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.docker import (
    config,
    daemon_action,
    desired_config,
    messages,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.docker import (
    facts as docker_facts,
)

LIVE = "live-restore"
# The files that dockerd goes by at its start (loadPersistentState in moby's daemon/cluster):
# without a certificate there is nothing to go back to.
STATE = "/var/lib/docker/swarm/docker-state.json"
CERTIFICATE = "/var/lib/docker/swarm/certificates/swarm-node.crt"


@dc.dataclass(frozen=True)
class Docker:
    """A Docker daemon with its configuration.

    doc: its file as it is. after: the content of the file at the next start. info: the daemon's
    /info, {} for none.
    """

    policy: Policy
    facts: docker_facts.DockerFacts
    instance: Instance
    doc: json_text.JsonDocument
    after: Mapping[str, Any]
    info: Mapping[str, Any]

    @property
    def flags(self) -> config.Flags:
        """The arguments with which the daemon runs, or starts."""
        return self.facts.flags.value

    def find_line(self, key: str) -> int | None:
        return (
            json_text.find_member_line(self.doc, (key,))
            if self.doc.root and key in self.doc.data
            else None
        )


@dc.dataclass(frozen=True)
class Conflict:
    """A combination of settings with which Docker does not start. reload: a reload accepts it."""

    error: PlanError
    reload: bool


def list_swarm_questions(policy: Policy) -> list[queries.Question]:
    """Ask for a Swarm's files in a tree. A daemon that runs reports its Swarm itself."""
    return (
        []
        if policy.root == "/"
        else [queries.ask_for_file(path, content=False) for path in (STATE, CERTIFICATE)]
    )


def require_docker_start(docker: Docker, planned: Plan, lag: daemon_action.Lag) -> Plan:
    """Refuse a plan with a start or a reload that Docker would not survive. In any other plan,
    advise on the conflict.
    """
    here = docker.policy.root == "/"
    reloads, starts = (
        (lag.reload or lag.restart, lag.restart) if here else (bool(planned.changes),) * 2
    )
    for conflict in find_conflicts(docker):
        if starts or (reloads and not conflict.reload):
            raise conflict.error
        planned = dc.replace(planned, advice=(*planned.advice, conflict.error.placed))
    return planned


def find_conflicts(docker: Docker) -> Iterator[Conflict]:
    for key, (flag, *_others) in config.FLAGS.items():
        merged = (
            key == "runtimes"
            and desired_config.parse_docker_series(docker.instance)
            >= desired_config.RUNTIMES_MERGED_SINCE
        )
        if key in docker.after and config.get_flag_value(docker.flags, key) and not merged:
            yield Conflict(explain_twice(docker, key, flag), reload=False)
    in_file = docker.after.get(LIVE) is True
    if (in_file or "true" in config.get_flag_value(docker.flags, LIVE)) and is_swarm_node(docker):
        yield Conflict(explain_swarm(docker, in_file), reload=True)


def explain_twice(docker: Docker, key: str, flag: str) -> PlanError:
    place = (
        f"{docker.doc.path}:{docker.find_line(key)}" if docker.find_line(key) else docker.doc.path
    )
    return PlanError(
        messages.SET_TWICE.fill(key=key, flag=flag, place=place),
        where=docker.flags.where or docker.doc.path,
        line=docker.flags.line if docker.flags.where else docker.find_line(key),
    )


def explain_swarm(docker: Docker, in_file: bool) -> PlanError:
    by_file = messages.SWARM_BY_FILE if docker.policy.root == "/" else messages.SWARM_IN_TREE
    return PlanError(
        (by_file if in_file else messages.SWARM_BY_FLAG).fill(),
        where=docker.doc.path if in_file or not docker.flags.where else docker.flags.where,
        line=docker.find_line(LIVE) if in_file else docker.flags.line,
    )


def is_swarm_node(docker: Docker) -> bool:
    if docker.policy.root != "/":
        return docker.facts.is_there.get(STATE) and docker.facts.is_there.get(CERTIFICATE)
    return str((docker.info.get("Swarm") or {}).get("LocalNodeState") or "inactive") != "inactive"
