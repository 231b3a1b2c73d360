# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Taken back whole on real engines: stopped, removed, beside a kubelet; with a copy from before
that is cut, and after someone's line.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration.conftest import Boot
from tests.integration.story import CRICTL
from tests.tools.onlab import Fleet, Tree, differing

pytestmark = pytest.mark.lab

HOSTS = {"whole17": "containerd-1.7", "whole23": "containerd-2.3", "wholedock": "docker"}
CONTAINERD = ["whole17", "whole23"]
ROOT = "/etc/containerd/config.toml"
KEPT = "/var/lib/gpufleet/originals/%2Fetc%2Fcontainerd%2Fconfig.toml"
SERVES = f"timeout 60 sh -c 'until {CRICTL} info >/dev/null 2>&1; do sleep 0.05; done'"
# Another place for a program and its unit, as after its package has been removed, and back.
REMOVE = "systemctl stop containerd; mkdir -p /root/gone; mv /usr/bin/containerd /usr/lib/systemd/system/containerd.service /root/gone/"
BRING = (
    "mv /root/gone/containerd /usr/bin/; mv /root/gone/containerd.service /usr/lib/systemd/system/"
)
# An engine that does not start with our handler, and someone who writes a line to its configuration
# just then.
TRAP = f"""mkdir -p /etc/systemd/system/containerd.service.d; cat >/etc/systemd/system/containerd.service.d/trap.conf <<'EOF'
[Service]
ExecStartPre=/bin/sh -c 'grep -q nvidia-container-runtime {ROOT} || exit 0; grep -q Anna {ROOT} || echo "# Anna was here" >>{ROOT}; exit 1'
Restart=no
EOF
systemctl daemon-reload"""


@pytest.fixture(scope="module")
def fleet(boot: Boot) -> Fleet:
    up = boot({name: {"kind": kind, "gpus": 1, "driver": "ok"} for name, kind in HOSTS.items()})
    for host in HOSTS:
        up.shell(host, "cp /usr/bin/runc /usr/bin/nvidia-container-runtime")
    return up


@pytest.fixture
def before(fleet: Fleet) -> Iterator[dict[str, Tree]]:
    """The hosts as they are, and converged."""
    found = {host: fleet.tree(host) for host in HOSTS}
    converged = run(fleet, list(HOSTS))
    assert {host: answer["status"] for host, answer in converged.items()} == dict.fromkeys(
        HOSTS, "ok"
    )
    yield found
    back = run(fleet, list(HOSTS), state="absent")
    assert {host: answer["status"] for host, answer in back.items()} == dict.fromkeys(HOSTS, "ok")


def run(fleet: Fleet, hosts: list[str], **options: Any) -> dict[str, dict[str, Any]]:
    return fleet.task("host", hosts, {"packages": "ignore", **options}).of("host")


def serves(fleet: Fleet, host: str) -> None:
    fleet.shell(host, f"systemctl daemon-reload; systemctl start containerd; {SERVES}")


@pytest.mark.parametrize("how", ["stopped", "removed"])
def test_an_engine_that_is_not_there_to_ask(
    how: str, fleet: Fleet, before: dict[str, Tree]
) -> None:
    for host in CONTAINERD:
        fleet.shell(
            host,
            "systemctl stop containerd"
            if how == "stopped"
            else f"{REMOVE}; systemctl daemon-reload",
        )
    back = run(fleet, CONTAINERD, state="absent")
    for host in CONTAINERD:
        fleet.shell(host, "true" if how == "stopped" else BRING)
        serves(fleet, host)
    for host in CONTAINERD:
        assert (back[host]["status"], back[host]["changed"], back[host]["restarted"]) == (
            "ok",
            True,
            [],
        )
        assert back[host]["row"]["why"].startswith("taken back: ")
        assert differing(before[host], fleet.tree(host)) == {}
        assert "nvidia" not in fleet.shell(host, f"{CRICTL} info")


def test_docker_beside_what_runs_as_a_kubelet(fleet: Fleet, before: dict[str, Tree]) -> None:
    host = "wholedock"
    fleet.shell(
        host,
        "cp /usr/bin/sleep /usr/bin/kubelet; systemd-run --unit kubelet.service /usr/bin/kubelet 99999",
    )
    back = run(fleet, [host], state="absent")[host]
    fleet.shell(host, "systemctl stop kubelet.service; rm /usr/bin/kubelet")
    assert (back["status"], back["changed"]) == ("ok", True)
    assert differing(before[host], fleet.tree(host)) == {}
    assert "nvidia" not in json.loads(
        fleet.shell(host, "docker info --format '{{json .Runtimes}}'")
    )


@pytest.mark.parametrize("size", [0, 40])
def test_a_copy_that_was_cut_is_not_written(
    size: int, fleet: Fleet, before: dict[str, Tree]
) -> None:
    host = "whole17"
    now = fleet.tree(host)
    fleet.shell(host, f"cp {KEPT}/content /root/whole; truncate -s {size} {KEPT}/content")
    back = run(fleet, [host], state="absent")[host]
    assert (back["status"], back["changed"]) == ("failed", False)
    assert (
        f"{ROOT}: the copy of the original in {KEPT} cannot be used: {KEPT}/content has {size} bytes"
        in back["msg"]
    )
    assert differing(now, fleet.tree(host)) == {}
    fleet.shell(host, f"cat /root/whole >{KEPT}/content; rm /root/whole")
    assert run(fleet, [host], state="absent")[host]["status"] == "ok"
    assert differing(before[host], fleet.tree(host)) == {}


def test_somebodys_line_in_a_change_that_fails_does_not_cost_the_copy(fleet: Fleet) -> None:
    host = "whole17"
    before, text = fleet.tree(host), fleet.text(host, ROOT)
    fleet.shell(host, TRAP)
    failed = run(fleet, [host])[host]
    assert (failed["status"], failed["changed"]) == ("failed", True)
    assert (
        f"{ROOT}: another program has written to it in the meantime, so it is left as found, including the part of this collection"
        in failed["msg"]
    )
    assert "Everything is as it was" not in failed["msg"]
    fleet.shell(
        host,
        "rm -r /etc/systemd/system/containerd.service.d; systemctl daemon-reload; systemctl reset-failed containerd || true",
    )
    serves(fleet, host)
    assert run(fleet, [host])[host]["status"] == "ok"
    assert run(fleet, [host], state="absent")[host]["status"] == "ok"
    left = [line for line in fleet.text(host, ROOT).splitlines() if line.strip()]
    assert left == [*(line for line in text.splitlines() if line.strip()), "# Anna was here"]
    assert set(differing(before, fleet.tree(host))) == {ROOT}
    fleet.shell(host, f"cat >{ROOT} <<'EOF'\n{text}EOF")
    serves(fleet, host)
