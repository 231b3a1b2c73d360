# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The demo's last act: a real Kubernetes of two kinds of host, what is rendered for it, and a pod
on each.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from tests.lab import device_plugin, images
from tests.lab.kubernetes import Cluster
from tests.lab.lab import Lab

# containerd 1.7 resolves CDI devices once that is switched on, 1.6 never does.
NODES = {"kube-new": "containerd-1.7", "kube-old": "containerd-1.6"}
NAME = "demo"
CONFIG_LABEL = "nvidia.com/device-plugin.config"
Run = Callable[..., str]


class ClusterFailed(Exception):
    """A pod that has not got what was decided."""


def boot(lab: Lab, place: Path) -> Cluster:
    """Boot two more hosts, whose kubelets join a control plane beside them."""
    shutil.rmtree(place, ignore_errors=True)
    cluster = Cluster(lab, place)
    lab.up(
        {
            "hosts": {
                name: {"kind": kind, "gpus": 2, "driver": "ok", "files": cluster.files(name)}
                for name, kind in NODES.items()
            }
        }
    )
    cluster.start(list(NODES))
    print(cluster.kubectl("get", "nodes", "--output=wide"))
    return cluster


def show(cluster: Cluster, run: Run, settings: Path, place: Path) -> None:
    """Converge the nodes, render, apply what is rendered as a person would, and start a pod on
    each.

    place: the directory of the rendered files, which is emptied first.
    """
    shutil.rmtree(place, ignore_errors=True)
    limit = ("--limit", ",".join(NODES))
    run("ansible-playbook", "gpufleet.nvidia.site", "-e", f"@{settings}", *limit)
    where = ("-e", f"gpufleet_cluster={NAME}", "-e", f"gpufleet_kubernetes_dir={place}")
    run("ansible-playbook", "gpufleet.nvidia.kubernetes", *where, *limit)
    home = place / NAME
    files = sorted(path for path in home.rglob("*.yaml") if path.parent.name != "helm")
    for path in files:
        print(f"\n--- {path.relative_to(place)}\n{path.read_text()}", end="")
    print("\n$ kubectl apply --server-side ...\n", flush=True)
    cluster.kubectl("create", "namespace", read(home / "configmap.yaml")["metadata"]["namespace"])
    print(
        cluster.kubectl(
            "apply",
            "--server-side",
            "--field-manager=gpufleet.nvidia",
            *(f"--filename={path}" for path in files),
        )
    )
    for name in NODES:
        pod_of(cluster, name, chosen(home, name))


def chosen(home: Path, node: str) -> str:
    """Return the device plugin's file that the node's label selects."""
    group = read(home / "nodes" / f"{node}.yaml")["metadata"]["labels"][CONFIG_LABEL]
    return str(read(home / "configmap.yaml")["data"][group])


def read(path: Path) -> dict[str, Any]:
    return dict(yaml.safe_load(path.read_text()))


def pod_of(cluster: Cluster, node: str, text: str) -> None:
    """Run a pod that asks for one GPU of two, with the device plugin set as rendered, and print
    what it sees.

    ClusterFailed unless the pod sees its GPU alone.
    """
    device_plugin.start(cluster, node, text)
    container = {
        "name": "c",
        "image": images.PROBE,
        "imagePullPolicy": "Never",
        "command": ["/bin/sh", "-c", "ls -d /dev/nvidia[0-9]* || true"],
        "resources": {"limits": {device_plugin.RESOURCE: "1"}},
    }
    spec = {
        "nodeName": node,
        "hostNetwork": True,
        "restartPolicy": "Never",
        "containers": [container],
    }
    cluster.apply(
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"on-{node}"}, "spec": spec}
    )
    cluster.until(
        f"the pod on {node}",
        ["wait", "--for=jsonpath={.status.phase}=Succeeded", f"pod/on-{node}", "--timeout=1s"],
    )
    seen = cluster.kubectl("logs", f"on-{node}").split()
    given = device_plugin.given(cluster, node)
    ways = ", ".join(yaml.safe_load(text)["flags"]["plugin"]["deviceListStrategy"])
    print(
        f"{node}: a pod with nvidia.com/gpu: 1 was given {', '.join(given)} by {ways}, and sees {', '.join(seen)}"
    )
    gpus = cluster.lab.host(node).spec.gpus.gpus
    if seen != [f"/dev/nvidia{gpu.minor}" for gpu in gpus if gpu.uuid in given]:
        raise ClusterFailed(f"the pod on {node} does not see its GPU alone")
