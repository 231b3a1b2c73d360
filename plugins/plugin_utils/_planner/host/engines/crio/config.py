# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read CRI-O's configuration: its files, their order and their sum, or the settings that the daemon
reports as in force.
"""

from __future__ import annotations

import dataclasses as dc
import posixpath
import re
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.projection import selection
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import (
    host_paths,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import (
    toml,
    toml_file,
    toml_types,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    CDI_DIRS,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
    ObservedFile,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections import (
    crio_places,
    file_places,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections.file_places import (
    Keep,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import processes
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.crio import (
    messages,
    releases,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.unit_files import start

PAIR = re.compile(r"v?(\d{1,9})\.(\d{1,9})")


@dc.dataclass(frozen=True)
class Given:
    """The daemon's arguments, which take precedence over its files.

    where, line: the place in its unit, if no process shows the arguments.
    """

    default: str = ""
    hooks_dirs: tuple[str, ...] = ()
    cdi_dirs: tuple[str, ...] = ()
    where: str = ""
    line: int | None = None


@dc.dataclass(frozen=True)
class CrioPaths:
    """The files that one CRI-O reads, and the socket on which it listens."""

    config: str
    directory: str
    socket: str
    drop_in: str
    # what of its files may travel
    keep: Keep = dc.field(default_factory=crio_places.keep_crio_places)
    given: Given = Given()


@dc.dataclass(frozen=True)
class Layer:
    """A file that CRI-O loads, with its parsed content."""

    file: ObservedFile
    data: Mapping[str, Any]

    @property
    def path(self) -> str:
        return self.file.path

    @property
    def runtime(self) -> Mapping[str, Any]:
        return get_crio_section(self.data, "crio", "runtime")

    @property
    def handlers(self) -> Mapping[str, Any]:
        return get_crio_section(self.runtime, "runtimes")


@dc.dataclass(frozen=True)
class Effective:
    """The settings in force, or in force after a restart. Handlers have the keys of the TOML
    tables.
    """

    default: str
    handlers: Mapping[str, Mapping[str, Any]]
    hooks_dirs: tuple[str, ...]
    cdi_dirs: tuple[str, ...]
    source: str  # cri-status | dump | files


def get_crio_section(data: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    for name in names:
        value = data.get(name)
        data = value if isinstance(value, Mapping) else {}
    return data


def parse_crio_minor(version: str) -> tuple[int, int]:
    """Return the major and minor number, which is all that CRI-O's tables depend on. Raise
    PlanError for any other text.
    """
    match = PAIR.match(version)
    if not match:
        unreadable = messages.VERSION_UNREADABLE.fill(version=version)
        raise PlanError(unreadable, where="engine_version")
    return int(match.group(1)), int(match.group(2))


# Subcommands of the program: a process with one of these is not the daemon.
SUBCOMMANDS = ("config", "status", "version", "wipe", "check")
CONFIG, CONFIG_DIR, LISTEN = (
    ("--config", "-config", "-c"),
    ("--config-dir", "-config-dir", "-d"),
    ("--listen", "-listen"),
)
# Flags that outrank the files (mergeConfig in CRI-O's internal/criocli). One for a list may be
# given several times, and divided by commas.
DEFAULT, HOOKS, CDI = (
    ("--default-runtime", "-default-runtime"),
    ("--hooks-dir", "-hooks-dir"),
    ("--cdi-spec-dirs", "-cdi-spec-dirs"),
)
READ_FLAGS: Mapping[str, str] = {
    **dict.fromkeys((*CONFIG, *CONFIG_DIR, *HOOKS, *CDI), "path"), **dict.fromkeys(LISTEN, "address"), **dict.fromkeys(DEFAULT, "name"),
    **dict.fromkeys(SUBCOMMANDS, ""),
}  # fmt: skip
# Variables of its environment that CRI-O reads if the flag is not given.
VARIABLES: Mapping[str, str] = {
    "CONTAINER_CONFIG": CONFIG[0], "CONTAINER_CONFIG_DIR": CONFIG_DIR[0], "CONTAINER_LISTEN": LISTEN[0],
    "CONTAINER_DEFAULT_RUNTIME": DEFAULT[0], "CONTAINER_HOOKS_DIR": HOOKS[0], "CONTAINER_CDI_SPEC_DIRS": CDI[0],
}  # fmt: skip


def find_crio_process(obs: Observation) -> Mapping[str, Any]:
    """Return the daemon's process. {} if none runs. A subcommand that a person runs does not count."""
    for p in obs.processes():
        if processes.get_program_name(p) == "crio" and not set(SUBCOMMANDS) & set(
            (p.get("argv") or [""])[1:]
        ):
            return p
    return {}


def handle(obs: Observation) -> dict[str, int] | None:
    """Return the pid and start ticks by which the host recognises the daemon's process. None if
    none runs.
    """
    process = find_crio_process(obs)
    return (
        {"pid": int(process["pid"]), "ticks": int(process.get("ticks") or 0)} if process else None
    )


def get_crio_pid(obs: Observation) -> int:
    return int(find_crio_process(obs).get("pid") or 0)


def find_crio_paths(policy: Policy, obs: Observation) -> CrioPaths:
    running = find_crio_process(obs) if policy.root == "/" else {}
    unit = (
        start.Start(tuple(running.get("argv") or ()))
        if running
        else read_crio_unit_start(policy, obs)
    )
    argv = unit.argv[1:]
    named, beside = processes.flag(argv, *CONFIG), processes.flag(argv, *CONFIG_DIR)
    hooks, cdi = (
        host_paths.list_opened_directories(_list_flag_values(argv, HOOKS)),
        host_paths.clean_directories(_list_flag_values(argv, CDI)),
    )
    given = Given(processes.flag(argv, *DEFAULT), hooks, cdi, unit.where, unit.line or None)
    if policy.root != "/":
        asked = {
            CONFIG[0]: "" if policy.config_path else named,
            CONFIG_DIR[0]: beside,
            DEFAULT[0]: given.default,
        }
        for flag, value in {**asked, HOOKS[0]: ",".join(hooks), CDI[0]: ",".join(cdi)}.items():
            start.require_known_flag(unit, value, flag)
    elif not running:
        # a host's report of a daemon that does not run does without what is not known
        named, beside = start.get_known_path(named), start.get_known_path(beside)
    config = policy.config_path or host_paths.keep_as_opened(named) or releases.CONFIG
    # A main file of one's own has its drop-ins next to it, as the default one has.
    directory = host_paths.keep_as_opened(beside) or f"{config}.d"
    socket = (
        policy.socket or host_paths.keep_as_opened(processes.flag(argv, *LISTEN)) or releases.SOCKET
    )
    drop_in = policy.drop_in_path or posixpath.join(directory, releases.DROP_IN)
    return CrioPaths(
        config, directory, socket, drop_in, crio_places.keep_crio_places(policy.handlers), given
    )


def read_crio_unit_start(policy: Policy, obs: Observation) -> start.Start:
    """Read how its unit starts a CRI-O that does not run."""
    return start.read_start(
        policy.root, obs, policy.service or releases.UNIT, "crio", READ_FLAGS, VARIABLES
    )


def _list_flag_values(argv: Iterable[str], names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(
        item.strip()
        for value in processes.flag_values(argv, *names)
        for item in value.split(",")
        if item.strip()
    )


def get_named_crio_paths(policy: Policy) -> CrioPaths:
    """Return the places that the options name, or the usual ones."""
    main = policy.config_path or releases.CONFIG
    drop_in = policy.drop_in_path or posixpath.join(f"{main}.d", releases.DROP_IN)
    return CrioPaths(
        main,
        f"{main}.d",
        policy.socket or releases.SOCKET,
        drop_in,
        crio_places.keep_crio_places(policy.handlers),
    )


def check_drop_in(policy: Policy, where: CrioPaths) -> None:
    if policy.drop_in == "never":
        raise PlanError(messages.CRIO_DROP_IN_NEVER.fill(), where=where.config)
    if not where.drop_in.startswith(where.directory.rstrip("/") + "/"):
        elsewhere = messages.DROP_IN_ELSEWHERE.fill(directory=where.directory)
        raise PlanError(elsewhere, where=where.drop_in)


def list_drop_in_files(obs: Observation, directory: str) -> list[str]:
    """List every file below the drop-in directory, in the order of Go's filepath.Walk.

    This order is lexical in each directory, recursive, and takes files of any name.
    """
    paths: list[str] = []
    for entry in sorted(obs.list_directory(directory), key=lambda e: str(e["name"])):
        path = posixpath.join(directory, str(entry["name"]))
        if entry.get("type") == "dir":
            paths.extend(list_drop_in_files(obs, path))
        else:
            paths.append(path)
    return paths


def read_crio_layer(obs: Observation, where: CrioPaths, path: str, *, main: bool) -> Layer | None:
    file = obs.get_file(path, where.keep)
    if not file.exists and main:
        return None
    if file.type not in ("file", "") or (file.content is None and not file.fault):
        row = messages.MAIN_FILE_UNREADABLE if main else messages.DROP_IN_UNREADABLE
        raise PlanError(row.fill(trouble=file.trouble), where=path)
    try:
        doc = toml_file.read_toml_file(file)
        toml_types.check_encoding(doc, messages.FILE_IS_UTF8.fill())
        toml_types.check_toml_types(
            doc, releases.SHAPES, messages.OTHER_TYPE_EXPECTED.fill(), file.withheld
        )
    except PlanError as broken:
        problem = broken.message.drop_step()
        refused = (
            messages.MAIN_FILE_REFUSED.fill(problem=problem, step=broken.next)
            if main
            else messages.DROP_IN_REFUSED.fill(problem=problem)
        )
        raise PlanError(refused, where=path, line=broken.line) from None
    file_places.require_shown(path, file.withheld, crio_places.OF_HANDLERS)
    return Layer(file, toml_file.add_hidden_values(doc.data, file))


def read_status_settings(status: Mapping[str, Any]) -> Effective | None:
    """Read the settings in force from CRI Status. None if it has none, or if a value did not
    travel.

    The status carries the runtime configuration with the Go fields' names (CRI-O 1.33 and newer).
    """
    crio = get_crio_section(status, "info", "config", "crio")
    if not crio or has_hidden_value(crio):
        return None
    handlers = {}
    for name, fields in get_crio_section(crio, "Runtimes").items():
        known = crio_places.HANDLER_FIELDS.items() if isinstance(fields, Mapping) else ()
        handlers[name] = {key: fields[go] for key, go in known if fields.get(go)}
    return Effective(
        str(crio.get("DefaultRuntime") or ""),
        handlers,
        host_paths.list_opened_directories(crio.get("HooksDir") or ()),
        host_paths.clean_directories(crio.get("CDISpecDirs") or ()),
        "cri-status",
    )


def has_hidden_value(value: Any) -> bool:
    """Tell whether a value in here did not travel.

    If so, no handler can be copied whole from it. The host can copy the files in place.
    """
    if isinstance(value, str):  # most are, and an abstract class takes longer to say no
        return value == selection.HIDDEN
    if isinstance(value, Mapping):
        return any(has_hidden_value(key) or has_hidden_value(item) for key, item in value.items())
    return (
        any(map(has_hidden_value, value))
        if isinstance(value, list | tuple)
        else value == selection.HIDDEN
    )


def merge_crio_tables(
    documents: Iterable[Mapping[str, Any]], version: tuple[int, int], source: str
) -> Effective:
    """Combine files in order: scalars and arrays override, and a handler that is named again is
    replaced as a whole.
    """
    default = releases.get_default_crio_runtime(version)
    hooks: tuple[str, ...] = releases.HOOKS_DIRS
    cdi: tuple[str, ...] = CDI_DIRS
    handlers: dict[str, Mapping[str, Any]] = {default: releases.get_built_in_crio_handler(version)}
    for document in documents:
        runtime = get_crio_section(document, "crio", "runtime")
        default = str(runtime.get("default_runtime") or default)
        hooks = (
            host_paths.list_opened_directories(runtime["hooks_dir"])
            if "hooks_dir" in runtime
            else hooks
        )
        cdi = (
            host_paths.clean_directories(runtime["cdi_spec_dirs"])
            if "cdi_spec_dirs" in runtime
            else cdi
        )
        handlers.update(
            {
                name: table
                for name, table in get_crio_section(runtime, "runtimes").items()
                if isinstance(table, Mapping)
            }
        )
    return Effective(default, handlers, hooks, cdi, source)


def apply_daemon_arguments(force: Effective, given: Given) -> Effective:
    """Return the settings of the files with those of the daemon's arguments over them."""
    default, hooks, cdi = (
        given.default or force.default,
        given.hooks_dirs or force.hooks_dirs,
        given.cdi_dirs or force.cdi_dirs,
    )
    return dc.replace(force, default=default, hooks_dirs=hooks, cdi_dirs=cdi)


def list_crio_config_flags(where: CrioPaths, main: ObservedFile) -> list[str]:
    """Return the flags that name CRI-O's files.

    --config with a path that does not exist is an error (internal/criocli), and --config '' means
    none. main: the main file.
    """
    return ["--config", where.config if main.exists else "", "--config-dir", where.directory]


def find_default_program(text: str) -> tuple[str, str] | None:
    """Return the default handler that a file names, and the program that it gives this handler;
    None if it does not say both.
    """
    try:
        data = toml.parse_toml(text, "").data
    except PlanError:
        return None
    name = toml.look_up_toml(data, ("crio", "runtime", "default_runtime"))
    handler = ("crio", "runtime", "runtimes", str(name), "runtime_path")
    program = toml.look_up_toml(data, handler)
    both = isinstance(name, str) and isinstance(program, str) and program
    return (str(name), str(program)) if both else None
