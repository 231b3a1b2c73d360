# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find Docker Engine by its process, plan our keys in its daemon.json, and prove it by its own /info."""

from __future__ import annotations

import dataclasses as dc
import posixpath
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner import (
    host_paths,
    low_level,
    owned_file,
    processes,
    queries,
    refusals,
    take_back,
    traits,
    transaction,
    versions,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.adoption import nvidia_ctk_docker, programs
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.engines import cdi_versions, named_file
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.engines.docker import config, messages, next_start
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.engines.docker import plan as docker_plan
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.engines.docker.config import CONFIG, PACKAGES, SOCKET, UNIT
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.engines.docker.plan import CDI_ON_SINCE, CDI_SINCE
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.errors import NeedMore, PlanError, Refusal
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.formats import json_text
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.managers import known
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.model import (
    CDI_DIRS,
    Cdi,
    Decision,
    Evidence,
    Instance,
    Leftover,
    Plan,
    Policy,
    merge,
    refused,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.observation import File, Observation
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.projections import file_places
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.unit_files import start

# Whether snapd has a Docker.
SNAP = queries.file(config.SNAP_UNIT, content=False)


def questions(policy: Policy) -> list[queries.Question]:
    """List all that a Docker with its files in the usual places needs, in one look."""
    options = policy if config.named(policy) else Policy()
    asked = [
        queries.which(["dockerd"]),
        queries.package([*PACKAGES, config.DESKTOP, nvidia_ctk_docker.PACKAGE]),
        config.question(options.config_path or CONFIG, policy.handlers),
        *(queries.file(h.binary, content=False) for h in policy.handlers),
    ]
    if policy.root != "/":
        return [*asked, *next_start.questions(policy), SNAP, *start.questions(policy.root, config.unit_name(policy))]
    running = queries.processes(["dockerd"], config.READ_FLAGS)
    asked += [running, queries.units([options.service or UNIT])]
    if processes.declared(options):  # which process is Docker's is seen first: its name alone starts no service that systemd listens for
        return asked
    return [*asked, queries.http(options.socket or SOCKET, "/info", daemon="dockerd")]


def find(policy: Policy, obs: Observation) -> tuple[Instance, ...]:
    if policy.root != "/":
        return _own(policy, obs, {})
    daemon, by_options = config.process(obs), config.named(policy) and processes.declared(policy)
    foreign = tuple(p for p in processes.called(obs, "dockerd") if not config.snapped(p) and not by_options)
    own = () if foreign and not daemon else _own(policy, obs, daemon)
    return (*own, *(processes.instance("docker", "Docker", p) for p in foreign))


def _own(policy: Policy, obs: Observation, daemon: Mapping[str, Any]) -> tuple[Instance, ...]:
    """Return the host's own Docker: the verified process, the one that the options describe, or one that is only installed."""
    by_options = policy.root == "/" and config.named(policy) and processes.declared(policy) and bool(processes.called(obs, "dockerd"))
    running = bool(daemon) or by_options
    binary = str(daemon.get("exe") or obs.raw(queries.which(["dockerd"]))["found"].get("dockerd") or "")
    packaged = next((v for v in (obs.package(name) for name in PACKAGES) if v), "")
    elsewhere = refused_elsewhere(policy, obs, daemon, installed=bool(binary or packaged))
    unit = policy.root == "/" and bool(obs.unit((policy.service if config.named(policy) else "") or UNIT))
    if not (binary or packaged or unit or elsewhere or wanted_in_tree(policy)):
        return ()
    where = config.places(policy, obs)
    if elsewhere:
        manager, path, why = elsewhere
        nothing = Cdi(False, False, (), "", Evidence("files", path))
        return (Instance("docker", "", binary, where.socket, path, "", manager, bool(daemon), nothing, cri=False, refusal=why),)
    if config.named(policy):
        named_file.require(policy, obs, config.CONFIG, config.keep(policy.handlers))
    info = config.info(obs, where.socket) if running else {}
    version = version_of(policy, obs, "" if running else binary, packaged, info)
    found = Instance(
        engine="docker",
        version=version,
        binary=binary or "/usr/bin/dockerd",
        socket=where.socket,
        config_path=where.config,
        unit=where.unit,
        manager="package",
        running=running,
        cdi=cdi(version, info, switch(obs, where.config), config.cdi_dirs(policy, obs, where.config)),
        invocation_id=obs.unit(where.unit).get("InvocationID", ""),
        default_handler=str(info.get("DefaultRuntime") or setting(obs, where.config, "default-runtime") or docker_plan.BUILT_IN),
        handlers=read_runtimes(obs, where.config, info),
        low_level=runs(policy, obs, where.config, info),
        cri=False,
        pid=int(daemon.get("pid") or 0),
        ticks=int(daemon.get("ticks") or 0),
    )
    owner = known.image(obs)
    if owner:
        return (dc.replace(found, manager=owner.name, refusal=owner.refusal),)
    return (dc.replace(found, refusal=refusal(policy, obs, found, info)),)


def runs(policy: Policy, obs: Observation, path: str, info: Mapping[str, Any]) -> str:
    """Return the low-level program of the default runtime.

    If that runtime is this collection's or NVIDIA's, return the program of the previous default, otherwise of the built-in one.
    """
    default = str(info.get("DefaultRuntime") or setting(obs, path, "default-runtime") or docker_plan.BUILT_IN)
    before = str((config.kept(obs, path) or {}).get("default-runtime") or "")
    names = [before if default in {h.name for h in policy.handlers} else default, docker_plan.BUILT_IN]
    paths = {name: str((table or {}).get("path") or "") for name, table in (info.get("Runtimes") or {}).items()}
    said = (paths.get(name) or str(setting(obs, path, "runtimes", name, "path") or "") for name in names)
    return low_level.first((*said, docker_plan.BUILT_IN))


def read_runtimes(obs: Observation, path: str, info: Mapping[str, Any]) -> dict[str, str]:
    """Read the runtimes and their programs from the daemon, otherwise from its file. A hidden program is left out."""
    said = info.get("Runtimes") if info else setting(obs, path, "runtimes")
    entries = said if isinstance(said, Mapping) else {}
    found = {name: str(entry.get("path") or "") for name, entry in entries.items() if isinstance(entry, Mapping)}
    return {name: program for name, program in found.items() if not file_places.hidden(program)}


def wanted_in_tree(policy: Policy) -> bool:
    return policy.root != "/" and "docker" in policy.engines and bool(policy.engine_version)


def version_of(policy: Policy, obs: Observation, binary: str, packaged: str, info: Mapping[str, Any]) -> str:
    """Return the version from the running daemon, otherwise from the package, otherwise from the binary.

    In a tree: from the package, otherwise from the option.
    """
    version = str(info.get("ServerVersion") or "") or packaged
    if not version and binary and policy.root == "/":
        version = versions.banner(obs.try_command([binary, "--version"]).stdout)  # of one that does not run, for the report
    return plain(version or policy.engine_version)


def plain(version: str) -> str:
    """Return Docker's own number for a version such as `5:28.5.2-1~debian` or `26.1.5+dfsg1`."""
    parsed = versions.parse(version)
    return ".".join(str(n) for n in parsed.release) if parsed else version


def refused_elsewhere(policy: Policy, obs: Observation, daemon: Mapping[str, Any], *, installed: bool) -> tuple[str, str, Refusal] | None:
    """Refuse a Docker that is not the host's own.

    Return (manager, configuration file, refusal). None if the Docker is the host's own.
    """
    snapped = config.snapped(daemon) or (not daemon and any(config.snapped(p) for p in processes.called(obs, "dockerd")))
    if snapped or (not daemon and not installed and snap_is_there(policy, obs)):
        return "snap", config.SNAP_CONFIG, Refusal(messages.SNAP.fill(), kind="unfit")
    if not daemon and obs.package(config.DESKTOP):
        refused = Refusal(messages.DESKTOP.fill(), kind="unfit")
        return "docker-desktop", "~/.docker/daemon.json", refused
    return None


def snap_is_there(policy: Policy, obs: Observation) -> bool:
    """Tell whether snapd has a Docker that does not run: in a tree, and on a host of whose engines Docker is asked for by name."""
    if policy.root == "/" and not config.named(policy):
        return False
    if not obs.asked(SNAP):
        raise NeedMore([SNAP])
    return obs.exists(config.SNAP_UNIT)


def setting(obs: Observation, path: str, *keys: str) -> Any:
    """Return a value in daemon.json. None if the file does not set it, or is broken, which the plan will report."""
    try:
        return json_text.lookup(config.document(obs, path, ())[1], keys)
    except PlanError:
        return None


def switch(obs: Observation, path: str) -> bool | None:
    """Return features.cdi in daemon.json. None if it is not set."""
    value = setting(obs, path, "features", "cdi")
    return value if isinstance(value, bool) else None


def cdi(version: str, info: Mapping[str, Any], on: bool | None, by_file: tuple[str, ...] | None = CDI_DIRS) -> Cdi:
    """Describe CDI in this Docker by the daemon's list of directories, otherwise by version and switch.

    The list is empty if CDI is off.
    """
    parsed = versions.parse(version)
    series = parsed.series if parsed else (0, 0)
    able = series >= CDI_SINCE
    newest, configured = cdi_versions.max_cdi(traits.DOCKER, version), CDI_DIRS if by_file is None else by_file
    if "CDISpecDirs" in info:
        dirs = host_paths.clean_directories(info["CDISpecDirs"] or ())
        evidence = Evidence("dump", f"/info of Docker {version} lists {list(dirs)}")
        return Cdi(able, bool(dirs), dirs or configured, newest, evidence, next_dirs=by_file)
    enabled = able and (on if on is not None else series >= CDI_ON_SINCE)
    text = f"Docker {version}" + ("" if on is None else f", features.cdi is {str(on).lower()}")
    return Cdi(able, enabled, configured if able else (), newest, Evidence("version", text))


def refusal(policy: Policy, obs: Observation, found: Instance, info: Mapping[str, Any]) -> Refusal:
    if policy.root != "/":
        return Refusal()
    if not found.running:
        return refusals.stopped(obs, "Docker", found.unit)
    if not info:
        silent = messages.DOCKER_SILENT.fill(socket=found.socket, unit=found.unit or UNIT)
        return Refusal(silent, kind="silent")
    return Refusal()


# ---------------------------------------------------------------- plans


def plan(policy: Policy, obs: Observation, instance: Instance, decision: Decision) -> Plan:
    """Plan the way from what is there to the decision."""
    if instance.refusal:
        raise refused(instance)
    flags = config.flags_given(policy, obs)
    file, doc = config.document(obs, instance.config_path, policy.handlers)
    desired = docker_plan.desired(policy, obs, instance, decision, doc, flags)
    check_binaries(policy, obs, decision)
    after, splices = json_text.merge(doc, desired.tree) if desired.tree else (doc, ())
    planned = docker_plan.change(file, doc, after, splices)
    said = advice(policy, instance, decision, flags)
    planned = dc.replace(planned, differences=docker_plan.differences(doc, desired.tree, desired), advice=said)
    planned = dc.replace(planned, leftovers=leftovers(policy, obs, doc) if decision.handler else ())
    info = config.info(obs, instance.socket) if policy.root == "/" else {}
    lag = docker_plan.lag(desired, info)
    planned = next_start.require(next_start.Docker(policy, obs, instance, doc, after.data, flags, info), planned, lag)
    if policy.root != "/":
        return planned
    ended = docker_plan.cost(obs, instance, after, flags) if lag.restart else docker_plan.Cost()
    restarted = lag.restart and (policy.restart == "force" or (policy.restart == "auto" and not ended.containers))
    health = docker_plan.health(instance, desired, restarted)
    checked = docker_plan.validation(instance, config.process(obs) if policy.root == "/" else {}, planned)
    return docker_plan.acted(policy, obs, instance, checked, lag, ended, health)


def leftovers(policy: Policy, obs: Observation, doc: json_text.JsonDocument) -> tuple[Leftover, ...]:
    """List what NVIDIA's tools wrote of our runtimes before us."""
    before, names = config.kept(obs, doc.path), [h.name for h in policy.handlers]
    packaged = bool(obs.package(nvidia_ctk_docker.PACKAGE))
    return nvidia_ctk_docker.found(doc.path, doc.data, before, names, never=policy.adopt == "never", packaged=packaged)


def advice(policy: Policy, instance: Instance, decision: Decision, flags: config.Flags) -> tuple[str, ...]:
    found: list[str] = []
    if policy.cdi_spec_dirs and docker_plan.series(instance) < CDI_SINCE:
        found.append(messages.DIRECTORIES_NOT_WRITTEN.fill(version=instance.version))
    by_flag = [handler.name for handler in policy.handlers if decision.handler and handler.name in config.runtimes_added(flags)]
    if by_flag:
        values = {"runtimes": ", ".join(by_flag), "flag": config.ADD_RUNTIME, "path": instance.config_path}
        if flags.where:
            place = f"{flags.where}:{flags.line}"
            found.append(messages.RUNTIME_GIVEN_BY_UNIT.fill(**values, place=place))
        else:
            found.append(messages.RUNTIME_GIVEN_BY_FLAG.fill(**values))
    return tuple(found)


def check_binaries(policy: Policy, obs: Observation, decision: Decision) -> None:
    """Raise PlanError if the program of a runtime is missing, before anything is touched.

    Docker accepts such a runtime, and each container that asks for it fails.
    """
    programs.require_all(policy, obs, decision, messages.DOCKER_PROGRAM_NEEDED.fill())


def plan_absent(policy: Policy, obs: Observation, instance: Instance) -> Plan:
    """Plan to restore the earlier bytes. If another writer has changed the file since, only our keys go."""
    if instance.refusal:
        return Plan(advice=(instance.refusal.message,))
    flags = config.flags_given(policy, obs)
    file, doc = config.document(obs, instance.config_path, policy.handlers)
    original = owned_file.originals(obs).get(file.path)
    planned, after = given_back(policy, obs, file, doc, original) if original else without_copy(policy, obs, file, doc)
    if planned.empty or policy.root != "/" or not instance.running:
        return planned
    if not config.info(obs, instance.socket):
        return merge([planned, unheard(instance)])
    lag = forgotten(policy, obs, instance, flags, after)
    info = config.info(obs, instance.socket)
    planned = next_start.require(next_start.Docker(policy, obs, instance, doc, after.data, flags, info), planned, lag)
    ended = docker_plan.cost(obs, instance, after, flags) if lag.restart else docker_plan.Cost()
    health = docker_plan.health(instance, docker_plan.Desired({}, {}), False)
    checked = docker_plan.validation(instance, config.process(obs) if policy.root == "/" else {}, planned)
    return docker_plan.acted(policy, obs, instance, checked, lag, ended, health)


def unheard(instance: Instance) -> Plan:
    """Plan for a daemon that does not answer.

    Its restart may end containers that only the daemon can list, so it stays pending.
    """
    row, unit = messages.RESTORED_UNHEARD, instance.unit or "it"
    advice = row.fill(path=instance.config_path, socket=instance.socket, unit=unit)
    return Plan(advice=(advice,), pending=(instance.unit,) if instance.unit else ())


def given_back(
    policy: Policy, obs: Observation, file: File, doc: json_text.JsonDocument, original: Mapping[str, Any]
) -> tuple[Plan, json_text.JsonDocument]:
    """Plan from the journal's copy. Return the plan, and the file as it will be."""
    before = config.kept(obs, file.path)
    if before is None:
        before = without_own(policy, doc, {}).data if doc.root else {}
    if (file.sha256 if file.exists else None) == original.get("sha256_after"):
        planned = owned_file.restore(file, original, owned_file.BACK)
        planned = dc.replace(planned, expect_files={file.path: file.sha256 if file.exists else None})
        empty = json_text.JsonDocument(file.path, "", None)
        return planned, json_text.merge(empty, before)[0] if before else empty
    after = without_own(policy, doc, before)
    for name, entry in (after.data.get("runtimes") or {}).items():
        program = str(entry.get("path") or "") if isinstance(entry, Mapping) else ""
        if posixpath.basename(program).startswith(take_back.PROGRAM) and name not in (before.get("runtimes") or {}):
            raise take_back.other_name(name, program, file.path, json_text.line_of(doc, ("runtimes", name)))
    return dc.replace(taken_out(file, doc, after, whole=not original.get("existed")), released=(file.path,)), after


def without_copy(policy: Policy, obs: Observation, file: File, doc: json_text.JsonDocument) -> tuple[Plan, json_text.JsonDocument]:
    """Plan for a file of which the journal has no copy.

    Only a runtime exactly as we write it is removed. Any other one with our name is from NVIDIA's tool or a person.
    """
    # Arguments in addition to the program, empty ones too, are written by NVIDIA's tools.
    made = tuple(h for h in policy.handlers if json_text.lookup(doc, ("runtimes", h.name)) == {"path": h.binary, **h.options})
    # It is unknown who switched CDI on, and other containers may count on it.
    after = without_own(dc.replace(policy, handlers=made), doc, {"features": json_text.lookup(doc, ("features",)) or {}})
    if not file.exists or after.text == doc.text:
        return Plan(), doc
    if not take_back.may_be_own(policy, obs):
        return Plan(advice=(messages.UNKNOWN_RUNTIME.fill(path=file.path),)), doc
    planned = taken_out(file, doc, after, whole=False)
    cdi_stays = json_text.lookup(doc, ("features", "cdi")) is True
    row = messages.NO_COPY_CDI_STAYS if cdi_stays else messages.NO_COPY
    return dc.replace(planned, advice=(row.fill(path=file.path),)), after


def remnant(policy: Policy, obs: Observation) -> Instance | None:
    """Return the instance for the configuration of a Docker that has been removed. None if there is no file."""
    where = config.named_or_default(policy, obs)
    if not obs.file(where.config, config.keep(policy.handlers)).exists:
        return None
    nothing = Cdi(False, False, (), "", Evidence("files", "Docker is not installed here"))
    return Instance("docker", policy.engine_version, "", where.socket, where.config, "", "package", False, nothing, cri=False)


def main(policy: Policy, obs: Observation) -> str:
    return config.named_or_default(policy, obs).config


def marked(policy: Policy, obs: Observation) -> tuple[str, ...]:
    return ()  # JSON has no comments


def claims(policy: Policy, obs: Observation, path: str) -> bool:
    return path in (CONFIG, config.named_or_default(policy, obs).config)


def without_own(policy: Policy, doc: json_text.JsonDocument, before: Mapping[str, Any] | None) -> json_text.JsonDocument:
    """Remove each key that has the value that we would have written and was not there before."""
    was: Mapping[str, Any] = before or {}
    if json_text.lookup(doc, ("default-runtime",)) in {h.name for h in policy.handlers}:
        key = "default-runtime"
        doc = json_text.merge(doc, {key: was[key]})[0] if key in was else json_text.removed(doc, (key,))
    for handler in policy.handlers:
        entry = json_text.lookup(doc, ("runtimes", handler.name))
        if isinstance(entry, dict) and entry.get("path") == handler.binary and handler.name not in (was.get("runtimes") or {}):
            doc = json_text.removed(doc, ("runtimes", handler.name))
    if json_text.lookup(doc, ("features", "cdi")) is True and "cdi" not in (was.get("features") or {}):
        doc = json_text.removed(doc, ("features", "cdi"))
    for key in ("runtimes", "features"):
        if json_text.lookup(doc, (key,)) == {} and key not in was:
            doc = json_text.removed(doc, (key,))
    return doc


def taken_out(file: File, doc: json_text.JsonDocument, after: json_text.JsonDocument, *, whole: bool) -> Plan:
    """Plan to remove our keys.

    whole: there was no file before our first change, so the file goes too if nothing else was added to it.
    """
    if whole and not after.data:
        return owned_file.remove(file, why=messages.NO_FILE_BEFORE.fill())
    if after.text == doc.text:
        return Plan()
    splice = json_text.Splice(0, len(doc.text), after.text)
    advice = messages.DOCKER_CHANGED_SINCE.fill(path=file.path)
    planned = docker_plan.change(file, doc, after, (splice,))
    changes = tuple(transaction.forgetting(c) for c in planned.changes)
    return dc.replace(planned, changes=changes, differences=(owned_file.keys_out(file.path),), advice=(advice,))


def forgotten(policy: Policy, obs: Observation, instance: Instance, flags: config.Flags, after: json_text.JsonDocument) -> docker_plan.Lag:
    """Return what the daemon still applies of our keys.

    A reload does not apply the absence of a key: a key that the file no longer has takes a restart.
    """
    info = config.info(obs, instance.socket)
    loaded = set(info.get("Runtimes") or {})
    names = {h.name for h in policy.handlers} & loaded - set(after.data.get("runtimes") or {})
    default = info.get("DefaultRuntime") in names
    value = (after.data.get("features") or {}).get("cdi")
    on = value is True or (value is None and docker_plan.series(instance) >= CDI_ON_SINCE) or bool(config.by_flag(flags, "features"))
    restart = (
        (bool(info.get("CDISpecDirs")) and not on)
        or (bool(names) and "runtimes" not in after.data)
        or (default and "default-runtime" not in after.data)
    )
    return docker_plan.Lag(bool(names), restart)
