# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stand-in for NVIDIA's device plugin on nodes of the lab's Kubernetes (gomods/device-plugin):
configuration and environment.

In a cluster the plugin is a pod, and a sidecar gives it the configuration of its node's label. Here
the caller chooses the text.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

import yaml

from . import hosts
from .artefacts import LabError, go_tool
from .kubernetes import Cluster

NAME = "device-plugin"
CONFIG = f"/etc/kubernetes/{NAME}.yaml"
ENVIRONMENT = f"/etc/kubernetes/{NAME}.env"
PROGRAM = f"/usr/local/bin/{NAME}"
RESOURCE = "nvidia.com/gpu"
SHARED = f"{RESOURCE}.shared"  # as NVIDIA's names it with renameByDefault


def start(
    cluster: Cluster, node: str, config: str, environment: Mapping[str, str] | None = None
) -> None:
    """Serve the node's GPUs with this configuration.

    Return when the kubelet offers all of them, each as often as it is shared.
    """
    host = cluster.lab.host(node)
    root = Path(f"/proc/{hosts.first_process(host)}/root")
    if not (root / PROGRAM.lstrip("/")).exists():
        shutil.copy2(go_tool(NAME) / NAME, root / PROGRAM.lstrip("/"))
    stop(cluster, node)
    (root / CONFIG.lstrip("/")).write_text(config)
    (root / ENVIRONMENT.lstrip("/")).write_text(
        "".join(f"{name}={value}\n" for name, value in (environment or {}).items())
    )
    _systemctl(cluster, node, "start")
    name, replicas = shared(config)
    _offers(cluster, node, len(host.spec.gpus.gpus) * replicas, name)


def shared(config: str) -> tuple[str, int]:
    """Return the name of the resource that pods ask for, and how many pods get each GPU."""
    sharing = (yaml.safe_load(config).get("sharing") or {}).get("timeSlicing") or {}
    replicas = {one["name"]: int(one["replicas"]) for one in sharing.get("resources") or ()}
    return SHARED if RESOURCE in replicas and sharing.get(
        "renameByDefault"
    ) else RESOURCE, replicas.get(RESOURCE, 1)


def stop(cluster: Cluster, node: str) -> None:
    """Stop the plugin, and return when the kubelet offers no GPU any more.

    So the next configuration is recognised by what the kubelet offers then.
    """
    _systemctl(cluster, node, "stop")
    for name in {RESOURCE, SHARED} & set(cluster.get("node", node)["status"]["allocatable"]):
        _offers(cluster, node, 0, name)


def log(cluster: Cluster, node: str) -> str:
    """Return what the plugin has printed since the node booted."""
    return cluster.lab.exec(
        node, ["journalctl", f"--unit={NAME}", "--output=cat", "--no-pager"]
    ).stdout


def given(cluster: Cluster, node: str) -> tuple[str, ...]:
    """Return the UUIDs of the GPUs that the plugin gave to the node's last pod."""
    last = [line for line in log(cluster, node).splitlines() if line.startswith("allocate [")][-1]
    return tuple(last.partition("[")[2].partition("]")[0].split())


def _systemctl(cluster: Cluster, node: str, verb: str) -> None:
    done = cluster.lab.exec(node, ["systemctl", verb, f"{NAME}.service"])
    if done.returncode:
        raise LabError(f"'systemctl {verb} {NAME}' failed on {node}: {done.stderr.strip()}")


def _offers(cluster: Cluster, node: str, number: int, name: str) -> None:
    escaped = name.replace(".", r"\.")
    wanted = f"--for=jsonpath={{.status.allocatable.{escaped}}}={number}"
    cluster.until(
        f"{node} to offer {name} {number} times", ["wait", wanted, f"node/{node}", "--timeout=1s"]
    )
