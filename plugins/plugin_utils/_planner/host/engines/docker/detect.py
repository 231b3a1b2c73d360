# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find Docker Engine by its process, plan our keys in its daemon.json, and prove it by its own
/info.
"""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import (
    host_paths,
    queries,
    versions,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    PlanError,
    Refusal,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import json_text
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    CDI_DIRS,
    Cdi,
    Decision,
    Evidence,
    Instance,
    Leftover,
    Plan,
    Policy,
    build_refused_instance_error,
    merge_plans,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections import (
    file_places,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import (
    low_level,
    processes,
    refusals,
    traits,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.adoption import (
    nvidia_ctk_docker,
    programs,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines import (
    cdi_versions,
    named_file,
    restarts,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.docker import (
    absent,
    config,
    daemon_action,
    desired_config,
    gpus_flag,
    messages,
    next_start,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.docker import (
    facts as docker_facts,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.docker import (
    plan as docker_plan,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.docker.config import (
    CONFIG,
    PACKAGES,
    SOCKET,
    UNIT,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.docker.desired_config import (
    CDI_ON_SINCE,
    CDI_SINCE,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.unit_files import start


def list_questions(policy: Policy) -> list[queries.Question]:
    """List all that a Docker with its files in the usual places needs, in one look."""
    options = policy if config.are_options_meant_for_docker(policy) else Policy()
    asked = [
        queries.ask_for_program(["dockerd"]),
        queries.ask_for_packages([*PACKAGES, config.DESKTOP, nvidia_ctk_docker.PACKAGE]),
        config.ask_for_docker_file(options.config_path or CONFIG, policy.handlers),
        *(queries.ask_for_file(h.binary, content=False) for h in policy.handlers),
    ]
    if policy.root != "/":
        return [
            *asked,
            *next_start.list_swarm_questions(policy),
            docker_facts.SNAP,
            *start.list_unit_start_questions(policy.root, config.get_docker_unit(policy)),
        ]
    running = queries.ask_for_processes(["dockerd"], config.READ_FLAGS)
    asked += [
        *gpus_flag.list_hook_questions(),
        running,
        queries.ask_for_units([options.service or UNIT]),
    ]
    # The process of Docker is looked for first: its name starts no service that systemd listens
    # for.
    if processes.is_everything_declared(options):
        return asked
    return [*asked, queries.ask_for_http(options.socket or SOCKET, "/info", daemon="dockerd")]


def read_facts(policy: Policy, obs: Observation) -> docker_facts.DockerFacts:
    """Return what a host shows of Docker."""
    return docker_facts.read_docker_facts(policy, obs)


def find_instances(policy: Policy, facts: docker_facts.DockerFacts) -> tuple[Instance, ...]:
    """Return the host's Docker, and each process of its name that is not verified."""
    if policy.root != "/":
        return _find_own(policy, facts, {})
    daemon, by_options = facts.process.value, is_declared(policy)
    foreign = tuple(
        p for p in facts.unverified.value if not config.is_snapped(p) and not by_options
    )
    own = () if foreign and not daemon else _find_own(policy, facts, daemon)
    return (*own, *(processes.build_untrusted_instance("docker", "Docker", p) for p in foreign))


def is_declared(policy: Policy) -> bool:
    """Tell whether the options are meant for Docker and name every place."""
    return config.are_options_meant_for_docker(policy) and processes.is_everything_declared(policy)


def _find_own(
    policy: Policy, facts: docker_facts.DockerFacts, daemon: Mapping[str, Any]
) -> tuple[Instance, ...]:
    """Return the host's own Docker: the verified process, the one that the options describe, or one
    that is only installed.
    """
    by_options = policy.root == "/" and is_declared(policy) and bool(facts.unverified.value)
    running = bool(daemon) or by_options
    binary = str(daemon.get("exe") or facts.program.value)
    packaged = facts.packaged.value
    elsewhere = refuse_foreign_docker(policy, facts, daemon, installed=bool(binary or packaged))
    unit = policy.root == "/" and bool(facts.units.get(config.get_docker_unit(policy)))
    if not (binary or packaged or unit or elsewhere or is_docker_wanted_in_tree(policy)):
        return ()
    where = facts.where.value
    if elsewhere:
        manager, path, why = elsewhere
        nothing = Cdi(
            able=False, enabled=False, dirs=(), max_version="", evidence=Evidence("files", path)
        )
        return (
            Instance(
                "docker",
                "",
                binary,
                where.socket,
                path,
                "",
                manager,
                bool(daemon),
                nothing,
                cri=False,
                refusal=why,
            ),
        )
    if config.are_options_meant_for_docker(policy):
        named_file.require_named_file(policy, facts.files.get, config.CONFIG)
    info = facts.info.get(where.socket) if running else {}
    version = get_docker_version(policy, facts, "" if running else binary, info)
    instance = Instance(
        engine="docker",
        version=version,
        binary=binary or "/usr/bin/dockerd",
        socket=where.socket,
        config_path=where.config,
        unit=where.unit,
        manager="package",
        running=running,
        cdi=describe_docker_cdi(
            version,
            info,
            switch(facts, where.config),
            docker_facts.list_docker_cdi_dirs(facts, where.config),
        ),
        invocation_id=facts.units.get(where.unit).get("InvocationID", ""),
        default_handler=get_docker_default(facts, where.config, info),
        handlers=list_docker_runtimes(facts, where.config, info),
        low_level=find_docker_low_level_runtime(policy, facts, where.config, info),
        cri=False,
        pid=int(daemon.get("pid") or 0),
        ticks=int(daemon.get("ticks") or 0),
    )
    owner = facts.image_manager.value
    if owner:
        return (dc.replace(instance, manager=owner.name, refusal=owner.refusal),)
    return (dc.replace(instance, refusal=refuse_docker(policy, facts, instance, info)),)


def get_docker_default(facts: docker_facts.DockerFacts, path: str, info: Mapping[str, Any]) -> str:
    """Return the default runtime by the daemon, otherwise by its file, otherwise the built-in one."""
    return str(
        info.get("DefaultRuntime")
        or docker_facts.get_docker_setting(facts, path, "default-runtime")
        or desired_config.BUILT_IN
    )


def find_docker_low_level_runtime(
    policy: Policy, facts: docker_facts.DockerFacts, path: str, info: Mapping[str, Any]
) -> str:
    """Return the low-level program of the default runtime.

    If that runtime is this collection's or NVIDIA's, return the program of the previous default,
    otherwise of the built-in one.
    """
    default = get_docker_default(facts, path, info)
    kept = docker_facts.get_kept_docker_file(facts, path) or {}
    before = str(kept.get("default-runtime") or "")
    names = [
        before if default in {h.name for h in policy.handlers} else default,
        desired_config.BUILT_IN,
    ]
    paths = {
        name: str((table or {}).get("path") or "")
        for name, table in (info.get("Runtimes") or {}).items()
    }
    said = (
        paths.get(name)
        or str(docker_facts.get_docker_setting(facts, path, "runtimes", name, "path") or "")
        for name in names
    )
    return low_level.get_first_low_level((*said, desired_config.BUILT_IN))


def list_docker_runtimes(
    facts: docker_facts.DockerFacts, path: str, info: Mapping[str, Any]
) -> dict[str, str]:
    """Return the runtimes and their programs by the daemon, otherwise by its file. A hidden program
    is left out.
    """
    in_file = docker_facts.get_docker_setting(facts, path, "runtimes") if not info else None
    said = info.get("Runtimes") if info else in_file
    entries = said if isinstance(said, Mapping) else {}
    runtimes = {
        name: str(entry.get("path") or "")
        for name, entry in entries.items()
        if isinstance(entry, Mapping)
    }
    return {
        name: program
        for name, program in runtimes.items()
        if not file_places.is_hidden_value(program)
    }


def is_docker_wanted_in_tree(policy: Policy) -> bool:
    return policy.root != "/" and "docker" in policy.engines and bool(policy.engine_version)


def get_docker_version(
    policy: Policy, facts: docker_facts.DockerFacts, binary: str, info: Mapping[str, Any]
) -> str:
    """Return the version from the running daemon, otherwise from the package, otherwise from the
    binary.

    In a tree: from the package, otherwise from the option.
    """
    version = str(info.get("ServerVersion") or "") or facts.packaged.value
    if not version and binary and policy.root == "/":
        version = facts.banner.get(binary)  # of one that does not run, for the report
    return strip_docker_version(version or policy.engine_version)


def strip_docker_version(version: str) -> str:
    """Return Docker's own number for a version such as `5:28.5.2-1~debian` or `26.1.5+dfsg1`."""
    parsed = versions.parse_engine_version(version)
    return ".".join(str(n) for n in parsed.release) if parsed else version


def refuse_foreign_docker(
    policy: Policy,
    facts: docker_facts.DockerFacts,
    daemon: Mapping[str, Any],
    *,
    installed: bool,
) -> tuple[str, str, Refusal] | None:
    """Refuse a Docker that is not the host's own.

    Return (manager, configuration file, refusal). None if the Docker is the host's own.
    """
    snapped = config.is_snapped(daemon) or (
        not daemon and any(config.is_snapped(p) for p in facts.unverified.value)
    )
    if snapped or (not daemon and not installed and has_snap_docker(policy, facts)):
        return "snap", config.SNAP_CONFIG, Refusal(messages.SNAP.fill(), kind="unfit")
    if not daemon and facts.has_desktop.value:
        refused = Refusal(messages.DESKTOP.fill(), kind="unfit")
        return "docker-desktop", "~/.docker/daemon.json", refused
    return None


def has_snap_docker(policy: Policy, facts: docker_facts.DockerFacts) -> bool:
    """Tell whether snapd has a Docker that does not run: in a tree, and on a host of whose engines
    Docker is asked for by name.
    """
    if policy.root == "/" and not config.are_options_meant_for_docker(policy):
        return False
    return facts.has_snap.value


def switch(facts: docker_facts.DockerFacts, path: str) -> bool | None:
    """Return features.cdi in daemon.json. None if it is not set."""
    value = docker_facts.get_docker_setting(facts, path, "features", "cdi")
    return value if isinstance(value, bool) else None


def describe_docker_cdi(
    version: str,
    info: Mapping[str, Any],
    on: bool | None,
    by_file: tuple[str, ...] | None = CDI_DIRS,
) -> Cdi:
    """Describe CDI in this Docker by the daemon's list of directories, otherwise by version and
    switch.

    The list is empty if CDI is off.
    """
    parsed = versions.parse_engine_version(version)
    series = parsed.series if parsed else (0, 0)
    able = series >= CDI_SINCE
    newest, configured = (
        cdi_versions.get_max_cdi_version(traits.DOCKER, version),
        CDI_DIRS if by_file is None else by_file,
    )
    if "CDISpecDirs" in info:
        dirs = host_paths.clean_directories(info["CDISpecDirs"] or ())
        listed = messages.INFO_LISTS.fill(version=version, directories=list(dirs))
        evidence = Evidence("dump", listed)
        return Cdi(
            able=able,
            enabled=bool(dirs),
            dirs=dirs or configured,
            max_version=newest,
            evidence=evidence,
            next_dirs=by_file,
        )
    enabled = able and (on if on is not None else series >= CDI_ON_SINCE)
    text = (
        messages.RELEASE.fill(version=version)
        if on is None
        else messages.RELEASE_AND_SWITCH.fill(version=version, on=str(on).lower())
    )
    return Cdi(
        able=able,
        enabled=enabled,
        dirs=configured if able else (),
        max_version=newest,
        evidence=Evidence("version", text),
    )


def refuse_docker(
    policy: Policy, facts: docker_facts.DockerFacts, found: Instance, info: Mapping[str, Any]
) -> Refusal:
    """Refuse a Docker that does not run, has another file than the options name, or does not
    answer. Return an empty refusal for any other.
    """
    if policy.root != "/":
        return Refusal()
    if not found.running:
        return refuse_stopped_docker(facts, found)
    if facts.process.value and config.are_options_meant_for_docker(policy):
        other = refusals.refuse_other_file(policy, "Docker", facts.started_with.value)
        if other:
            return other
    if not info:
        silent = messages.DOCKER_SILENT.fill(socket=found.socket, unit=found.unit or UNIT)
        return Refusal(silent, kind="silent")
    return Refusal()


def refuse_stopped_docker(facts: docker_facts.DockerFacts, found: Instance) -> Refusal:
    """Refuse an installed Docker that does not run. The likeliest cause is a file that is not JSON,
    and the refusal names the place in it.
    """
    try:
        facts.documents.get(found.config_path)
    except PlanError as broken:
        line = f"line {broken.line}: " if broken.line else ""
        message = messages.DOCKER_STOPPED_BY_FILE.fill(
            problem=f"{line}{broken.message.drop_step()}", step=broken.next
        )
        return Refusal(message, kind="stopped")
    known = facts.units.get(found.unit) if found.unit else {}
    return refusals.refuse_stopped_unit(known, "Docker", found.unit)


# ---------------------------------------------------------------- plans


def plan_instance(
    policy: Policy, facts: docker_facts.DockerFacts, instance: Instance, decision: Decision
) -> Plan:
    """Plan the way from what is there to the decision. Raise PlanError if there is none."""
    if instance.refusal:
        raise build_refused_instance_error(instance)
    flags = facts.flags.value
    file, doc = facts.documents.get(instance.config_path)
    desired = desired_config.derive_desired_docker(policy, facts, instance, decision, doc)
    check_docker_binaries(policy, facts, decision)
    after, splices = json_text.merge_json_keys(doc, desired.tree) if desired.tree else (doc, ())
    planned = docker_plan.build_docker_change(file, doc, after, splices)
    planned = dc.replace(
        planned,
        differences=docker_plan.list_docker_differences(doc, desired.tree, desired),
        advice=advise_on_docker_plan(policy, instance, decision, flags),
        leftovers=list_docker_leftovers(policy, facts, doc, desired.paths),
    )
    info = facts.info.get(instance.socket) if policy.root == "/" else {}
    lag = daemon_action.find_docker_lag(desired, info)
    if info and instance.unit:
        lag = daemon_action.find_missed_hooks(
            desired,
            info,
            lag,
            facts.hooks,
            gpus_flag.list_coming_hooks(policy, facts.programs.packages, decision),
            desired_config.parse_docker_series(instance),
            facts.active_seconds.get(instance.unit),
            instance.unit in facts.earlier.pending_units,
        )
    planned = next_start.require_docker_start(
        next_start.Docker(policy, facts, instance, doc, after.data, info), planned, lag
    )
    if policy.root != "/":
        return planned
    ended = (
        daemon_action.list_docker_restart_cost(facts, instance, after)
        if lag.restart
        else daemon_action.Cost()
    )
    restarted = lag.restart and not restarts.is_restart_left(policy, ends=bool(ended.containers))
    health = daemon_action.build_docker_health_check(instance, desired, restarted)
    checked = docker_plan.validate_staged_docker(instance, facts.process.value, planned)
    return daemon_action.add_docker_action(policy, facts, instance, checked, lag, ended, health)


def list_docker_leftovers(
    policy: Policy,
    facts: docker_facts.DockerFacts,
    doc: json_text.JsonDocument,
    programs: Mapping[str, str],
) -> tuple[Leftover, ...]:
    """List what NVIDIA's tools wrote of our runtimes before us.

    programs: each wanted runtime with the program that it will have.
    """
    before = docker_facts.get_kept_docker_file(facts, doc.path)
    packaged, never = facts.has_docker2.value, policy.adopt == "never"
    return nvidia_ctk_docker.list_ctk_docker_leftovers(
        doc.path, doc.data, before, programs, never=never, packaged=packaged
    )


def advise_on_docker_plan(
    policy: Policy, instance: Instance, decision: Decision, flags: config.Flags
) -> tuple[str, ...]:
    advice: list[str] = []
    if policy.cdi_spec_dirs and desired_config.parse_docker_series(instance) < CDI_SINCE:
        advice.append(messages.DIRECTORIES_NOT_WRITTEN.fill(version=instance.version))
    by_flag = [
        handler.name
        for handler in policy.handlers
        if decision.handler and handler.name in config.list_flag_runtimes(flags)
    ]
    if by_flag:
        values = {
            "runtimes": ", ".join(by_flag),
            "flag": config.ADD_RUNTIME,
            "path": instance.config_path,
        }
        if flags.where:
            place = f"{flags.where}:{flags.line}"
            advice.append(messages.RUNTIME_GIVEN_BY_UNIT.fill(**values, place=place))
        else:
            advice.append(messages.RUNTIME_GIVEN_BY_FLAG.fill(**values))
    return tuple(advice)


def check_docker_binaries(
    policy: Policy, facts: docker_facts.DockerFacts, decision: Decision
) -> None:
    """Raise PlanError if the program of a runtime is missing, before anything is touched.

    Docker accepts such a runtime, and each container that asks for it fails.
    """
    programs.require_handler_programs(
        policy, facts.programs, decision, messages.DOCKER_PROGRAM_NEEDED.fill()
    )


def plan_absent(policy: Policy, facts: docker_facts.DockerFacts, instance: Instance) -> Plan:
    """Plan to restore the earlier bytes. If another writer has changed the file since, only our
    keys go.
    """
    if instance.refusal:
        return Plan(advice=(instance.refusal.message,))
    flags = facts.flags.value
    file, doc = facts.documents.get(instance.config_path)
    original = facts.earlier.originals.get(file.path)
    if original:
        planned, after = absent.plan_docker_restore(policy, facts, file, doc, original)
    else:
        planned, after = absent.plan_docker_without_copy(policy, facts, file, doc)
    if planned.empty or policy.root != "/" or not instance.running:
        return planned
    info = facts.info.get(instance.socket)
    if not info:
        return merge_plans([planned, absent.plan_silent_docker(instance)])
    lag = absent.find_docker_removal_lag(policy, facts, instance, flags, doc, after)
    planned = next_start.require_docker_start(
        next_start.Docker(policy, facts, instance, doc, after.data, info), planned, lag
    )
    ended = (
        daemon_action.list_docker_restart_cost(facts, instance, after)
        if lag.restart
        else daemon_action.Cost()
    )
    health = daemon_action.build_docker_health_check(
        instance, desired_config.DesiredDocker({}, {}), False
    )
    checked = docker_plan.validate_staged_docker(instance, facts.process.value, planned)
    return daemon_action.add_docker_action(policy, facts, instance, checked, lag, ended, health)


def find_remnant(policy: Policy, facts: docker_facts.DockerFacts) -> Instance | None:
    """Return the instance for the configuration of a Docker that has been removed. None if there is
    no file.
    """
    where = docker_facts.get_docker_paths_or_usual(policy, facts)
    if not facts.files.get(where.config).exists:
        return None
    nothing = Cdi(
        able=False,
        enabled=False,
        dirs=(),
        max_version="",
        evidence=Evidence("files", messages.DOCKER_NOT_INSTALLED.fill()),
    )
    return Instance(
        "docker",
        policy.engine_version,
        "",
        where.socket,
        where.config,
        "",
        "package",
        False,
        nothing,
        cri=False,
    )


def get_main_file(policy: Policy, facts: docker_facts.DockerFacts) -> str:
    return docker_facts.get_docker_paths_or_usual(policy, facts).config


def list_marked_files(policy: Policy, facts: docker_facts.DockerFacts) -> tuple[str, ...]:  # noqa: ARG001
    return ()  # JSON has no comments


def owns_file(policy: Policy, facts: docker_facts.DockerFacts, path: str) -> bool:
    return path in (CONFIG, docker_facts.get_docker_paths_or_usual(policy, facts).config)


find_default_program = config.find_default_program
