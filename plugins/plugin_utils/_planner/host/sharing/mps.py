# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""GPUs that processes share by MPS: a control daemon for each, as a unit that starts before all
units that start containers.

Each GPU has a daemon of its own, so a daemon's limits, clients and end are those of one GPU. As in
NVIDIA's device plugin (k8s-device-plugin v0.17, cmd/mps-control-daemon/mps/daemon.go), the GPU's
compute mode is EXCLUSIVE_PROCESS, so that the driver refuses processes that bypass the daemon, and
clients have the daemon's directory of sockets and its /dev/shm.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import (
    queries,
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
    Restart,
    merge_plans,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import (
    host_service,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.sharing import (
    messages,
    mps_ends,
    mps_facts,
    mps_files,
    mps_places,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.sharing.modes import (
    PROHIBITED,
    Modes,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.sharing.wanted import (
    GpuEntry,
)

MAKE = ("install", "--directory", "--mode=0755", "--")
QUICK = 10  # seconds, within which a host that boots can undo it as well
NOTHING_THERE = 1  # rmdir
# umount adds 32 for each path on which nothing is mounted, and of the sum only 8 bits are left.
NOT_MOUNTED = tuple(range(32, 256, 32))
STAYS = messages.DAEMON_STAYS.fill()


def plan_mps(
    policy: Policy,
    facts: mps_facts.MpsFacts,
    resolved: Iterable[tuple[Modes, GpuEntry]],
    minors: Mapping[str, int],
    program: str,
) -> Plan:
    """Plan daemons that are missing or have other limits, and the end of daemons that are not
    wanted any more.

    minors: the number of each GPU's device node, by UUID.
    """
    before = mps_facts.read_kept_limits(facts)
    # left alone, with the daemon that it may have
    closed = {gpu.uuid for gpu, _entry in resolved if gpu.compute_mode == PROHIBITED}
    daemons = {
        gpu.uuid: entry.limits
        for gpu, entry in resolved
        if entry.limits and (gpu.uuid not in closed or gpu.uuid in before)
    }
    if not daemons:
        return mps_ends.plan_mps_removal(policy, facts, lambda: minors, mps_ends.GONE)
    require_mps_program(facts)
    require_alone(facts)
    units = [mps_files.name_mps_service(gpu) for gpu in daemons]
    if not all(facts.asked_units.get(unit) for unit in units):
        raise NeedMore([queries.ask_for_units(units)])
    require_loaded(facts, daemons)
    totals = (
        mps_facts.map_gpu_memory(facts)
        if any(limits.clients and not limits.memory for limits in daemons.values())
        else {}
    )
    after = {
        gpu: before[gpu]
        if gpu in closed
        else mps_files.get_daemon_limits(limits.complete_limits(totals.get(gpu, 0)))
        for gpu, limits in daemons.items()
    }
    resident = host_service.Resident(
        mps_files.NAME,
        mps_files.render_mps_units(),
        tuple(units),
        STAYS,
        mps_files.render_mps_settings(after),
        program,
        ("daemons",),
    )
    gone = [gpu for gpu in before if gpu not in after]
    open_ = [gpu for gpu in after if gpu not in closed]
    other = [
        gpu
        for gpu in open_
        if mps_facts.is_mps_running(facts, gpu) and before.get(gpu) != after[gpu]
    ]
    left = other if policy.leaves_restarts else []  # their restart is left to a person
    mps_ends.require_idle(
        policy, facts, [*gone, *(gpu for gpu in other if gpu not in left)], minors
    )
    acts = [
        Restart(mps_files.name_mps_service(gpu), "restart" if gpu in other else "start", STAYS)
        for gpu in open_
        if gpu in other or not mps_facts.is_mps_running(facts, gpu)
    ]
    began = tuple(
        Difference(
            "unit",
            act.unit,
            "state",
            mps_facts.get_mps_unit_state(facts, act.unit),
            "active",
            STAYS,
        )
        for act in acts
        if act.action == "start"
    )
    files = host_service.plan_service(policy, facts.service, resident)
    said = (*advise_on_other_mps(facts), *advise_on_mps_units(facts))
    units_act = Plan(
        differences=began,
        restarts=tuple(acts),
        pending=tuple(map(mps_files.name_mps_service, left)),
        advice=said,
    )
    first = plan_mps_directories(
        gpu for gpu in open_ if gpu not in before and not mps_facts.is_mps_running(facts, gpu)
    )
    return merge_plans([mps_ends.plan_mps_ends(facts, gone, minors), first, files, units_act])


def plan_mps_directories(gpus: Iterable[str]) -> Plan:
    """Plan the directories of new daemons, so that a rollback of the transaction removes them with
    what is mounted there at that time.

    The program that removes them at other times comes with the same transaction, and is gone before
    its commands are undone.
    """
    every = list(gpus)
    if not every:
        return Plan()
    logs = [mps_places.get_mps_directory(gpu, "log") for gpu in every]
    mounted = [mps_places.get_mps_directory(gpu, kind) for gpu in every for kind in mps_files.TMPFS]
    remove = [
        "rm",
        "-rf",
        "--one-file-system",
        "--",
        *(mps_places.ROOT + gpu for gpu in every),
        *logs,
    ]
    tops = build_directory_command(
        mps_places.TOPS,
        ["rmdir", "--ignore-fail-on-non-empty", "--", *mps_places.TOPS],
        NOTHING_THERE,
    )
    return Plan(
        commands=(
            tops,
            build_directory_command(logs, remove),
            build_directory_command(mounted, ["umount", "--lazy", "--", *mounted], *NOT_MOUNTED),
        )
    )


def build_directory_command(
    places: Iterable[str], undo: list[str], *good: int
) -> transaction.PackageCommand:
    """Return the command that makes directories. good: exit statuses of `undo` that are not
    failures, besides 0.
    """
    return {
        "argv": [*MAKE, *places],
        "timeout": QUICK,
        "why": STAYS,
        "undo": undo,
        "undo_within": QUICK,
        "undo_accepts": list(good),
    }


def require_mps_program(facts: mps_facts.MpsFacts) -> None:
    if facts.control.value:
        return
    raise PlanError(messages.NO_CONTROL_PROGRAM.fill())


def require_alone(facts: mps_facts.MpsFacts) -> None:
    """Raise PlanError if another MPS daemon runs.

    It may have the same GPUs, and the driver lets in only the server that is first on a GPU.
    """
    every = [
        p
        for p in (*facts.processes.value, *facts.unverified.value)
        if str(p.get("exe", "")).rpartition("/")[2] == mps_files.CONTROL
    ]
    strange = [p for p in every if not mps_facts.OWN_GROUP.match(str(p.get("cgroup", "")))]
    if strange:
        raise PlanError(messages.OTHER_DAEMON.fill(pid=strange[0]["pid"]))


def advise_on_other_mps(facts: mps_facts.MpsFacts) -> tuple[str, ...]:
    """Return advice about processes of other users with the daemon's name; () if there are none.

    Only the name is known, and any user can choose it, so the run goes on.
    """
    number = facts.others.value.get(mps_files.CONTROL, 0)
    if number == 1:
        return (messages.OTHERS_PROCESS.fill(),)
    return (messages.OTHERS_PROCESSES.fill(number=number),) if number else ()


def advise_on_mps_units(facts: mps_facts.MpsFacts) -> tuple[str, ...]:
    """Return advice about enabled units of another MPS daemon.

    For a unit that runs now, its process is refused instead.
    """
    enabled = [
        unit
        for unit in mps_facts.OTHER_UNITS
        if facts.asked_units.get(unit) and facts.units.get(unit).get("UnitFileState") == "enabled"
    ]
    return tuple(messages.OTHER_UNIT.fill(unit=unit) for unit in enabled)


def require_loaded(facts: mps_facts.MpsFacts, gpus: Iterable[str]) -> None:
    """Raise PlanError for a daemon that runs without a loaded unit.

    systemd continues with a unit whose file is gone, and loads no other file for it while it runs.
    """
    runs = mps_facts.own_daemons(facts)
    for unit in (mps_files.name_mps_service(gpu) for gpu in gpus if gpu in runs):
        if facts.units.get(unit).get("LoadState") != "loaded":
            raise PlanError(messages.UNIT_NOT_LOADED.fill(unit=unit))


# ---------------------------------------------------------------- what stays on the host


# ---------------------------------------------------------------- the end of a daemon
