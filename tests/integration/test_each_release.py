# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each release of each engine that the lab has, from the plan to the way back: planned, converged,
converged again, verified, a restart that fails, absent.
"""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Mapping

import pytest

from tests.integration import story
from tests.integration.conftest import Boot
from tests.tools.onlab import PROBE, Fleet, Run, Tree, differing, repository

pytestmark = pytest.mark.lab

CDI, BY_RUNTIME = "native-cdi", "nvidia-runtime"
# host -> (kind, how containers get GPUs). Docker before 25.0 and containerd before 1.7 read no CDI
# spec.
HOSTS = {
    "each-c16": ("containerd-1.6", BY_RUNTIME),
    "each-c17": ("containerd-1.7", CDI),
    "each-c20": ("containerd-2.0", CDI),
    "each-c21": ("containerd-2.1", CDI),
    "each-c21-debian": ("containerd-2.1-forky", CDI),
    "each-c22": ("containerd-2.2", CDI),
    "each-c23": ("containerd-2.3", CDI),
    "each-c24": ("containerd-2.4", CDI),
    "each-crio": ("crio-1.34", CDI),
    "each-d20": ("docker-20.10", BY_RUNTIME),
    "each-d26": ("docker", CDI),
    "each-d28": ("docker-28", CDI),
    "each-d29": ("docker-29", CDI),
    "each-p43": ("podman-4.3", CDI),
    "each-p54": ("podman-5.4", CDI),
    "each-p58": ("podman-5.8", CDI),
}
# Podman has no daemon, so nothing is restarted for it.
RESTARTED = [host for host, (kind, _way) in HOSTS.items() if story.engine(kind) != "podman"]
# What this collection writes for an engine; the toolkit's packages write none of it.
WRITTEN = ("/etc/containerd", "/etc/crio", "/etc/docker", "/etc/cdi")
# Of a person: no engine starts without NVIDIA's runtime or our handler in a file that it reads. The
# bytes that a change takes away are beside it for as long as it may be taken back.
GUARD = """mkdir -p /etc/systemd/system/{name}.service.d
cat >/etc/systemd/system/{name}.service.d/guard.conf <<'END'
[Service]
ExecStartPre=grep -rq --include=*.toml --include=*.conf --include=daemon.json nvidia /etc/{name}
Restart=no
END
systemctl daemon-reload"""
UNGUARDED = "rm /etc/systemd/system/{name}.service.d/guard.conf; systemctl daemon-reload"


@dc.dataclass(frozen=True)
class Told:
    """The runs by name, and what was in the engines' directories of each host at three moments."""

    runs: Mapping[str, Run]
    before: Mapping[str, Tree]
    converged: Mapping[str, Tree]
    refused: Mapping[str, Tree]
    after: Mapping[str, Tree]


@pytest.fixture(scope="module")
def told(boot: Boot) -> Told:
    """Return what came of everything that happens to the hosts, once."""
    fleet = boot(
        {name: {"kind": kind, "gpus": 2, "driver": "ok"} for name, (kind, _way) in HOSTS.items()}
    )
    every = list(HOSTS)
    options = {key.removeprefix("gpufleet_"): value for key, value in repository().items()}
    before = read_trees(fleet)
    runs = {
        "plan": fleet.task("host_info", every, options),
        "run": fleet.task("host", every, options),
        "again": fleet.task("host", every, options),
        "verify": fleet.task("host_verify", every, {"image": PROBE}),
    }
    converged = read_trees(fleet)
    for host in RESTARTED:
        fleet.shell(host, GUARD.format(name=name_engine(host)))
    runs["refused"] = fleet.task("host", RESTARTED, {"state": "absent"})
    refused = read_trees(fleet)
    for host in RESTARTED:
        fleet.shell(host, UNGUARDED.format(name=name_engine(host)))
    runs["absent"] = fleet.task("host", every, {"state": "absent"})
    runs["absent again"] = fleet.task("host", every, {"state": "absent"})
    return Told(runs, before, converged, refused, read_trees(fleet))


def name_engine(host: str) -> str:
    return story.engine(HOSTS[host][0])


def read_trees(fleet: Fleet) -> dict[str, Tree]:
    return {host: fleet.tree(host, *WRITTEN) for host in HOSTS}


@pytest.mark.parametrize("host", HOSTS)
def test_what_is_done_is_what_was_planned(told: Told, host: str) -> None:
    planned, done = told.runs["plan"].of("host_info")[host], told.runs["run"].of("host")[host]
    assert planned["problem"] == ""
    assert [(d["path"], d["key"]) for d in planned["differences"]] == [
        (d["path"], d["key"]) for d in done["differences"]
    ]
    assert done["changed"]
    assert differing(told.before[host], told.converged[host])


@pytest.mark.parametrize("host", HOSTS)
def test_a_second_run_changes_nothing_in_one_operation(told: Told, host: str) -> None:
    again = told.runs["again"]
    assert not again.of("host")[host]["changed"]
    assert again.operations[host] == 1


@pytest.mark.parametrize("host", HOSTS)
def test_containers_get_what_they_ask_for(told: Told, host: str) -> None:
    (decision,) = told.runs["run"].of("host")[host]["decision"]["decisions"]
    assert decision["injection"] == HOSTS[host][1]
    verification = told.runs["verify"].of("host_verify")[host]
    assert verification["verified"], verification["checks"]
    asked = {check["name"].partition(": ")[2] for check in verification["checks"]}
    assert {"one", "all", "none"} <= asked


@pytest.mark.parametrize("host", RESTARTED)
def test_a_restart_that_fails_is_taken_back(told: Told, host: str) -> None:
    answer = told.runs["refused"].of("host")[host]
    assert (answer["status"], answer["rolled_back"], answer["changed"]) == ("failed", True, False)
    assert answer["restarted"] == [f"{name_engine(host)}.service"]
    assert differing(told.converged[host], told.refused[host]) == {}


@pytest.mark.parametrize("host", HOSTS)
def test_absent_gives_the_host_back(told: Told, host: str) -> None:
    gone = told.runs["absent"]
    assert host not in gone.failed, gone.failed[host]
    assert differing(told.before[host], told.after[host]) == {}
    assert host not in told.runs["absent again"].changed
