# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Choose the orchestrators that take a host out of service, and ask each how it sees the host.

These are commands of the user's, Slurm and Kubernetes. Each is called on the machine where the task
runs.
"""

from __future__ import annotations

import dataclasses as dc
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    draining_messages,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller.module_calls import Calls
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller.orchestrator import (
    Orchestrator,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller.orchestrator_commands import (
    Commands,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller.orchestrator_kubernetes import (
    Kubernetes,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller.orchestrator_slurm import (
    Slurm,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster import (
    drain,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.kubelet import (
    node_names,
)


def choose_orchestrators(
    action: ActionBase,
    variables: Mapping[str, Any],
    args: Mapping[str, Any],
    work: drain.Work,
    why: str,
    by: Sequence[str],
) -> dict[str, Orchestrator]:
    """Return the orchestrators that are asked: name -> orchestrator."""
    calls = Calls(action, variables)
    host = str(variables.get("inventory_hostname") or "")
    every = (variables.get("groups") or {}).get("all") or ()

    def names(setting: str, of_host: drain.Work = work) -> tuple[str, ...]:
        return drain.list_node_names(args[setting], of_host, host, every, f"gpufleet_{setting}")

    def nodes() -> tuple[str, ...]:
        return node_names.list_possible_node_names(
            names("kubernetes_node", known), host, args["kubernetes_node"]
        )

    # The cluster knows the boot of each node. A host that does not report its boot could claim any
    # node's name.
    known = work if work.boot_id else dc.replace(work, hostname="")

    makers: Mapping[str, Callable[[], Orchestrator]] = {
        drain.COMMANDS: lambda: Commands(calls, args, host, why),
        drain.SLURM: lambda: Slurm(calls, args, names("slurm_node"), why),
        drain.KUBERNETES: lambda: Kubernetes(calls, args, nodes(), why, work.boot_id),
    }
    return {who: makers[who]() for who in by}


def is_orchestrator_required(who: str, args: Mapping[str, Any]) -> bool:
    """Tell whether an orchestrator has to answer even for a host that needs no drain.

    That is so if access to it was configured.
    """
    if who == drain.KUBERNETES and (
        args["kubeconfig"]
        or args["context"]
        or any(name.startswith("K8S_AUTH_") for name in os.environ)
    ):
        return True
    return who == drain.COMMANDS or who in args["by"]


def ask_for_standings(
    every: Mapping[str, Orchestrator],
    args: Mapping[str, Any],
    needed: bool,
    waits: bool = False,
) -> tuple[dict[str, drain.Standing], list[str]]:
    """Return how each orchestrator sees the node, and a sentence for each one that could not be
    asked.

    waits: whether the task waits for an orchestrator that is out of reach. It counts as broken
    until it answers. Raise PlanError for one that cannot be asked, unless the host needs no drain
    and that orchestrator is not required.
    """
    standings: dict[str, drain.Standing] = {}
    silent: list[str] = []
    for who, one in every.items():
        try:
            standings[who] = one.get_standing()
        except PlanError as error:
            if waits and isinstance(error, drain.OutOfReach):
                standings[who] = drain.Standing("broken", str(error))
                continue
            if needed or is_orchestrator_required(who, args):
                raise
            row = draining_messages.ORCHESTRATOR_NOT_ASKED
            silent.append(row.fill(program=who, cause=str(error)))
    return standings, silent


def add_lock_owners(
    every: Mapping[str, Orchestrator], found: Mapping[str, drain.Standing]
) -> tuple[dict[str, drain.Standing], list[str]]:
    """Return the standings with the owner of a lock beside the node, and sentences for what could
    not be read.

    An account that may not read the lock continues without it: the owner of that lock also cordons
    the node at once.
    """
    kubernetes, standing = every.get(drain.KUBERNETES), found.get(drain.KUBERNETES)
    if not isinstance(kubernetes, Kubernetes) or standing is None or standing.obstacle:
        return dict(found), []
    try:
        claimed = kubernetes.find_kured_lock(standing.node)
    except PlanError as error:
        return dict(found), [draining_messages.LOCK_NOT_READ.fill(cause=str(error))]
    return {**found, drain.KUBERNETES: dc.replace(standing, claimed=claimed)}, []
