# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real containerd that a GPU Operator's toolkit has configured: left alone while it works or may
work, taken over once it is gone.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.integration.containers import CRICTL
from tests.integration.gpu_operators import LIVE, OURS
from tests.tools.onlab import Fleet, Tree

pytestmark = pytest.mark.lab

HOST = "operator"
CONFIG = "/etc/containerd/config.toml"
TOOLKIT = "/usr/local/nvidia/toolkit"
# What the toolkit container of gpu-operator v25.3 leaves: its programs, and its three handlers in
# the main file.
SETUP = f"""
set -e
mkdir -p {TOOLKIT} /var/lib/kubelet/pods
for mode in "" .cdi .legacy; do
    printf '#!/bin/sh\\nexec runc "$@"\\n' >{TOOLKIT}/nvidia-container-runtime$mode
    chmod 755 {TOOLKIT}/nvidia-container-runtime$mode
done
cp {TOOLKIT}/nvidia-container-runtime /usr/bin/nvidia-container-runtime
cri='plugins."io.containerd.grpc.v1.cri".containerd.runtimes'
printf '\\n[%s.runc]\\nruntime_type = "io.containerd.runc.v2"\\n' "$cri" >>{CONFIG}
for name in nvidia nvidia-cdi nvidia-legacy; do
    mode=${{name#nvidia}}
    printf '\\n[%s.%s]\\nruntime_type = "io.containerd.runc.v2"\\n[%s.%s.options]\\nBinaryName = "%s"\\n' \\
        "$cri" $name "$cri" $name {TOOLKIT}/nvidia-container-runtime${{mode:+.${{mode#-}}}}
done >>{CONFIG}
cp /bin/sleep /usr/bin/kubelet
printf '[Service]\\nExecStart=/usr/bin/kubelet infinity\\n' >/etc/systemd/system/kubelet.service
systemctl daemon-reload
systemctl start kubelet.service
systemctl restart containerd
"""
POD = {
    "metadata": {
        "name": "nvidia-container-toolkit-daemonset-x7k2p",
        "uid": "toolkit",
        "namespace": "gpu-operator",
        "attempt": 0,
    },
    "linux": {"security_context": {"namespace_options": {"network": 2}}},
}


@pytest.fixture(scope="module")
def fleet(boot: Any) -> Fleet:
    found: Fleet = boot({HOST: {"kind": "containerd-1.7", "gpus": 1, "driver": "ok"}})
    found.shell(HOST, SETUP)
    return found


def seen(fleet: Fleet) -> dict[str, Any]:
    run = fleet.task("host_info", [HOST], OURS)
    assert run.failed == {}, run.words
    return run.of("host_info")[HOST]


def left_alone(fleet: Fleet, why: str, before: Tree) -> None:
    """It is named with what shows it and the setting that hands it over, a run touches no file of
    containerd's, and restarts nothing.
    """
    starts = fleet.starts(HOST, "containerd")
    run = fleet.task("host", [HOST], OURS)
    assert run.failed == {}, run.words
    result = run.of("host")[HOST]
    (sentence,) = [a for a in result["advice"] if "GPU Operator" in a and "is left alone" in a]
    assert why in sentence
    assert "toolkit.enabled=false" in sentence
    assert {left["fate"] for left in result["leftovers"]} == {"live"}
    assert result["decision"]["decisions"] == []
    assert {
        path: entry for path, entry in fleet.tree(HOST).items() if "/containerd/" in path
    } == before
    assert fleet.starts(HOST, "containerd") == starts


def test_it_is_left_alone_while_it_works_or_may_and_taken_over_once_it_is_gone(
    fleet: Fleet,
) -> None:
    before = {path: entry for path, entry in fleet.tree(HOST).items() if "/containerd/" in path}
    fleet.shell(HOST, LIVE)
    left_alone(fleet, "its process nvidia-toolkit runs", before)
    fleet.shell(HOST, "systemctl stop toolkit-container")

    fleet.shell(
        HOST,
        f"printf %s '{json.dumps(POD)}' >/run/pod.json; {CRICTL} runp /run/pod.json >/run/pod.id",
    )
    fleet.shell(HOST, f"{CRICTL} stopp $(cat /run/pod.id)")
    left_alone(fleet, "containerd has a pod nvidia-container-toolkit-daemonset-*", before)
    fleet.shell(HOST, f"{CRICTL} rmp $(cat /run/pod.id)")

    kept = "/var/lib/kubelet/pods/0b1e/containers/nvidia-container-toolkit-ctr"
    fleet.shell(HOST, f"mkdir -p {kept}")
    left_alone(
        fleet, "the kubelet keeps a pod with the container nvidia-container-toolkit-ctr", before
    )
    fleet.shell(HOST, f"rm -r {kept}")

    left_alone(fleet, "the kubelet has been active for less than 10 minutes", before)
    fleet.shell(HOST, "systemctl stop kubelet.service")
    left_alone(fleet, "the kubelet of this host does not run", before)

    fleet.shell(
        HOST, "rm /usr/bin/kubelet /etc/systemd/system/kubelet.service; systemctl daemon-reload"
    )
    run = fleet.task("host", [HOST], OURS)
    assert run.failed == {}, run.words
    result = run.of("host")[HOST]
    assert result["restarted"] == ["containerd.service"]
    told = {(left["tool"], left["path"], left["fate"]) for left in result["leftovers"]}
    assert told == {("gpu-operator", TOOLKIT, "kept"), ("gpu-operator", CONFIG, "adopted")}
    status = json.loads(fleet.shell(HOST, f"{CRICTL} info"))["config"]["containerd"]["runtimes"]
    programs = {
        name: entry["options"].get("BinaryName", "")
        for name, entry in status.items()
        if name != "runc"
    }
    assert programs == {
        "nvidia": "/usr/bin/nvidia-container-runtime",
        "nvidia-cdi": f"{TOOLKIT}/nvidia-container-runtime.cdi",
        "nvidia-legacy": f"{TOOLKIT}/nvidia-container-runtime.legacy",
    }
    again = fleet.task("host", [HOST], OURS)
    assert again.changed == {}

    fleet.shell(HOST, f"rm -r {TOOLKIT}")
    first, second = seen(fleet)["advice"][:2]
    assert first.startswith(
        f"Every pod of the handler nvidia-cdi fails: {TOOLKIT}/nvidia-container-runtime.cdi does not exist"
    )
    assert second.startswith("Every pod of the handler nvidia-legacy fails")

    assert fleet.task("host", [HOST], {"state": "absent", **OURS}).failed == {}
    assert {
        path: entry for path, entry in fleet.tree(HOST).items() if "/containerd/" in path
    } == before
