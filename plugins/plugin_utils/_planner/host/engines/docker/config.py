# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the interfaces of a Docker daemon: the process, its flags, daemon.json, and /info over its
socket.
"""

from __future__ import annotations

import dataclasses as dc
import re
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import (
    host_paths,
    queries,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    NeedMore,
    PlanError,
    QueryFailed,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import json_text
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Handler,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
    ObservedFile,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections import (
    file_places,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import processes
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.docker import (
    messages,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.unit_files import start

SOCKET = "/var/run/docker.sock"
CONFIG = "/etc/docker/daemon.json"
UNIT = "docker.service"
PACKAGES = ("docker-ce", "docker.io", "moby-engine")
DESKTOP = "docker-desktop"
SNAP_CONFIG = "/var/snap/docker/current/config/daemon.json"
# snapd's, which is there whether the snap runs or not
SNAP_UNIT = "/etc/systemd/system/snap.docker.dockerd.service"
SURROGATE = re.compile("[\udc80-\udcff]")
ADD_RUNTIME = "--add-runtime"
RESOURCES, ADD_RESOURCE = ("node-generic-resources",), "--node-generic-resource"
# Key in the file -> the flags that set the same. dockerd does not start if both do
# (findConfigurationConflicts in moby's daemon/config); `runtimes` is the exception, whose entries
# are put together from 18.09 on.
FLAGS: Mapping[str, tuple[str, ...]] = {
    "default-runtime": ("--default-runtime",),
    "features": ("--feature",),
    "cdi-spec-dirs": ("--cdi-spec-dir",),
    "live-restore": ("--live-restore",),
    "runtimes": (ADD_RUNTIME,),
}
# The flags whose values are read, with the shape of each.
READ_FLAGS: Mapping[str, str] = {
    "--config-file": "path", "--host": "address", "-H": "address", "--default-runtime": "name", "--feature": "feature",
    "--cdi-spec-dir": "path", "--live-restore": "switch", ADD_RUNTIME: "name=path", ADD_RESOURCE: "resource",
}  # fmt: skip


@dc.dataclass(frozen=True)
class DockerPaths:
    config: str
    socket: str
    unit: str


@dc.dataclass(frozen=True)
class Flags:
    """The arguments of dockerd, as `--name=value` each.

    where, line: the place in its unit, if they are not those of a process.
    """

    words: tuple[str, ...] = ()
    where: str = ""
    line: int | None = None


def are_options_meant_for_docker(policy: Policy) -> bool:
    """Tell whether the options that name one engine's places are meant for Docker."""
    return policy.single or tuple(e for e in policy.engines if e != "auto") == ("docker",)


def keep_docker_values(handlers: Iterable[Handler] = ()) -> file_places.Keep:
    """List what of daemon.json may travel.

    This includes the values that a playbook gives for its handlers, since the playbook has them.
    """
    values: dict[tuple[str, ...], Any] = {}
    for handler in handlers:
        values.update(
            {
                ("runtimes", handler.name, key): value
                for key, value in {"path": handler.binary, **handler.options}.items()
            }
        )
    return file_places.keep_places(
        "json", file_places.add_given_values(file_places.DAEMON_JSON, values)
    )


def ask_for_docker_file(path: str, handlers: Iterable[Handler] = ()) -> queries.Question:
    return queries.ask_for_file(path, keep_docker_values(handlers))


def find_docker_paths(policy: Policy, obs: Observation) -> DockerPaths:
    options = policy if are_options_meant_for_docker(policy) else Policy()
    argv = flags_given(policy, obs)
    config = (
        options.config_path
        or host_paths.keep_as_opened(_find_config_by_flag(policy, obs, argv))
        or CONFIG
    )
    hosts = [
        host_paths.keep_as_opened(h.removeprefix("unix://"))
        for h in (*list_docker_flag_values(argv, "--host"), *list_docker_flag_values(argv, "-H"))
        if h.startswith("unix:///")
    ]
    unit = (
        options.service or str(find_docker_process(obs).get("unit") or "")
        if policy.root == "/"
        else ""
    )
    return DockerPaths(
        config,
        options.socket or (hosts or [SOCKET])[0],
        unit or (UNIT if not find_docker_process(obs) or policy.root != "/" else ""),
    )


def _find_config_by_flag(policy: Policy, obs: Observation, argv: Flags) -> str:
    """Return the file that a flag names.

    A unit may hide that file. If its daemon does not run, a host's report does without the file.
    """
    given = (list_docker_flag_values(argv, "--config-file") or [""])[-1]
    if policy.root != "/":
        start.require_known_flag(read_docker_unit_start(policy, obs), given, "--config-file")
    return given if find_docker_process(obs) else start.get_known_path(given)


def get_named_docker_paths(policy: Policy) -> DockerPaths:
    """Return the places that the options name, or the usual ones."""
    options = policy if are_options_meant_for_docker(policy) else Policy()
    return DockerPaths(
        options.config_path or CONFIG, options.socket or SOCKET, options.service or UNIT
    )


# ---------------------------------------------------------------- the process


def is_daemon(process: Mapping[str, Any]) -> bool:
    return processes.get_program_name(process) == "dockerd"


def find_docker_process(obs: Observation) -> Mapping[str, Any]:
    """Return the daemon of the host: the unit's first, then one outside a snap. {} if none runs."""
    daemons = [p for p in obs.processes() if is_daemon(p)]
    return min(daemons, key=lambda p: (str(p.get("unit") or "") != UNIT, is_snapped(p)), default={})


def is_snapped(process: Mapping[str, Any]) -> bool:
    return str(process.get("exe") or "").startswith("/snap/") or str(
        process.get("unit") or ""
    ).startswith("snap.docker.")


def _join_flags(argv: Iterable[object]) -> tuple[str, ...]:
    """Join flags and their values. argv: with the program."""
    words = [str(word) for word in argv][1:]
    joined: list[str] = []
    at = 0
    while at < len(words):
        word = words[at]
        follows = words[at + 1] if at + 1 < len(words) else ""
        if word.startswith("-") and "=" not in word and follows and not follows.startswith("-"):
            joined.append(f"{word}={follows}")
            at += 1
        elif word.startswith("-"):
            joined.append(word)
        at += 1
    return tuple(joined)


def flags_given(policy: Policy, obs: Observation) -> Flags:
    """Read the arguments of the running daemon. If none runs, read those with which its unit starts
    it.
    """
    daemon = find_docker_process(obs) if policy.root == "/" else {}
    if daemon:
        return Flags(_join_flags(daemon.get("argv") or ()))
    unit = read_docker_unit_start(policy, obs)
    return Flags(_join_flags(unit.argv), unit.where, unit.line or None)


def read_docker_unit_start(policy: Policy, obs: Observation) -> start.Start:
    """Read how the unit starts a daemon that does not run."""
    return start.read_start(policy.root, obs, get_docker_unit(policy), "dockerd", READ_FLAGS)


def get_docker_unit(policy: Policy) -> str:
    return (policy.service if are_options_meant_for_docker(policy) else "") or UNIT


def list_docker_flag_values(flags: Flags, name: str) -> list[str]:
    """Return the values of a flag, one for each time that it is given. A switch without a value
    counts as true.
    """
    return [
        f.partition("=")[2] if "=" in f else "true"
        for f in flags.words
        if f.partition("=")[0] == name
    ]


def list_flag_runtimes(flags: Flags) -> dict[str, str]:
    """Read the runtimes that flags define, with their programs."""
    return dict(value.partition("=")[::2] for value in list_docker_flag_values(flags, ADD_RUNTIME))


def get_flag_value(flags: Flags, key: str) -> list[str]:
    return [value for name in FLAGS[key] for value in list_docker_flag_values(flags, name)]


# ---------------------------------------------------------------- the file


def read_docker_document(
    obs: Observation, path: str, handlers: Iterable[Handler]
) -> tuple[ObservedFile, json_text.JsonDocument]:
    """Read daemon.json. Raise PlanError if nothing can be planned about it, NeedMore if it was not
    asked for.
    """
    if not obs.was_asked(ask_for_docker_file(path)):
        raise NeedMore([ask_for_docker_file(path, handlers)])
    file = obs.get_file(path)
    if file.fault and file.fault.get("code") == "utf-16":
        raise build_utf16_error(path)
    if file.fault:
        raise file_places.build_unsent_file_error(
            path, str(file.fault.get("code")), int(file.fault.get("line") or 1), "JSON"
        )
    if file.foreign_bytes:
        raise PlanError(messages.DOCKER_NOT_UTF8.fill(), where=path, line=file.foreign_bytes)
    if not file.exists:
        return file, json_text.JsonDocument(path, "", None)
    if file.error or file.type not in ("file", "") or file.content is None:
        raise PlanError(messages.DOCKER_UNREADABLE.fill(trouble=file.trouble), where=path)
    broken = SURROGATE.search(file.content)
    if broken:
        if file.content.startswith(("\udcff\udcfe", "\udcfe\udcff")):
            raise build_utf16_error(path)
        line = json_text.count_json_line(file.content, broken.start())
        raise PlanError(messages.DOCKER_NOT_UTF8.fill(), where=path, line=line)
    doc = json_text.parse_json_text(file.content, path)
    check_shape(doc, file.withheld)
    file_places.require_shown(path, file.withheld, (("runtimes", "*", "**"), RESOURCES))
    return file, doc


def build_utf16_error(path: str) -> PlanError:
    """Make the error for a file that dockerd reads (moby pull request 44832), and that is edited
    here in UTF-8 alone.
    """
    return PlanError(messages.UTF16.fill(path=path), where=path, line=1)


SHAPES: tuple[tuple[tuple[str, ...], type, str], ...] = (
    (("runtimes",), dict, "an object of runtimes by name"),
    (("features",), dict, "an object of switches by name"),
    (("default-runtime",), str, "the name of a runtime in quotes"),
    (("cdi-spec-dirs",), list, "a list of directories"),
    (("live-restore",), bool, "true or false"),
)


OWN_KEYS = (*(path[0] for path, _kind, _wanted in SHAPES), *RESOURCES)
# moby's api/types/system.Runtime, with the names that its tags have
RUNTIME_KEYS = ("path", "runtimeArgs", "runtimeType", "options", "args")


# Types by the host side's words for them, and as a person says them. A truth value is an int
# as well, so it comes first.
KINDS: Mapping[type, str] = {
    dict: "table",
    list: "array",
    bool: "boolean",
    str: "string",
    int: "integer",
    float: "float",
}
BRIEF: Mapping[str, str] = {
    "table": "an object", "array": "a list", "boolean": "a truth value", "string": "a string", "integer": "a number", "float": "a number",
    "null": "null",
}  # fmt: skip


def check_shape(doc: json_text.JsonDocument, withheld: Iterable[Mapping[str, Any]] = ()) -> None:
    """Raise PlanError if a key that counts here has another type than dockerd reads: dockerd would
    not start.

    withheld: values that were not sent.
    """
    _require_spelled_keys(doc)
    kinds = {tuple(entry["path"]): str(entry["kind"]) for entry in withheld}
    for path, kind, wanted in SHAPES:
        value = json_text.look_up_json(doc, path)
        if value is not None and kinds.get(path, name_value_kind(value)) != KINDS[kind]:
            raise build_docker_value_error(doc, path, kinds, wanted)
    for name, value in (json_text.look_up_json(doc, ("features",)) or {}).items():
        if value is not None and has_other_type(bool, ("features", name), value, kinds):
            raise build_docker_value_error(doc, ("features", name), kinds, "true or false")
    for name, entry in (json_text.look_up_json(doc, ("runtimes",)) or {}).items():
        if has_other_type(dict, ("runtimes", name), entry, kinds):
            raise build_docker_value_error(
                doc, ("runtimes", name), kinds, "an object with the key path"
            )


def _require_spelled_keys(doc: json_text.JsonDocument) -> None:
    """Raise PlanError for a key that counts here in another case.

    Docker refuses one at the top. In a runtime it takes one in any case, and of two the last
    (Go's encoding/json), so what this collection writes might not count.
    """
    spots: list[tuple[json_text.Path, json_text.Token | None, tuple[str, ...]]] = [
        ((), doc.root, OWN_KEYS)
    ]
    runtimes = json_text.find_json_member(doc, ("runtimes",))
    for member in runtimes.node.members if runtimes else ():
        spots.append((("runtimes", member.key), member.node, RUNTIME_KEYS))
    for path, node, keys in spots:
        right = {key.lower(): key for key in keys}
        for member in node.members if node else ():
            key = right.get(member.key.lower(), member.key)
            if key != member.key:
                other = messages.KEY_IN_OTHER_CASE.fill(key=member.key, right=key)
                line = json_text.find_member_line(doc, (*path, member.key))
                raise PlanError(other, where=doc.path, line=line)


def has_other_type(
    kind: type, path: json_text.Path, value: Any, kinds: Mapping[json_text.Path, str]
) -> bool:
    """Tell whether a value under a freely chosen name has another type. False if the name is not
    shown: the type is unknown then.
    """
    if path not in kinds and file_places.is_stand_in(value):
        return False
    return kinds.get(path, name_value_kind(value)) != KINDS[kind]


def build_docker_value_error(
    doc: json_text.JsonDocument,
    path: json_text.Path,
    kinds: Mapping[json_text.Path, str],
    wanted: str,
) -> PlanError:
    kind = BRIEF[kinds.get(path, name_value_kind(json_text.look_up_json(doc, path)))]
    other = messages.DOCKER_WRONG_TYPE.fill(key=".".join(path), found=kind, wanted=wanted)
    return PlanError(other, where=doc.path, line=json_text.find_member_line(doc, path))


def name_value_kind(value: Any) -> str:
    """Return the kind of a value in the host side's words."""
    return next((name for kind, name in KINDS.items() if isinstance(value, kind)), "null")


# ---------------------------------------------------------------- the daemon's word


def get_docker_info(obs: Observation, socket: str) -> Mapping[str, Any]:
    """Return /info. {} if the daemon gives none: such a Docker is left alone."""
    said = obs.get_socket_answer(
        queries.ask_for_http(socket, "/info"), int(find_docker_process(obs).get("pid") or 0)
    )
    info = said.get("value") if said.get("status") == 200 else None
    return info if isinstance(info, Mapping) else {}


def list_running_docker_containers(obs: Observation, socket: str) -> tuple[str, ...]:
    """List the running containers by name. Raise QueryFailed if Docker does not list them."""
    said = obs.get_answer(queries.ask_for_http(socket, "/containers/json"))
    listed = said.get("value") if said.get("status") == 200 else None
    if not isinstance(listed, list):
        unlisted = messages.CONTAINERS_UNLISTED.fill(status=said.get("status"))
        raise QueryFailed(unlisted, where=socket)
    return tuple(
        sorted(
            str((c.get("Names") or [str(c.get("Id"))[:12]])[0]).lstrip("/")
            for c in listed
            if isinstance(c, Mapping)
        )
    )


def can_survive_docker_restart(
    data: Mapping[str, Any], flags: Flags, info: Mapping[str, Any]
) -> bool:
    """Tell whether running containers live through a restart.

    The old daemon has to leave them alone at its end, and the new one has to take them up at its
    start.
    """
    again = data.get("live-restore") is True or "true" in get_flag_value(flags, "live-restore")
    return bool(info.get("LiveRestoreEnabled")) and again


def find_default_program(text: str) -> tuple[str, str] | None:
    """Return the default runtime that a daemon.json names, and the program that it gives this
    runtime; None if it does not say both.
    """
    try:
        doc = json_text.parse_json_text(text, "")
    except PlanError:
        return None
    name = json_text.look_up_json(doc, ("default-runtime",))
    program = json_text.look_up_json(doc, ("runtimes", str(name), "path"))
    both = isinstance(name, str) and isinstance(program, str) and program
    return (str(name), str(program)) if both else None
