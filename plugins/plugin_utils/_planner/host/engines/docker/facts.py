# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the facts of Docker: its process, its flags, daemon.json, and what it says over its socket."""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import (
    queries,
    versions,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    NeedMore,
    PlanError,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.facts import (
    Fact,
    Lookup,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import json_text
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
    ObservedFile,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import (
    earlier_runs,
    processes,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.adoption import (
    nvidia_ctk_docker,
    programs,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines import (
    cdi_directories,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.docker import (
    config,
    gpus_flag,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers import known
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers.manager import (
    Manager,
)

# Whether snapd has a Docker.
SNAP = queries.ask_for_file(config.SNAP_UNIT, content=False)


@dc.dataclass(frozen=True)
class DockerFacts:
    """A host's facts about Docker.

    process: the verified daemon, {} if none runs. unverified: root's processes of its name that
    break a rule. program: the program that a search has found, '' if none. packaged: the version of
    its package, '' if none is installed. has_desktop: Docker Desktop's package is installed.
    has_docker2: the package nvidia-docker2 is installed. has_snap: snapd has a Docker. where: its
    places; not known if reading raises PlanError. started_with: the file of the process, whatever
    the options name. flags: the arguments of the daemon, or of its unit. documents: daemon.json
    with its file, by its path; reading one that nothing can be planned about raises PlanError.
    files: any file by its path, with what of it may travel. is_there: whether there is anything at
    a path. info: what the daemon says of itself, by its socket; {} if it does not answer.
    containers: the running ones by name, by the socket; reading them raises QueryFailed if Docker
    does not list them. banner: the version that a program prints, by the program's path. units: the
    properties of a unit by its name. active_seconds: for how long a unit has been active, None if
    that is not known. hooks: the programs that the daemon looks for at its start. image_manager:
    the system whose image has the configuration, None if none does.
    """

    process: Fact[Mapping[str, Any]]
    unverified: Fact[tuple[Mapping[str, Any], ...]]
    program: Fact[str]
    packaged: Fact[str]
    has_desktop: Fact[bool]
    has_docker2: Fact[bool]
    has_snap: Fact[bool]
    where: Fact[config.DockerPaths]
    started_with: Fact[str]
    flags: Fact[config.Flags]
    documents: Lookup[str, tuple[ObservedFile, json_text.JsonDocument]]
    files: Lookup[str, ObservedFile]
    is_there: Lookup[str, bool]
    info: Lookup[str, Mapping[str, Any]]
    containers: Lookup[str, tuple[str, ...]]
    banner: Lookup[str, str]
    units: Lookup[str, Mapping[str, str]]
    active_seconds: Lookup[str, float | None]
    hooks: gpus_flag.GpusFlagFacts
    image_manager: Fact[Manager | None]
    programs: programs.ProgramFacts
    earlier: earlier_runs.EarlierRuns


def read_docker_facts(policy: Policy, obs: Observation) -> DockerFacts:
    """Return the facts of Docker. Each is read when a plan needs it."""
    keep = Fact(lambda: config.keep_docker_values(policy.handlers))
    return DockerFacts(
        process=Fact(lambda: config.find_docker_process(obs)),
        unverified=Fact(lambda: processes.list_unverified_processes(obs, "dockerd")),
        program=Fact(lambda: _read_program(obs)),
        packaged=Fact(lambda: obs.find_package_version(config.PACKAGES)),
        has_desktop=Fact(lambda: bool(obs.get_package(config.DESKTOP))),
        has_docker2=Fact(lambda: bool(obs.get_package(nvidia_ctk_docker.PACKAGE))),
        has_snap=Fact(lambda: _read_whether_snapped(obs)),
        where=Fact(lambda: config.find_docker_paths(policy, obs)),
        started_with=Fact(
            lambda: config.find_docker_paths(dc.replace(policy, config_path=""), obs).config
        ),
        flags=Fact(lambda: config.flags_given(policy, obs)),
        documents=Lookup(lambda path: config.read_docker_document(obs, path, policy.handlers)),
        files=Lookup(lambda path: obs.get_file(path, keep.value)),
        is_there=Lookup(obs.is_there),
        info=Lookup(lambda socket: config.get_docker_info(obs, socket)),
        containers=Lookup(lambda socket: config.list_running_docker_containers(obs, socket)),
        banner=Lookup(
            lambda path: versions.read_version_banner(obs.try_command([path, "--version"]).stdout)
        ),
        units=Lookup(obs.get_unit),
        active_seconds=Lookup(obs.get_active_seconds),
        hooks=gpus_flag.read_hook_facts(obs),
        image_manager=Fact(lambda: known.find_image_manager(obs)),
        programs=programs.read_program_facts(obs),
        earlier=earlier_runs.read_earlier_runs(obs),
    )


def _read_program(obs: Observation) -> str:
    paths = obs.get_answer(queries.ask_for_program(["dockerd"]))["found"]
    return str(paths.get("dockerd") or "")


def _read_whether_snapped(obs: Observation) -> bool:
    if not obs.was_asked(SNAP):
        raise NeedMore([SNAP])
    return obs.is_there(config.SNAP_UNIT)


# ---------------------------------------------------------------- what follows from them


def get_docker_paths_or_usual(policy: Policy, facts: DockerFacts) -> config.DockerPaths:
    """Return the places. If they are not known, these are the ones that the options name, else the
    usual ones.
    """
    try:
        return facts.where.value
    except PlanError:
        return config.get_named_docker_paths(policy)


def get_docker_setting(facts: DockerFacts, path: str, *keys: str) -> Any:
    """Return a value in daemon.json. None if the file does not set it, or is broken, which the plan
    will report.
    """
    try:
        return json_text.look_up_json(facts.documents.get(path)[1], keys)
    except PlanError:
        return None


def list_docker_cdi_dirs(facts: DockerFacts, path: str) -> tuple[str, ...] | None:
    """Return the directories of CDI specs by flag or file, which hold once CDI is on. `[""]` is the
    plan's to refuse.

    None if they are not known, because the file cannot be read.
    """
    try:
        by_file = json_text.look_up_json(facts.documents.get(path)[1], ("cdi-spec-dirs",))
    except PlanError:
        return None
    return cdi_directories.list_named_cdi_directories(
        config.get_flag_value(facts.flags.value, "cdi-spec-dirs") or by_file
    )


def get_kept_docker_file(facts: DockerFacts, path: str) -> dict[str, Any] | None:
    """Return the content of the file before our first change. {} if there was no file.

    None if we have not changed the file, or the content is unknown.
    """
    original = facts.earlier.originals_if_asked.get(path)
    if not original:
        return None
    if not original.get("existed"):
        return {}
    try:
        return json_text.parse_json_text(str(original.get("content") or ""), path).data
    except PlanError:
        return None
