# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the interfaces of a Docker daemon: the process, its flags, daemon.json, and /info over its socket."""

from __future__ import annotations

import dataclasses as dc
import re
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner import host_paths, processes, queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.engines import cdi_directories
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.engines.docker import messages
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.errors import NeedMore, PlanError, QueryFailed
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.formats import json_text
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.model import Handler, Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.observation import File, Observation
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.projections import file_places
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.unit_files import start

SOCKET = "/var/run/docker.sock"
CONFIG = "/etc/docker/daemon.json"
UNIT = "docker.service"
PACKAGES = ("docker-ce", "docker.io", "moby-engine")
DESKTOP = "docker-desktop"
SNAP_CONFIG = "/var/snap/docker/current/config/daemon.json"
SNAP_UNIT = "/etc/systemd/system/snap.docker.dockerd.service"  # snapd's, which is there whether the snap runs or not
SURROGATE = re.compile("[\udc80-\udcff]")
ADD_RUNTIME = "--add-runtime"
RESOURCES, ADD_RESOURCE = ("node-generic-resources",), "--node-generic-resource"
# Key in the file -> the flags that set the same. dockerd does not start if both do (findConfigurationConflicts in moby's
# daemon/config); `runtimes` is the exception, whose entries are put together from 18.09 on.
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
class Paths:
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


def named(policy: Policy) -> bool:
    """Tell whether the options that name one engine's places are meant for Docker."""
    return policy.single or tuple(e for e in policy.engines if e != "auto") == ("docker",)


def keep(handlers: Iterable[Handler] = ()) -> file_places.Keep:
    """List what of daemon.json may travel.

    This includes the values that a playbook gives for its handlers, since the playbook has them.
    """
    values: dict[tuple[str, ...], Any] = {}
    for handler in handlers:
        values.update({("runtimes", handler.name, key): value for key, value in {"path": handler.binary, **handler.options}.items()})
    return file_places.keep("json", file_places.given(file_places.DAEMON_JSON, values))


def question(path: str, handlers: Iterable[Handler] = ()) -> queries.Question:
    return queries.file(path, keep(handlers))


def places(policy: Policy, obs: Observation) -> Paths:
    options = policy if named(policy) else Policy()
    argv = flags_given(policy, obs)
    config = options.config_path or host_paths.as_opened(_config_by_flag(policy, obs, argv)) or CONFIG
    hosts = [
        host_paths.as_opened(h.removeprefix("unix://")) for h in (*values(argv, "--host"), *values(argv, "-H")) if h.startswith("unix:///")
    ]
    unit = options.service or str(process(obs).get("unit") or "") if policy.root == "/" else ""
    return Paths(config, options.socket or (hosts or [SOCKET])[0], unit or (UNIT if not process(obs) or policy.root != "/" else ""))


def _config_by_flag(policy: Policy, obs: Observation, argv: Flags) -> str:
    """Return the file that a flag names.

    A unit may hide that file. If its daemon does not run, a host's report does without the file.
    """
    given = (values(argv, "--config-file") or [""])[-1]
    if policy.root != "/":
        start.require_known(unit_start(policy, obs), given, "--config-file")
    return given if process(obs) else start.known_path(given)


def named_or_default(policy: Policy, obs: Observation) -> Paths:
    """Return the places. If `places` raises PlanError, return those that the options name, or the usual ones."""
    try:
        return places(policy, obs)
    except PlanError:
        options = policy if named(policy) else Policy()
        return Paths(options.config_path or CONFIG, options.socket or SOCKET, options.service or UNIT)


# ---------------------------------------------------------------- the process


def is_daemon(process: Mapping[str, Any]) -> bool:
    return processes.program(process) == "dockerd"


def process(obs: Observation) -> Mapping[str, Any]:
    """Return the daemon of the host: the unit's first, then one outside a snap. {} if none runs."""
    found = [p for p in obs.processes() if is_daemon(p)]
    return min(found, key=lambda p: (str(p.get("unit") or "") != UNIT, snapped(p)), default={})


def snapped(process: Mapping[str, Any]) -> bool:
    return str(process.get("exe") or "").startswith("/snap/") or str(process.get("unit") or "").startswith("snap.docker.")


def _joined(argv: Iterable[object]) -> tuple[str, ...]:
    """Join flags and their values. argv: with the program."""
    words = [str(word) for word in argv][1:]
    found: list[str] = []
    at = 0
    while at < len(words):
        word = words[at]
        follows = words[at + 1] if at + 1 < len(words) else ""
        if word.startswith("-") and "=" not in word and follows and not follows.startswith("-"):
            found.append(f"{word}={follows}")
            at += 1
        elif word.startswith("-"):
            found.append(word)
        at += 1
    return tuple(found)


def flags_given(policy: Policy, obs: Observation) -> Flags:
    """Read the arguments of the running daemon. If none runs, read those with which its unit starts it."""
    daemon = process(obs) if policy.root == "/" else {}
    if daemon:
        return Flags(_joined(daemon.get("argv") or ()))
    unit = unit_start(policy, obs)
    return Flags(_joined(unit.argv), unit.where, unit.line or None)


def unit_start(policy: Policy, obs: Observation) -> start.Start:
    """Read how the unit starts a daemon that does not run."""
    return start.read_start(policy.root, obs, unit_name(policy), "dockerd", READ_FLAGS)


def unit_name(policy: Policy) -> str:
    return (policy.service if named(policy) else "") or UNIT


def values(flags: Flags, name: str) -> list[str]:
    """Return the values of a flag, one for each time that it is given. A switch without a value counts as true."""
    return [f.partition("=")[2] if "=" in f else "true" for f in flags.words if f.partition("=")[0] == name]


def runtimes_added(flags: Flags) -> dict[str, str]:
    """Read the runtimes that flags define, with their programs."""
    return dict(value.partition("=")[::2] for value in values(flags, ADD_RUNTIME))


def by_flag(flags: Flags, key: str) -> list[str]:
    return [value for name in FLAGS[key] for value in values(flags, name)]


# ---------------------------------------------------------------- the file


def document(obs: Observation, path: str, handlers: Iterable[Handler]) -> tuple[File, json_text.JsonDocument]:
    """Read daemon.json. Raise PlanError if nothing can be planned about it, NeedMore if it was not asked for."""
    if not obs.asked(question(path)):
        raise NeedMore([question(path, handlers)])
    file = obs.file(path)
    if file.fault and file.fault.get("code") == "utf-16":
        raise in_utf16(path)
    if file.fault:
        raise file_places.fault(path, str(file.fault.get("code")), int(file.fault.get("line") or 1), "JSON")
    if file.foreign_bytes:
        raise PlanError(messages.DOCKER_NOT_UTF8.fill(), where=path, line=file.foreign_bytes)
    if not file.exists:
        return file, json_text.JsonDocument(path, "", None)
    if file.error or file.type not in ("file", "") or file.content is None:
        raise PlanError(messages.DOCKER_UNREADABLE.fill(trouble=file.trouble), where=path)
    broken = SURROGATE.search(file.content)
    if broken:
        if file.content.startswith(("\udcff\udcfe", "\udcfe\udcff")):
            raise in_utf16(path)
        line = json_text.line_at(file.content, broken.start())
        raise PlanError(messages.DOCKER_NOT_UTF8.fill(), where=path, line=line)
    doc = json_text.parse(file.content, path)
    check_shape(doc, file.withheld)
    file_places.require_shown(path, file.withheld, (("runtimes", "*", "**"), RESOURCES))
    return file, doc


def in_utf16(path: str) -> PlanError:
    """Make the error for a file that dockerd reads (moby pull request 44832), and that is edited here in UTF-8 alone."""
    return PlanError(messages.UTF16.fill(path=path), where=path, line=1)


SHAPES: tuple[tuple[tuple[str, ...], type, str], ...] = (
    (("runtimes",), dict, "an object of runtimes by name"),
    (("features",), dict, "an object of switches by name"),
    (("default-runtime",), str, "the name of a runtime in quotes"),
    (("cdi-spec-dirs",), list, "a list of directories"),
    (("live-restore",), bool, "true or false"),
)


# Types by the words that the node has for them, and as a person says them. A truth value is an int as well, so it comes first.
KINDS: Mapping[type, str] = {dict: "table", list: "array", bool: "boolean", str: "string", int: "integer", float: "float"}
BRIEF: Mapping[str, str] = {
    "table": "an object", "array": "a list", "boolean": "a truth value", "string": "a string", "integer": "a number", "float": "a number",
    "null": "null",
}  # fmt: skip


def cdi_dirs(policy: Policy, obs: Observation, path: str) -> tuple[str, ...] | None:
    """Return the directories of CDI specs by flag or file, which hold once CDI is on. `[""]` is the plan's to refuse.

    None if they are not known, because the file cannot be read.
    """
    try:
        by_file = json_text.lookup(document(obs, path, ())[1], ("cdi-spec-dirs",))
    except PlanError:
        return None
    return cdi_directories.named(by_flag(flags_given(policy, obs), "cdi-spec-dirs") or by_file)


def check_shape(doc: json_text.JsonDocument, withheld: Iterable[Mapping[str, Any]] = ()) -> None:
    """Raise PlanError if a key that counts here has another type than dockerd reads: dockerd would not start.

    withheld: values that were not sent.
    """
    kinds = {tuple(entry["path"]): str(entry["kind"]) for entry in withheld}
    for path, kind, wanted in SHAPES:
        value = json_text.lookup(doc, path)
        if value is not None and kinds.get(path, said(value)) != KINDS[kind]:
            raise wrong(doc, path, kinds, wanted)
    for name, value in (json_text.lookup(doc, ("features",)) or {}).items():
        if value is not None and not_a(bool, ("features", name), value, kinds):
            raise wrong(doc, ("features", name), kinds, "true or false")
    for name, entry in (json_text.lookup(doc, ("runtimes",)) or {}).items():
        if not_a(dict, ("runtimes", name), entry, kinds):
            raise wrong(doc, ("runtimes", name), kinds, "an object with the key path")


def not_a(kind: type, path: json_text.Path, value: Any, kinds: Mapping[json_text.Path, str]) -> bool:
    """Tell whether a value under a freely chosen name has another type. False if the name is not shown: the type is unknown then."""
    if path not in kinds and file_places.stand_in(value):
        return False
    return kinds.get(path, said(value)) != KINDS[kind]


def wrong(doc: json_text.JsonDocument, path: json_text.Path, kinds: Mapping[json_text.Path, str], wanted: str) -> PlanError:
    found = BRIEF[kinds.get(path, said(json_text.lookup(doc, path)))]
    other = messages.DOCKER_WRONG_TYPE.fill(key=".".join(path), found=found, wanted=wanted)
    return PlanError(other, where=doc.path, line=json_text.line_of(doc, path))


def said(value: Any) -> str:
    """Return the kind of a value in the node's words."""
    return next((name for kind, name in KINDS.items() if isinstance(value, kind)), "null")


def kept(obs: Observation, path: str) -> dict[str, Any] | None:
    """Return the content of the file before our first change. {} if there was no file.

    None if we have not changed the file, or the content is unknown.
    """
    asked = queries.originals("")
    original = (obs.raw(asked).get("originals") or {}).get(path) if obs.asked(asked) else None
    if not original:
        return None
    if not original.get("existed"):
        return {}
    try:
        return json_text.parse(str(original.get("content") or ""), path).data
    except PlanError:
        return None


# ---------------------------------------------------------------- the daemon's word


def info(obs: Observation, socket: str) -> Mapping[str, Any]:
    """Return /info. {} if the daemon gives none: such a Docker is left alone."""
    said = obs.said_by(queries.http(socket, "/info"), int(process(obs).get("pid") or 0))
    found = said.get("value") if said.get("status") == 200 else None
    return found if isinstance(found, Mapping) else {}


def running(obs: Observation, socket: str) -> tuple[str, ...]:
    """List the running containers by name. Raise QueryFailed if Docker does not list them."""
    said = obs.raw(queries.http(socket, "/containers/json"))
    listed = said.get("value") if said.get("status") == 200 else None
    if not isinstance(listed, list):
        unlisted = messages.CONTAINERS_UNLISTED.fill(status=said.get("status"))
        raise QueryFailed(unlisted, where=socket)
    return tuple(sorted(str((c.get("Names") or [str(c.get("Id"))[:12]])[0]).lstrip("/") for c in listed if isinstance(c, Mapping)))


def survives(data: Mapping[str, Any], flags: Flags, info: Mapping[str, Any]) -> bool:
    """Tell whether running containers live through a restart.

    The old daemon has to leave them alone at its end, and the new one has to take them up at its start.
    """
    again = data.get("live-restore") is True or "true" in by_flag(flags, "live-restore")
    return bool(info.get("LiveRestoreEnabled")) and again
