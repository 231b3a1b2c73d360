# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Derive the GPU Operator's `toolkit.env` for the engines of hosts that keep the operator's
toolkit.

The toolkit is one DaemonSet, so its environment is one for all nodes. Read in gpu-operator v25.10,
v26.3 and v26.7 (TransformToolkit and transformForRuntime in controllers/object_controls.go) and in
nvidia-container-toolkit v1.18 to v1.20 (cmd/nvidia-ctk-installer/container):

- CONTAINERD_CONFIG, CONTAINERD_SOCKET and `file=` in RUNTIME_CONFIG_SOURCE are paths of the host;
  the operator mounts them.
- CONTAINERD_RUNTIME_CLASS is set by the operator after `toolkit.env`, from operator.runtimeClass,
  so that is where it is said.
- With CDI on the operator sets NVIDIA_RUNTIME_SET_AS_DEFAULT=false, which the toolkit reads before
  CONTAINERD_SET_AS_DEFAULT.
- RUNTIME_CONFIG_SOURCE is `command,file` by default: `containerd config dump` in the host's root,
  by the name alone, and so of the program on the PATH and of its default file.
"""

from __future__ import annotations

import dataclasses as dc
import posixpath
import re
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster import chart_messages
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    STANDARD_PATH,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.text import names
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import traits
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.adoption import (
    gpu_operator,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.low_level import PROGRAM
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers import known
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers.manager import (
    OperatorToolkit,
)

SOURCE, EXECUTABLE, RANKS_FIRST = (
    "RUNTIME_CONFIG_SOURCE",
    "RUNTIME_EXECUTABLE_PATH",
    "NVIDIA_RUNTIME_SET_AS_DEFAULT",
)
FILE = re.compile(r"/[A-Za-z0-9_./@+-]{1,4000}")
# Directories in which only root creates files on every host. A path that one host reports counts on
# all nodes: the toolkit, which is privileged, runs the program and writes the file there. So it
# must not be a path at which a user of another host can create a file.
ROOTS_OWN = (
    "/usr/",
    "/opt/",
    "/etc/",
    "/bin/",
    "/sbin/",
    "/var/lib/",
    "/var/snap/",
    "/snap/",
    "/run/",
)
USERS_OWN = ("/run/user/", "/run/lock/", "/run/shm/")
HANDLER = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
OWN_ENVIRONMENT = "toolkit.env"


@dc.dataclass(frozen=True)
class ToolkitSettings:
    """The settings that the toolkit needs for one host, without what the operator sets by itself.

    default: whether its handler is the default one; None if the toolkit has written no handler yet.
    """

    engine: str
    environment: tuple[tuple[str, str], ...] = ()
    handler: str = ""
    default: bool | None = None
    why: str = ""

    def __str__(self) -> str:
        said = [f"{name}={value}" for name, value in self.environment]
        handler = (
            [f"the handler {self.handler}{' by default' if self.default else ''}"]
            if self.handler
            else []
        )
        return ", ".join([traits.get_traits(self.engine).title, *said, *handler])


# ---------------------------------------------------------------- of one host


def get_toolkit_settings(result: Mapping[str, Any]) -> ToolkitSettings | None:
    """Return the settings of the toolkit for one host.

    Return None if the engine that the toolkit configures is not known, or if one of the paths does
    not count for other hosts (is_roots).
    """
    engines = [name for name, one in traits.TRAITS.items() if one.kubernetes]
    able = [i for i in result.get("instances") or () if i.get("engine") in engines and i.get("cri")]
    candidates = [i for i in able if i.get("used_by_kubelet")] or able
    if len(candidates) != 1:
        return None
    instance = candidates[0]
    variables = traits.get_traits(instance["engine"]).operator
    manager = known.get_manager(str(instance.get("manager") or ""))
    environment = (
        get_toolkit_environment(instance, variables, manager.operator) if variables else ()
    )
    if not all(is_roots(value.removeprefix("file=")) for _name, value in environment):
        return None
    return ToolkitSettings(
        instance["engine"],
        environment,
        *get_toolkit_handler(instance),
        manager.operator.why if environment else "",
    )


def is_roots(path: str) -> bool:
    """Tell whether a path is a plain one in a directory that belongs to root."""
    plain = FILE.fullmatch(path) and posixpath.normpath(path) == path
    return bool(plain) and path.startswith(ROOTS_OWN) and not path.startswith(USERS_OWN)


def get_toolkit_environment(
    instance: Mapping[str, Any], variables: traits.OperatorVariables, place: OperatorToolkit
) -> tuple[tuple[str, str], ...]:
    """Return the variables by which the operator's toolkit finds an engine, as far as they differ
    from its defaults.
    """
    config = place.config or str(instance.get("config_path") or "")
    socket = str(instance.get("socket") or "").replace("/var/run/", "/run/", 1)
    program = str(instance.get("binary") or "")
    elsewhere = place.writes and not place.config and config != variables.default_config
    said = {
        variables.config: config if place.writes and config != variables.default_config else "",
        variables.socket: socket if socket != variables.default_socket else "",
        SOURCE: f"file={place.source or config}" if place.source or elsewhere else "",
        EXECUTABLE: program
        if place.writes
        and not (place.source or elsewhere)
        and posixpath.dirname(program) not in STANDARD_PATH
        else "",
    }
    return tuple((name, value) for name, value in sorted(said.items()) if value)


def get_toolkit_handler(instance: Mapping[str, Any]) -> tuple[str, bool | None]:
    """Return the handler that the toolkit has written under its configured name, and whether it is
    the default one.

    ("", None) if there is not exactly one such handler.
    """
    handlers: Mapping[str, Any] = instance.get("handlers") or {}
    own = [
        n
        for n, p in sorted(handlers.items())
        if gpu_operator.is_its(str(p)) and posixpath.basename(str(p)) == PROGRAM
    ]
    if len(own) != 1 or not HANDLER.fullmatch(own[0]):
        return "", None
    return own[0], instance.get("default_handler") == own[0]


# ---------------------------------------------------------------- of a cluster


def build_toolkit_environment_values(
    kept: Mapping[str, ToolkitSettings | None], *, cdi: bool, given: Mapping[str, Any]
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return `toolkit` of the operator's values, with the reasons.

    cdi: whether CDI is on in the operator.
    given: the user's values. If they have an `env`, it counts.
    """
    known_of = {host: one for host, one in kept.items() if one}
    why: list[str] = [chart_messages.TOOLKIT_FOR_ALL.fill(hosts=names.show_some_runs(kept))]
    silent = [host for host in kept if host not in known_of]
    if silent:
        why.append(chart_messages.TOOLKIT_ENGINE_UNKNOWN.fill(hosts=names.show_some_runs(silent)))
    own = given.get("toolkit")
    if isinstance(own, Mapping) and own.get("env") is not None:
        given_env = chart_messages.OWN_ENVIRONMENT_COUNTS.fill(path=OWN_ENVIRONMENT)
        return {"enabled": True}, (*why, given_env)
    require_alike(known_of)
    environment = {
        **dict(pair for one in known_of.values() for pair in one.environment),
        **keep_default_handler(known_of.values(), cdi=cdi),
    }
    why += explain_environment(known_of, environment)
    env = [{"name": name, "value": value} for name, value in sorted(environment.items())]
    return {"enabled": True, **({"env": env} if env else {})}, tuple(why)


def explain_environment(
    known_of: Mapping[str, ToolkitSettings], found: Mapping[str, str]
) -> list[str]:
    """Return the reasons of the variables in `toolkit.env`.

    known_of: the settings of each host. found: the variables that are set.
    """
    said = [host for host, one in known_of.items() if one.environment]
    causes = dict.fromkeys(one.why for one in known_of.values() if one.why)
    return [
        *([chart_messages.OPERATOR_SETS_REST.fill()] if found else []),
        *([chart_messages.PATHS_FOR_ALL.fill(hosts=names.show_some_runs(said))] if said else []),
        *(chart_messages.REASON_OF_MANAGER.fill(reason=cause) for cause in causes),
        *([chart_messages.RANKS_ABOVE.fill(variable=RANKS_FIRST)] if RANKS_FIRST in found else []),
    ]


def keep_default_handler(settings: Iterable[ToolkitSettings], *, cdi: bool) -> dict[str, str]:
    """Return the variable that keeps the default handler as it was found; {} if none is needed.

    By itself, the operator makes its handler the default one only if CDI is off.
    """
    for one in settings:
        if one.default is not None and one.default == cdi:
            variables = traits.get_traits(one.engine).operator
            name = RANKS_FIRST if cdi or not variables else variables.set_as_default
            return {name: "true" if one.default else "false"}
    return {}


def map_toolkit_handlers(kept: Mapping[str, ToolkitSettings | None]) -> dict[str, str]:
    """Return each handler of the toolkit with the hosts on which it has that name: handler -> hosts
    in words.
    """
    handlers: dict[str, list[str]] = {}
    for host, one in kept.items():
        if one and one.handler:
            handlers.setdefault(one.handler, []).append(host)
    return {handler: names.show_some_runs(hosts) for handler, hosts in handlers.items()}


def require_alike(settings: Mapping[str, ToolkitSettings]) -> None:
    """Raise PlanError unless one environment fits all hosts.

    A host on which the toolkit has written no handler yet fits each name of a handler.
    """
    places = {(one.engine, one.environment) for one in settings.values()}
    defaults = {(one.handler, one.default) for one in settings.values() if one.handler}
    if len(places) <= 1 and len(defaults) <= 1:
        return
    kinds: dict[ToolkitSettings, list[str]] = {}
    for host, one in settings.items():
        kinds.setdefault(one, []).append(host)
    said = names.show_few_texts(
        [f"{names.show_some_runs(hosts)}: {one}" for one, hosts in kinds.items()], 5, "; "
    )
    raise PlanError(chart_messages.TOOLKIT_DIFFERS.fill(kinds=said, path=OWN_ENVIRONMENT))
