# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Detect the containerds of a host, what they can do, and why one is left alone.

`daemons` finds them, `plan_instance` and `by_manager` plan.
"""

from __future__ import annotations

import dataclasses as dc
import posixpath
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import (
    host_paths,
    queries,
    query_messages,
    versions,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    PlanError,
    Refusal,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import toml
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Cdi,
    Evidence,
    Instance,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections import (
    containerd_places,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.versions import Version
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import (
    processes,
    refusals,
    traits,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.adoption import (
    nvidia_ctk,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines import (
    cdi_versions,
    named_file,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    absent,
    aims,
    by_manager,
    cdi_support,
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
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    config as containerd_config,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    plan as containerd_plan,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd.config import (
    FileSet,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd.daemons import (
    Daemon,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd.facts import (
    ContainerdFacts,
    read_containerd_facts,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd.messages import (
    about_daemons,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.kubelet import (
    kubelet_facts,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers import (
    docker,
    known,
    messages,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers.manager import (
    Manager,
    ManagerPlace,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers.package import (
    PACKAGE,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.unit_files import start

read_facts = read_containerd_facts
plan_instance = by_manager.plan_by_manager
explain_decision = containerd_plan.explain_containerd_decision
plan_absent = absent.plan_containerd_removal
find_remnant = absent.find_containerd_remnant
get_main_file = absent.get_main_containerd_file
list_marked_files = absent.list_marked_containerd_files
owns_file = absent.owns_containerd_file
find_default_program = aims.find_default_program

PACKAGES = [*dict.fromkeys((*releases.PACKAGES, *docker.PACKAGES))]


def list_questions(policy: Policy) -> list[queries.Question]:
    """Return all questions that a normal host needs, for one look."""
    files = [
        q
        for config, place in absent.list_main_files(policy)
        for q in _list_file_questions(policy, config, place)
    ]
    files += [
        queries.ask_for_packages(PACKAGES),
        queries.ask_for_file(nvidia_ctk.MISPLACED, content=False),
        *known.list_manager_questions(),
        *known.list_confinement_questions(),
    ]
    if policy.root != "/":
        return [
            *files,
            queries.ask_for_program(daemons.NAMES),
            *start.list_unit_start_questions(policy.root, policy.service or releases.UNIT),
        ]
    units = [policy.service or releases.UNIT, *known.list_unit_names()]
    sockets = dict.fromkeys(
        [
            policy.socket or releases.SOCKET,
            *(m.socket for m in known.list_served_managers() if m.socket),
        ]
    )
    return [
        *files,
        *kubelet_facts.list_cgroup_questions(),
        queries.ask_for_processes(
            known.list_containerd_executables(), daemons.READ_FLAGS, detected.ENVIRONMENT
        ),
        queries.ask_for_units(units),
        queries.ask_for_program(daemons.NAMES),
        *(
            queries.ask_for_cri(socket, method)
            for socket in sockets
            for method in ("Status", "Version")
        ),
    ]


def _list_file_questions(
    policy: Policy, config: str, place: ManagerPlace
) -> list[queries.Question]:
    """Return the questions for a main file, its drop-ins and templates.

    Our own drop-in is asked for by name as well: a glob does not show that it is missing, which a
    plan needs to know.
    """
    keep, folders = containerd_places.keep_containerd_places(policy.handlers), []
    for name in place.drop_ins:
        directory = posixpath.join(posixpath.dirname(config), name)
        folders += [
            queries.ask_for_glob(posixpath.join(directory, "*.toml"), keep),
            queries.ask_for_file(posixpath.join(directory, releases.DROP_IN), keep),
        ]
    templates = template.list_template_questions(place.detection, config) if place.detection else []
    return [queries.ask_for_file(config, keep), *folders, *templates]


def find_instances(policy: Policy, facts: ContainerdFacts) -> tuple[Instance, ...]:
    """Find all containerds of the host. Those of others are included, with the reason why they are
    left alone.
    """
    if policy.root != "/":
        return _find_offline_instances(policy, facts)
    foreign = () if processes.is_everything_declared(policy) else facts.daemons.unverified.value
    own = (_build_containerd_instance(policy, facts, d) for d in facts.daemons.found.value)
    return (
        *own,
        *(processes.build_untrusted_instance("containerd", "containerd", p) for p in foreign),
    )


def _build_containerd_instance(policy: Policy, facts: ContainerdFacts, daemon: Daemon) -> Instance:
    alone = (
        next_boot.refuse_next_boot(facts.daemons.boot, daemon.manager)
        if daemon.manager.place is None
        else served.refuse_confined_daemon(facts.daemons.confinement, daemon.manager)
    )
    if alone:
        return _build_refused_instance(daemon, alone)
    if not daemon.config.startswith("/"):
        return _build_refused_instance(
            daemon, Refusal(about_daemons.RELATIVE_PATH.fill(config=daemon.config), kind="silent")
        )
    named = versions.parse_engine_version(policy.engine_version)
    guess = named or Version(2, 0)
    files = _load_files(facts, daemon.config, guess)
    socket = (
        policy.socket
        or daemon.socket
        or (containerd_config.get_configured_socket(files) if files else "")
        or releases.SOCKET
    )
    # one that does not answer is refused below
    status = facts.serving.find_answer(socket, "Status", daemon.pid) if daemon.running else {}
    info = (status.get("info") or {}).get("config")
    config: Mapping[str, Any] = info if isinstance(info, Mapping) else {}
    off = containerd_config.find_disabled_cri(files) if files and not config else None
    # One that is left alone is not worth a second look for its program's own word.
    silent = (
        daemon.running and not off and not (status and facts.serving.find_answer(socket, "Version"))
    )
    version_text = (
        _get_package_version(facts, daemon.manager)
        if off or silent
        else _get_daemon_version(facts, daemon, socket)
    )
    reported = versions.parse_engine_version(version_text) or named
    version = reported or guess
    invocation = facts.daemons.invocations.get(daemon.unit) if daemon.unit else ""
    manager, refusal = (
        _refuse_disabled_cri(facts, files, off, daemon.manager, version)
        if files and off
        else (daemon.manager, Refusal())
    )
    cri = containerd_config.build_effective_cri_table(files, version) if files else {}
    serves = not refusal
    refusal = (
        refusal
        or _refuse_stopped_daemon(policy, facts, daemon, reported)
        or (_refuse_silent_daemon(facts, daemon, socket, files, reported) if silent else Refusal())
    )
    detects = detected.explain_detection(policy, manager, files, version)
    refusal = refusal or detected.refuse_unreachable_main_file(policy, manager, files, version)
    cdi = detected.describe_detected_cdi(
        cdi_support.describe_cdi_support(
            facts.daemons.dumps, daemon, config, files, version, ask_dump=not refusal
        ),
        detects,
    )
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
        cdi=dc.replace(
            cdi, next_dirs=cdi_support.list_next_cdi_directories(manager, files, version)
        ),
        cri=serves,
        refusal=refusal,
        detects=detects,
        invocation_id=invocation,
        default_handler=_get_default_handler(config, cri),
        handlers=_list_handlers(config, cri, version),
        low_level=aims.find_containerd_low_level_runtime(policy, facts.earlier, files, version)
        if files
        else "",
        pid=daemon.pid,
        ticks=daemon.ticks,
        by_path=daemon.by_path,
    )


def _refuse_stopped_daemon(
    policy: Policy, facts: ContainerdFacts, daemon: Daemon, reported: Version | None
) -> Refusal:
    """Return the refusal of a daemon that does not run, or that runs with another file than the
    options name; an empty one if it runs.

    A stopped daemon can neither report nor prove anything, so nothing is written for it. If it
    cannot read a file, the likeliest cause, the refusal names that file. reported: its version, None
    if it is unknown.
    """
    if daemon.running:
        return Refusal()
    whose = f"{daemon.manager.title}'s containerd" if daemon.manager.own_engine else "containerd"
    if daemon.instead:
        return refusals.refuse_other_file(policy, whose, daemon.instead)
    version = reported or versions.parse_engine_version(_get_package_version(facts, daemon.manager))
    try:
        if version:
            containerd_config.load_containerd_files(facts.config, daemon.config, version)
    except PlanError as broken:
        place = f"{broken.where}:{broken.line}" if broken.line else broken.where
        problem, step = broken.message.drop_step(), broken.next
        row = about_daemons.CONTAINERD_STOPPED_BY_FILE
        cause = row.fill(engine=whose, place=place, problem=problem, step=step)
        return Refusal(cause, kind="stopped")
    unit = facts.serving.units.get(daemon.unit) if daemon.unit else {}
    if daemon.manager.own_engine and not unit:
        # the file alone shows the manager: it has no package, and no option names its engine
        row = about_daemons.MANAGER_WITHOUT_UNIT
        left = row.fill(engine=whose, path=daemon.config, manager=daemon.manager.title)
        return Refusal(left, kind="stopped")
    return refusals.refuse_stopped_unit(unit, whose, daemon.unit)


def _refuse_silent_daemon(
    facts: ContainerdFacts,
    daemon: Daemon,
    socket: str,
    files: FileSet | None,
    version: Version | None,
) -> Refusal:
    """Return the refusal of a running daemon whose CRI does not answer.

    Without its own report, it is not known what it works with, nor whether it would live with a
    change. The most likely cause is a key that keeps this release from loading CRI.

    version: the one that a package or the options name; None if none does. Then the rules of 2.0
    tell what may be the cause.
    """
    judged = version or Version(2, 0)
    for one in engine_rules.find_broken_containerd_rules(files, judged)[:1] if files else ():
        place, broken = f"{one.spot.file.path}:{one.spot.line}", one.message(already=True)
        values = {"socket": socket, "place": place, "cause": broken.why, "step": broken.next}
        if version:
            message = about_daemons.CRI_NOT_LOADED.fill(**values, version=str(version))
        else:
            message = about_daemons.CRI_MAY_NOT_LOAD.fill(**values)
        return Refusal(message, kind="silent")
    asked = (
        facts.serving.answers.get((socket, method, daemon.pid)) for method in ("Status", "Version")
    )
    errors = (
        str(a["error"].get("message") or query_messages.REASON_UNSAID.fill())
        for a in asked
        if "error" in a
    )
    cause = next(errors, about_daemons.SAYS_NOTHING.fill())
    return Refusal(
        about_daemons.CRI_SILENT.fill(socket=socket, cause=cause, log=_name_daemon_log(daemon)),
        kind="silent",
    )


def _name_daemon_log(daemon: Daemon) -> str:
    """Return the place in which a person reads the daemon's log. k3s starts it as its child and
    gives it a file of its own.
    """
    log = daemon.manager.place.log if daemon.manager.place else ""
    if log:
        return posixpath.normpath(posixpath.join(posixpath.dirname(daemon.config), log))
    return f"`journalctl -u {daemon.unit or 'containerd'}`"


def _build_refused_instance(daemon: Daemon, refusal: Refusal) -> Instance:
    nothing = Cdi(
        able=False,
        enabled=False,
        dirs=(),
        max_version="",
        evidence=Evidence("files", about_daemons.NOT_INSPECTED.fill()),
    )
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


def _load_files(facts: ContainerdFacts, config: str, version: Version) -> FileSet | None:
    """Return the configuration, None if it is broken.

    The plan then names the fault, and what is known without the file is reported all the same.
    """
    try:
        return containerd_config.load_containerd_files(facts.config, config, version)
    except PlanError:
        return None


def _get_daemon_version(facts: ContainerdFacts, daemon: Daemon, socket: str) -> str:
    """Return the version of the running daemon, else that of the program, '' if it is not known.

    The two differ while an upgrade waits for its restart. If nothing runs, nothing is planned, so a
    program that cannot be asked only costs a number in a report.
    """
    if daemon.running:
        answer = facts.serving.get_answer(socket, "Version", daemon.pid)
        said = str(answer.get("runtime_version") or "")
        if said:
            return said.removeprefix("v")
    if not daemon.binary:
        return ""
    return facts.daemons.versions.get((daemon.program, daemon.running))


def _get_package_version(facts: ContainerdFacts, manager: Manager) -> str:
    """Return the version in the package database, '' if it has none. It knows nothing of a
    containerd that a manager brings along.
    """
    return "" if manager.own_engine else facts.daemons.packaged.value


def _refuse_disabled_cri(
    facts: ContainerdFacts,
    files: FileSet,
    off: tuple[str, int | None],
    manager: Manager,
    version: Version,
) -> tuple[Manager, Refusal]:
    """Return the manager and the refusal of a containerd whose file switches CRI off, with the file
    that a person edits.
    """
    path, line = off
    file = files.get(path)
    source = (
        sources.find_main_file_source(facts, manager, path, version)
        if path == files.root_path
        else None
    )
    entries = [
        e
        for e in (file.doc.data.get("disabled_plugins", []) if file else [])
        if e in releases.CRI_PLUGINS
    ]
    dockers = manager is PACKAGE and facts.daemons.docker.value
    where = source.place(line) if source else f"{path}:{line}" if line else path
    entry = entries[0] if entries else "cri"
    whose = manager.title if manager.own_engine else "containerd"
    if dockers:
        return docker.DOCKER, Refusal(messages.SERVES_DOCKER_ONLY.fill(where=where, entry=entry))
    return manager, Refusal(
        about_daemons.CRI_DISABLED.fill(where=where, entry=entry, daemon=whose), kind="unfit"
    )


def _get_default_handler(status: Mapping[str, Any], cri: Mapping[str, Any]) -> str:
    return str(
        toml.look_up_toml(status, ("containerd", "defaultRuntimeName"))
        or toml.look_up_toml(cri, ("containerd", "default_runtime_name"))
        or ""
    )


def _list_handlers(
    status: Mapping[str, Any], cri: Mapping[str, Any], version: Version
) -> dict[str, str]:
    handlers = (
        toml.look_up_toml(status, ("containerd", "runtimes"))
        or toml.look_up_toml(cri, ("containerd", "runtimes"))
        or {}
    )
    handlers = options.read_options_of_handlers(handlers, version)
    return {
        str(n): str(((r or {}).get("options") or {}).get("BinaryName") or "")
        for n, r in handlers.items()
    }


def _is_of_another_engine(policy: Policy, facts: ContainerdFacts) -> bool:
    """Tell whether engine_version, the only sign of a containerd in this tree, belongs to another
    engine.

    The options or the other engine's program show that.
    """
    if "containerd" in policy.engines:
        return False
    if "auto" not in policy.engines:
        return True
    return not policy.config_path and bool(facts.daemons.others.value)


def _find_offline_instances(policy: Policy, facts: ContainerdFacts) -> tuple[Instance, ...]:
    """Find the containerds in another root directory. Nothing runs there, so only files, the
    package database and the user can answer.
    """
    there = [_build_tree_instance(policy, facts, m.config, m) for m in facts.daemons.managers.value]
    config = policy.config_path or _find_config_by_unit(facts) or releases.CONFIG
    manager = known.find_config_manager(config) or (
        facts.daemons.boot_manager.value if config == releases.CONFIG else None
    )
    if manager:
        return (_build_tree_instance(policy, facts, config, manager),)
    named_file.require_named_file(policy, facts.config.files.get, releases.CONFIG)
    packaged = facts.daemons.packaged.value
    written = facts.config.files.get(config).exists
    if there and not (policy.config_path or packaged or (written and facts.daemons.program.value)):
        # These are the containerd of this tree, and a file that no program reads makes no second
        # one.
        return tuple(there)
    if not (packaged or written):
        prepared = (
            []
            if there or policy.config_path
            else [
                _build_tree_instance(policy, facts, m.config, m)
                for m in facts.daemons.templated.value
            ]
        )
        if prepared or not policy.engine_version or _is_of_another_engine(policy, facts):
            return (*there, *prepared)
    address = host_paths.keep_as_opened(
        processes.flag(facts.daemons.start.value.argv, *daemons.ADDRESS)
    )
    return (
        *there,
        _build_tree_instance(
            policy, facts, config, facts.daemons.image_manager.value or PACKAGE, address
        ),
    )


def _find_config_by_unit(facts: ContainerdFacts) -> str:
    unit = facts.daemons.start.value
    given = processes.flag(unit.argv, *daemons.CONFIG)
    start.require_known_flag(unit, given, daemons.CONFIG[0])
    return host_paths.keep_as_opened(given)


def _build_tree_instance(
    policy: Policy,
    facts: ContainerdFacts,
    config: str,
    manager: Manager,
    address: str = "",
) -> Instance:
    if manager.place is None:
        return _build_containerd_instance(
            policy, facts, Daemon(config, manager.socket, "", "", False, manager)
        )
    text = policy.engine_version or _get_package_version(facts, manager)
    version = versions.parse_engine_version(text)
    if version is None:
        message = about_daemons.TREE_VERSION_UNKNOWN.fill()
        if text:
            message = about_daemons.TREE_VERSION_UNREADABLE.fill(text=text)
        raise PlanError(message, where=policy.root)
    files = _load_files(facts, config, version)
    off = containerd_config.find_disabled_cri(files) if files else None
    shown_manager, refusal = (
        _refuse_disabled_cri(facts, files, off, manager, version)
        if files and off
        else (manager, Refusal())
    )
    detects = detected.explain_detection(policy, manager, files, version)
    serves, refusal = (
        not refusal,
        refusal or detected.refuse_unreachable_main_file(policy, manager, files, version),
    )
    cri = containerd_config.build_effective_cri_table(files, version) if files else {}
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
        cdi=detected.describe_detected_cdi(
            cdi_support.read_cdi_of_files(
                files,
                version,
                cdi_versions.get_max_cdi_version(traits.CONTAINERD, str(version)),
                cri_field=releases.has_cri_devices_field(version),
            ),
            detects,
        ),
        default_handler=_get_default_handler({}, cri),
        handlers=_list_handlers({}, cri, version),
        low_level=aims.find_containerd_low_level_runtime(policy, facts.earlier, files, version)
        if files
        else "",
    )
