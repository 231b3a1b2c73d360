# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A rollout through a real Kubernetes of two nodes: service kept, a disruption budget that refuses,
a node that dies in mid-rollout.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.integration.conftest import Boot
from tests.lab import cgroup
from tests.lab.kubernetes import Cluster
from tests.lab.lab import Lab
from tests.tools.onlab import PROBE, ROOT, Fleet, Run, repository
from tests.unit.tool_modules import imported

pytestmark = pytest.mark.lab

NODES = ["kube1", "kube2"]
WEB = "web"
SYSCTLS = (
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
)
SETTINGS = {
    "gpufleet_drain": "always",
    "gpufleet_drain_method": "evict",
    "gpufleet_drain_interval": 1,
    "gpufleet_drain_timeout": 60,
    "gpufleet_rollout_id": "r7",
    "gpufleet_rollout_canaries": 0,
}


class Kube:
    """The cluster, its nodes as hosts, and the controller in their network."""

    def __init__(self, fleet: Fleet, cluster: Cluster, python: Path, collections: Path) -> None:
        self.fleet = fleet
        self.cluster = cluster
        self.python = python
        self.collections = collections

    def rollout(self, **settings: Any) -> Run:
        controller = {"ansible_connection": "local", "ansible_python_interpreter": str(self.python)}
        inventory = self.cluster.place / "controller.yml"
        inventory.write_text(yaml.safe_dump({"all": {"hosts": {"localhost": controller}}}))
        own = {
            **SETTINGS,
            "gpufleet_kubernetes_kubeconfig": str(self.cluster.kubeconfig),
            "gpufleet_hosts": ",".join(NODES),
            **settings,
        }
        return self.fleet.play(
            "rollout",
            variables=own,
            arguments=["-i", str(inventory)],
            environment={
                "ANSIBLE_COLLECTIONS_PATH": f"{Path('.cache/collections').resolve()}:{self.collections}"
            },
            around=self.fleet.lab.inside([]),
        )

    def web(self, replicas: int, available: int) -> None:
        """A service of so many pods. A disruption budget keeps some of them available."""
        label = {"app": WEB}
        # as first process it has to handle SIGTERM itself
        command = [
            "/bin/sh",
            "-c",
            "trap exit TERM; sleep 9999 & wait",
        ]
        container = {"name": WEB, "image": PROBE, "imagePullPolicy": "Never", "command": command}
        spread = {
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": label},
        }
        pods = {
            "metadata": {"labels": label},
            "spec": {"containers": [container], "topologySpreadConstraints": [spread]},
        }
        self.cluster.apply(
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": WEB},
                "spec": {
                    "replicas": replicas,
                    "selector": {"matchLabels": label},
                    "template": pods,
                },
            },
            {
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "metadata": {"name": WEB},
                "spec": {"minAvailable": available, "selector": {"matchLabels": label}},
            },
        )
        self.cluster.until(
            "the service", ["rollout", "status", f"deployment/{WEB}", "--timeout=1s"]
        )
        for _turn in cgroup.until("the pods of another test to end", 60):
            if len(self.pods()) == replicas:
                break
        self.cluster.until(
            "its budget",
            [
                "wait",
                f"--for=jsonpath={{.status.currentHealthy}}={replicas}",
                f"pdb/{WEB}",
                "--timeout=1s",
            ],
        )

    def pods(self) -> dict[str, str]:
        """The node of each pod."""
        return {
            pod["metadata"]["uid"]: pod["spec"]["nodeName"]
            for pod in self.cluster.get("pods")["items"]
        }

    @contextlib.contextmanager
    def availability(self) -> Iterator[list[int]]:
        """How many pods the service had available meanwhile, each time that it changed."""
        seen: list[int] = []
        watch = self.cluster.command(
            "get",
            f"deployment/{WEB}",
            "--watch",
            "--output=jsonpath={.status.availableReplicas}{' '}",
        )
        with subprocess.Popen(watch, stdout=subprocess.PIPE, text=True) as process:
            try:
                yield seen
            finally:
                process.terminate()
                words, _none = process.communicate()
                seen.extend(int(word) for word in words.split())

    def standing(self, name: str) -> tuple[bool, dict[str, str]]:
        """Whether pods may be scheduled to a node, and its marks of a rollout."""
        node = self.cluster.get("node", name)
        marks = {
            key: text
            for key, text in node["metadata"].get("annotations", {}).items()
            if key.startswith("gpufleet.nvidia/")
        }
        return not node["spec"].get("unschedulable", False), marks

    def converged(self) -> set[str]:
        return {
            name
            for name in NODES
            if "nvidia" in self.fleet.text(name, "/etc/containerd/config.toml")
        }


@pytest.fixture(scope="module")
def kube(lab: Lab, boot: Boot, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kube]:
    before = {name: Path("/proc/sys", name).read_text() for name in SYSCTLS}
    cluster = Cluster(lab, tmp_path_factory.mktemp("kubernetes"))
    fleet = boot(
        {
            name: {
                "kind": "containerd-1.7",
                "gpus": 1,
                "driver": "ok",
                "files": cluster.files(name),
            }
            for name in NODES
        }
    )
    cluster.start(NODES)
    assert fleet.play("site", NODES, variables=repository()).failed == {}
    for module in imported("kubernetes_core"):
        yield Kube(
            fleet, cluster, module.environments.ensure("kubernetes") / "python", module.ensure()
        )
    assert {name: Path("/proc/sys", name).read_text() for name in SYSCTLS} == before, (
        "a kubelet has set the machine's own kernel"
    )


@pytest.fixture
def undone(kube: Kube) -> Kube:
    """As before the first rollout."""
    assert kube.fleet.play("rollback", NODES).failed == {}
    assert kube.converged() == set()
    kube.cluster.ready(NODES)
    assert {name: kube.standing(name) for name in NODES} == dict.fromkeys(NODES, (True, {}))
    return kube


def test_a_service_keeps_its_replicas_while_one_node_after_the_other_is_drained_and_changed(
    undone: Kube,
) -> None:
    undone.web(replicas=2, available=1)
    with undone.availability() as available:
        run = undone.rollout()
    assert run.status == 0, run.words
    assert undone.converged() == set(NODES)
    assert {name: undone.standing(name) for name in NODES} == dict.fromkeys(NODES, (True, {}))
    assert {result["outcome"] for result in run.of("drain").values()} == {"in_service"}
    assert min(available) >= 1, f"the budget holds: {available}"
    assert len(available) > 1, "pods were moved"
    again = undone.rollout()
    assert again.status == 0, again.words
    assert again.changed == {}, "who has nothing to do is not drained"


def test_a_budget_that_refuses_leaves_the_node_as_it_was_and_the_host_out(undone: Kube) -> None:
    undone.web(replicas=1, available=1)
    pods = undone.pods()
    (home,) = pods.values()
    run = undone.rollout(gpufleet_drain_timeout=4, gpufleet_rollout_max_left_out=1)
    assert undone.converged() == set(NODES) - {home}, run.words
    assert "disruption budget" in run.words
    assert {name: undone.standing(name) for name in NODES} == dict.fromkeys(NODES, (True, {}))
    assert undone.pods() == pods


def test_a_node_that_dies_in_mid_rollout_stays_cordoned_and_the_next_run_goes_on(
    undone: Kube, tmp_path: Path
) -> None:
    undone.web(replicas=2, available=1)
    victim, lab = "kube1", undone.fleet.lab
    kill = {"argv": [sys.executable, "-m", "tests.lab", "kill", victim], "chdir": str(ROOT)}
    task = {
        "ansible.builtin.command": kill,
        "delegate_to": "localhost",
        "environment": {"GPUFLEET_LAB_NAME": lab.name},
    }
    change = tmp_path / "change.yml"
    change.write_text(
        yaml.safe_dump(
            [{**task, "name": "Cut the power", "when": f"inventory_hostname == '{victim}'"}]
        )
    )
    run = undone.rollout(gpufleet_rollout_tasks={"change": str(change)})
    assert run.status != 0, run.words
    assert "1 lost" in run.words
    schedulable, marks = undone.standing(victim)
    assert (schedulable, marks["gpufleet.nvidia/rollout"]) == (False, "r7")
    lab.boot(victim)
    undone.cluster.ready([victim])
    last = undone.rollout()
    assert last.status == 0, last.words
    assert undone.converged() == set(NODES)
    assert {name: undone.standing(name) for name in NODES} == dict.fromkeys(NODES, (True, {}))
