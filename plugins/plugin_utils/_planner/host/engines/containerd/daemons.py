# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the containerds of a host, running or not: by processes and managers, else by program and
unit, or as the options describe.
"""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import (
    host_paths,
    queries,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import processes
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    releases,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd.own_program import (
    OwnProgram,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers import known
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers.manager import (
    Manager,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers.package import (
    PACKAGE,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.unit_files import start

NAMES = [known.DAEMON]
CONFIG, ADDRESS = ("--config", "-config", "-c"), ("--address", "-address", "-a")
READ_FLAGS: Mapping[str, str] = {
    **dict.fromkeys(CONFIG, "path"),
    **dict.fromkeys(ADDRESS, "address"),
}


@dc.dataclass(frozen=True)
class Daemon:
    """A containerd as its command line (or its absence) shows it."""

    config: str
    address: str
    binary: str
    unit: str
    running: bool
    manager: Manager = PACKAGE
    pid: int = 0
    ticks: int = 0
    by_path: bool = False  # its program is run by a path of its own, not as the file of the process
    # of a file that the options name and no daemon reads: the files of the daemons that run
    instead: str = ""

    @property
    def program(self) -> OwnProgram:
        """Its program, as it is run to ask it something."""
        return (
            OwnProgram(self.binary)
            if self.by_path
            else OwnProgram(self.binary, self.pid, self.ticks)
        )

    @property
    def socket(self) -> str:
        """The socket that the daemon is known to have, regardless of its files, '' if none is
        known.
        """
        return self.address or self.manager.socket


def read_containerd_daemons(policy: Policy, obs: Observation) -> list[Daemon]:
    """Return the daemons that the options mean, else all of the host."""
    daemons = _read_all_daemons(policy, obs)
    if policy.config_path:
        return [d for d in daemons if d.config == policy.config_path] or _read_daemon_of_options(
            policy, obs, daemons
        )
    if policy.socket:
        return [d for d in daemons if policy.socket in (d.address, "")] or daemons
    return daemons


def read_containerd_program(obs: Observation) -> str:
    """Return the path of the program, '' if there is none."""
    return str(
        obs.get_answer(queries.ask_for_program(NAMES)).get("found", {}).get("containerd") or ""
    )


def read_containerd_package(obs: Observation) -> str:
    """Return the version of the package, '' if it is not installed."""
    return obs.find_package_version(releases.PACKAGES)


def _read_all_daemons(policy: Policy, obs: Observation) -> list[Daemon]:
    daemons = []
    for process in obs.processes():
        program = known.find_containerd_by_process(process)
        if program:
            daemons.append(_read_running_daemon(policy, obs, process, *program))
    for manager in known.present(obs):
        if not any(d.manager is manager for d in daemons):
            daemons.append(
                Daemon(
                    manager.config,
                    manager.socket,
                    "",
                    known.find_manager_unit(obs, manager),
                    False,
                    manager,
                )
            )
    if all(d.manager.own_engine for d in daemons) and not processes.list_unverified_processes(
        obs, "containerd"
    ):
        packaged = read_containerd_package(obs)
        if (
            read_containerd_program(obs)
            or packaged
            or obs.get_unit(policy.service or releases.UNIT)
        ):
            daemons.append(_read_stopped_daemon(policy, obs))
    return daemons


def read_containerd_unit_start(policy: Policy, obs: Observation) -> start.Start:
    """Return how its unit starts a containerd that does not run."""
    return start.read_start(
        policy.root, obs, policy.service or releases.UNIT, known.DAEMON, READ_FLAGS
    )


def _read_running_daemon(
    policy: Policy, obs: Observation, process: Mapping[str, Any], binary: str, itself: bool
) -> Daemon:
    argv = process.get("argv") or ()
    config = host_paths.keep_as_opened(processes.flag(argv, *CONFIG)) or releases.CONFIG
    manager = known.find_process_manager(obs, process, config)
    return Daemon(
        known.get_edited_main_file(manager, config),
        host_paths.keep_as_opened(processes.flag(argv, *ADDRESS)),
        binary,
        _read_daemon_unit(policy, obs, process, manager),
        True,
        manager,
        pid=int(process["pid"]),
        ticks=int(process.get("ticks") or 0),
        by_path=not itself,
    )


def _read_daemon_unit(
    policy: Policy, obs: Observation, process: Mapping[str, Any], manager: Manager
) -> str:
    """Return the daemon's unit by its control group, '' if it has none. A service that the options
    name comes first.

    A hybrid hierarchy hides the control group. Then the manager's unit counts, or the usual unit if
    systemd reports this process for it.
    """
    if policy.service or process.get("unit"):
        return policy.service or str(process["unit"])
    if manager.own_engine:
        return known.find_manager_unit(obs, manager)
    return (
        releases.UNIT
        if obs.get_unit(releases.UNIT).get("MainPID") == str(process.get("pid"))
        else ""
    )


def _read_daemon_of_options(policy: Policy, obs: Observation, found: list[Daemon]) -> list[Daemon]:
    """Return the daemon that the options describe, if no verified process has this configuration.

    It counts as running if any containerd runs. Return [] if one runs, and the options do not name
    all of file, socket and service, or if the file is another engine's on a host without
    containerd. found: all daemons of the host.
    """
    manager, stopped = _read_manager(obs, policy.config_path), _read_stopped_daemon(policy, obs)
    # `containerd.service` is not the unit of a containerd that another system brings
    own = manager.own_engine and not policy.service
    unit = known.find_manager_unit(obs, manager) if own else stopped.unit
    daemon = dc.replace(stopped, config=policy.config_path, manager=manager, unit=unit)
    runs = bool(processes.list_unverified_processes(obs, "containerd"))
    if runs and not processes.is_everything_declared(policy):
        return []
    if not (found or runs or policy.single or "containerd" in policy.engines):
        return []
    # a daemon of its own, which does not run
    down = bool(daemon.unit) and obs.get_unit(daemon.unit).get("ActiveState") != "active"
    instead = "" if runs or down else ", ".join(d.config for d in found if d.running)
    return [dc.replace(daemon, address=policy.socket, running=runs, instead=instead)]


def _read_stopped_daemon(policy: Policy, obs: Observation) -> Daemon:
    argv = read_containerd_unit_start(policy, obs).argv
    config, address = (
        host_paths.keep_as_opened(start.get_known_path(processes.flag(argv, *flag)))
        for flag in (CONFIG, ADDRESS)
    )
    config = config or releases.CONFIG
    binary = read_containerd_program(obs)
    unit = policy.service or (releases.UNIT if obs.get_unit(releases.UNIT) else "")
    return Daemon(config, address, binary, unit, False, _read_manager(obs, config))


def _read_manager(obs: Observation, config: str) -> Manager:
    return known.find_config_manager(config) or known.find_host_manager(obs)
