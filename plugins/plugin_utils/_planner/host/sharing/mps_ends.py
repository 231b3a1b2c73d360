# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plan the end of MPS daemons, once they have no clients."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import (
    transaction,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    NeedMore,
    PlanError,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Difference,
    Plan,
    Policy,
    merge_plans,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import (
    host_service,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.lowering import (
    add_cause,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.sharing import (
    gpu_holders,
    messages,
    mps_facts,
    mps_files,
    mps_places,
)

NOT_LOADED = 5  # systemctl: there is no such unit, so nothing to stop
GONE = messages.DAEMON_GONE.fill()


def require_idle(
    policy: Policy, facts: mps_facts.MpsFacts, gpus: Iterable[str], minors: Mapping[str, int]
) -> None:
    """Raise PlanError if a daemon that has to end, or to begin again, has clients.

    `restart: force` skips the check, for a user who accepts that clients end.
    """
    ends = {str(minors[gpu]): gpu for gpu in gpus if gpu in minors}
    if not ends or policy.restart == "force":
        return
    answer = facts.holders.value
    for minor, gpu in ends.items():
        users = gpu_holders.map_groups_to_holders(answer, minor, without=mps_facts.OWN_GROUP)
        if users:
            raise PlanError(
                messages.DAEMON_IN_USE.fill(gpu=gpu, users=gpu_holders.describe_some_holders(users))
            )
    problem = gpu_holders.explain_unknown_holders(answer)
    if problem:
        raise PlanError(
            messages.DAEMON_USE_UNKNOWN.fill(gpus=", ".join(ends.values()), problem=problem)
        )


def plan_mps_ends(
    facts: mps_facts.MpsFacts, gpus: Iterable[str], here: Container[str] = ()
) -> Plan:
    """Plan the commands that end daemons and remove what they made, if the program that an earlier
    run left exists.

    here: the GPUs of this host, whose daemons end by the policy; those of others end since their
    GPU is gone.
    """
    clears = all(
        facts.files.get(path).exists
        for path in (host_service.get_program_path(mps_files.NAME), mps_files.SETTINGS)
    )
    commands: list[transaction.PackageCommand] = []
    ended: list[Difference] = []
    for gpu in gpus:
        unit = mps_files.name_mps_service(gpu)
        ended.append(
            Difference(
                "unit",
                unit,
                "state",
                "active",
                "stopped",
                GONE,
                "policy" if gpu in here else "hardware_gone",
            )
        )
        back = ["systemctl", "start", unit]
        commands.append(
            {
                "argv": ["systemctl", "stop", unit],
                "timeout": mps_files.PATIENCE + 60,
                "why": GONE,
                "accepts": [NOT_LOADED],
                "undo": back,
            }
        )
        if clears:
            commands.append(
                {
                    "argv": host_service.build_service_command(mps_files.NAME, "clear", gpu),
                    "timeout": 30,
                    "why": GONE,
                }
            )
    return Plan(tuple(ended), tuple(commands))


def plan_mps_removal(
    policy: Policy, facts: mps_facts.MpsFacts, minors: Callable[[], Mapping[str, int]], why: str
) -> Plan:
    """Plan the end of each daemon, once it has no clients, and the removal of the files."""
    if not all(facts.asked.has(q) for q in mps_facts.list_mps_files() if q["kind"] == "file"):
        raise NeedMore(mps_facts.list_mps_files())
    here = policy.root == "/"
    recorded = mps_facts.read_kept_limits(facts) if here else {}
    daemons = recorded or (mps_facts.find_unrecorded_daemons(facts) if here else {})
    require_idle(policy, facts, daemons, minors() if daemons else {})
    back = host_service.plan_service_removal(
        policy, facts.service, mps_files.NAME, mps_files.TEMPLATES, why
    )
    if back.empty:
        return back
    stay = [gpu for gpu in daemons if gpu not in recorded]
    said = Plan(
        advice=tuple(
            messages.PLACES_STAY.fill(path=mps_files.SETTINGS, places=list_left_places(gpu))
            for gpu in stay
        )
    )
    return merge_plans([plan_mps_ends(facts, daemons, daemons), add_cause(back, "policy"), said])


def list_left_places(gpu: str) -> str:
    return f"{mps_places.ROOT}{gpu} and {mps_places.get_mps_directory(gpu, 'log')}"
