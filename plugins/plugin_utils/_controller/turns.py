# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Change the servers of one Kubernetes cluster one after another, even if a play has several at
once.

Ansible changes the hosts of a batch side by side, in a process each. If two of three members of
etcd restart at once, they have no quorum. So the process that changes a server holds its cluster's
lock until that server's API serves again. The kernel frees the lock of a process that dies. If a
server did not come through, the others stay as they are for the rest of the run.
"""

from __future__ import annotations

import dataclasses as dc
import hashlib
import json
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    claims,
    run_messages,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Plan,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers import known
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.results import results

Change = Callable[[], dict[str, Any]]


def needs_turn(wanted: Policy, plan: Plan) -> bool:
    """Tell whether this change takes a part of a cluster's API away for a moment."""
    return restarts_server(
        [restart.unit for restart in plan.list_acted_restarts(wanted.restart)], wanted
    )


def restarts_server(units: Collection[str], wanted: Policy) -> bool:
    """Tell whether one of these units is a server of a cluster's API, on a running host."""
    return wanted.root == "/" and not set(units).isdisjoint(known.list_server_units())


def apply_in_turn(
    wanted: Policy, plan: Plan, check: bool, host: str, cluster: Callable[[], str], change: Change
) -> dict[str, Any]:
    """Carry a plan out, in turn if it needs one."""
    return (
        take_turn(cluster(), host, change) if needs_turn(wanted, plan) and not check else change()
    )


def take_back_turn(
    units: Collection[str], wanted: Policy, host: str, cluster: Callable[[], str], change: Change
) -> dict[str, Any]:
    """Take back what a killed run has left.

    Do so in turn if that restarts a server, regardless of gpufleet_restart.
    """
    return take_turn(cluster(), host, change) if restarts_server(units, wanted) else change()


def take_turn(cluster: str, host: str, change: Change) -> dict[str, Any]:
    """Carry out a change while no other server of this cluster is changed from this controller.

    Return the change's answer, or a refusal that names the server that did not come through.
    """
    name = f"servers-{hashlib.sha256(cluster.encode()).hexdigest()[:16]}"
    with claims.hold_named_lock(f"{name}.lock") as directory:
        file, mine = directory / f"{name}.begun", claims.find_run_process()
        try:
            first = find_begun_server(file, mine)
        except OSError as error:
            raise claims.build_unusable_claims_error(directory, error) from None
        if first not in ("", host):
            return {"changed": False, "error": {"phase": "precheck", **build_turn_refusal(first)}}
        try:
            file.write_text(
                json.dumps({"process": dc.asdict(mine) if mine else {}, "host": host}),
                encoding="utf-8",
            )
        except OSError as error:
            raise claims.build_unusable_claims_error(directory, error) from None
        answer = change()
        # A conflict has changed nothing on the server: its API serves as before.
        if answer.get("conflict") or not results.describe_answer_trouble(answer):
            file.unlink(missing_ok=True)
        return answer


def build_turn_refusal(first: str) -> dict[str, str]:
    """Return the error of a host that has to wait for another server.

    first: that server.
    """
    message = run_messages.SERVER_WAITS.fill(first=first)
    return {"code": message.code, "message": message.what, "next": message.next}


def find_begun_server(file: Path, mine: claims.Process | None) -> str:
    """Return the server that this run began with and did not bring through; '' if there is none.

    A record that another run has left does not count. Raise OSError if the record cannot be read.
    """
    try:
        begun = json.loads(file.read_text(encoding="utf-8"))
        return str(begun["host"]) if mine and begun["process"] == dc.asdict(mine) else ""
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return ""
