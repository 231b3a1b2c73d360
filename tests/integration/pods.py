# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods on nodes of the lab's Kubernetes: what they were given, and what the kubelet or engine
reports if one does not start.
"""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Mapping

from tests.integration import containers
from tests.integration.containers import Inside
from tests.lab import cgroup, device_plugin, images
from tests.lab.artefacts import LabError
from tests.lab.inventory import RECORD
from tests.lab.kubernetes import PAUSE, Cluster

REFUSED = ("Failed", "FailedCreatePodSandBox")  # events
NVIDIA_MAJOR = 195


class Pods:
    """Pods of one cluster, each named after its node and a number."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._numbers = itertools.count()

    def run(
        self,
        node: str,
        *,
        gpus: int = 1,
        runtime_class: str = "",
        env: Mapping[str, str] | None = None,
        privileged: bool = False,
    ) -> Inside:
        """Run a pod with so many GPUs of the plugin's, and return what it finds.

        Its node is chosen here, so the scheduler is not asked.
        """
        container = {
            "command": containers.trial(
                [(path, NVIDIA_MAJOR, minor) for path, minor in self._nodes(node).values()]
            ),
            "env": [{"name": key, "value": value} for key, value in (env or {}).items()],
            "resources": {"limits": {device_plugin.RESOURCE: str(gpus)}} if gpus else {},
            "securityContext": {"privileged": True}
            if privileged
            else {"capabilities": {"add": ["MKNOD"]}},
        }
        name = self._create(node, container, runtime_class)
        refused = self._refused(name)
        found = (
            Inside(refused=refused)
            if refused
            else containers.read(self.cluster.kubectl("logs", name))
        )
        self.cluster.kubectl("delete", "pod", name, "--wait=false", "--grace-period=0", "--force")
        return found

    def kept(self, node: str, resource: str, number: int = 1) -> tuple[str, str]:
        """Start a pod that keeps so many of the resource until it is ended.

        Return its name, and the kubelet's sentence if it was not admitted.
        """
        name = self._create(
            node, {"command": ["sleep", "600"], "resources": {"limits": {resource: str(number)}}}
        )
        for _turn in cgroup.until(f"the pod {name} to run or to be refused", 60, PAUSE):
            status = self.cluster.get("pod", name)["status"]
            if status["phase"] in ("Running", "Failed"):
                return name, str(status.get("message") or "")
        raise AssertionError("until() ends by itself")

    def end(self, *names: str) -> None:
        """Delete pods, and return when the kubelet has reported that their processes are gone.

        Until then it keeps their GPUs for them.
        """
        self.cluster.kubectl("delete", "pod", *names, "--grace-period=1", "--timeout=60s")

    def _create(self, node: str, container: Mapping[str, object], runtime_class: str = "") -> str:
        name = f"{node}-{next(self._numbers)}"
        whole = {"name": "c", "image": images.PROBE, "imagePullPolicy": "Never", **container}
        spec = {
            "nodeName": node,
            "hostNetwork": True,
            "restartPolicy": "Never",
            "containers": [whole],
        }
        spec |= {"runtimeClassName": runtime_class} if runtime_class else {}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
        self.cluster.kubectl("create", "--filename=-", stdin=json.dumps(pod))
        return name

    def paths(self, node: str, uuids: tuple[str, ...]) -> set[str]:
        return {path for uuid, (path, _minor) in self._nodes(node).items() if uuid in uuids}

    def recorded(self, node: str) -> tuple[str, ...]:
        """Return the devices that the runtime's hook has asked for last.

        On hosts of the lab a nvidia-container-cli only writes them down.
        """
        last = json.loads(self.cluster.lab.exec(node, ["tail", "-n1", RECORD]).stdout)
        return tuple(
            word.partition("=")[2] for word in last["argv"] if word.startswith("--device=")
        )

    def _nodes(self, node: str) -> dict[str, tuple[str, int]]:
        return {
            gpu.uuid: (f"/dev/nvidia{gpu.minor}", gpu.minor)
            for gpu in self.cluster.lab.host(node).spec.gpus.gpus
        }

    def _refused(self, name: str) -> str:
        """Return '' once the pod has ended well, or else why its container does not run."""
        for _turn in cgroup.until(f"the pod {name} to end or to be refused", 60, PAUSE):
            with contextlib.suppress(LabError):
                self.cluster.kubectl(
                    "wait",
                    "--for=jsonpath={.status.phase}=Succeeded",
                    f"pod/{name}",
                    "--timeout=2s",
                )
                return ""
            events = self.cluster.get("events", f"--field-selector=involvedObject.name={name}")[
                "items"
            ]
            said = [str(event["message"]) for event in events if event["reason"] in REFUSED]
            if said:
                return said[0]
        raise AssertionError("until() ends by itself")


def opened(found: Inside) -> set[str]:
    """Return the GPUs' nodes that the container may open.

    No driver is behind them on hosts of the lab, so opening one gives ENXIO.
    """
    assert not found.refused, found.refused
    assert set(found.nodes.values()) <= {"ENXIO", "EPERM"}, found.nodes
    return {path for path, said in found.nodes.items() if said == "ENXIO"}
