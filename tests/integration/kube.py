# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real Kubernetes of three converged hosts: an engine with CDI, one without, CRI-O. The rendered
files are applied there, and pods run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import yaml

from tests.integration.pods import Pods, opened
from tests.lab import device_plugin
from tests.lab.kubernetes import CRIO, Cluster
from tests.lab.lab import Lab
from tests.tools.onlab import Fleet, Run, repository
from tests.unit.tool_modules import loaded

KINDS = {"native": "containerd-2.3", "fallback": "containerd-1.6", "crio": "crio-1.34"}
NAMESPACE, CONFIG_MAP = "nvidia-device-plugin", "gpufleet-device-plugin"
CONFIG_LABEL = "nvidia.com/device-plugin.config"
T = TypeVar("T")


class Kube:
    """A cluster, its nodes as hosts, and the controller in their network."""

    def __init__(self, fleet: Fleet, cluster: Cluster) -> None:
        self.fleet = fleet
        self.cluster = cluster
        self.pods = Pods(cluster)
        core = loaded("kubernetes_core")
        self.python = core.environments.ensure("kubernetes") / "python"
        self.collections = core.ensure()

    def site(self, **settings: Any) -> Run:
        run = self.fleet.play("site", list(KINDS), variables={**repository(), **settings})
        assert run.failed == {}, run.words
        return run

    def apply(self, *arguments: str, nodes: Iterable[str] = tuple(KINDS), **settings: Any) -> Run:
        """Run the playbook `kubernetes` for some of the nodes, which applies what it renders."""
        return self._run("kubernetes", *arguments, nodes=nodes, **settings)

    def rollout(self, *nodes: str, **settings: Any) -> Run:
        """Roll a change out to some of the nodes, and apply to the cluster what follows."""
        return self._run("rollout", nodes=nodes, gpufleet_drain="never", **repository(), **settings)

    def _run(self, playbook: str, *arguments: str, nodes: Iterable[str], **settings: Any) -> Run:
        controller = {"ansible_connection": "local", "ansible_python_interpreter": str(self.python)}
        inventory = self.cluster.place / "controller.yml"
        inventory.write_text(yaml.safe_dump({"all": {"hosts": {"localhost": controller}}}))
        access = {
            "gpufleet_kubernetes_apply": True,
            "gpufleet_kubernetes_kubeconfig": str(self.cluster.kubeconfig),
        }
        return self.fleet.play(
            playbook,
            variables={
                "gpufleet_hosts": ",".join(nodes),
                "gpufleet_cluster": "lab",
                **access,
                **settings,
            },
            arguments=["-i", str(inventory), *arguments],
            environment={
                "ANSIBLE_COLLECTIONS_PATH": f"{Path('.cache/collections').resolve()}:{self.collections}"
            },
            around=self.fleet.lab.inside([]),
        )

    def text(self, node: str) -> str:
        """Return the text of the plugin's file that the node's label selects."""
        group = self.cluster.get("node", node)["metadata"]["labels"][CONFIG_LABEL]
        return str(
            self.cluster.get("configmap", CONFIG_MAP, f"--namespace={NAMESPACE}")["data"][group]
        )

    def said(self, node: str) -> dict[str, Any]:
        """Return the plugin's settings in this file."""
        return dict(yaml.safe_load(self.text(node))["flags"]["plugin"])

    def plugin(
        self, node: str, environment: Mapping[str, str] | None = None, **changed: Any
    ) -> None:
        """Start the plugin with this file, after changing the given keys of it."""
        document = yaml.safe_load(self.text(node))
        document["flags"]["plugin"].update(changed)
        device_plugin.start(self.cluster, node, yaml.safe_dump(document), environment)

    def each(self, job: Callable[[str], T], nodes: Iterable[str] = tuple(KINDS)) -> dict[str, T]:
        """Do this on all nodes side by side, since most of the time of a pod is waiting. Return the
        results by node.
        """
        with ThreadPoolExecutor() as workers:
            running = {node: workers.submit(job, node) for node in nodes}
        return {node: future.result() for node, future in running.items()}

    def alone(self, node: str, **pod: Any) -> None:
        """Require that a pod with one GPU gets the one that the plugin gave to it."""
        found = opened(self.pods.run(node, **pod))
        assert found == self.pods.paths(node, device_plugin.given(self.cluster, node))
        assert len(found) == 1


def start(lab: Lab, place: Path) -> Kube:
    """Boot the hosts, start the cluster and converge."""
    cluster = Cluster(lab, place)
    files = {name: cluster.files(name, *([CRIO] if name == "crio" else [])) for name in KINDS}
    lab.up(
        {
            "hosts": {
                name: {"kind": kind, "gpus": 2, "driver": "ok", "files": files[name]}
                for name, kind in KINDS.items()
            }
        }
    )
    cluster.start(list(KINDS))
    found = Kube(Fleet(lab), cluster)
    found.site()
    return found
