# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The story of one fleet of all engines, told once; the tests read what was there at each moment."""

from __future__ import annotations

import dataclasses as dc
import json
from collections.abc import Mapping
from typing import Any

import pytest

from tests.lab import fleet as fleets
from tests.lab.lab import Lab
from tests.tools.onlab import PROBE, Fleet, Run, Tree, settings

CRICTL = "/opt/lab/bin/crictl"
SANDBOX = {"security_context": {"namespace_options": {"network": 2}}}
POD = {
    "metadata": {"name": "bystander", "uid": "b", "namespace": "tests", "attempt": 0},
    "linux": SANDBOX,
}
CONTAINER = {
    "metadata": {"name": "bystander"},
    "image": {"image": PROBE},
    "command": ["/bin/sleep", "100000"],
    "linux": {},
}
# /info has numbers that change by themselves; these are what daemon.json is about. Runtimes are
# told with all that runc can do.
DOCKER = """docker info --format '{{json .}}' | python3 -c "
import json, sys
said = json.load(sys.stdin)
kept = ('Runtimes', 'DefaultRuntime', 'CDISpecDirs', 'LiveRestoreEnabled', 'LoggingDriver', 'CgroupDriver', 'Driver', 'RegistryConfig')
said = {key: said.get(key) for key in kept}
said['Runtimes'] = {name: entry.get('path') for name, entry in said['Runtimes'].items()}
print(json.dumps(said))
" """
EFFECTIVE = {
    "containerd": "containerd config dump 2>/dev/null",
    "crio": "crio config 2>/dev/null",
    "docker": DOCKER,
}


def pass_over(host: str, why: str) -> None:
    """Skip a test whose host needs what this machine lacks: Go, root, another Debian.

    `python -m tests.lab kinds` names it.
    """
    pytest.skip(f"the lab cannot boot the host {host} on this machine: {why}")


@dc.dataclass(frozen=True)
class Moment:
    """A host's state at one time."""

    tree: Tree
    effective: str  # the engine's own word
    root: str  # the text of the engine's main file
    starts: int  # of the engine's unit, by systemd
    bystander: str  # the process of a container that has been running since before everything


@dc.dataclass(frozen=True)
class Story:
    """A fleet of all kinds: untouched, announced, converged, converged again, rolled back, and once
    more with the packages there.
    """

    fleet: Fleet
    kinds: Mapping[str, str]
    moments: Mapping[str, Mapping[str, Moment]]
    runs: Mapping[str, Run]

    def at(self, moment: str, host: str) -> Moment:
        self._require(host)
        return self.moments[moment][host]

    def answer(self, run: str, host: str, module: str = "host") -> dict[str, Any]:
        self._require(host)
        return self.runs[run].of(module)[host]

    def _require(self, host: str) -> None:
        if host not in self.kinds:
            pass_over(host, self.fleet.lab.skipped[host])


def engine(kind: str) -> str:
    return kind.split("-")[0]


def moment(fleet: Fleet, host: str, kind: str) -> Moment:
    name = engine(kind)
    root = {
        "containerd": "/etc/containerd/config.toml",
        "crio": "/etc/crio/crio.conf",
        "docker": "/etc/docker/daemon.json",
    }[name]
    return Moment(
        fleet.tree(host),
        fleet.shell(host, EFFECTIVE[name]),
        fleet.shell(host, f"cat {root} 2>/dev/null || true"),
        fleet.starts(host, f"{name}.service"),
        "" if name == "docker" else bystander(fleet, host),
    )


def bystander(fleet: Fleet, host: str) -> str:
    return fleet.shell(
        host, f"{CRICTL} inspect $({CRICTL} ps -q --name bystander) | grep -m1 '\"pid\":' || true"
    ).strip()


def start_bystander(fleet: Fleet, host: str) -> None:
    pod, container = json.dumps(POD), json.dumps(CONTAINER)
    fleet.shell(
        host,
        f"cd /run; printf %s '{pod}' >bystander-pod; printf %s '{container}' >bystander; p=$({CRICTL} runp bystander-pod);"
        f" {CRICTL} start $({CRICTL} create $p bystander bystander-pod); rm bystander-pod bystander",
    )


def tell(lab: Lab) -> Story:
    """Do everything that happens to the fleet, once. The tests read."""
    lab.up(fleets.ENGINES)
    fleet = Fleet(lab)
    kinds = {
        name: host.spec.kind
        for name, host in lab.hosts().items()
        if name in fleets.read(fleets.ENGINES)["hosts"]
    }
    for host, kind in kinds.items():
        if engine(kind) != "docker":
            start_bystander(fleet, host)
    hosts = list(kinds)
    moments: dict[str, dict[str, Moment]] = {}
    runs: dict[str, Run] = {}

    def happens(name: str, playbook: str, *arguments: str) -> None:
        runs[name] = fleet.play(playbook, hosts, variables=settings(), arguments=arguments)
        moments[name] = {host: moment(fleet, host, kind) for host, kind in kinds.items()}

    moments["untouched"] = {host: moment(fleet, host, kind) for host, kind in kinds.items()}
    happens("planned", "plan", "--diff")
    happens("converged", "site")
    happens("again", "site")
    happens("rolled back", "rollback")
    happens("announced", "site", "--check", "--diff")
    happens("once more", "site", "--diff")
    happens("back once more", "rollback")
    happens("back for nothing", "rollback")
    return Story(fleet, kinds, moments, runs)
