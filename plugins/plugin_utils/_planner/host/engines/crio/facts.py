# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the facts of CRI-O: its process, its files, its answers, and what tells who wrote them."""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.facts import (
    Fact,
    Lookup,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import toml_file
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Instance,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
    ObservedFile,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections import (
    crio_places,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import (
    earlier_runs,
    processes,
    traits,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.adoption import (
    gpu_operator,
    nvidia_ctk_crio,
    programs,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines import (
    cdi_directories,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.crio import (
    config,
    releases,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers import known
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers.manager import (
    Manager,
)

Release = tuple[int, int]  # the major and the minor number of a version


@dc.dataclass(frozen=True)
class CrioFiles:
    """The configuration files of CRI-O, as it loads them.

    main: the main file, None if there is none. paths: of the drop-ins, in the order of reading.
    drop_ins: each drop-in by its path. loaded: all of them, in the order of reading. unread: the
    file that nvidia-ctk writes where CRI-O does not read. Reading any of them but paths raises
    PlanError if CRI-O would refuse to start because of it. by_path: any file by its path, with what
    of it may travel.
    """

    main: Fact[config.Layer | None]
    paths: Fact[tuple[str, ...]]
    drop_ins: Lookup[str, config.Layer | None]
    loaded: Fact[tuple[config.Layer, ...]]
    unread: Fact[config.Layer | None]
    by_path: Lookup[str, ObservedFile]


class PodsOf(NamedTuple):
    """The pods that a daemon has started with some handlers: its socket, its process."""

    socket: str
    pid: int
    handlers: tuple[str, ...]


@dc.dataclass(frozen=True)
class CrioFacts:
    """A host's facts about CRI-O.

    process: the verified daemon, {} if none runs. unverified: root's processes of its name that
    break a rule. program: the program that a search has found, '' if none. packaged: the version of
    its package, '' if none is installed. where: its places; not known if reading raises PlanError.
    started_with: the main file of the process, whatever the options name. answers: what it says over
    CRI by the method, or the error. banner: what a program prints of its version, by the program's
    path. settings: the settings that the daemon runs with, by its program and release.
    programs_there:
    whether a handler's program is there, by its path. pods: the answer about the pods that an
    instance has started with some handlers, or the error (get_pods_answer). units: the properties of a unit by its
    name. image_manager: the system whose image has the configuration, None if none does.
    """

    process: Fact[Mapping[str, Any]]
    unverified: Fact[tuple[Mapping[str, Any], ...]]
    program: Fact[str]
    packaged: Fact[str]
    where: Fact[config.CrioPaths]
    started_with: Fact[str]
    files: CrioFiles
    answers: Lookup[str, Mapping[str, Any]]
    banner: Lookup[str, str]
    settings: Lookup[tuple[str, Release], config.Effective]
    programs_there: Lookup[str, bool]
    pods: Lookup[PodsOf, Mapping[str, Any]]
    units: Lookup[str, Mapping[str, str]]
    image_manager: Fact[Manager | None]
    programs: programs.ProgramFacts
    operator: gpu_operator.OperatorFacts
    earlier: earlier_runs.EarlierRuns

    @property
    def pid(self) -> int:
        """The number of the daemon's process, 0 if none runs."""
        return int(self.process.value.get("pid") or 0)


def read_crio_facts(policy: Policy, obs: Observation) -> CrioFacts:
    """Return the facts of CRI-O. Each is read when a plan needs it."""
    where = Fact(lambda: config.find_crio_paths(policy, obs))
    files = read_crio_files(policy, obs, where)

    def read_answer(method: str) -> Mapping[str, Any]:
        question = queries.ask_for_cri(where.value.socket, method)
        return obs.get_socket_answer(question, config.get_crio_pid(obs))

    def read_pods(of: PodsOf) -> Mapping[str, Any]:
        note = traits.get_traits(traits.CRIO).pod_note
        question = queries.ask_for_pods(of.socket, of.handlers, note)
        return obs.get_socket_answer(question, of.pid)

    return CrioFacts(
        process=Fact(lambda: config.find_crio_process(obs)),
        unverified=Fact(lambda: processes.list_unverified_processes(obs, "crio")),
        program=Fact(lambda: _read_program(obs)),
        packaged=Fact(lambda: obs.find_package_version(releases.PACKAGES)),
        where=where,
        started_with=Fact(
            lambda: config.find_crio_paths(dc.replace(policy, config_path=""), obs).config
        ),
        files=files,
        answers=Lookup(read_answer),
        banner=Lookup(lambda path: obs.try_command([path, "--version"], config.handle(obs)).stdout),
        settings=Lookup(
            lambda asked: read_settings_in_force(policy, obs, where.value, files, *asked)
        ),
        programs_there=Lookup(lambda path: _read_whether_there(obs, path)),
        pods=Lookup(read_pods),
        units=Lookup(obs.get_unit),
        image_manager=Fact(lambda: known.find_image_manager(obs)),
        programs=programs.read_program_facts(obs),
        operator=gpu_operator.read_operator_facts(policy, obs),
        earlier=earlier_runs.read_earlier_runs(obs),
    )


def _read_program(obs: Observation) -> str:
    paths = obs.get_answer(queries.ask_for_program(["crio"]))["found"]
    return str(paths.get("crio") or "")


def _read_whether_there(obs: Observation, path: str) -> bool:
    answer = obs.get_answer(queries.ask_for_file(path, content=False))
    return bool(answer.get("exists", True))


def read_crio_files(policy: Policy, obs: Observation, where: Fact[config.CrioPaths]) -> CrioFiles:
    """Return the files of CRI-O. Each is parsed once, when a plan needs it.

    where: the places. A file by its path is read without them.
    """
    keep = Fact(lambda: crio_places.keep_crio_places(policy.handlers))
    main = Fact(lambda: config.read_crio_layer(obs, where.value, where.value.config, main=True))
    paths = Fact(lambda: tuple(config.list_drop_in_files(obs, where.value.directory)))
    drop_ins: Lookup[str, config.Layer | None] = Lookup(
        lambda path: config.read_crio_layer(obs, where.value, path, main=False)
    )

    def read_loaded() -> tuple[config.Layer, ...]:
        files = [main.value, *(drop_ins.get(path) for path in paths.value)]
        return tuple(layer for layer in files if layer)

    return CrioFiles(
        main=main,
        paths=paths,
        drop_ins=drop_ins,
        loaded=Fact(read_loaded),
        unread=Fact(
            lambda: config.read_crio_layer(obs, where.value, nvidia_ctk_crio.UNREAD, main=True)
        ),
        by_path=Lookup(lambda path: obs.get_file(path, keep.value)),
    )


def read_settings_in_force(
    policy: Policy, obs: Observation, where: config.CrioPaths, files: CrioFiles, binary: str,
    version: Release,
) -> config.Effective:  # fmt: skip
    """Return the settings that the daemon runs with.

    The first source that answers counts: CRI Status, its HTTP endpoint, `crio config`, the files.
    """
    if policy.root == "/" and (
        config.find_crio_process(obs) or processes.is_everything_declared(policy)
    ):
        pid = config.get_crio_pid(obs)
        said = config.read_status_settings(obs.get_cri(where.socket, pid=pid))
        if said:
            return said
        # the program is the next to be asked
        body = obs.get_socket_answer(queries.ask_for_http(where.socket, "/config", where.keep), pid)
        if body.get("status") == 200:
            place = f"{where.socket} /config"
            dump = toml_file.read_printed_toml(str(body.get("content") or ""), body, place)
            return config.merge_crio_tables([dump], version, "dump")
        flags = config.list_crio_config_flags(where, obs.get_file(where.config, where.keep))
        printed = obs.get_command([binary, *flags, "config"], config.handle(obs), where.keep)
        if printed.ok:
            dump = toml_file.read_printed_toml(
                printed.stdout, printed.answer, "the output of `crio config`"
            )
            return config.apply_daemon_arguments(
                config.merge_crio_tables([dump], version, "dump"), where.given
            )
    declared = config.merge_crio_tables(
        [layer.data for layer in files.loaded.value], version, "files"
    )
    return config.apply_daemon_arguments(declared, where.given)


# ---------------------------------------------------------------- what follows from them


def get_settings_in_force(facts: CrioFacts, instance: Instance) -> config.Effective:
    """Return the settings that an instance runs with. Raise QueryFailed if it does not answer, and
    PlanError if its files cannot be read.
    """
    return facts.settings.get((instance.binary, config.parse_crio_minor(instance.version)))


def get_pods_answer(
    facts: CrioFacts, instance: Instance, handlers: Sequence[str]
) -> Mapping[str, Any]:
    """Return the answer about the pods that an instance has started with these handlers, or the
    error. Raise NeedMore if it was not asked.
    """
    return facts.pods.get(PodsOf(instance.socket, instance.pid, tuple(handlers)))


def get_crio_paths_or_usual(policy: Policy, facts: CrioFacts) -> config.CrioPaths:
    """Return the places. If they are not known, these are the ones that the options name, else the
    usual ones.
    """
    try:
        return facts.where.value
    except PlanError:
        return config.get_named_crio_paths(policy)


def list_next_crio_cdi_dirs(facts: CrioFacts) -> tuple[str, ...] | None:
    """Return the directories of CDI specs after the next start. None if they are not known, because
    a file cannot be read.
    """
    try:
        by_files = [
            layer.runtime["cdi_spec_dirs"]
            for layer in facts.files.loaded.value
            if "cdi_spec_dirs" in layer.runtime
        ]
    except PlanError:
        return None
    return cdi_directories.list_named_cdi_directories(
        facts.where.value.given.cdi_dirs or next(reversed(by_files), None)
    )
