# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the parts of the host's containers.conf that GPUs depend on: the directories of CDI specs
and hook files, and the runtime.

Nothing is written there. Hook files in the usual directories belong to the host
(host/resources/oci_hook.py). On hook files in other directories there is advice.

An account's own containers.conf ($XDG_CONFIG_HOME/containers) belongs to that person, and is not
read.

Which files count depends on the release: `list_read_files`.
"""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Iterable, Iterator, Sequence

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import (
    host_paths,
    queries,
    versions,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    PlanError,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.facts import (
    AskedQuestions,
    Fact,
    Lookup,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import (
    toml,
    toml_file,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import CDI_DIRS
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
    ObservedFile,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections import (
    file_places,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.adoption import (
    hook_files,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.podman import (
    messages,
)

# The key is in containers/common from 0.59 on, which is Podman 5.1; a Podman before 5.5 takes the
# usual directories in any case.
READ_SINCE = (5, 5, 0)
# Where no file sets the key: containers/common had /etc/cdi alone before 0.64.0, which is Podman
# 5.6 (containers/common issue 2460).
ETC_ALONE = (READ_SINCE, (5, 6, 0))
KEY = ("engine", "cdi_spec_dirs")
HOOKS = ("engine", "hooks_dir")  # in every release; a rootless Podman runs none
RUNTIME = ("engine", "runtime")  # a path, or a name in the table `runtimes` or in the built-in one
LABEL = ("containers", "label")  # whether SELinux confines containers; on in every release
KEEP = file_places.keep_places(
    "toml",
    {
        KEY: "paths",
        HOOKS: "paths",
        RUNTIME: "program",
        ("engine", "runtimes", "*"): "paths",
        LABEL: "bool",
    },
)
# The names that some release of containers/common has built in (pkg/config/default.go).
BUILT_IN = frozenset(
    (
        "crun",
        "crun-vm",
        "crun-wasm",
        "kata",
        "kata-fc",
        "kata-qemu",
        "kata-runtime",
        "krun",
        "ocijail",
        "runc",
        "runj",
        "runsc",
        "youki",
    )
)
# A later one counts (pkg/config of containers/common before 0.68.0).
FILES = ("/usr/share/containers/containers.conf", "/etc/containers/containers.conf")
DROP_INS = "/etc/containers/containers.conf.d"
# Podman 6.0 has common 0.68.0 and storage 1.63.0 (storage/pkg/configfile/parse.go of
# podman-container-tools/container-libs): /usr/share's file counts only without /etc's. Of drop-ins
# with the same name, the one in the later directory counts. "rootful" is read by root alone.
FIRST_FILE_SINCE = (6, 0, 0)
LAYERED_DROP_INS = (
    "/usr/share/containers/containers.conf.d",
    "/usr/share/containers/containers.rootful.conf.d",
    DROP_INS,
    "/etc/containers/containers.rootful.conf.d",
)


@dc.dataclass(frozen=True)
class Directories:
    """The value of a key that lists directories.

    names: as set by the last file that has the key. where: that file and the line.
    """

    names: tuple[str, ...]
    where: str


def list_podman_questions() -> list[queries.Question]:
    return [
        *(queries.ask_for_file(path, KEEP) for path in FILES),
        *(queries.ask_for_glob(_match_drop_ins(folder), KEEP) for folder in LAYERED_DROP_INS),
    ]


def _match_drop_ins(folder: str) -> str:
    return f"{folder}/*.conf"


@dc.dataclass(frozen=True)
class PodmanFacts:
    """A host's facts about Podman's settings.

    files: those of FILES that are there, in that order. drop_ins: the files that are there in each of
    LAYERED_DROP_INS, by that directory. asked: the questions that the look has answered. is_there:
    whether there is anything at a path.
    """

    files: Fact[list[ObservedFile]]
    drop_ins: Fact[dict[str, list[ObservedFile]]]
    asked: AskedQuestions
    is_there: Lookup[str, bool]


def read_podman_facts(obs: Observation) -> PodmanFacts:
    return obs.compute_once(
        "Podman's settings",
        lambda: PodmanFacts(
            Fact(lambda: _keep_present(obs.get_file(path, KEEP) for path in FILES)),
            Fact(
                lambda: {
                    folder: _keep_present(obs.list_glob_files(_match_drop_ins(folder), KEEP))
                    for folder in LAYERED_DROP_INS
                }
            ),
            obs.get_asked(),
            Lookup(obs.is_there),
        ),
    )


def _keep_present(files: Iterable[ObservedFile]) -> list[ObservedFile]:
    return [file for file in files if file.exists]


def list_read_files(facts: PodmanFacts, version: str) -> list[ObservedFile]:
    """List the files that root's Podman of this release reads, in the order in which it reads them.

    A release that is not known counts as one before 6.0.
    """
    release = versions.parse_engine_version(version)
    files, drop_ins = facts.files.value, facts.drop_ins.value
    if release is None or release.release < FIRST_FILE_SINCE:
        return [*files, *sorted(drop_ins[DROP_INS], key=lambda file: file.path)]
    by_name = {
        file.path.rpartition("/")[2]: file
        for folder in LAYERED_DROP_INS
        for file in drop_ins[folder]
    }
    return [*files[-1:], *(by_name[name] for name in sorted(by_name))]


def get_podman_directories(facts: PodmanFacts, version: str) -> Directories | None:
    """Return what the host's files set.

    None if Podman does not read the key, if no file sets it, or if the sum of the files is unknown.
    """
    release = versions.parse_engine_version(version)
    if release is None or release.release < READ_SINCE:
        return None
    return get_last_podman_setting(facts, version, KEY)


def get_default_directories(version: str) -> tuple[str, ...]:
    """Return the directories of a Podman for which no file of the host sets others."""
    release = versions.parse_engine_version(version)
    first, fixed = ETC_ALONE
    return CDI_DIRS[:1] if release is not None and first <= release.release < fixed else CDI_DIRS


def get_last_podman_setting(
    facts: PodmanFacts, version: str, key: tuple[str, str]
) -> Directories | None:
    settings = list(list_podman_settings(facts, version, key))
    return settings[-1] if settings and all(one.names for one in settings) else None


def list_podman_settings(
    facts: PodmanFacts, version: str, key: tuple[str, str]
) -> Iterator[Directories]:
    """Yield what each file that this release reads sets, in order.

    The names are empty if they are unknown: in a list that adds to another, or in a broken file.
    """
    for file in list_read_files(facts, version):
        try:
            yield from read_podman_file(file, key)
        except PlanError:
            yield Directories((), file.path)


def read_podman_file(file: ObservedFile, key: tuple[str, str]) -> Iterator[Directories]:
    doc = toml_file.read_toml_file(file)
    engine = doc.data.get(key[0])
    value = engine.get(key[1]) if isinstance(engine, dict) else None
    if value is not None:
        plain = isinstance(value, list) and all(
            isinstance(item, str) and item.startswith("/") for item in value
        )
        yield Directories(
            tuple(value) if plain else (), f"{file.path}:{toml.find_key_line(doc, key)}"
        )


def advise_on_podman_directories(
    facts: PodmanFacts, version: str, used: Sequence[str]
) -> tuple[str, ...]:
    """Advise if Podman looks for CDI specs only in other directories. Empty otherwise.

    used: the directories of the host's specs.
    """
    directories = get_podman_directories(facts, version)
    if directories is None:
        return advise_on_default_directories(version, used)
    if set(used) & set(host_paths.clean_directories(directories.names)):
        return ()
    names = ", ".join(directories.names)
    row = messages.OTHER_DIRECTORIES
    return (row.fill(directories=names, place=directories.where, used=" and ".join(used)),)


def advise_on_default_directories(version: str, used: Sequence[str]) -> tuple[str, ...]:
    """Advise if the release of Podman looks for CDI specs in fewer directories than others. Empty
    otherwise.
    """
    usual = get_default_directories(version)
    if usual == CDI_DIRS or set(used) & set(usual):
        return ()
    release = version.rpartition(":")[2].partition("-")[0]
    return (
        messages.DEFAULT_DIRECTORIES.fill(
            version=release, directories=", ".join(usual), used=" and ".join(used)
        ),
    )


def warn_of_podman_hook(facts: PodmanFacts, version: str) -> tuple[str, ...]:
    """Warn of NVIDIA's hook in a directory that only Podman's own setting names: it would inject
    GPUs besides the CDI spec.
    """
    hooks = get_last_podman_setting(facts, version, HOOKS)
    names = host_paths.list_opened_directories(hooks.names) if hooks else ()
    paths = [f"{name}/{hook_files.NAME}" for name in names if name not in hook_files.USUAL]
    facts.asked.require(queries.ask_for_file(path, content=False) for path in paths)
    return tuple(
        messages.HOOK_BESIDE_CDI.fill(path=path, place=hooks.where)
        for path in paths
        if hooks and facts.is_there.get(path)
    )


def confines_containers(facts: PodmanFacts, version: str) -> bool:
    """Tell whether no file switches the labels of SELinux off. True for files that are not TOML:
    Podman does not start with them either.
    """
    label: object = True
    for file in list_read_files(facts, version):
        try:
            containers = toml_file.read_toml_file(file).data.get(LABEL[0])
        except PlanError:
            return True
        label = containers.get(LABEL[1], label) if isinstance(containers, dict) else label
    return label is not False


def find_undefined_runtime(facts: PodmanFacts, version: str) -> tuple[str, ...]:
    """Warn of a default runtime whose name is not defined: Podman starts no container at all
    (makeRuntime in libpod).
    """
    name, where, defined = "", "", set(BUILT_IN)
    for file in list_read_files(facts, version):
        try:
            doc = toml_file.read_toml_file(file)
        except PlanError:
            return ()  # Podman does not start with it either, and reports that
        engine = doc.data.get(RUNTIME[0])
        value, table = (
            (engine.get(RUNTIME[1]), engine.get("runtimes"))
            if isinstance(engine, dict)
            else (None, None)
        )
        defined |= set(table) if isinstance(table, dict) else set()
        if isinstance(value, str) and value:
            name, where = value, f"{file.path}:{toml.find_key_line(doc, RUNTIME)}"
    if not name or name.startswith("/") or name in defined or file_places.is_hidden_value(name):
        return ()
    return (messages.RUNTIME_UNDEFINED.fill(name=name, place=where),)
