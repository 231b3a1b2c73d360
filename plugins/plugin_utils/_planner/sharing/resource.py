# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The access to each GPU of a host, as compute modes and time slices: set now, at every boot and whenever the driver is loaded again.

Only the driver's memory keeps both (NVML: "not persistent across reboots"), so a unit sets them again: at boot after nvidia-persistenced,
and when the driver registers, by the same event on which Ubuntu's packages start nvidia-persistenced. Modes have no file that could be kept
from before us, so the unit's own settings keep the modes that were found, and they are set again when a GPU leaves the option.
"""

from __future__ import annotations

import dataclasses as dc
import functools
import json
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner import host_service, owned_file, queries, transaction
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.driver import gpus as driver_gpus
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.driver import missing
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.errors import NeedMore, PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.formats import json_bounds
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.lowering import caused
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.model import (
    Difference,
    Driver,
    Kubelet,
    Plan,
    Policy,
    Restart,
    merge,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.observation import Observation
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.projections.file_places import OWN_UNIT, WHOLE
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.sharing import (
    by_plugin,
    gpu_holders,
    messages,
    modes,
    mps,
    owners,
    wanted,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.sharing.modes import Modes
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.sharing.wanted import INTERVALS, OPTION, GpuEntry

NAME = "sharing"
SERVICE = modes.SERVICE
RULES = f"/etc/udev/rules.d/90-gpufleet-{NAME}.rules"
PATHS = (*host_service.paths(NAME, (SERVICE,)), RULES)
SETTINGS = host_service.settings_path(NAME)
PROGRAM_NAME = "modes"  # of the program that stays on the host (module_utils/_node/resident)
PROGRAM_NAMES = (PROGRAM_NAME, mps.PROGRAM_NAME)
# ubuntu-drivers' 71-nvidia.rules starts nvidia-persistenced so. udev reads a new file of rules by itself.
RULE = (
    f'# Written by gpufleet.nvidia.\nACTION=="add", DEVPATH=="/bus/pci/drivers/nvidia", TAG+="systemd", ENV{{SYSTEMD_WANTS}}+="{SERVICE}"\n'
)
AT_BOOT = 180  # seconds for all GPUs: engines wait meanwhile
MODE, SLICE = "compute mode", "time slice"
WHY = {"EXCLUSIVE_PROCESS": messages.EXCLUSIVE_MODE, "DEFAULT": messages.DEFAULT_MODE}
STAYS = messages.MODES_STAY.fill()
BACK = messages.MODE_FROM_BEFORE.fill()
FORGOTTEN = {MODE: "DEFAULT", SLICE: "default"}  # what a driver has that was just loaded


@dc.dataclass(frozen=True)
class Setting:
    """A mode of one GPU: as it is, and as it has to be."""

    gpu: str
    what: str  # MODE | SLICE
    now: str
    after: str
    why: str

    @property
    def key(self) -> tuple[str, str]:
        return self.gpu, self.what


def questions(policy: Policy) -> list[queries.Question]:
    """Return the questions; [] if the option is not set. For state: absent, ask for what an earlier run has left."""
    if policy.state == "absent":
        return [*own_files(), *mps.questions(policy)]
    if policy.sharing is None or policy.root != "/":
        return []
    entries = wanted.on_host(policy.sharing)
    asked = [modes.MODES] if entries else []
    asked += [modes.TIME_SLICES] if any(entry.interval for entry in entries) else []
    return [*asked, *(owners.questions() if policy.sharing else ()), *own_files(), *mps.questions(policy)]


def own_files() -> list[queries.Question]:
    return [*host_service.questions(NAME, (SERVICE,)), queries.file(RULES, keep=OWN_UNIT)]


def plan(policy: Policy, obs: Observation, driver: Driver, kubelet: Kubelet, program: str, mps_program: str = "") -> Plan:
    """Plan the modes that differ, the files that set them again, and one start of their unit, which reads modes back.

    The commands that set modes can be undone.
    """
    if policy.sharing is None or policy.root != "/":
        return Plan()
    if not policy.sharing:
        return plan_absent(policy, obs, messages.OPTION_EMPTY.fill())
    if driver.state != "ok":
        return Plan(advice=(messages.WAITS_FOR_DRIVER.fill(evidence=driver.evidence),))
    entries = wanted.parse(policy.sharing)
    replicas = by_plugin.of_all(OPTION, entries)
    owners.refuse(obs, kubelet, replicas)
    if replicas:
        by_plugin.require_all(OPTION, entries, driver.gpus)
        return plan_absent(policy, obs, messages.OPTION_FOR_PLUGIN.fill())
    kept = originals(obs)
    slices = any(entry.interval for entry in entries) or any(what == SLICE for _gpu, what in kept)
    if slices and not obs.asked(modes.TIME_SLICES):
        raise NeedMore([modes.TIME_SLICES])
    gpus = modes.read(obs, driver.gpus, slices=slices)
    resolved, advice = modes.resolve(entries, gpus)
    settings = [setting for gpu, entry in resolved if gpu.compute_mode != modes.PROHIBITED for setting in desired(gpu, entry)]
    left = given_up(gpus, kept, {setting.key for setting in settings})
    gone = lost(obs)
    before = first_found(settings, left, kept, gone)
    resident = host_service.Resident(NAME, {SERVICE: unit()}, (SERVICE,), STAYS, text(settings, before, resolved), program, ("policies",))
    files = merge([host_service.plan(policy, obs, resident), host_service.write(obs, RULES, RULE, STAYS)])
    changed = changing([*settings, *left])
    minors = minors_of(gpus, driver)
    away = [gpu for gpu in mps.kept(obs) if gpu not in minors]
    if away:
        missing.require_gone(policy, obs, driver, mps.SETTINGS, away)
    start = (Restart(SERVICE, "start", STAYS),) if files.changes or changed.commands else ()
    daemons = mps.plan(policy, obs, resolved, minors, mps_program)
    advice = (*advice, messages.RECORD_LOST.fill(path=SETTINGS)) if gone else advice
    said = (*advice, *closed((gpu for gpu, entry in resolved if asks(entry)), {}), *in_use(obs, settings, minors))
    # A daemon that ends does so before its GPU's mode changes, and one that begins has to find the mode right.
    return merge([dc.replace(daemons, restarts=()), changed, files, Plan(restarts=(*start, *daemons.restarts), advice=said)])


def minors_of(gpus: Iterable[Modes], driver: Driver) -> dict[str, int]:
    """Return UUID -> number of the device node."""
    minors = {gpu.bus_id: gpu.minor for gpu in driver.gpus}
    return {gpu.uuid: minors[gpu.bus] for gpu in gpus if gpu.bus in minors}


def minors_known(policy: Policy, obs: Observation) -> dict[str, int]:
    """Return UUID -> number of the device node, without using a GPU."""
    return {gpu.uuid: gpu.minor for gpu in driver_gpus.parse(policy, obs).gpus if gpu.uuid}


def unit() -> str:
    return host_service.service(NAME, "Set compute modes and time slices of GPUs", after=modes.AFTER, seconds=AT_BOOT)


def asks(entry: GpuEntry) -> str:
    """Return the compute mode that an entry asks for; '' for a GPU that is dedicated by agreement alone, which keeps its own."""
    return "EXCLUSIVE_PROCESS" if entry.exclusive or entry.limits else "DEFAULT" if entry.policy == "time_slicing" else ""


def desired(gpu: Modes, entry: GpuEntry) -> Iterable[Setting]:
    mode = asks(entry)
    if mode:
        yield Setting(gpu.uuid, MODE, gpu.compute_mode, mode, WHY[mode].fill())
    if entry.interval:
        modes.require_known(gpu)
        yield Setting(gpu.uuid, SLICE, gpu.interval, entry.interval, messages.SLICE_LENGTH.fill())


def given_up(gpus: tuple[Modes, ...], kept: Mapping[tuple[str, str], str], still: set[tuple[str, str]]) -> list[Setting]:
    """List the settings that this collection made on a GPU of this host and that go. A GPU that a person has closed since stays closed.

    With MIG on, a GPU has no compute mode that could be set.
    """
    here = {gpu.uuid: gpu for gpu in gpus if gpu.compute_mode != modes.PROHIBITED and not gpu.mig}
    now = {(uuid, what): gpu.compute_mode if what == MODE else gpu.interval for uuid, gpu in here.items() for what in (MODE, SLICE)}
    return [Setting(*key, now[key], was, BACK) for key, was in sorted(kept.items()) if now.get(key) and key not in still]


def first_found(
    settings: Iterable[Setting], left: Iterable[Setting], kept: Mapping[tuple[str, str], str], gone: bool
) -> dict[tuple[str, str], str]:
    """Return what each mode was before this collection set it.

    gone: the record of that was lost, so a mode that already is as it has to be counts as a freshly loaded driver's. For a GPU that is not
    there, is closed or has MIG on, the earlier mode stays known until it is given back.
    """
    returned = {setting.key for setting in left}
    now = {s.key: FORGOTTEN[s.what] if gone and s.now == s.after else s.now for s in settings}
    return {**now, **{key: was for key, was in kept.items() if key not in returned}}


def in_use(obs: Observation, settings: Iterable[Setting], minors: Mapping[str, int]) -> list[str]:
    """List the users of GPUs that become exclusive, as sentences.

    The driver leaves them there, and lets in neither others nor an MPS server's clients.
    """
    become = [s.gpu for s in settings if s.what == MODE and s.after == "EXCLUSIVE_PROCESS" != s.now and s.gpu in minors]
    if not become:
        return []
    answer = obs.attempt(gpu_holders.HOLDERS)  # for a sentence only: it keeps no run from going on
    users = {gpu: gpu_holders.by_group(answer, str(minors[gpu]), without=mps.OWN_GROUP) for gpu in become}
    found = [messages.BECOMES_EXCLUSIVE.fill(gpu=gpu, users=gpu_holders.some(of)) for gpu, of in users.items() if of]
    problem = gpu_holders.unknown(answer)
    return [*found, *([messages.USERS_UNKNOWN.fill(problem=problem)] if problem else [])]


def closed(gpus: Iterable[Modes], before: Mapping[str, str]) -> list[str]:
    """List the GPUs that a person has closed, as sentences.

    before: the compute mode of each from before this collection set it, if it is known only here.
    """
    return [
        messages.GPU_CLOSED.fill(gpu=gpu.name, uuid=gpu.uuid, before=before.get(gpu.uuid, "DEFAULT"))
        for gpu in gpus
        if gpu.compute_mode == modes.PROHIBITED
    ]


def not_returned(gpus: tuple[Modes, ...], kept: Mapping[tuple[str, str], str]) -> list[str]:
    """List, as sentences, the modes that cannot be set back now."""
    here = {gpu.uuid: gpu for gpu in gpus}
    lost = [messages.GPU_AWAY.fill(gpu=gpu, setting=what, before=was) for (gpu, what), was in sorted(kept.items()) if gpu not in here]
    divided = [
        messages.GPU_DIVIDED.fill(gpu=here[gpu].name, setting=what, before=was)
        for (gpu, what), was in sorted(kept.items())
        if gpu in here and here[gpu].mig
    ]
    before = {gpu: was for (gpu, what), was in kept.items() if what == MODE}
    return [*lost, *divided, *closed((here[uuid] for uuid in sorted({gpu for gpu, _what in kept} & set(here))), before)]


def changing(settings: list[Setting]) -> Plan:
    """Plan the commands that change modes, each with the one that undoes it. A mode that is right gets none."""
    differing = [s for s in settings if s.now != s.after]
    commands: list[transaction.Command] = [
        {"argv": setter(s, s.after), "timeout": modes.SECONDS, "why": s.why, "accepts": list(modes.GOOD), "undo": setter(s, s.now)}
        for s in differing
        if s.now
    ]
    return Plan(
        differences=tuple(Difference("mode", s.gpu, s.what, s.now, s.after, s.why) for s in differing if s.now), commands=tuple(commands)
    )


def setter(setting: Setting, value: str) -> list[str]:
    """Return the command that sets a mode.

    NVIDIA's DRA driver sets both by the same calls (cmd/gpu-kubelet-plugin/nvlib.go).
    """
    if setting.what == MODE:
        return [modes.PROGRAM, "-i", setting.gpu, "-c", value]
    return [modes.PROGRAM, "compute-policy", "-i", setting.gpu, "--set-timeslice", str(INTERVALS.index(value))]


def reader(setting: Setting) -> tuple[list[str], str]:
    """Return the command by which the program on the host reads a mode back, and the pattern of its value."""
    if setting.what == MODE:
        return [modes.PROGRAM, "-i", setting.gpu, "--query-gpu=compute_mode", "--format=csv,noheader"], r"^(\w+)$"
    return [modes.PROGRAM, "compute-policy", "-i", setting.gpu, "--list"], modes.VALUE


def text(settings: list[Setting], before: Mapping[tuple[str, str], str], resolved: Iterable[tuple[Modes, GpuEntry]]) -> str:
    """Return the settings that the program on the host follows, with the modes that are given back later."""
    rows = []
    for setting in settings:
        argv, pattern = reader(setting)
        rows.append(
            {
                "name": f"{setting.gpu}: {setting.what}",
                "value": setting.after,
                "read": argv,
                "pattern": pattern,
                "set": setter(setting, setting.after),
                "accepts": list(modes.GOOD),
            }
        )
    found: dict[str, Any] = {
        "schema": 1,
        "writer": "gpufleet.nvidia",
        "units": [SERVICE],
        "seconds": modes.SECONDS,
        "settings": rows,
        "before": [[gpu, what, was] for (gpu, what), was in sorted(before.items())],
        "policies": {gpu.uuid: entry.text for gpu, entry in resolved},
    }
    return json.dumps(found, indent=1, sort_keys=True) + "\n"


def kept_settings(obs: Observation) -> Mapping[str, Any]:
    """Return our own file on the host; {} if there is none.

    Raise PlanError for a broken one, since the modes from before are then not known.
    """
    file = owned_file.readable(obs.file(SETTINGS, WHOLE))
    if not file.exists:
        return {}
    try:
        found = json_bounds.loads(file.content or "")
    except ValueError as error:
        line = getattr(error, "lineno", 0)
        raise broken(f"line {line} is no JSON" if line else "it is no JSON") from None
    if not isinstance(found, dict) or "before" not in found:
        raise broken("it is no table with `before`")
    return found


def broken(why: str) -> PlanError:
    return PlanError(messages.RECORD_BROKEN.fill(problem=why), where=SETTINGS)


def lost(obs: Observation) -> bool:
    """Tell whether our settings were removed from the files that are written together."""
    there = {path for path in PATHS if obs.file(path).exists}
    return bool(there) and SETTINGS not in there


def originals(obs: Observation) -> dict[tuple[str, str], str]:
    """Return (GPU, what) -> the mode from before this collection set it."""
    kept = kept_settings(obs)
    rows = kept.get("before") if kept else []
    if not isinstance(rows, list) or not all(is_mode(row) for row in rows):
        raise broken("`before` is no list of GPUs with their modes")
    return {(gpu, what): was for gpu, what, was in rows}


def is_mode(row: object) -> bool:
    if not isinstance(row, list) or len(row) != 3 or not all(isinstance(word, str) for word in row):
        return False
    gpu, what, was = row
    return bool(wanted.UUID.fullmatch(gpu)) and ((what == MODE and was in modes.COMPUTE_MODES) or (what == SLICE and was in INTERVALS))


def plan_absent(policy: Policy, obs: Observation, why: str = messages.SHARING_WITHDRAWN.fill()) -> Plan:
    """Plan to remove the files and set the modes back. A driver that is gone has forgotten them."""
    if not all(obs.asked(q) for q in own_files() if q["kind"] == "file"):
        raise NeedMore(own_files())
    file = owned_file.give_back(obs, obs.file(RULES, OWN_UNIT), why=why, own=True)
    daemons = mps.plan_absent(policy, obs, functools.partial(minors_known, policy, obs), why)
    back = caused(merge([daemons, host_service.plan_absent(policy, obs, NAME, (SERVICE,), why), file]), "policy")
    kept = originals(obs) if policy.root == "/" else {}
    if not kept and policy.root == "/" and lost(obs):
        return merge([back, Plan(advice=(messages.RECORD_LOST_ABSENT.fill(path=SETTINGS),))])
    if not kept:
        return back
    asked = [modes.MODES, *([modes.TIME_SLICES] if any(what == SLICE for _gpu, what in kept) else [])]
    if not all(obs.asked(q) for q in asked):
        raise NeedMore(asked)
    # A driver that does not answer has forgotten them. One whose answer is not understood may still have them, and only our file knows the
    # modes from before: that is a refusal (modes.read).
    if any(obs.attempt(q).get("error") or obs.attempt(q).get("rc") not in modes.GOOD for q in asked):
        return merge([back, Plan(advice=(messages.DRIVER_SILENT.fill(),))])
    gpus = modes.read(obs, (), slices=len(asked) > 1)
    return merge([back, changing(given_up(gpus, kept, set())), Plan(advice=tuple(not_returned(gpus, kept)))])
