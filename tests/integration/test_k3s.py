# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Servers of k3s and an agent of RKE2, imitated, with the real containerd: one story, judged by
that containerd and by containers.
"""

from __future__ import annotations

import dataclasses as dc
import tomllib
from typing import Any

import pytest

from tests.integration import story
from tests.integration.conftest import Boot
from tests.tools.onlab import Fleet, Run, Tree, differing, settings

pytestmark = pytest.mark.lab

# host -> (kind, unit, data directory)
HOSTS = {
    "k3s-server": ("k3s-like", "k3s.service", "/var/lib/rancher/k3s"),
    # in memory, since an engine mounts no overlay on the hosts' own
    "k3s-moved": (
        "k3s-like",
        "k3s.service",
        "/run/edge",
    ),
    "rke2-agent": ("rke2-like", "rke2-agent.service", "/var/lib/rancher/rke2"),
}
MOVED = {"/etc/rancher/k3s/config.yaml": "data-dir: /run/edge\n"}
NVIDIA = "/usr/bin/nvidia-container-runtime"
ANNOTATIONS = ["nvidia.cdi.k8s.io/*"]
DROP_IN = "config-v3.toml.d/90-gpufleet.toml"
# It strikes as soon as our file has one more handler, and never before.
TRAP = (
    "[Service]\nExecStartPre=/bin/sh -c '! grep -rqs trapped {home}/config-v3.toml.d'\nRestart=no\n"
)


@dc.dataclass(frozen=True)
class Moment:
    """files: below the directory of the generated file. dump: what the manager's own containerd
    reads there. starts: of the unit.
    """

    files: Tree
    dump: dict[str, Any]
    starts: int
    bystander: str

    @property
    def handlers(self) -> dict[str, Any]:
        found: dict[str, Any] = self.dump["plugins"]["io.containerd.cri.v1.runtime"]["containerd"][
            "runtimes"
        ]
        return found


@dc.dataclass(frozen=True)
class History:
    """What happened, and what was there after each of it."""

    fleet: Fleet
    runs: dict[str, Run]
    moments: dict[str, dict[str, Moment]]

    def answer(self, name: str, host: str) -> dict[str, Any]:
        return self.runs[name].of("host")[host]


def home(host: str) -> str:
    return f"{HOSTS[host][2]}/agent/etc/containerd"


def moment(fleet: Fleet, host: str) -> Moment:
    dump = fleet.shell(
        host,
        f"$(dirname $(readlink /proc/$(pgrep -xf 'containerd -c .*')/exe))/containerd -c {home(host)}/config.toml config dump",
    )
    return Moment(
        fleet.tree(host, home(host)),
        tomllib.loads(dump),
        fleet.starts(host, HOSTS[host][1]),
        story.bystander(fleet, host),
    )


@pytest.fixture(scope="module")
def history(boot: Boot) -> History:
    """Planned, converged, converged again, into a trap, taken back."""
    files = {"k3s-moved": {"files": MOVED}}
    fleet = boot(
        {
            name: {"kind": kind, "gpus": 1, **files.get(name, {})}
            for name, (kind, _unit, _data) in HOSTS.items()
        }
    )
    for host in HOSTS:
        story.start_bystander(fleet, host)
    moments = {"untouched": {host: moment(fleet, host) for host in HOSTS}}
    runs: dict[str, Run] = {}

    def happens(name: str, run: Run) -> None:
        runs[name] = run
        moments[name] = {host: moment(fleet, host) for host in HOSTS}

    happens("planned", fleet.play("plan", list(HOSTS), variables=settings()))
    happens("converged", fleet.play("site", list(HOSTS), variables=settings()))
    happens("again", fleet.play("site", list(HOSTS), variables=settings()))
    for host, (_kind, unit, _data) in HOSTS.items():
        trap = TRAP.format(home=home(host))
        fleet.shell(
            host,
            f"d=/etc/systemd/system/{unit}.d; mkdir $d; printf '%s' \"{trap}\" >$d/trap.conf; systemctl daemon-reload",
        )
    options = {"packages": "ignore", "handlers": {"nvidia": {}, "trapped": {"binary": NVIDIA}}}
    # Servers of one cluster: the second would not begin after the first failed.
    happens(
        "trapped",
        fleet.task(
            "host", list(HOSTS), options, variables={"gpufleet_cluster": "{{ inventory_hostname }}"}
        ),
    )
    for host, (_kind, unit, _data) in HOSTS.items():
        fleet.shell(host, f"rm -r /etc/systemd/system/{unit}.d; systemctl daemon-reload")
    happens("absent", fleet.task("host", list(HOSTS), {"state": "absent"}))
    return History(fleet, runs, moments)


@pytest.mark.parametrize("host", HOSTS)
def test_a_plan_announces_the_drop_in_and_changes_nothing(history: History, host: str) -> None:
    assert history.runs["planned"].failed == {}
    assert history.moments["planned"][host] == history.moments["untouched"][host]
    assert f"{home(host)}/{DROP_IN}" in history.runs["planned"].words


@pytest.mark.parametrize("host", HOSTS)
def test_its_own_containerd_has_the_handler_and_a_container_sees_its_gpu(
    history: History, host: str
) -> None:
    assert history.runs["converged"].failed == {}
    before, after = history.moments["untouched"][host], history.moments["converged"][host]
    assert "nvidia" not in before.handlers
    handler = after.handlers["nvidia"]
    assert (handler["options"]["BinaryName"], handler["container_annotations"]) == (
        NVIDIA,
        ANNOTATIONS,
    )
    assert after.handlers["runc"] == before.handlers["runc"]
    assert history.answer("converged", host)["restarted"] == [HOSTS[host][1]]
    verified = history.runs["converged"].of("host_verify")[host]
    assert verified["verified"], verified.get("msg")
    assert {check["name"].partition(": ")[2] for check in verified["checks"]} >= {"one", "none"}


@pytest.mark.parametrize("host", HOSTS)
def test_pods_live_through_the_restarts(history: History, host: str) -> None:
    assert {moments[host].bystander for moments in history.moments.values()} == {
        history.moments["untouched"][host].bystander
    }
    assert history.moments["untouched"][host].bystander


@pytest.mark.parametrize("host", HOSTS)
def test_a_second_run_changes_nothing_though_k3s_has_found_the_runtime_meanwhile(
    history: History, host: str
) -> None:
    generated = history.fleet.text(host, f"{home(host)}/config.toml")
    assert f'BinaryName = "{NVIDIA}"' in generated
    assert history.answer("again", host)["changed"] is False
    assert history.moments["again"][host] == history.moments["converged"][host]


@pytest.mark.parametrize("host", HOSTS)
def test_a_restart_that_fails_is_taken_back(history: History, host: str) -> None:
    assert "rolled back" in history.runs["trapped"].failed[host]
    before, after = history.moments["again"][host], history.moments["trapped"][host]
    assert differing(before.files, after.files) == {}
    assert (after.dump, after.bystander) == (before.dump, before.bystander)


@pytest.mark.parametrize("host", HOSTS)
def test_absent_leaves_what_k3s_has_by_itself(history: History, host: str) -> None:
    assert history.runs["absent"].failed == {}
    before, after = history.moments["untouched"][host], history.moments["absent"][host]
    assert set(differing(before.files, after.files)) == {f"{home(host)}/config.toml"}, (
        "the packages stay, so k3s adds its handler"
    )
    assert (
        after.handlers["nvidia"]["options"]["BinaryName"],
        after.handlers["nvidia"]["container_annotations"],
    ) == (NVIDIA, [])
    assert after.handlers["runc"] == before.handlers["runc"]
