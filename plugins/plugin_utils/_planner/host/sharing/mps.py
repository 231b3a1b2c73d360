# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""GPUs that processes share by MPS: a control daemon for each, as a unit that starts before all
units that start containers.

Each GPU has a daemon of its own, so a daemon's limits, clients and end are those of one GPU. As in
NVIDIA's device plugin (k8s-device-plugin v0.17, cmd/mps-control-daemon/mps/daemon.go), the GPU's
compute mode is EXCLUSIVE_PROCESS, so that the driver refuses processes that bypass the daemon, and
clients have the daemon's directory of sockets and its /dev/shm.

systemd never reloads for this (host_service), so the unit is one template whose text stays. The
settings have the differences.
"""

from __future__ import annotations

import contextlib
import dataclasses as dc
import json
import re
from collections.abc import Callable, Container, Iterable, Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import (
    queries,
    transaction,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    NeedMore,
    PlanError,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.facts import (
    AskedQuestions,
    Fact,
    Lookup,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import (
    json_bounds,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Difference,
    Plan,
    Policy,
    Restart,
    merge_plans,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
    ObservedCommand,
    ObservedFile,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections.file_places import (
    WHOLE,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import (
    host_service,
    owned_file,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.lowering import (
    add_cause,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.sharing import (
    gpu_holders,
    messages,
    modes,
    mps_places,
    wanted,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.sharing.gpu_holders import (
    HOLDERS,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.sharing.modes import (
    PROHIBITED,
    Modes,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.sharing.mps_limits import (
    Limits,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.sharing.wanted import (
    GpuEntry,
)

NAME = "mps"
PROGRAM_NAME = "mps"  # of the program that stays on the host (module_utils/_host/resident)
CONTROL = "nvidia-cuda-mps-control"
TEMPLATE, PLACES = TEMPLATES = (f"gpufleet-{NAME}@.service", f"gpufleet-{NAME}-places@.service")
SETTINGS = host_service.get_settings_path(NAME)
FOUND = queries.ask_for_program([CONTROL])
MEMORY = queries.ask_for_command(
    ["nvidia-smi", "--query-gpu=uuid,memory.total", "--format=csv,noheader,nounits"],
    timeout=20,
    shows=(r"(GPU-[0-9a-f-]+), (\d{1,9})\b",),
)
DAEMONS = queries.ask_for_processes([CONTROL])
# The group of the daemon and of the servers that it starts, below the host's own systemd. In a
# group that is delegated, to a user's manager or a container, its owner names groups at will.
OWN_GROUP = re.compile(
    rf"/system\.slice/(?:[^/]+\.slice/)?gpufleet-{NAME}@([0-9A-Za-z-]+)\.service(?:/|$)"
)
# The names that guides and packages give a unit for one daemon of all GPUs.
OTHER_UNITS = ("nvidia-mps.service", "nvidia-cuda-mps.service", "nvidia-cuda-mps-control.service")
AT_BOOT, PATIENCE = 60, 90  # seconds
# Directories that containers write to, by limit and mode: root of one may fill it, and must not
# fill /run with it. NVIDIA's device plugin gives shm 64 MiB (k8s-device-plugin,
# cmd/mps-control-daemon/mount), as much as Docker gives to one container; here it is for all of a
# GPU. Each file, an empty one as well, takes some 800 bytes of the kernel's memory, which no size
# counts. The daemon logs each command of each client, and no program rotates that: root of a
# container could fill /var by asking.
MOUNTED = "rw,nosuid,nodev,noexec"
TMPFS: Mapping[str, tuple[str, str]] = {
    "pipe": ("size=1m,nr_inodes=1k", "0755"),
    "shm": ("size=1g,nr_inodes=64k", "1777"),
    "log": ("size=16m,nr_inodes=64", "0755"),
}
LOGGED = 4 << 20  # bytes of a log that the next daemon adds to; a longer one goes when it begins
MAKE = ("install", "--directory", "--mode=0755", "--")
QUICK = 10  # seconds, within which a host that boots can undo it as well
NOTHING_THERE = 1  # rmdir
# umount adds 32 for each path on which nothing is mounted, and of the sum only 8 bits are left.
NOT_MOUNTED = tuple(range(32, 256, 32))
NOT_LOADED = 5  # systemctl: there is no such unit, so nothing to stop
STAYS = messages.DAEMON_STAYS.fill()
GONE = messages.DAEMON_GONE.fill()


def name_mps_service(gpu: str) -> str:
    return TEMPLATE.replace("@", f"@{gpu}")


def list_mps_entries(policy: Policy) -> tuple[GpuEntry, ...]:
    return tuple(entry for entry in wanted.list_host_entries(policy.sharing) if entry.limits)


def needs_memory(every: Iterable[GpuEntry]) -> bool:
    return any(entry.limits and entry.limits.clients and not entry.limits.memory for entry in every)


def list_mps_questions(policy: Policy) -> list[queries.Question]:
    """Return the questions about what an earlier run has left, and about what daemons need if some
    are wanted.

    The unit of a GPU is asked for by its UUID.
    """
    every = list_mps_entries(policy) if policy.state != "absent" else ()
    units = [name_mps_service(entry.key) for entry in every if entry.kind == "uuid"]
    asked = [FOUND, DAEMONS] if every else []
    asked += [MEMORY] if needs_memory(every) else []
    asked += [queries.ask_for_units([*OTHER_UNITS, *units])] if every else []
    return [*asked, *list_mps_files()]


def list_mps_files() -> list[queries.Question]:
    # a template has no state
    return [q for q in host_service.list_service_questions(NAME, TEMPLATES) if q["kind"] != "units"]


@dc.dataclass(frozen=True)
class MpsFacts:
    """A host's facts about MPS daemons.

    asked: the questions that the look has answered. asked_units: whether any look asked for a unit.
    files: by path. units: the properties of a unit. control: the control program is there. processes: the
    verified ones of the host; unverified: root's other ones; others: how many processes other users
    have, by name. memory: what nvidia-smi reports of GPUs' memory. holders: who has GPUs open, or
    the error.
    """

    asked: AskedQuestions
    asked_units: Lookup[str, bool]
    files: Lookup[str, ObservedFile]
    units: Lookup[str, Mapping[str, str]]
    control: Fact[bool]
    processes: Fact[tuple[Mapping[str, Any], ...]]
    unverified: Fact[tuple[Mapping[str, Any], ...]]
    others: Fact[Mapping[str, int]]
    memory: Fact[ObservedCommand]
    holders: Fact[Mapping[str, Any]]
    service: host_service.ServiceFacts


def read_mps_facts(obs: Observation) -> MpsFacts:
    return MpsFacts(
        obs.get_asked(),
        Lookup(obs.was_unit_asked),
        Lookup(lambda path: obs.get_file(path, WHOLE if path == SETTINGS else None)),
        Lookup(obs.get_unit),
        Fact(lambda: bool((obs.get_answer(FOUND).get("found") or {}).get(CONTROL))),
        Fact(obs.processes),
        Fact(obs.list_unverified),
        Fact(obs.count_others),
        Fact(lambda: obs.get_command(MEMORY["argv"])),
        Fact(lambda: obs.get_answer_or_error(HOLDERS)),
        host_service.read_service_facts(obs),
    )


def plan_mps(
    policy: Policy,
    facts: MpsFacts,
    resolved: Iterable[tuple[Modes, GpuEntry]],
    minors: Mapping[str, int],
    program: str,
) -> Plan:
    """Plan daemons that are missing or have other limits, and the end of daemons that are not
    wanted any more.

    minors: the number of each GPU's device node, by UUID.
    """
    before = read_kept_limits(facts)
    # left alone, with the daemon that it may have
    closed = {gpu.uuid for gpu, _entry in resolved if gpu.compute_mode == PROHIBITED}
    daemons = {
        gpu.uuid: entry.limits
        for gpu, entry in resolved
        if entry.limits and (gpu.uuid not in closed or gpu.uuid in before)
    }
    if not daemons:
        return plan_mps_removal(policy, facts, lambda: minors, GONE)
    require_mps_program(facts)
    require_alone(facts)
    units = [name_mps_service(gpu) for gpu in daemons]
    if not all(facts.asked_units.get(unit) for unit in units):
        raise NeedMore([queries.ask_for_units(units)])
    require_loaded(facts, daemons)
    totals = (
        map_gpu_memory(facts)
        if any(limits.clients and not limits.memory for limits in daemons.values())
        else {}
    )
    after = {
        gpu: before[gpu]
        if gpu in closed
        else get_daemon_limits(limits.complete_limits(totals.get(gpu, 0)))
        for gpu, limits in daemons.items()
    }
    resident = host_service.Resident(
        NAME,
        render_mps_units(),
        tuple(units),
        STAYS,
        render_mps_settings(after),
        program,
        ("daemons",),
    )
    gone = [gpu for gpu in before if gpu not in after]
    open_ = [gpu for gpu in after if gpu not in closed]
    other = [gpu for gpu in open_ if is_mps_running(facts, gpu) and before.get(gpu) != after[gpu]]
    left = other if policy.leaves_restarts else []  # their restart is left to a person
    require_idle(policy, facts, [*gone, *(gpu for gpu in other if gpu not in left)], minors)
    acts = [
        Restart(name_mps_service(gpu), "restart" if gpu in other else "start", STAYS)
        for gpu in open_
        if gpu in other or not is_mps_running(facts, gpu)
    ]
    began = tuple(
        Difference("unit", act.unit, "state", get_mps_unit_state(facts, act.unit), "active", STAYS)
        for act in acts
        if act.action == "start"
    )
    files = host_service.plan_service(policy, facts.service, resident)
    said = (*advise_on_other_mps(facts), *advise_on_mps_units(facts))
    units_act = Plan(
        differences=began,
        restarts=tuple(acts),
        pending=tuple(map(name_mps_service, left)),
        advice=said,
    )
    first = plan_mps_directories(
        gpu for gpu in open_ if gpu not in before and not is_mps_running(facts, gpu)
    )
    return merge_plans([plan_mps_ends(facts, gone, minors), first, files, units_act])


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
    mounted = [mps_places.get_mps_directory(gpu, kind) for gpu in every for kind in TMPFS]
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


def is_mps_running(facts: MpsFacts, gpu: str) -> bool:
    return get_mps_unit_state(facts, name_mps_service(gpu)) == "active"


def get_mps_unit_state(facts: MpsFacts, unit: str) -> str:
    """Return a unit's state as systemctl is-active has it, which does not tell a unit that has
    ended from one that was never there.
    """
    return facts.units.get(unit).get("ActiveState", "inactive")


def require_mps_program(facts: MpsFacts) -> None:
    if facts.control.value:
        return
    raise PlanError(messages.NO_CONTROL_PROGRAM.fill())


def require_alone(facts: MpsFacts) -> None:
    """Raise PlanError if another MPS daemon runs.

    It may have the same GPUs, and the driver lets in only the server that is first on a GPU.
    """
    every = [
        p
        for p in (*facts.processes.value, *facts.unverified.value)
        if str(p.get("exe", "")).rpartition("/")[2] == CONTROL
    ]
    strange = [p for p in every if not OWN_GROUP.match(str(p.get("cgroup", "")))]
    if strange:
        raise PlanError(messages.OTHER_DAEMON.fill(pid=strange[0]["pid"]))


def advise_on_other_mps(facts: MpsFacts) -> tuple[str, ...]:
    """Return advice about processes of other users with the daemon's name; () if there are none.

    Only the name is known, and any user can choose it, so the run goes on.
    """
    number = facts.others.value.get(CONTROL, 0)
    if number == 1:
        return (messages.OTHERS_PROCESS.fill(),)
    return (messages.OTHERS_PROCESSES.fill(number=number),) if number else ()


def advise_on_mps_units(facts: MpsFacts) -> tuple[str, ...]:
    """Return advice about enabled units of another MPS daemon.

    For a unit that runs now, its process is refused instead.
    """
    enabled = [
        unit
        for unit in OTHER_UNITS
        if facts.asked_units.get(unit) and facts.units.get(unit).get("UnitFileState") == "enabled"
    ]
    return tuple(messages.OTHER_UNIT.fill(unit=unit) for unit in enabled)


def require_loaded(facts: MpsFacts, gpus: Iterable[str]) -> None:
    """Raise PlanError for a daemon that runs without a loaded unit.

    systemd continues with a unit whose file is gone, and loads no other file for it while it runs.
    """
    runs = own_daemons(facts)
    for unit in (name_mps_service(gpu) for gpu in gpus if gpu in runs):
        if facts.units.get(unit).get("LoadState") != "loaded":
            raise PlanError(messages.UNIT_NOT_LOADED.fill(unit=unit))


def map_gpu_memory(facts: MpsFacts) -> dict[str, int]:
    """Return UUID -> MiB. Raise PlanError if the memory of the GPUs is not known."""
    said = facts.memory.value
    memory = {
        match.group(1): int(match.group(2))
        for match in re.finditer(str(MEMORY["shows"][0]), said.stdout)
    }
    command = " ".join(MEMORY["argv"])
    if said.rc != 0:
        raise PlanError(messages.MEMORY_UNKNOWN.fill(command=command, status=said.rc))
    if not memory:
        raise PlanError(messages.MEMORY_NOT_NAMED.fill(command=command))
    return memory


# ---------------------------------------------------------------- what stays on the host


def render_mps_units() -> dict[str, str]:
    """Return the texts of the two units, which are the same for every GPU.

    A unit of its own makes the places: a mount that a fenced unit makes is invisible to others. The
    daemon starts servers with the user ids of their clients, and works with the driver's nodes, so
    it stays root and may open these nodes. It may open no others, since root of a container can put
    a link to a disk in a directory that the daemon writes to.
    """

    def run(verb: str) -> str:
        return host_service.write_exec_start(NAME, verb, "%i")

    places = " ".join(mps_places.get_mps_directory("%i", kind) for kind in ("pipe", "log"))
    making = PLACES.replace("@", "@%i")
    return {
        PLACES: (
            "# Written by gpufleet.nvidia.\n"
            "[Unit]\nDescription=Directories of the CUDA MPS control daemon of %i\nAfter=systemd-modules-load.service local-fs.target\n\n"
            f"[Service]\nType=oneshot\nTimeoutStartSec={AT_BOOT}\nExecStart={run('prepare')}\n"
        ),
        TEMPLATE: (
            "# Written by gpufleet.nvidia.\n"
            f"[Unit]\nDescription=CUDA MPS control daemon of %i\nRequires={making}\n"
            f"After={making} {modes.AFTER} {modes.SERVICE}\nBefore={host_service.BEFORE}\n\n"
            f"[Service]\nType=simple\nExecStart={run('serve')}\nExecStartPost={run('settle')}\nExecStop={run('quit')}\n"
            f"Restart=on-failure\nRestartSec=5\nTimeoutStartSec={AT_BOOT}\nTimeoutStopSec={PATIENCE + 30}\nKillMode=mixed\n"
            "NoNewPrivileges=yes\nProtectSystem=strict\nProtectHome=yes\nPrivateTmp=yes\nProtectKernelTunables=yes\n"
            "ProtectKernelModules=yes\nProtectControlGroups=yes\nRestrictAddressFamilies=AF_UNIX AF_NETLINK\nRestrictRealtime=yes\n"
            "LockPersonality=yes\nDevicePolicy=closed\nDeviceAllow=char-nvidia* rw\n"
            f"ReadWritePaths={places}\nBindPaths={mps_places.get_mps_directory('%i', 'shm')}:/dev/shm\n"
        ),
    }


def get_daemon_limits(limits: Limits) -> dict[str, Any]:
    """Return the limits of one daemon.

    How it prints a limit of memory is not documented, so that is asked for and not compared.
    """
    daemon_limits: list[dict[str, Any]] = []
    if limits.threads:
        threads = "default_active_thread_percentage"
        daemon_limits.append(
            {
                "set": f"set_{threads} {limits.threads}",
                "get": f"get_{threads}",
                "number": limits.threads,
            }
        )
    if limits.memory:
        # by the GPU's place among the daemon's, and a daemon sees one GPU
        pinned = "default_device_pinned_mem_limit"
        daemon_limits.append(
            {"set": f"set_{pinned} 0 {limits.memory}M", "get": f"get_{pinned} 0", "number": None}
        )
    return {"limits": daemon_limits, "policy": limits.text}


def render_mps_settings(daemons: Mapping[str, Any]) -> str:
    settings: dict[str, Any] = {
        "schema": 1,
        "writer": "gpufleet.nvidia",
        # The first is started again if its program has found a transaction under way; a transaction
        # waits for either.
        "units": [PLACES.replace("@", "@NAME"), TEMPLATE.replace("@", "@NAME")],
        "program": CONTROL,
        "asked": "get_default_active_thread_percentage",  # any answer shows that the daemon serves
        "seconds": 20,
        "patience": PATIENCE,
        "places": {kind: mps_places.get_mps_directory("NAME", kind) for kind in mps_places.KINDS},
        "logged": LOGGED,
        "mounts": {
            kind: {"options": f"{MOUNTED},{limit}", "mode": mode}
            for kind, (limit, mode) in TMPFS.items()
        },
        "majors": "/proc/devices",
        "module": "nvidia-uvm",
        "device": "nvidia-uvm",
        "environment": {"CUDA_VISIBLE_DEVICES": "NAME", **mps_places.get_mps_environment("NAME")},
        "daemons": daemons,
    }
    return json.dumps(settings, indent=1, sort_keys=True) + "\n"


def read_kept_limits(facts: MpsFacts) -> dict[str, Any]:
    """Return UUID -> the limits that an earlier run gave its daemon.

    Raise PlanError if the file does not name the daemons that run.
    """
    file = owned_file.require_readable(facts.files.get(SETTINGS))
    if not file.exists:
        return {}
    with contextlib.suppress(ValueError, KeyError, TypeError):
        daemons = json_bounds.load_bounded_json(file.content or "")["daemons"]
        if isinstance(daemons, dict) and all(wanted.UUID.fullmatch(gpu) for gpu in daemons):
            return daemons
    raise PlanError(messages.DAEMON_RECORD_BROKEN.fill(units=name_mps_service("*")), where=SETTINGS)


def find_unrecorded_daemons(facts: MpsFacts) -> dict[str, Any]:
    """Return the daemons that run although their record was removed, by their control groups."""
    if not facts.files.get(f"{host_service.UNITS}/{TEMPLATE}").exists:
        return {}
    facts.asked.require([DAEMONS])
    return {gpu: {} for gpu in own_daemons(facts)}


def own_daemons(facts: MpsFacts) -> list[str]:
    """List the GPUs whose daemons run, by the control groups of services of the host's systemd."""
    groups = (OWN_GROUP.match(str(p.get("cgroup", ""))) for p in facts.processes.value)
    return [match.group(1) for match in groups if match and wanted.UUID.fullmatch(match.group(1))]


# ---------------------------------------------------------------- the end of a daemon


def require_idle(
    policy: Policy, facts: MpsFacts, gpus: Iterable[str], minors: Mapping[str, int]
) -> None:
    """Raise PlanError if a daemon that has to end, or to begin again, has clients.

    `restart: force` skips the check, for a user who accepts that clients end.
    """
    ends = {str(minors[gpu]): gpu for gpu in gpus if gpu in minors}
    if not ends or policy.restart == "force":
        return
    answer = facts.holders.value
    for minor, gpu in ends.items():
        users = gpu_holders.map_groups_to_holders(answer, minor, without=OWN_GROUP)
        if users:
            raise PlanError(
                messages.DAEMON_IN_USE.fill(gpu=gpu, users=gpu_holders.describe_some_holders(users))
            )
    problem = gpu_holders.explain_unknown_holders(answer)
    if problem:
        raise PlanError(
            messages.DAEMON_USE_UNKNOWN.fill(gpus=", ".join(ends.values()), problem=problem)
        )


def plan_mps_ends(facts: MpsFacts, gpus: Iterable[str], here: Container[str] = ()) -> Plan:
    """Plan the commands that end daemons and remove what they made, if the program that an earlier
    run left exists.

    here: the GPUs of this host, whose daemons end by the policy; those of others end since their
    GPU is gone.
    """
    clears = all(
        facts.files.get(path).exists for path in (host_service.get_program_path(NAME), SETTINGS)
    )
    commands: list[transaction.PackageCommand] = []
    ended: list[Difference] = []
    for gpu in gpus:
        unit = name_mps_service(gpu)
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
                "timeout": PATIENCE + 60,
                "why": GONE,
                "accepts": [NOT_LOADED],
                "undo": back,
            }
        )
        if clears:
            commands.append(
                {
                    "argv": host_service.build_service_command(NAME, "clear", gpu),
                    "timeout": 30,
                    "why": GONE,
                }
            )
    return Plan(tuple(ended), tuple(commands))


def plan_mps_removal(
    policy: Policy, facts: MpsFacts, minors: Callable[[], Mapping[str, int]], why: str
) -> Plan:
    """Plan the end of each daemon, once it has no clients, and the removal of the files."""
    if not all(facts.asked.has(q) for q in list_mps_files() if q["kind"] == "file"):
        raise NeedMore(list_mps_files())
    here = policy.root == "/"
    recorded = read_kept_limits(facts) if here else {}
    daemons = recorded or (find_unrecorded_daemons(facts) if here else {})
    require_idle(policy, facts, daemons, minors() if daemons else {})
    back = host_service.plan_service_removal(policy, facts.service, NAME, TEMPLATES, why)
    if back.empty:
        return back
    stay = [gpu for gpu in daemons if gpu not in recorded]
    said = Plan(
        advice=tuple(
            messages.PLACES_STAY.fill(path=SETTINGS, places=list_left_places(gpu)) for gpu in stay
        )
    )
    return merge_plans([plan_mps_ends(facts, daemons, daemons), add_cause(back, "policy"), said])


def list_left_places(gpu: str) -> str:
    return f"{mps_places.ROOT}{gpu} and {mps_places.get_mps_directory(gpu, 'log')}"
