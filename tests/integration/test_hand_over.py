# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node of a real Kubernetes goes from the GPU Operator's toolkit to this collection and back, and
is handed back where a step fails.

The toolkit is a DaemonSet with its names, label and node selector, whose pod does on the host what
the toolkit container does: it installs its programs, adds its handlers to containerd's file and has
containerd read it; when it is ended it takes them out again, and leaves its programs.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.integration.conftest import Boot
from tests.lab.kubernetes import Cluster
from tests.lab.lab import Lab
from tests.tools.killed_at import done_at, killed_at
from tests.tools.onlab import PROBE, RUNTIME, Fleet, Run
from tests.unit.tool_modules import imported

pytestmark = pytest.mark.lab

NODE = "kube1"
CONFIG = "/etc/containerd/config.toml"
TOOLKIT = "/usr/local/nvidia/toolkit"
LABEL = "nvidia.com/gpu.deploy.container-toolkit"
NAME = "nvidia-container-toolkit-daemonset"
SETTINGS = {
    "gpufleet_packages": "ignore",
    "gpufleet_hand_over_timeout": 240,
    "gpufleet_hand_over_interval": 1,
    "gpufleet_drain_interval": 1,
}
# systemd starts containerd again once it is ended: by SIGHUP, as containerd 1.7 has no other answer
# to it.
POD = f"""
cd /host
config=etc/containerd/config.toml
reload() {{ for p in /proc/[0-9]*; do [ "$(readlink $p/exe)" = /usr/bin/containerd ] && kill -HUP ${{p#/proc/}}; done; true; }}
clean() {{
    [ -e run/keep-handlers ] || {{ cp run/before-toolkit $config; reload; }}
    rm -f run/nvidia/toolkit/toolkit.pid
    exit 0
}}
trap clean TERM
mkdir -p run/nvidia/toolkit usr/local/nvidia/toolkit
for mode in "" .cdi .legacy; do
    program=usr/local/nvidia/toolkit/nvidia-container-runtime$mode
    printf '#!/bin/sh\\nexec runc "$@"\\n' >$program
    chmod 755 $program
done
if ! grep -q {TOOLKIT} $config; then
    cp $config run/before-toolkit
    printf '\n[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]\nruntime_type = "io.containerd.runc.v2"\n' >>$config
    for name in nvidia nvidia-cdi nvidia-legacy; do
        mode=${{name#nvidia}}
        table='plugins."io.containerd.grpc.v1.cri".containerd.runtimes.'$name
        printf '\\n[%s]\\nruntime_type = "io.containerd.runc.v2"\\n[%s.options]\\nBinaryName = "%s"\\n' "$table" "$table" \\
            {TOOLKIT}/nvidia-container-runtime${{mode:+.${{mode#-}}}}
    done >>$config
    reload
fi
echo $$ >run/nvidia/toolkit/toolkit.pid
touch /ready
sleep 2147483647 & wait
"""


def daemon_set() -> dict[str, Any]:
    labels = {"app": NAME}
    container = {
        "name": "nvidia-container-toolkit-ctr",
        "image": PROBE,
        "imagePullPolicy": "Never",
        "command": ["/bin/sh", "-c", POD],
        "securityContext": {"privileged": True},
        "readinessProbe": {"exec": {"command": ["test", "-e", "/ready"]}, "periodSeconds": 1},
        "volumeMounts": [{"name": "host", "mountPath": "/host"}],
    }
    spec = {
        "nodeSelector": {LABEL: "true"},
        "hostPID": True,
        "hostNetwork": True,
        "tolerations": [{"operator": "Exists"}],
        "containers": [container],
        "volumes": [{"name": "host", "hostPath": {"path": "/"}}],
    }
    template = {"metadata": {"labels": labels}, "spec": spec}
    whole = {"selector": {"matchLabels": labels}, "template": template}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": NAME, "labels": labels},
        "spec": whole,
    }


class Kube:
    """The cluster, its node as a host, and the controller in their network."""

    def __init__(self, fleet: Fleet, cluster: Cluster, python: Path, collections: Path) -> None:
        self.fleet, self.cluster, self.python, self.collections = (
            fleet,
            cluster,
            python,
            collections,
        )

    def hand_over(
        self, to: str, *arguments: str, around: Sequence[str] = (), **settings: Any
    ) -> Run:
        controller = {"ansible_connection": "local", "ansible_python_interpreter": str(self.python)}
        inventory = self.cluster.place / "controller.yml"
        inventory.write_text(yaml.safe_dump({"all": {"hosts": {"localhost": controller}}}))
        access = {
            "gpufleet_kubernetes_kubeconfig": str(self.cluster.kubeconfig),
            "gpufleet_hosts": NODE,
            "gpufleet_hand_over_to": to,
        }
        return self.fleet.play(
            "hand_over",
            variables={**SETTINGS, **access, **settings},
            arguments=["-i", str(inventory), *arguments],
            environment={
                "ANSIBLE_COLLECTIONS_PATH": f"{Path('.cache/collections').resolve()}:{self.collections}"
            },
            around=[*around, *self.fleet.lab.inside([])],
        )

    def stands(self) -> tuple[str, bool, int, str, bool]:
        """The label, whether pods may be scheduled, how many pods of the toolkit there are, whose
        handler `nvidia` is, and whether something else of the collection is there.
        """
        node = self.cluster.get("node", NODE)
        pods = self.cluster.get("pods", f"--selector=app={NAME}")["items"]
        text = self.fleet.text(NODE, CONFIG)
        own = (
            "operator"
            if TOOLKIT in text
            else "collection"
            if "runtimes.nvidia" in text
            else "nobody"
        )
        others = "1" in self.fleet.shell(
            NODE,
            "! [ -e /etc/cdi/nvidia.yaml ] && ! [ -e /var/lib/gpufleet/decision.json ] || echo 1",
        )
        return (
            node["metadata"]["labels"].get(LABEL, ""),
            not node["spec"].get("unschedulable", False),
            len(pods),
            own,
            others,
        )


OPERATORS, COLLECTIONS = (
    ("true", True, 1, "operator", False),
    ("false", True, 0, "collection", True),
)


@pytest.fixture(scope="module")
def kube(lab: Lab, boot: Boot, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kube]:
    cluster = Cluster(lab, tmp_path_factory.mktemp("kubernetes"))
    fleet = boot(
        {NODE: {"kind": "containerd-1.7", "gpus": 1, "driver": "ok", "files": cluster.files(NODE)}}
    )
    fleet.shell(NODE, RUNTIME)
    cluster.start([NODE])
    cluster.apply(daemon_set())
    cluster.kubectl("label", "node", NODE, f"{LABEL}=true")
    cluster.until("the toolkit", ["rollout", "status", f"daemonset/{NAME}", "--timeout=1s"])
    for module in imported("kubernetes_core"):
        yield Kube(
            fleet, cluster, module.environments.ensure("kubernetes") / "python", module.ensure()
        )


def test_a_node_goes_to_the_collection_and_back(kube: Kube) -> None:
    before = kube.fleet.text(NODE, CONFIG)
    assert kube.stands() == OPERATORS
    said = kube.hand_over("state")
    assert (said.status, kube.stands()) == (0, OPERATORS), said.words
    assert "operator: the node kube1 has the label" in said.words
    checked = kube.hand_over("collection", "--check")
    assert (checked.status, kube.stands()) == (0, OPERATORS), checked.words
    assert "[hand-over.to-collection]" in checked.words

    there = kube.hand_over("collection")
    assert there.status == 0, there.words
    assert kube.stands() == COLLECTIONS
    again = kube.hand_over("collection")
    assert (again.status, again.changed) == (0, {}), again.words

    back = kube.hand_over("operator")
    assert back.status == 0, back.words
    assert kube.stands() == OPERATORS
    assert kube.fleet.text(NODE, CONFIG) == before


def test_a_run_that_was_killed_is_ended_by_the_next(kube: Kube) -> None:
    """The host is converged by then, and its node is out of service."""
    assert kube.stands() == OPERATORS
    at = "TASK [See that the host was converged]"
    killed = kube.hand_over("collection", around=killed_at(at))
    assert killed.status != 0
    assert at in killed.words, killed.words
    label, in_service, *_more = kube.stands()
    assert (label, in_service) == ("false", False)
    said = kube.hand_over("state")
    assert "collection: the node kube1 has the label" in said.words
    assert "[hand-over.node-held-for]" in said.words, said.words
    again = kube.hand_over("collection")
    assert again.status == 0, again.words
    assert kube.stands() == COLLECTIONS
    back = kube.hand_over("operator")
    assert (back.status, kube.stands()) == (0, OPERATORS), back.words


def test_a_host_that_is_lost_leaves_its_node_out_of_service_with_the_reason(kube: Kube) -> None:
    """It can neither be changed nor handed back. Once it is there again, the next run ends what was
    begun.
    """
    cut = [
        "env",
        f"GPUFLEET_LAB_NAME={kube.fleet.lab.name}",
        sys.executable,
        "-m",
        "tests.lab",
        "link",
        NODE,
        "down",
    ]
    run = kube.hand_over(
        "collection", around=done_at("TASK [gpufleet.nvidia.host : Converge the host]", cut)
    )
    assert run.status != 0
    assert "kube1 was not handed over: kube1 was lost while it was changed" in run.words, run.words
    assert "It could not be handed back: kube1 was lost while it was changed" in run.words, (
        run.words
    )
    marks = kube.cluster.get("node", NODE)["metadata"]["annotations"]
    assert marks["gpufleet.nvidia/why"].startswith("kube1 was lost while it was changed")
    assert not kube.stands()[1]

    kube.fleet.lab.link(NODE, "up")
    kube.cluster.until(
        "its kubelet", ["wait", "--for=condition=Ready", f"node/{NODE}", "--timeout=1s"]
    )
    again = kube.hand_over("collection")
    assert (again.status, kube.stands()) == (0, COLLECTIONS), again.words
    back = kube.hand_over("operator")
    assert (back.status, kube.stands()) == (0, OPERATORS), back.words


def test_a_node_whose_verification_fails_is_handed_back(kube: Kube) -> None:
    assert kube.stands() == OPERATORS
    before = kube.fleet.text(NODE, CONFIG)
    run = kube.hand_over("collection", gpufleet_verify_image="localhost/gpufleet/not-there:1")
    assert run.status != 0
    assert "kube1 was not handed over: " in run.words
    assert (
        "Now the node kube1 has the label nvidia.com/gpu.deploy.container-toolkit=true" in run.words
    )
    assert kube.stands() == OPERATORS
    assert kube.fleet.text(NODE, CONFIG) == before


def test_handlers_of_a_toolkit_whose_clean_up_was_cut_short_are_taken_over(kube: Kube) -> None:
    kube.fleet.shell(NODE, "touch /run/keep-handlers")
    run = kube.hand_over("collection")
    assert run.status == 0, run.words
    label, schedulable, pods, _own, _others = kube.stands()
    assert (label, schedulable, pods) == ("false", True, 0)
    assert 'BinaryName = "/usr/bin/nvidia-container-runtime"' in kube.fleet.text(NODE, CONFIG)
    kube.fleet.shell(NODE, "rm /run/keep-handlers")
