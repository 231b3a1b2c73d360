# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List every manager, and find the managers that a host shows. Each manager has its own file, and
other modules know only its value.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import NeedMore
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Restart
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections.file_places import (
    Keep,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import processes
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers import package
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers.bottlerocket import (
    BOTTLEROCKET,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers.cos import COS
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers.deckhouse import (
    DECKHOUSE,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers.docker import (
    DOCKER,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers.docker import (
    UNITS as DOCKER_UNITS,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers.eks import EKS
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers.flatcar import (
    FLATCAR,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers.gke import GKE
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers.k0s import K0S
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers.k3s import K3S
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers.kops import (
    KOPS,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers.manager import (
    Confinement,
    Manager,
    ManagerPlace,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers.microk8s import (
    MICROK8S,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers.package import (
    PACKAGE,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers.rhcos import (
    RHCOS,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers.rke2 import (
    RKE2,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers.talos import (
    TALOS,
)

MANAGERS = (
    K3S,
    RKE2,
    K0S,
    MICROK8S,
    EKS,
    KOPS,
    DECKHOUSE,
    BOTTLEROCKET,
    TALOS,
    COS,
    GKE,
    FLATCAR,
    RHCOS,
    DOCKER,
    PACKAGE,
)
# seconds; its unit has no limit of its own (TimeoutStartSec=0), and one that does not come up is
# taken back after it
SERVER_TIMEOUT = 600
DAEMON = "containerd"  # the name that the daemon's program has, or is started with


def get_manager(name: str) -> Manager:
    """Return the manager by its name in a result. PACKAGE for any other name, such as a tool that
    wrote CRI-O's files.

    Such a tool does not change whose file it is.
    """
    return next((m for m in MANAGERS if m.name == name), PACKAGE)


def get_manager_place(name: str) -> ManagerPlace:
    """Return the place of our part. For a manager that is left alone, return the package's: our
    part may be there from before.
    """
    return get_manager(name).place or package.PLACE


def list_served_managers() -> list[Manager]:
    """List the managers that are served, except the package."""
    return [m for m in MANAGERS if m.place is not None and m is not PACKAGE]


# ---------------------------------------------------------------- what is asked


def list_manager_questions() -> list[queries.Question]:
    return [
        queries.ask_for_file(path, content=False)
        for m in MANAGERS
        for path in (m.config, *m.boot_units)
        if path
    ]


def list_unit_names() -> list[str]:
    return [unit for m in MANAGERS for unit in m.units] + list(DOCKER_UNITS)


def own_engine_units() -> list[str]:
    """List the units that start a containerd of their own."""
    return [unit for m in MANAGERS if m.own_engine for unit in m.units]


def list_server_units() -> list[str]:
    """List the units whose restart takes a part of the cluster's API down."""
    return [unit for m in MANAGERS for unit in m.servers]


def restart(unit: str, why: str) -> Restart:
    """Build the restart of a daemon's unit. A server gets more time: its restart ends when its API
    serves again.
    """
    return (
        Restart(unit, "restart", why, SERVER_TIMEOUT)
        if unit in list_server_units()
        else Restart(unit, "restart", why)
    )


def list_containerd_executables() -> list[str]:
    """List the names of files that a containerd may run from."""
    return [DAEMON, *(m.place.executable for m in MANAGERS if m.place and m.place.executable)]


# ---------------------------------------------------------------- what is seen


def find_containerd_by_process(process: Mapping[str, Any]) -> tuple[str, bool] | None:
    """Return the path by which a containerd's program is run, and whether this is the very file of
    the process.

    None for any other process. If several programs are one file (k3s), each has a link to it next
    to the file. Such a program is known by the name that it was started with.
    """
    called, exe = processes.get_program_name(process), str(process.get("exe") or "")
    if called == DAEMON:
        return exe, True
    name = posixpath.basename(str(next(iter(process.get("argv") or ()), "")))
    return (
        (posixpath.join(posixpath.dirname(exe), DAEMON), False)
        if called in list_containerd_executables() and name == DAEMON
        else None
    )


def find_process_manager(obs: Observation, process: Mapping[str, Any], config: str) -> Manager:
    """Return the system that started this daemon, by its configuration, its program, its unit, or
    the host.
    """
    places = (config, str(process.get("exe") or ""))
    for manager in MANAGERS:
        if (
            any(p.startswith(h) for p in places for h in manager.homes)
            or process.get("unit") in manager.units
        ):
            return manager
    return find_host_manager(obs)


def get_edited_main_file(manager: Manager, config: str) -> str:
    """Return the file that is read and edited for a daemon with this configuration.

    If the manager makes the configuration from a template, this is the template.
    """
    return manager.config if manager.place and manager.place.filled_in else config


def get_filled_in_values(config: str) -> Mapping[str, str]:
    """Return the values that the manager fills into this file when it makes the daemon's
    configuration from it.
    """
    manager = find_config_manager(config)
    return manager.place.filled_in if manager and manager.place else {}


def makes(config: str, path: str) -> bool:
    """Tell whether the manager of this main file makes the other one, which the main file imports,
    when it starts.
    """
    manager = find_config_manager(config)
    name = manager.place.merges if manager and manager.place else ""
    return bool(name) and posixpath.basename(path) == name


def list_confinement_questions() -> list[queries.Question]:
    return [ask_for_confinement(m.place.confined) for m in MANAGERS if m.place and m.place.confined]


def ask_for_confinement(found: Confinement) -> queries.Question:
    return queries.ask_for_file(found.file, keep_shown_line(found))


def keep_shown_line(found: Confinement) -> Keep:
    return {"format": "text", "patterns": [rf"^{re.escape(found.line)}[ \t]*$"]}


def find_config_manager(config: str) -> Manager | None:
    """Return the system below whose directories this configuration lies. None if there is none.

    If the data directory was moved, the end of the path decides.
    """
    manager = next(
        (
            m
            for m in MANAGERS
            if config and (config == m.config or any(config.startswith(h) for h in m.homes))
        ),
        None,
    )
    moved = [m for m in MANAGERS if m.ends and config.endswith(m.ends)]
    return manager or max(moved, key=lambda m: len(m.ends), default=None)


def find_boot_manager(obs: Observation, usual: bool) -> Manager | None:
    """Return the system that writes the usual configuration of a bare tree when it boots, by the
    file of its unit. None if none does.
    """
    return next(
        (m for m in MANAGERS if usual and any(_is_written(obs, unit) for unit in m.boot_units)),
        None,
    )


def find_host_manager(obs: Observation) -> Manager:
    """Return the system that renders the configuration of the host's plain containerd. PACKAGE if
    none does.
    """
    ids = obs.host.get("os_release") or {}
    for manager in MANAGERS:
        if not manager.own_engine and (
            ids.get("ID") in manager.os_ids or any(obs.get_unit(u) for u in manager.units)
        ):
            return manager
    return PACKAGE


def find_image_manager(obs: Observation) -> Manager | None:
    """Return the system that writes the files of the whole host, whichever engine it has. None if
    none does.
    """
    name = (obs.host.get("os_release") or {}).get("ID")
    return next((m for m in MANAGERS if not m.homes and name in m.os_ids), None)


def present(obs: Observation) -> list[Manager]:
    """List the systems with a containerd of their own that are on this host, running or not."""
    return [
        m
        for m in MANAGERS
        if m.own_engine and (any(obs.get_unit(u) for u in m.units) or _is_written(obs, m.config))
    ]


def list_managers_with_template(obs: Observation) -> list[Manager]:
    """List the systems with a person's template for their configuration, which they may not have
    rendered yet. Can raise NeedMore.
    """
    names = [
        (m, m.place.detection.templates.values())
        for m in MANAGERS
        if m.config and m.place and m.place.detection
    ]
    rows = [
        (m, posixpath.join(posixpath.dirname(m.config), name)) for m, own in names for name in own
    ]
    unasked = [
        q
        for q in (queries.ask_for_file(path, content=False) for _m, path in rows)
        if not obs.was_asked(q)
    ]
    if unasked:
        raise NeedMore(unasked)
    managers = [m for m, path in rows if _is_written(obs, path)]
    return [m for m in MANAGERS if m in managers]


def _is_written(obs: Observation, config: str) -> bool:
    """Tell whether the file exists, by a question for that alone: a file whose content could not be
    read may still exist.
    """
    return bool(
        config and obs.get_answer(queries.ask_for_file(config, content=False)).get("exists")
    )


def find_manager_unit(obs: Observation, manager: Manager) -> str:
    """Return the unit that starts the daemon, an active one first.

    '' if systemd knows none, or if the manager is left alone.
    """
    there = [u for u in (manager.place.units if manager.place else ()) if obs.get_unit(u)]
    return next(
        (u for u in there if obs.get_unit(u).get("ActiveState") == "active"),
        there[0] if there else "",
    )


# ---------------------------------------------------------------- Kubernetes


def list_kubernetes_managers() -> list[str]:
    """List the names of the systems that come with Kubernetes."""
    return [m.name for m in MANAGERS if m.kubernetes]


def get_kubernetes_title(obs: Observation) -> str:
    """Return the title of a Kubernetes on this host whose kubelet is a part of another program. ''
    if there is none.
    """
    return next(
        (m.title for m in MANAGERS if m.own_engine and any(obs.get_unit(u) for u in m.units)), ""
    )


def list_kubelet_units() -> list[str]:
    return [
        unit
        for m in MANAGERS
        if m.place and m.place.kubelet
        for unit in m.place.kubelet_units or m.place.units
    ]


def list_kubelet_directories() -> list[str]:
    """List the directories of kubelets that managers start in another place than the usual one."""
    return [m.place.kubelet_directory for m in MANAGERS if m.place and m.place.kubelet_directory]


def list_kubelet_flag_files() -> list[str]:
    """List the files that have the flags of a kubelet within another program."""
    return [m.place.kubelet_flags for m in MANAGERS if m.place and m.place.kubelet_flags]


def find_kubelet_manager(obs: Observation) -> tuple[Manager, str] | None:
    """Return a manager in whose program a kubelet runs now, and its unit. None if there is none."""
    places = (
        (m, unit)
        for m in MANAGERS
        if m.place and m.place.kubelet
        for unit in m.place.kubelet_units or m.place.units
    )
    return next(
        ((m, unit) for m, unit in places if obs.get_unit(unit).get("ActiveState") == "active"), None
    )
