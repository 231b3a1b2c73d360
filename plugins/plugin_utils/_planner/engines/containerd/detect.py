# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""containerd: which instances are on a host, what they can do, and whose they are. The plans are made in containerd_plan."""

from __future__ import annotations

import dataclasses as dc
import posixpath
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner import processes, queries, versions
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.adoption import nvidia_ctk
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.engines import cdi_versions, traits
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.engines.containerd import absent, options, releases
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.engines.containerd import config as containerd_files
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.engines.containerd import plan as containerd_plan
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.engines.containerd.config import FileSet
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.formats import toml, toml_file
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.kubernetes import cgroup_driver
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.managers import owners
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.managers.owners import Owner
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.model import Cdi, Evidence, Instance, NeedMore, PlanError, Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.observation import Observation
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.projections import containerd_places
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.versions import Version

plan = containerd_plan.plan
reasons = containerd_plan.reasons
plan_absent = absent.plan_absent
remnant = absent.remnant
main = absent.main
marked = absent.marked
claims = absent.claims

PACKAGES = ["containerd", "containerd.io", "moby-containerd", *owners.DOCKER_PACKAGES]
NAMES = ["containerd"]
OTHER_PROGRAMS = ("dockerd", "crio")  # of engines that a version may stand for in another root directory
RELATIVE = (
    "containerd runs with a configuration whose path is relative ({config}), so that nobody knows which file it is: start it with an "
    "absolute path and run again, or take containerd out of the option engines")
READ_FLAGS: Mapping[str, str] = {"--config": "path", "-c": "path", "--address": "address", "-a": "address"}


@dc.dataclass(frozen=True)
class Daemon:
    """A containerd as its command line (or its absence) tells it."""

    config: str
    address: str
    binary: str
    unit: str
    running: bool
    owner: Owner | None = None
    pid: int = 0
    ticks: int = 0

    @property
    def process(self) -> dict[str, int] | None:
        return {"pid": self.pid, "ticks": self.ticks} if self.pid else None


def questions(policy: Policy) -> list[queries.Question]:
    """Everything a normal host needs, in one look."""
    config = policy.config_path or releases.CONFIG
    drop_ins = posixpath.join(posixpath.dirname(config), "conf.d")
    # Ours by name as well: a glob does not tell that it is not there, and on untouched hosts the plan needs to know.
    keep = containerd_places.keep(policy.handlers)
    ours = queries.file(posixpath.join(drop_ins, releases.DROP_IN), keep)
    files = [queries.file(config, keep), queries.glob(posixpath.join(drop_ins, "*.toml"), keep), ours, queries.package(PACKAGES)]
    files.append(queries.file(nvidia_ctk.MISPLACED, content=False))
    if policy.root != "/":
        return [*files, *owners.questions()]
    socket = policy.socket or releases.SOCKET
    unit = policy.service or releases.UNIT
    return [
        *files, *owners.questions(), *cgroup_driver.questions(), queries.processes(NAMES, READ_FLAGS),
        queries.units([unit, *owners.unit_names()]), queries.which(NAMES), queries.cri(socket, "Status"), queries.cri(socket, "Version"),
    ]  # fmt: skip


def find(policy: Policy, obs: Observation) -> tuple[Instance, ...]:
    """All containerds of the host, those of others included, with the reason why they are left alone."""
    if policy.root != "/":
        return _offline(policy, obs)
    daemons = _daemons(policy, obs)
    if policy.config_path:
        daemons = [d for d in daemons if d.config == policy.config_path] or _by_options(policy, obs)
    elif policy.socket:
        daemons = [d for d in daemons if policy.socket in (d.address, "")] or daemons
    foreign = () if processes.declared(policy) else processes.called(obs, "containerd")
    return (*(_instance(policy, obs, d) for d in daemons), *(processes.instance("containerd", "containerd", p) for p in foreign))


def _daemons(policy: Policy, obs: Observation) -> list[Daemon]:
    found = []
    for process in obs.processes():
        argv = [str(a) for a in process.get("argv") or ()]
        if processes.program(process) != "containerd":
            continue
        config = option(argv, "--config", "-c") or releases.CONFIG
        owner = owners.of_process(obs, process, config)
        address, unit = option(argv, "--address", "-a"), _unit(policy, obs, process)
        known = {"pid": int(process["pid"]), "ticks": int(process.get("ticks") or 0)}
        found.append(Daemon(config, address, str(process.get("exe") or ""), unit, True, owner, **known))
    for owner in owners.present(obs):
        if not any(d.owner is owner for d in found):
            found.append(Daemon(owner.config, owner.socket, "", "", False, owner))
    if not any(d.owner is None or not d.owner.own_engine for d in found) and not processes.called(obs, "containerd"):
        installed = obs.raw(queries.which(NAMES)).get("found", {}).get("containerd")
        if installed or obs.unit(policy.service or releases.UNIT):
            found.append(_stopped(policy, obs, releases.CONFIG))
    return found


def _unit(policy: Policy, obs: Observation, process: Mapping[str, Any]) -> str:
    """The daemon's unit by its control group; by systemd's word on the usual unit where a hybrid hierarchy hides it."""
    if policy.service or process.get("unit"):
        return policy.service or str(process["unit"])
    return releases.UNIT if obs.unit(releases.UNIT).get("MainPID") == str(process.get("pid")) else ""


def _by_options(policy: Policy, obs: Observation) -> list[Daemon]:
    """The daemon that the options describe, where no verified process has this configuration: one that runs if something does."""
    daemon = _stopped(policy, obs, policy.config_path)
    runs = bool(processes.called(obs, "containerd"))
    if runs and not processes.declared(policy):
        return []
    return [dc.replace(daemon, address=policy.socket, running=runs)]


def _stopped(policy: Policy, obs: Observation, config: str) -> Daemon:
    binary = obs.raw(queries.which(NAMES)).get("found", {}).get("containerd") or ""
    unit = policy.service or (releases.UNIT if obs.unit(releases.UNIT) else "")
    return Daemon(config, "", binary, unit, False, owners.of_path(config) or owners.of_host(obs))


def option(argv: list[str], *names: str) -> str:
    """The value of a global option, as `--config F`, `--config=F` or `-c F`; they stand before a subcommand."""
    for n, arg in enumerate(argv[1:], 1):
        name, equals, value = arg.partition("=")
        if name in names:
            return value if equals else (argv[n + 1] if n + 1 < len(argv) else "")
    return ""


def _instance(policy: Policy, obs: Observation, daemon: Daemon) -> Instance:
    if daemon.owner:
        return _refused(daemon, daemon.owner.name, daemon.owner.refusal)
    if daemon.config.startswith(owners.DOCKER_HOMES):
        return dc.replace(_refused(daemon, "docker", owners.DOCKER_OWN_REFUSAL), cri=False)
    if not daemon.config.startswith("/"):
        return dc.replace(_refused(daemon, "package", RELATIVE.format(config=daemon.config)), silent=True)
    guess = versions.parse(policy.engine_version) or Version(2, 0)
    files = _files(policy, obs, daemon.config, guess)
    socket = policy.socket or daemon.address or (containerd_files.socket(files) if files else "") or releases.SOCKET
    status = obs.try_cri(socket, pid=daemon.pid) if daemon.running else {}  # one that does not answer is refused below
    info = (status.get("info") or {}).get("config")
    config: Mapping[str, Any] = info if isinstance(info, Mapping) else {}
    off = containerd_files.cri_disabled(files) if files and not config else None
    # One that is left alone is not worth a second look for its program's own word.
    silent = daemon.running and not off and not (status and obs.try_cri(socket, "Version"))
    version_text = _packaged(obs) if off or silent else _version(obs, daemon, socket)
    version = versions.parse(version_text) or guess
    if daemon.unit and not obs.unit_asked(daemon.unit):
        # Without its InvocationID a restart could hit a daemon that someone else has restarted meanwhile.
        raise NeedMore([queries.units([daemon.unit])])
    owner, refusal = _cri_off(obs, files, off) if files and off else ("package", "")
    cri = containerd_files.effective(files, version) if files else {}
    serves = not refusal
    refusal = refusal or _stopped_refusal(obs, daemon) or (_silence(obs, daemon, socket) if silent else "")
    return Instance(
        engine="containerd", version=version_text, binary=daemon.binary, socket=socket, config_path=daemon.config, unit=daemon.unit,
        owner=owner, running=daemon.running, schema=files.schema if files else 0,
        cdi=_cdi(obs, daemon, config, files, version, ask_dump=not refusal), cri=serves, refusal=refusal, silent=silent,
        invocation_id=obs.unit(daemon.unit).get("InvocationID", "") if daemon.unit else "",
        default_handler=_default_handler(config, cri), handlers=_handlers(config, cri, version),
        low_level=containerd_plan.low_level(policy, obs, files, version) if files else "",
        pid=daemon.pid, ticks=daemon.ticks)


def _stopped_refusal(obs: Observation, daemon: Daemon) -> str:
    """A daemon that does not run can neither tell nor prove anything, so nothing is written for it."""
    if daemon.running:
        return ""
    state = obs.unit(daemon.unit).get("ActiveState") if daemon.unit else ""
    return (
        f"containerd is installed but not running ({daemon.unit or 'its unit'} is {state or 'not known to systemd'}): "
        "start it and run again, or take containerd out of the option engines")


def _silence(obs: Observation, daemon: Daemon, socket: str) -> str:
    """Without the daemon's own word nobody knows what it works with, nor whether it would live with a change."""
    asked = (obs.said_by(queries.cri(socket, method), daemon.pid) for method in ("Status", "Version"))
    why = next((str(a["error"].get("message") or "no reason given") for a in asked if "error" in a), "it says nothing")
    return (
        f"containerd runs, but its CRI does not answer at {socket} ({why}): see `journalctl -u {daemon.unit or 'containerd'}` for "
        "\"failed to load plugin\", mend that and run again, or take containerd out of the option engines")


def _refused(daemon: Daemon, owner: str, refusal: str) -> Instance:
    nothing = Cdi(False, False, (), "", Evidence("files", "not looked at: the configuration belongs to another system"))
    return Instance(
        engine="containerd", version="", binary=daemon.binary, socket=daemon.address or releases.SOCKET, config_path=daemon.config,
        unit=daemon.unit, owner=owner, running=daemon.running, cdi=nothing, refusal=refusal)


def _files(policy: Policy, obs: Observation, config: str, version: Version) -> FileSet | None:
    """The configuration, or None when it is broken: the plan says where, and what is known without it is reported all the same."""
    try:
        return containerd_files.load(obs, config, version, policy.handlers)
    except PlanError:
        return None


def _version(obs: Observation, daemon: Daemon, socket: str) -> str:
    """Of the running daemon; else of the program, which is not the same while an upgrade waits for its restart.

    Where nothing runs, nothing is planned: a program that cannot be asked then costs a number in a report.
    """
    if daemon.running:
        said = str(obs.cri(socket, "Version", pid=daemon.pid).get("runtime_version") or "")
        if said:
            return said.removeprefix("v")
    if not daemon.binary:
        return ""
    asked = obs.command if daemon.running else obs.try_command
    return versions.banner(asked([daemon.binary, "--version"], daemon.process).stdout)


def _packaged(obs: Observation) -> str:
    return next((v for v in (obs.package(p) for p in PACKAGES[:3]) if v), "")


def _cri_off(obs: Observation, files: FileSet, off: tuple[str, int | None]) -> tuple[str, str]:
    path, line = off
    file = files.get(path)
    entries = [e for e in (file.doc.data.get("disabled_plugins", []) if file else []) if e in releases.CRI_PLUGINS]
    docker = owners.docker_here(obs)
    text = owners.DOCKER_REFUSAL if docker else owners.CRI_REFUSAL
    where = f"{path}:{line}" if line else path
    return ("docker" if docker else "package"), text.format(where=where, entry=entries[0] if entries else "cri")


def _cdi(
    obs: Observation, daemon: Daemon, status: Mapping[str, Any], files: FileSet | None, version: Version, *, ask_dump: bool
) -> Cdi:
    """By the order of evidence: the daemon's status, its binary's dump, the files, the version."""
    newest = cdi_versions.max_cdi(traits.CONTAINERD, str(version))
    field = releases.cri_field(version)
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
    """Both absent: no CDI (1.6). Directories without a switch: always on (2.4)."""
    where = tuple(str(d) for d in found.get(dirs) or ())
    if switch not in found and dirs not in found:
        return Cdi(False, False, (), "", Evidence(source, f"neither {switch} nor {dirs}: this containerd knows no CDI"), False)
    if switch not in found:
        return Cdi(True, True, where, newest, Evidence(source, f"{dirs} and no {switch}: CDI is always on"), field)
    on = found[switch] is True
    return Cdi(True, on, where, newest, Evidence(source, f"{switch} = {toml.dumps(on)}"), field)


def _cdi_of_files(files: FileSet | None, version: Version, newest: str, field: bool) -> Cdi:
    facts = releases.facts(version)
    if facts.cdi == "none":
        return Cdi(False, False, (), "", Evidence("version", f"containerd {version} knows no CDI"), False)
    cri = containerd_files.effective(files, version) if files else {}
    dirs = tuple(str(d) for d in cri.get("cdi_spec_dirs") or releases.CDI_SPEC_DIRS)
    if facts.cdi == "always":
        return Cdi(True, True, dirs, newest, Evidence("version", f"CDI is always on in containerd {version}"), field)
    if isinstance(cri.get("enable_cdi"), bool):
        return Cdi(True, cri["enable_cdi"], dirs, newest, Evidence("files", f"enable_cdi = {toml.dumps(cri['enable_cdi'])}"), field)
    on = facts.cdi == "on"
    return Cdi(True, on, dirs, newest, Evidence("version", f"CDI is {'on' if on else 'off'} by default in containerd {version}"), field)


def _default_handler(status: Mapping[str, Any], cri: Mapping[str, Any]) -> str:
    return str(toml.lookup(status, ("containerd", "defaultRuntimeName")) or toml.lookup(cri, ("containerd", "default_runtime_name")) or "")


def _handlers(status: Mapping[str, Any], cri: Mapping[str, Any], version: Version) -> dict[str, str]:
    found = toml.lookup(status, ("containerd", "runtimes")) or toml.lookup(cri, ("containerd", "runtimes")) or {}
    found = options.of_handlers(found, version)
    return {str(n): str(((r or {}).get("options") or {}).get("BinaryName") or "") for n, r in found.items()}


def _of_another(policy: Policy, obs: Observation) -> bool:
    """Whether engine_version, all that speaks for a containerd in this tree, is another engine's: by the options, or by its program."""
    if "containerd" in policy.engines:
        return False
    if "auto" not in policy.engines:
        return True
    asked = [q for q in (queries.which([name]) for name in OTHER_PROGRAMS) if obs.asked(q)]
    return not policy.config_path and any(path for q in asked for path in obs.raw(q).get("found", {}).values())


def _offline(policy: Policy, obs: Observation) -> tuple[Instance, ...]:
    """Another root directory: nothing runs there, so only files, the package database and the user can tell."""
    others = [Daemon(o.config, o.socket, "", "", False, o) for o in owners.present(obs)]
    config = policy.config_path or releases.CONFIG
    owner_ = owners.of_path(config)
    if owner_:
        return (_instance(policy, obs, Daemon(config, owner_.socket, "", "", False, owner_)),)
    packaged = _packaged(obs)
    if others and not (policy.config_path or packaged or obs.file(config, containerd_places.keep(policy.handlers)).exists):
        return tuple(_instance(policy, obs, d) for d in others)  # theirs is the containerd of this tree, and no second one is made up
    if not (
        packaged
        or obs.file(config, containerd_places.keep(policy.handlers)).exists
        or (policy.engine_version and not _of_another(policy, obs))
    ):
        return tuple(_instance(policy, obs, d) for d in others)
    text = policy.engine_version or packaged
    version = versions.parse(text)
    if version is None:
        raise PlanError(
            f"the version of containerd {'is not readable: ' + text if text else 'is not known'}", where=policy.root,
            why="nothing runs in another root directory, and its package database names none",
            next='Set engine_version (gpufleet_engine_version), for example to "1.7.24".')
    files = _files(policy, obs, config, version)
    off = containerd_files.cri_disabled(files) if files else None
    owner, refusal = _cri_off(obs, files, off) if files and off else ("package", "")
    cri = containerd_files.effective(files, version) if files else {}
    plain = Instance(
        engine="containerd",
        version=str(version),
        binary="/usr/bin/containerd",
        socket=policy.socket or releases.SOCKET,
        config_path=config,
        unit=policy.service or releases.UNIT,
        owner=owner,
        running=False,
        schema=files.schema if files else 0,
        cri=not refusal,
        refusal=refusal,
        cdi=_cdi_of_files(files, version, cdi_versions.max_cdi(traits.CONTAINERD, str(version)), releases.cri_field(version)),
        default_handler=_default_handler({}, cri),
        handlers=_handlers({}, cri, version),
        low_level=containerd_plan.low_level(policy, obs, files, version) if files else "",
    )
    return (*(_instance(policy, obs, d) for d in others), plain)
