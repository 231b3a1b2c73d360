# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The access to each GPU of a host, as compute modes and time slices: set now, at every boot and
whenever the driver is loaded again.

Only the driver's memory keeps both (NVML: "not persistent across reboots"), so a unit sets them
again: at boot after nvidia-persistenced, and when the driver registers, by the same event on which
Ubuntu's packages start nvidia-persistenced. Modes have no file that could be kept from before us,
so the unit's own settings keep the modes that were found, and they are set again when a GPU leaves
the option.
"""

from __future__ import annotations

import dataclasses as dc
import json
from collections.abc import Iterable, Mapping
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
    Fact,
    Lookup,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import (
    json_bounds,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import (
    messages as format_messages,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Difference,
    Driver,
    Kubelet,
    Plan,
    Policy,
    Restart,
    merge_plans,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
    ObservedFile,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections.file_places import (
    OWN_UNIT,
    WHOLE,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import (
    host_service,
    owned_file,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import (
    driver_state,
    missing,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.lowering import (
    add_cause,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.sharing import (
    by_plugin,
    gpu_holders,
    messages,
    modes,
    mps,
    mps_ends,
    mps_facts,
    mps_files,
    owners,
    wanted,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.sharing.modes import (
    Modes,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.sharing.wanted import (
    INTERVALS,
    OPTION,
    GpuEntry,
)

NAME = "sharing"
SERVICE = modes.SERVICE
RULES = f"/etc/udev/rules.d/90-gpufleet-{NAME}.rules"
PATHS = (*host_service.list_service_paths(NAME, (SERVICE,)), RULES)
SETTINGS = host_service.get_settings_path(NAME)
PROGRAM_NAME = "modes"  # of the program that stays on the host (module_utils/_host/resident)
PROGRAM_NAMES = (PROGRAM_NAME, mps_files.PROGRAM_NAME)
# ubuntu-drivers' 71-nvidia.rules starts nvidia-persistenced so. udev reads a new file of rules by
# itself.
RULE = (
    "# Written by gpufleet.nvidia.\n"
    'ACTION=="add", DEVPATH=="/bus/pci/drivers/nvidia", TAG+="systemd", '
    f'ENV{{SYSTEMD_WANTS}}+="{SERVICE}"\n'
)
AT_BOOT = 180  # seconds for all GPUs: engines wait meanwhile
MODE, SLICE = "compute mode", "time slice"
WHY = {"EXCLUSIVE_PROCESS": messages.EXCLUSIVE_MODE, "DEFAULT": messages.DEFAULT_MODE}
STAYS = messages.MODES_STAY.fill()
BACK = messages.MODE_FROM_BEFORE.fill()
FORGOTTEN = {MODE: "DEFAULT", SLICE: "default"}  # what a driver has that was just loaded


@dc.dataclass(frozen=True)
class GpuModeSetting:
    """A mode of one GPU: as it is, and as it has to be."""

    gpu: str
    what: str  # MODE | SLICE
    now: str
    after: str
    why: str

    @property
    def key(self) -> tuple[str, str]:
        return self.gpu, self.what


def list_questions(policy: Policy) -> list[queries.Question]:
    """Return the questions; [] if the option is not set. For state: absent, ask for what an earlier
    run has left.
    """
    if policy.state == "absent":
        return [*list_sharing_files(), *mps_facts.list_mps_questions(policy)]
    if policy.sharing is None or policy.root != "/":
        return []
    entries = wanted.list_host_entries(policy.sharing)
    asked = [modes.MODES] if entries else []
    asked += [modes.TIME_SLICES] if any(entry.interval for entry in entries) else []
    return [
        *asked,
        *(owners.list_sharing_owner_questions() if policy.sharing else ()),
        *list_sharing_files(),
        *mps_facts.list_mps_questions(policy),
    ]


def list_sharing_files() -> list[queries.Question]:
    return [
        *host_service.list_service_questions(NAME, (SERVICE,)),
        queries.ask_for_file(RULES, keep=OWN_UNIT),
    ]


@dc.dataclass(frozen=True)
class SharingFacts:
    """A host's facts about modes of GPUs, and about files that set them.

    slurm: the texts of its files. modes: as nvidia-smi reports them. holders: who has
    GPUs open, or the error. known_minors: UUID -> number of the device node, without using a GPU.
    """

    slurm: Lookup[str, str]
    modes: modes.ModeFacts
    holders: Fact[Mapping[str, Any]]
    known_minors: Fact[Mapping[str, int]]
    files: Lookup[str, ObservedFile]
    missing: missing.MissingGpuFacts
    mps: mps_facts.MpsFacts

    @property
    def service(self) -> host_service.ServiceFacts:
        return self.mps.service


def read_sharing_facts(policy: Policy, obs: Observation) -> SharingFacts:
    keeps = {RULES: OWN_UNIT, SETTINGS: WHOLE}
    return SharingFacts(
        owners.read_slurm_texts(obs),
        modes.read_mode_facts(obs),
        Fact(lambda: obs.get_answer_or_error(gpu_holders.HOLDERS)),
        Fact(lambda: map_known_minors(driver_state.read_driver(policy, obs))),
        Lookup(lambda path: obs.get_file(path, keeps.get(path))),
        missing.read_missing_gpu_facts(policy, obs),
        mps_facts.read_mps_facts(obs),
    )


def plan_sharing(
    policy: Policy,
    facts: SharingFacts,
    driver: Driver,
    kubelet: Kubelet,
    program: str,
    mps_program: str = "",
) -> Plan:
    """Plan the modes that differ, the files that set them again, and one start of their unit, which
    reads modes back.

    The commands that set modes can be undone.
    """
    if policy.sharing is None or policy.root != "/":
        return Plan()
    if not policy.sharing:
        return plan_absent(policy, facts, messages.OPTION_EMPTY.fill())
    if driver.state != "ok":
        return Plan(advice=(messages.WAITS_FOR_DRIVER.fill(evidence=driver.evidence),))
    entries = wanted.parse_sharing(policy.sharing)
    replicas = by_plugin.get_common_replicas(OPTION, entries)
    owners.refuse_other_sharing(facts.slurm, kubelet, replicas)
    if replicas:
        by_plugin.require_all_gpus(OPTION, entries, driver.gpus)
        return plan_absent(policy, facts, messages.OPTION_FOR_PLUGIN.fill())
    kept = map_original_modes(facts)
    slices = any(entry.interval for entry in entries) or any(what == SLICE for _gpu, what in kept)
    if slices:
        facts.mps.asked.require([modes.TIME_SLICES])
    gpus = modes.get_gpu_modes(facts.modes, driver.gpus, slices=slices)
    resolved, advice = modes.resolve_mode_entries(entries, gpus)
    settings = [
        setting
        for gpu, entry in resolved
        if gpu.compute_mode != modes.PROHIBITED
        for setting in list_desired_modes(gpu, entry)
    ]
    left = list_given_up_modes(gpus, kept, {setting.key for setting in settings})
    gone = are_settings_lost(facts)
    before = map_first_found_modes(settings, left, kept, gone)
    resident = host_service.Resident(
        NAME,
        {SERVICE: name_sharing_unit()},
        (SERVICE,),
        STAYS,
        render_sharing_settings(settings, before, resolved),
        program,
        ("policies",),
    )
    files = merge_plans(
        [
            host_service.plan_service(policy, facts.service, resident),
            host_service.plan_service_file(facts.service, RULES, RULE, STAYS),
        ]
    )
    changed = plan_mode_changes([*settings, *left])
    minors = map_gpu_minors(gpus, driver)
    away = [gpu for gpu in mps_facts.read_kept_limits(facts.mps) if gpu not in minors]
    if away:
        missing.require_gone(policy, facts.missing, driver, mps_files.SETTINGS, away)
    start = (Restart(SERVICE, "start", STAYS),) if files.changes or changed.commands else ()
    daemons = mps.plan_mps(policy, facts.mps, resolved, minors, mps_program)
    advice = (*advice, messages.RECORD_LOST.fill(path=SETTINGS)) if gone else advice
    said = (
        *advice,
        *list_closed_gpus((gpu for gpu, entry in resolved if get_asked_mode(entry)), {}),
        *list_exclusive_users(facts, settings, minors),
    )
    # A daemon that ends does so before its GPU's mode changes, and one that begins has to find the
    # mode right.
    return merge_plans(
        [
            dc.replace(daemons, restarts=()),
            changed,
            files,
            Plan(restarts=(*start, *daemons.restarts), advice=said),
        ]
    )


def map_gpu_minors(gpus: Iterable[Modes], driver: Driver) -> dict[str, int]:
    """Return UUID -> number of the device node."""
    minors = {gpu.bus_id: gpu.minor for gpu in driver.gpus}
    return {gpu.uuid: minors[gpu.bus] for gpu in gpus if gpu.bus in minors}


def map_known_minors(driver: Driver) -> dict[str, int]:
    """Return UUID -> number of the device node, without using a GPU."""
    return {gpu.uuid: gpu.minor for gpu in driver.gpus if gpu.uuid}


def name_sharing_unit() -> str:
    return host_service.write_service_unit(
        NAME, "Set compute modes and time slices of GPUs", after=modes.AFTER, seconds=AT_BOOT
    )


def get_asked_mode(entry: GpuEntry) -> str:
    """Return the compute mode that an entry asks for; '' for a GPU that is dedicated by agreement
    alone, which keeps its own.
    """
    return (
        "EXCLUSIVE_PROCESS"
        if entry.exclusive or entry.limits
        else "DEFAULT"
        if entry.policy == "time_slicing"
        else ""
    )


def list_desired_modes(gpu: Modes, entry: GpuEntry) -> Iterable[GpuModeSetting]:
    mode = get_asked_mode(entry)
    if mode:
        yield GpuModeSetting(gpu.uuid, MODE, gpu.compute_mode, mode, WHY[mode].fill())
    if entry.interval:
        modes.require_known_modes(gpu)
        yield GpuModeSetting(
            gpu.uuid, SLICE, gpu.interval, entry.interval, messages.SLICE_LENGTH.fill()
        )


def list_given_up_modes(
    gpus: tuple[Modes, ...], kept: Mapping[tuple[str, str], str], still: set[tuple[str, str]]
) -> list[GpuModeSetting]:
    """List the settings that this collection made on a GPU of this host and that go. A GPU that a
    person has closed since stays closed.

    With MIG on, a GPU has no compute mode that could be set.
    """
    here = {gpu.uuid: gpu for gpu in gpus if gpu.compute_mode != modes.PROHIBITED and not gpu.mig}
    now = {
        (uuid, what): gpu.compute_mode if what == MODE else gpu.interval
        for uuid, gpu in here.items()
        for what in (MODE, SLICE)
    }
    return [
        GpuModeSetting(*key, now[key], was, BACK)
        for key, was in sorted(kept.items())
        if now.get(key) and key not in still
    ]


def map_first_found_modes(
    settings: Iterable[GpuModeSetting],
    left: Iterable[GpuModeSetting],
    kept: Mapping[tuple[str, str], str],
    gone: bool,
) -> dict[tuple[str, str], str]:
    """Return what each mode was before this collection set it.

    gone: the record of that was lost, so a mode that already is as it has to be counts as a freshly
    loaded driver's. For a GPU that is not there, is closed or has MIG on, the earlier mode stays
    known until it is given back.
    """
    returned = {setting.key for setting in left}
    now = {s.key: FORGOTTEN[s.what] if gone and s.now == s.after else s.now for s in settings}
    return {**now, **{key: was for key, was in kept.items() if key not in returned}}


def list_exclusive_users(
    facts: SharingFacts, settings: Iterable[GpuModeSetting], minors: Mapping[str, int]
) -> list[str]:
    """List the users of GPUs that become exclusive, as sentences.

    The driver leaves them there, and lets in neither others nor an MPS server's clients.
    """
    become = [
        s.gpu
        for s in settings
        if s.what == MODE and s.after == "EXCLUSIVE_PROCESS" != s.now and s.gpu in minors
    ]
    if not become:
        return []
    # for a sentence only: it keeps no run from going on
    answer = facts.holders.value
    users = {
        gpu: gpu_holders.map_groups_to_holders(
            answer, str(minors[gpu]), without=mps_facts.OWN_GROUP
        )
        for gpu in become
    }
    advice = [
        messages.BECOMES_EXCLUSIVE.fill(gpu=gpu, users=gpu_holders.describe_some_holders(of))
        for gpu, of in users.items()
        if of
    ]
    problem = gpu_holders.explain_unknown_holders(answer)
    return [*advice, *([messages.USERS_UNKNOWN.fill(problem=problem)] if problem else [])]


def list_closed_gpus(gpus: Iterable[Modes], before: Mapping[str, str]) -> list[str]:
    """List the GPUs that a person has closed, as sentences.

    before: the compute mode of each from before this collection set it, if it is known only here.
    """
    return [
        messages.GPU_CLOSED.fill(
            gpu=gpu.name, uuid=gpu.uuid, before=before.get(gpu.uuid, "DEFAULT")
        )
        for gpu in gpus
        if gpu.compute_mode == modes.PROHIBITED
    ]


def list_unreturned_modes(
    gpus: tuple[Modes, ...], kept: Mapping[tuple[str, str], str]
) -> list[str]:
    """List, as sentences, the modes that cannot be set back now."""
    here = {gpu.uuid: gpu for gpu in gpus}
    lost = [
        messages.GPU_AWAY.fill(gpu=gpu, setting=what, before=was)
        for (gpu, what), was in sorted(kept.items())
        if gpu not in here
    ]
    divided = [
        messages.GPU_DIVIDED.fill(gpu=here[gpu].name, setting=what, before=was)
        for (gpu, what), was in sorted(kept.items())
        if gpu in here and here[gpu].mig
    ]
    before = {gpu: was for (gpu, what), was in kept.items() if what == MODE}
    return [
        *lost,
        *divided,
        *list_closed_gpus(
            (here[uuid] for uuid in sorted({gpu for gpu, _what in kept} & set(here))), before
        ),
    ]


def plan_mode_changes(settings: list[GpuModeSetting]) -> Plan:
    """Plan the commands that change modes, each with the one that undoes it. A mode that is right
    gets none.
    """
    differing = [s for s in settings if s.now != s.after]
    commands: list[transaction.PackageCommand] = [
        {
            "argv": build_mode_setter(s, s.after),
            "timeout": modes.SECONDS,
            "why": s.why,
            "accepts": list(modes.GOOD),
            "undo": build_mode_setter(s, s.now),
        }
        for s in differing
        if s.now
    ]
    return Plan(
        differences=tuple(
            Difference("mode", s.gpu, s.what, s.now, s.after, s.why) for s in differing if s.now
        ),
        commands=tuple(commands),
    )


def build_mode_setter(setting: GpuModeSetting, value: str) -> list[str]:
    """Return the command that sets a mode.

    NVIDIA's DRA driver sets both by the same calls (cmd/gpu-kubelet-plugin/nvlib.go).
    """
    if setting.what == MODE:
        return [modes.PROGRAM, "-i", setting.gpu, "-c", value]
    return [
        modes.PROGRAM,
        "compute-policy",
        "-i",
        setting.gpu,
        "--set-timeslice",
        str(INTERVALS.index(value)),
    ]


def build_mode_reader(setting: GpuModeSetting) -> tuple[list[str], str]:
    """Return the command by which the program on the host reads a mode back, and the pattern of its
    value.
    """
    if setting.what == MODE:
        return [
            modes.PROGRAM,
            "-i",
            setting.gpu,
            "--query-gpu=compute_mode",
            "--format=csv,noheader",
        ], r"^(\w+)$"
    return [modes.PROGRAM, "compute-policy", "-i", setting.gpu, "--list"], modes.VALUE


def render_sharing_settings(
    settings: list[GpuModeSetting],
    before: Mapping[tuple[str, str], str],
    resolved: Iterable[tuple[Modes, GpuEntry]],
) -> str:
    """Return the settings that the program on the host follows, with the modes that are given back
    later.
    """
    rows = []
    for setting in settings:
        argv, pattern = build_mode_reader(setting)
        rows.append(
            {
                "name": f"{setting.gpu}: {setting.what}",
                "value": setting.after,
                "read": argv,
                "pattern": pattern,
                "set": build_mode_setter(setting, setting.after),
                "accepts": list(modes.GOOD),
            }
        )
    document: dict[str, Any] = {
        "schema": 1,
        "writer": "gpufleet.nvidia",
        "units": [SERVICE],
        "seconds": modes.SECONDS,
        "settings": rows,
        "before": [[gpu, what, was] for (gpu, what), was in sorted(before.items())],
        "policies": {gpu.uuid: entry.text for gpu, entry in resolved},
    }
    return json.dumps(document, indent=1, sort_keys=True) + "\n"


def read_kept_sharing(facts: SharingFacts) -> Mapping[str, Any]:
    """Return our own file on the host; {} if there is none.

    Raise PlanError for a broken one, since the modes from before are then not known.
    """
    file = owned_file.require_readable(facts.files.get(SETTINGS))
    if not file.exists:
        return {}
    try:
        kept = json_bounds.load_bounded_json(file.content or "")
    except ValueError as error:
        line = getattr(error, "lineno", 0)
        raise build_broken_sharing_error(
            messages.KEPT_LINE_NOT_JSON.fill(line=line) if line else format_messages.NOT_JSON.fill()
        ) from None
    if not isinstance(kept, dict) or "before" not in kept:
        raise build_broken_sharing_error(messages.KEPT_WITHOUT_BEFORE.fill())
    return kept


def build_broken_sharing_error(why: str) -> PlanError:
    return PlanError(messages.RECORD_BROKEN.fill(problem=why), where=SETTINGS)


def are_settings_lost(facts: SharingFacts) -> bool:
    """Tell whether our settings were removed from the files that are written together."""
    there = {path for path in PATHS if facts.files.get(path).exists}
    return bool(there) and SETTINGS not in there


def map_original_modes(facts: SharingFacts) -> dict[tuple[str, str], str]:
    """Return (GPU, what) -> the mode from before this collection set it."""
    kept = read_kept_sharing(facts)
    rows = kept.get("before") if kept else []
    if not isinstance(rows, list) or not all(is_mode(row) for row in rows):
        raise build_broken_sharing_error(messages.KEPT_BEFORE_FORM.fill())
    return {(gpu, what): was for gpu, what, was in rows}


def is_mode(row: object) -> bool:
    if not isinstance(row, list) or len(row) != 3 or not all(isinstance(word, str) for word in row):
        return False
    gpu, what, was = row
    return bool(wanted.UUID.fullmatch(gpu)) and (
        (what == MODE and was in modes.COMPUTE_MODES) or (what == SLICE and was in INTERVALS)
    )


def plan_absent(
    policy: Policy, facts: SharingFacts, why: str = messages.SHARING_WITHDRAWN.fill()
) -> Plan:
    """Plan to remove the files and set the modes back. A driver that is gone has forgotten them."""
    if not all(facts.mps.asked.has(q) for q in list_sharing_files() if q["kind"] == "file"):
        raise NeedMore(list_sharing_files())
    rules = facts.files.get(RULES)
    file = owned_file.plan_owned_file_restore(
        facts.service.earlier, rules, why=why, own=owned_file.is_marked(rules)
    )
    daemons = mps_ends.plan_mps_removal(policy, facts.mps, lambda: facts.known_minors.value, why)
    back = add_cause(
        merge_plans(
            [
                daemons,
                host_service.plan_service_removal(policy, facts.service, NAME, (SERVICE,), why),
                file,
            ]
        ),
        "policy",
    )
    kept = map_original_modes(facts) if policy.root == "/" else {}
    if not kept and policy.root == "/" and are_settings_lost(facts):
        return merge_plans([back, Plan(advice=(messages.RECORD_LOST_ABSENT.fill(path=SETTINGS),))])
    if not kept:
        return back
    slices = any(what == SLICE for _gpu, what in kept)
    asked = [modes.MODES, *([modes.TIME_SLICES] if slices else [])]
    if not all(facts.mps.asked.has(q) for q in asked):
        raise NeedMore(asked)
    # A driver that does not answer has forgotten them. One whose answer is not understood may still
    # have them, and only our file knows the modes from before: that is a refusal (ModeFacts).
    if not facts.modes.served.value or (slices and not facts.modes.slices_served.value):
        return merge_plans([back, Plan(advice=(messages.DRIVER_SILENT.fill(),))])
    gpus = modes.get_gpu_modes(facts.modes, (), slices=slices)
    return merge_plans(
        [
            back,
            plan_mode_changes(list_given_up_modes(gpus, kept, set())),
            Plan(advice=tuple(list_unreturned_modes(gpus, kept))),
        ]
    )
