# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a real API server makes of what is applied: whose each field is, what is refused, and what
is left when it is taken back.

The nodes are objects alone, without a kubelet, and the looks at their hosts are given.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.integration.conftest import Boot
from tests.lab.kubernetes import Cluster
from tests.lab.lab import Lab
from tests.tools.onlab import ROOT
from tests.unit.cluster_hosts import fallback, native
from tests.unit.playbooks.bare import written
from tests.unit.tool_modules import imported

pytestmark = pytest.mark.lab

CONFIG_LABEL = "nvidia.com/device-plugin.config"
NODES = {"gpu1": native, "old1": fallback}
THEIRS = {"key": "team", "value": "ml", "effect": "NoSchedule"}
OURS = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}


class Api:
    """The API server, and the role's task beside it."""

    def __init__(
        self, lab: Lab, cluster: Cluster, place: Path, python: Path, collections: Path
    ) -> None:
        self.lab = lab
        self.cluster = cluster
        self.place = place
        self.python = python
        self.collections = collections

    def play(
        self, *flags: str, looks: dict[str, Any] | None = None, **settings: Any
    ) -> tuple[int, bool, str]:
        """Run the role on looks: exit status, whether it has changed anything, words."""
        local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
        own = {
            "gpufleet_kubernetes_apply": True,
            "gpufleet_kubernetes_kubeconfig": str(self.cluster.kubeconfig),
            **settings,
        }
        found = {name: of() for name, of in NODES.items()} if looks is None else looks
        hosts = {
            name: {**local, **own, "gpufleet_cluster": "lab", "gpufleet_host_info": look}
            for name, look in found.items()
        }
        hosts["localhost"] = {**local, "ansible_python_interpreter": str(self.python)}
        inventory = written(self.place / "hosts.json", json.dumps({"all": {"hosts": hosts}}))
        roles = [{"import_role": {"name": "gpufleet.nvidia.kubernetes"}}]
        book = written(
            self.place / "play.yml",
            yaml.safe_dump([{"hosts": ",".join(found), "gather_facts": False, "tasks": roles}]),
        )
        program = Path(sys.executable).with_name("ansible-playbook")
        paths = f"{ROOT / '.cache/collections'}:{self.collections}"
        command = self.lab.inside(
            [
                "env",
                f"ANSIBLE_COLLECTIONS_PATH={paths}",
                str(program),
                "-i",
                str(inventory),
                str(book),
                *flags,
            ]
        )
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=self.place)
        words = done.stdout + done.stderr
        assert "Traceback" not in words, words
        return done.returncode, "changed: [" in words, " ".join(words.split())

    def node(self, name: str) -> tuple[dict[str, str], set[str], list[dict[str, str]]]:
        """Labels, names of this collection's annotations, and taints, without those of the
        cluster's own controllers.
        """
        found = self.cluster.get("node", name)
        metadata = found["metadata"]
        annotations = {
            key for key in metadata.get("annotations", {}) if key.startswith("gpufleet.nvidia/")
        }
        taints = [
            taint
            for taint in found["spec"].get("taints", [])
            if not taint["key"].startswith("node.kubernetes.io/")
        ]
        return metadata.get("labels", {}), annotations, taints

    def fixed(self) -> dict[str, Any]:
        """All that could have been changed, without what the controllers of the cluster write to
        nodes.
        """
        listed = self.cluster.get("configmaps,runtimeclasses,namespaces", "--all-namespaces")[
            "items"
        ]
        objects = {
            f"{i['kind']} {i['metadata']['name']}": i["metadata"]["resourceVersion"] for i in listed
        }
        return {**objects, **{name: self.node(name) for name in NODES}}


@pytest.fixture(scope="module")
def api(lab: Lab, boot: Boot, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    boot({"beside": {"kind": "containerd-2.3"}})  # a lab has a network where it has a host
    cluster = Cluster(lab, tmp_path_factory.mktemp("kubernetes"))
    cluster.start([])
    for name in NODES:
        spec = {"taints": [THEIRS]} if name == "gpu1" else {}
        cluster.apply(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": name, "labels": {"team": "ml"}},
                "spec": spec,
            }
        )
    for module in imported("kubernetes_core"):
        python = module.environments.ensure("kubernetes") / "python"
        yield Api(lab, cluster, tmp_path_factory.mktemp("controller"), python, module.ensure())


def test_it_is_applied_once_and_what_others_wrote_stays(api: Api) -> None:
    before = {name: api.node(name) for name in NODES}
    settings = {"gpufleet_kubernetes_taints": ["nvidia.com/gpu=present:NoSchedule"]}
    status, changed, words = api.play(**settings)
    assert (status, changed) == (0, True), words
    data = api.cluster.get(
        "configmap", "gpufleet-device-plugin", "--namespace=nvidia-device-plugin"
    )["data"]
    groups = {name: api.node(name)[0][CONFIG_LABEL] for name in NODES}
    assert set(data) == set(groups.values())
    assert yaml.safe_load(data[groups["old1"]])["flags"]["plugin"]["deviceListStrategy"] == [
        "envvar",
        "cdi-annotations",
    ]
    labels, annotations, taints = api.node("gpu1")
    assert labels.items() >= before["gpu1"][0].items()
    assert annotations == {
        f"gpufleet.nvidia/{name}" for name in ("decision", "decision-digest", "taints")
    }
    assert taints == [THEIRS, OURS]
    assert api.play(**settings)[:2] == (0, False)

    # A host that gave no answer keeps what its node has, and a label that somebody has removed is
    # drift.
    api.cluster.kubectl("label", "node", "gpu1", f"{CONFIG_LABEL}-")
    status, changed, words = api.play(
        "--check",
        looks={"gpu1": native(), "old1": {"unreachable": True, "msg": "timed out"}},
        **settings,
    )
    assert (status, changed) == (0, True), words
    assert (
        "would change: Node gpu1: the label nvidia.com/device-plugin.config chooses the node's group"
        in words
    )
    assert "old1: lost: timed out" in words
    assert "ConfigMap" not in words

    status, changed, words = api.play(gpufleet_kubernetes_state="absent")
    assert (status, changed) == (0, True), words
    assert {name: api.node(name) for name in NODES} == before
    assert api.cluster.get("runtimeclasses")["items"] == []
    assert "gpufleet-device-plugin" not in api.cluster.kubectl(
        "get", "configmaps", "--all-namespaces"
    )


def test_what_it_must_not_do_is_refused_with_nothing_changed(api: Api) -> None:
    """A label of a person's, an API that does not answer; an object of Helm's is left to it."""
    metadata = {"name": "nvidia", "labels": {"app.kubernetes.io/managed-by": "Helm"}}
    api.cluster.apply(
        {
            "apiVersion": "node.k8s.io/v1",
            "kind": "RuntimeClass",
            "metadata": metadata,
            "handler": "nvidia",
        }
    )
    api.cluster.kubectl("label", "node", "gpu1", f"{CONFIG_LABEL}=mine", "--overwrite")
    dead = written(
        api.place / "dead.kubeconfig", api.cluster.kubeconfig.read_text().replace(":6443", ":1")
    )
    before = api.fixed()
    cases: dict[str, dict[str, Any]] = {
        "the node gpu1 has nvidia.com/device-plugin.config=mine from kubectl-label, and its group is native-cdi-": {},
        "the Kubernetes API does not answer": {"gpufleet_kubernetes_kubeconfig": str(dead)},
    }
    for sentence, given in cases.items():
        status, changed, words = api.play(**given)
        assert (status, changed, sentence in words) == (2, False, True), words
    status, _changed, words = api.play("--check", looks={"old1": fallback()})
    assert (
        status,
        "the RuntimeClass nvidia is there already, from Helm, and stays as it is" in words,
    ) == (0, True), words
    assert api.fixed() == before
