# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Detect the containerds of a host, what they can do, and why one is left alone.

`daemons` finds them, `plan` and `by_manager` plan.
"""

from __future__ import annotations

import dataclasses as dc
import posixpath
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner import host_paths, processes, queries, refusals, traits, versions
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.adoption import nvidia_ctk
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.engines import cdi_directories, cdi_versions, named_file
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.engines.containerd import (
    absent,
    aims,
    by_manager,
    daemons,
    detected,
    engine_rules,
    next_boot,
    options,
    releases,
    served,
    sources,
    template,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.engines.containerd import config as containerd_files
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.engines.containerd import plan as containerd_plan
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.engines.containerd.config import FileSet
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.engines.containerd.daemons import Daemon
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.engines.containerd.messages import about_daemons
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.errors import NeedMore, PlanError, Refusal
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.formats import toml, toml_file
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.kubernetes import cgroup_driver
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.managers import docker, known, messages
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.managers.manager import Manager, Place
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.managers.package import PACKAGE
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.model import CDI_DIRS, Cdi, Evidence, Instance, Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.observation import Observation
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.projections import containerd_places
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.unit_files import start
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.versions import Version

plan = by_manager.plan
reasons = containerd_plan.reasons
plan_absent = absent.plan_absent
remnant = absent.remnant
main = absent.main
marked = absent.marked
claims = absent.claims

PACKAGES = [*dict.fromkeys((*releases.PACKAGES, *docker.PACKAGES))]
OTHER_PROGRAMS = ("dockerd", "crio")  # of engines that a version may stand for in another root directory


def questions(policy: Policy) -> list[queries.Question]:
    """Return all questions that a normal host needs, for one look."""
    files = [q for config, place in absent.homes(policy) for q in _files_at(policy, config, place)]
    files += [queries.package(PACKAGES), queries.file(nvidia_ctk.MISPLACED, content=False), *known.questions(), *known.confinements()]
    if policy.root != "/":
        return [*files, queries.which(daemons.NAMES), *start.questions(policy.root, policy.service or releases.UNIT)]
    units = [policy.service or releases.UNIT, *known.unit_names()]
    sockets = dict.fromkeys([policy.socket or releases.SOCKET, *(m.socket for m in known.served() if m.socket)])
    return [
        *files,
        *cgroup_driver.questions(),
        queries.processes(known.executables(), daemons.READ_FLAGS, detected.ENVIRONMENT),
        queries.units(units),
        queries.which(daemons.NAMES),
        *(queries.cri(socket, method) for socket in sockets for method in ("Status", "Version")),
    ]


def _files_at(policy: Policy, config: str, place: Place) -> list[queries.Question]:
    """Return the questions for a main file, its drop-ins and templates.

    Our own drop-in is asked for by name as well: a glob does not show that it is missing, which a
    plan needs to know.
    """
    keep, found = containerd_places.keep(policy.handlers), []
    for name in place.drop_ins:
        directory = posixpath.join(posixpath.dirname(config), name)
        found += [queries.glob(posixpath.join(directory, "*.toml"), keep), queries.file(posixpath.join(directory, releases.DROP_IN), keep)]
    templates = template.questions(place.detection, config) if place.detection else []
    return [queries.file(config, keep), *found, *templates]


def find(policy: Policy, obs: Observation) -> tuple[Instance, ...]:
    """Find all containerds of the host. Those of others are included, with the reason why they are left alone."""
    if policy.root != "/":
        return _offline(policy, obs)
    foreign = () if processes.declared(policy) else processes.called(obs, "containerd")
    own = (_instance(policy, obs, d) for d in daemons.find(policy, obs))
    return (*own, *(processes.instance("containerd", "containerd", p) for p in foreign))


def _instance(policy: Policy, obs: Observation, daemon: Daemon) -> Instance:
    alone = next_boot.refusal(obs, daemon.manager) if daemon.manager.place is None else served.confined(obs, daemon.manager)
    if alone:
        return _refused(daemon, alone)
    if not daemon.config.startswith("/"):
        return _refused(daemon, Refusal(about_daemons.RELATIVE_PATH.fill(config=daemon.config), kind="silent"))
    guess = versions.parse(policy.engine_version) or Version(2, 0)
    files = _files(policy, obs, daemon.config, guess)
    socket = policy.socket or daemon.socket or (containerd_files.socket(files) if files else "") or releases.SOCKET
    status = obs.try_cri(socket, pid=daemon.pid) if daemon.running else {}  # one that does not answer is refused below
    info = (status.get("info") or {}).get("config")
    config: Mapping[str, Any] = info if isinstance(info, Mapping) else {}
    off = containerd_files.cri_disabled(files) if files and not config else None
    # One that is left alone is not worth a second look for its program's own word.
    silent = daemon.running and not off and not (status and obs.try_cri(socket, "Version"))
    version_text = _packaged(obs, daemon.manager) if off or silent else _version(obs, daemon, socket)
    version = versions.parse(version_text) or guess
    if daemon.unit and not obs.unit_asked(daemon.unit):
        # Without its InvocationID a restart could hit a daemon that was restarted meanwhile.
        raise NeedMore([queries.units([daemon.unit])])
    manager, refusal = _cri_off(obs, files, off, daemon.manager, version) if files and off else (daemon.manager, Refusal())
    cri = containerd_files.effective(files, version) if files else {}
    serves = not refusal
    refusal = refusal or _stopped_refusal(obs, daemon) or (_silence(obs, daemon, socket, files, version) if silent else Refusal())
    detects = detected.why(policy, manager, files, version)
    refusal = refusal or detected.unreachable(policy, manager, files, version)
    cdi = detected.cdi(_cdi(obs, daemon, config, files, version, ask_dump=not refusal), detects)
    return Instance(
        engine="containerd",
        version=version_text,
        binary=daemon.binary,
        socket=socket,
        config_path=daemon.config,
        unit=daemon.unit,
        manager=manager.name,
        running=daemon.running,
        schema=files.schema if files else 0,
        cdi=dc.replace(cdi, next_dirs=_next_cdi_dirs(manager, files, version)),
        cri=serves,
        refusal=refusal,
        detects=detects,
        invocation_id=obs.unit(daemon.unit).get("InvocationID", "") if daemon.unit else "",
        default_handler=_default_handler(config, cri),
        handlers=_handlers(config, cri, version),
        low_level=aims.low_level(policy, obs, files, version) if files else "",
        pid=daemon.pid,
        ticks=daemon.ticks,
        by_path=daemon.by_path,
    )


def _stopped_refusal(obs: Observation, daemon: Daemon) -> Refusal:
    """Return the refusal of a daemon that does not run, an empty one if it runs.

    A stopped daemon can neither report nor prove anything, so nothing is written for it.
    """
    if daemon.running:
        return Refusal()
    whose = f"{daemon.manager.title}'s containerd" if daemon.manager.own_engine else "containerd"
    return refusals.stopped(obs, whose, daemon.unit)


def _silence(obs: Observation, daemon: Daemon, socket: str, files: FileSet | None, version: Version) -> Refusal:
    """Return the refusal of a running daemon whose CRI does not answer.

    Without its own report, it is not known what it works with, nor whether it would live with a
    change. The most likely cause is a key that keeps this release from loading CRI.
    """
    for one in engine_rules.broken(files, version)[:1] if files else ():
        place, broken = f"{one.spot.file.path}:{one.spot.line}", one.message(already=True)
        message = about_daemons.CRI_NOT_LOADED.fill(socket=socket, version=str(version), place=place, cause=broken.why, step=broken.next)
        return Refusal(message, kind="silent")
    asked = (obs.said_by(queries.cri(socket, method), daemon.pid) for method in ("Status", "Version"))
    errors = (str(a["error"].get("message") or about_daemons.NO_REASON_GIVEN.fill()) for a in asked if "error" in a)
    cause = next(errors, about_daemons.SAYS_NOTHING.fill())
    return Refusal(about_daemons.CRI_SILENT.fill(socket=socket, cause=cause, log=_words(daemon)), kind="silent")


def _words(daemon: Daemon) -> str:
    """Return the place in which a person reads the daemon's log. k3s starts it as its child and gives it a file of its own."""
    log = daemon.manager.place.log if daemon.manager.place else ""
    if log:
        return posixpath.normpath(posixpath.join(posixpath.dirname(daemon.config), log))
    return f"`journalctl -u {daemon.unit or 'containerd'}`"


def _refused(daemon: Daemon, refusal: Refusal) -> Instance:
    nothing = Cdi(False, False, (), "", Evidence("files", about_daemons.NOT_INSPECTED.fill()))
    return Instance(
        engine="containerd",
        version="",
        binary=daemon.binary,
        socket=daemon.address or releases.SOCKET,
        config_path=daemon.config,
        unit=daemon.unit,
        manager=daemon.manager.name,
        running=daemon.running,
        cdi=nothing,
        cri=daemon.manager.cri,
        refusal=refusal,
    )


def _files(policy: Policy, obs: Observation, config: str, version: Version) -> FileSet | None:
    """Return the configuration, None if it is broken.

    The plan then names the fault, and what is known without the file is reported all the same.
    """
    try:
        return containerd_files.load(obs, config, version, policy.handlers)
    except PlanError:
        return None


def _version(obs: Observation, daemon: Daemon, socket: str) -> str:
    """Return the version of the running daemon, else that of the program, '' if it is not known.

    The two differ while an upgrade waits for its restart. If nothing runs, nothing is planned, so a
    program that cannot be asked only costs a number in a report.
    """
    if daemon.running:
        said = str(obs.cri(socket, "Version", pid=daemon.pid).get("runtime_version") or "")
        if said:
            return said.removeprefix("v")
    if not daemon.binary:
        return ""
    asked = obs.command if daemon.running else obs.try_command
    return versions.banner(asked([daemon.binary, "--version"], daemon.process).stdout)


def _packaged(obs: Observation, manager: Manager) -> str:
    """Return the version in the package database, '' if it has none. It knows nothing of a containerd that a manager brings along."""
    return "" if manager.own_engine else next((v for v in (obs.package(p) for p in releases.PACKAGES) if v), "")


def _cri_off(obs: Observation, files: FileSet, off: tuple[str, int | None], manager: Manager, version: Version) -> tuple[Manager, Refusal]:
    """Return the manager and the refusal of a containerd whose file switches CRI off, with the file that a person edits."""
    path, line = off
    file = files.get(path)
    source = sources.of(obs, manager, path, version) if path == files.root_path else None
    entries = [e for e in (file.doc.data.get("disabled_plugins", []) if file else []) if e in releases.CRI_PLUGINS]
    dockers = manager is PACKAGE and docker.here(obs)
    where = source.place(line) if source else f"{path}:{line}" if line else path
    entry = entries[0] if entries else "cri"
    whose = manager.title if manager.own_engine else "containerd"
    if dockers:
        return docker.DOCKER, Refusal(messages.SERVES_DOCKER_ONLY.fill(where=where, entry=entry))
    return manager, Refusal(about_daemons.CRI_DISABLED.fill(where=where, entry=entry, daemon=whose), kind="unfit")


def _cdi(obs: Observation, daemon: Daemon, status: Mapping[str, Any], files: FileSet | None, version: Version, *, ask_dump: bool) -> Cdi:
    """Return the CDI support by the order of evidence: the daemon's status, its binary's dump, the files, the version."""
    newest = cdi_versions.max_cdi(traits.CONTAINERD, str(version))
    field = releases.cri_field(version)
    if daemon.manager.own_engine and not daemon.running:  # only its process would show the path of its program
        return Cdi(False, False, (), "", Evidence("version", about_daemons.NOT_RUNNING_NO_VERSION.fill()))
    if status:
        return _switch(status, "enableCDI", "cdiSpecDirs", newest, field, "cri-status")
    if ask_dump and daemon.binary and files and files.root:
        dump = obs.command([daemon.binary, "-c", daemon.config, "config", "dump"], daemon.process, containerd_places.keep())
        if dump.ok:
            try:
                data = toml_file.printed(dump.stdout, dump.answer, "containerd config dump")
            except PlanError:
                data = {}
            for table in (containerd_places.V3_NAMES, containerd_places.V2_NAMES):
                if containerd_files.uses(data, table):
                    return _switch(toml.lookup(data, table), "enable_cdi", "cdi_spec_dirs", newest, field, "dump")
    return _cdi_of_files(files, version, newest, field)


def _switch(found: Mapping[str, Any], switch: str, dirs: str, newest: str, field: bool, source: str) -> Cdi:
    """Read the CDI support from a table. Switch and directories both absent: no CDI (1.6). Directories alone: always on (2.4)."""
    where = host_paths.clean_directories(str(d) for d in found.get(dirs, CDI_DIRS) or ())
    if switch not in found and dirs not in found:
        return Cdi(
            False, False, (), "", Evidence(source, about_daemons.CDI_UNSUPPORTED_BY_KEYS.fill(switch=switch, directories=dirs)), False
        )
    if switch not in found:
        return Cdi(
            True, True, where, newest, Evidence(source, about_daemons.CDI_ALWAYS_BY_KEYS.fill(directories=dirs, switch=switch)), field
        )
    on = found[switch] is True
    return Cdi(True, on, where, newest, Evidence(source, about_daemons.CDI_SWITCH.fill(switch=switch, value=toml.dumps(on))), field)


def _cdi_of_files(files: FileSet | None, version: Version, newest: str, field: bool) -> Cdi:
    facts = releases.facts(version)
    if facts.cdi == "none":
        return Cdi(False, False, (), "", Evidence("version", about_daemons.CDI_UNSUPPORTED.fill(version=str(version))), False)
    cri = containerd_files.effective(files, version) if files else {}
    dirs = host_paths.clean_directories(str(d) for d in cri.get("cdi_spec_dirs", CDI_DIRS))
    if facts.cdi == "always":
        return Cdi(True, True, dirs, newest, Evidence("version", about_daemons.CDI_ALWAYS.fill(version=str(version))), field)
    if isinstance(cri.get("enable_cdi"), bool):
        return Cdi(
            True,
            cri["enable_cdi"],
            dirs,
            newest,
            Evidence("files", about_daemons.CDI_SWITCH.fill(switch="enable_cdi", value=toml.dumps(cri["enable_cdi"]))),
            field,
        )
    on = facts.cdi == "on"
    row = about_daemons.CDI_ON_BY_DEFAULT if on else about_daemons.CDI_OFF_BY_DEFAULT
    return Cdi(True, on, dirs, newest, Evidence("version", row.fill(version=str(version))), field)


def _next_cdi_dirs(manager: Manager, files: FileSet | None, version: Version) -> tuple[str, ...] | None:
    """Return the directories of specs after the next start.

    None if they are not known: a file cannot be read, or a manager may render it again before that.
    """
    if manager is not PACKAGE or not files or not files.root:
        return None
    return cdi_directories.named(containerd_files.effective(files, version).get("cdi_spec_dirs"))


def _default_handler(status: Mapping[str, Any], cri: Mapping[str, Any]) -> str:
    return str(toml.lookup(status, ("containerd", "defaultRuntimeName")) or toml.lookup(cri, ("containerd", "default_runtime_name")) or "")


def _handlers(status: Mapping[str, Any], cri: Mapping[str, Any], version: Version) -> dict[str, str]:
    found = toml.lookup(status, ("containerd", "runtimes")) or toml.lookup(cri, ("containerd", "runtimes")) or {}
    found = options.of_handlers(found, version)
    return {str(n): str(((r or {}).get("options") or {}).get("BinaryName") or "") for n, r in found.items()}


def _of_another(policy: Policy, obs: Observation) -> bool:
    """Tell whether engine_version, the only sign of a containerd in this tree, belongs to another engine.

    The options or the other engine's program show that.
    """
    if "containerd" in policy.engines:
        return False
    if "auto" not in policy.engines:
        return True
    asked = [q for q in (queries.which([name]) for name in OTHER_PROGRAMS) if obs.asked(q)]
    return not policy.config_path and any(path for q in asked for path in obs.raw(q).get("found", {}).values())


def _offline(policy: Policy, obs: Observation) -> tuple[Instance, ...]:
    """Find the containerds in another root directory. Nothing runs there, so only files, the package database and the user can answer."""
    there = [_in_tree(policy, obs, m.config, m) for m in known.present(obs)]
    config = policy.config_path or _config_by_unit(policy, obs) or releases.CONFIG
    manager = known.of_config(config) or known.of_boot(obs, config == releases.CONFIG)
    if manager:
        return (_in_tree(policy, obs, config, manager),)
    named_file.require(policy, obs, releases.CONFIG, containerd_places.keep(policy.handlers))
    packaged = _packaged(obs, PACKAGE)
    written = obs.file(config, containerd_places.keep(policy.handlers)).exists
    if there and not (policy.config_path or packaged or (written and daemons.find_program(obs))):
        return tuple(there)  # that is the containerd of this tree, and a file that no program reads makes no second one
    if not (packaged or written):
        prepared = [] if there or policy.config_path else [_in_tree(policy, obs, m.config, m) for m in known.with_template(obs)]
        if prepared or not policy.engine_version or _of_another(policy, obs):
            return (*there, *prepared)
    address = host_paths.as_opened(processes.flag(daemons.unit_start(policy, obs).argv, *daemons.ADDRESS))
    return (*there, _in_tree(policy, obs, config, known.image(obs) or PACKAGE, address))


def _config_by_unit(policy: Policy, obs: Observation) -> str:
    unit = daemons.unit_start(policy, obs)
    given = processes.flag(unit.argv, *daemons.CONFIG)
    start.require_known(unit, given, daemons.CONFIG[0])
    return host_paths.as_opened(given)


def _in_tree(policy: Policy, obs: Observation, config: str, manager: Manager, address: str = "") -> Instance:
    if manager.place is None:
        return _instance(policy, obs, Daemon(config, manager.socket, "", "", False, manager))
    text = policy.engine_version or _packaged(obs, manager)
    version = versions.parse(text)
    if version is None:
        message = about_daemons.TREE_VERSION_UNKNOWN.fill()
        if text:
            message = about_daemons.TREE_VERSION_UNREADABLE.fill(text=text)
        raise PlanError(message, where=policy.root)
    files = _files(policy, obs, config, version)
    off = containerd_files.cri_disabled(files) if files else None
    shown_manager, refusal = _cri_off(obs, files, off, manager, version) if files and off else (manager, Refusal())
    detects = detected.why(policy, manager, files, version)
    serves, refusal = not refusal, refusal or detected.unreachable(policy, manager, files, version)
    cri = containerd_files.effective(files, version) if files else {}
    return Instance(
        engine="containerd",
        version=str(version),
        binary="/usr/bin/containerd",
        socket=policy.socket or manager.socket or address or releases.SOCKET,
        config_path=config,
        unit=policy.service or manager.place.units[0],
        manager=shown_manager.name,
        running=False,
        schema=files.schema if files else 0,
        cri=serves,
        refusal=refusal,
        detects=detects,
        cdi=detected.cdi(
            _cdi_of_files(files, version, cdi_versions.max_cdi(traits.CONTAINERD, str(version)), releases.cri_field(version)), detects
        ),
        default_handler=_default_handler({}, cri),
        handlers=_handlers({}, cri, version),
        low_level=aims.low_level(policy, obs, files, version) if files else "",
    )
