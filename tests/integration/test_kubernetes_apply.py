# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is rendered, on a real API: announced, applied, unchanged the second time, taken back; what
others keep stays as it is.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from tests.integration.kube import CONFIG_LABEL, CONFIG_MAP, NAMESPACE, Kube
from tests.tools.onlab import Run

pytestmark = pytest.mark.lab

NODE, DROP_IN = "native", "/etc/containerd/conf.d/90-gpufleet.toml"
OURS = "gpufleet.nvidia"
TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
TEAM = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "team", "namespace": NAMESPACE},
    "data": {"any": "thing"},
}

HELMS = {
    "apiVersion": "node.k8s.io/v1",
    "kind": "RuntimeClass",
    "metadata": {
        "name": "nvidia",
        "labels": {"app.kubernetes.io/managed-by": "Helm"},
        "annotations": {
            "meta.helm.sh/release-name": "gpu-operator",
            "meta.helm.sh/release-namespace": "gpu-operator",
        },
    },
    "handler": "nvidia",
}


def state(kube: Kube) -> dict[str, Any]:
    """All that the playbook could write: labels, annotations and taints of nodes, ConfigMaps,
    RuntimeClass objects, namespaces.
    """
    nodes = {
        node["metadata"]["name"]: (node["metadata"]["labels"], marks(node), taints(node))
        for node in kube.cluster.get("nodes")["items"]
    }
    others = kube.cluster.get("configmaps,runtimeclasses,namespaces", "--all-namespaces")["items"]
    return {
        "nodes": nodes,
        **{
            f"{o['kind']} {o['metadata']['name']}": (o.get("data"), o.get("handler"))
            for o in others
        },
    }


def marks(node: Any) -> dict[str, str]:
    return {
        key: text
        for key, text in node["metadata"]["annotations"].items()
        if key.startswith(f"{OURS}/")
    }


def taints(node: Any) -> list[Any]:
    """Without those of the cluster's own controllers, which come and go as kubelets report: their
    engines have just been restarted.
    """
    return [
        taint
        for taint in node["spec"].get("taints", [])
        if not taint["key"].startswith("node.kubernetes.io/")
    ]


def differences(run: Run) -> Any:
    """Of the one task that runs on the controller; its result is that of the play's first host."""
    assert run.status == 0, run.words
    ((_host, result),) = run.of("kubernetes_objects").items()
    return result["differences"]


@pytest.fixture(scope="module")
def before(kube: Kube) -> dict[str, Any]:
    """The cluster as others have made it."""
    kube.cluster.apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}, TEAM, HELMS
    )
    kube.cluster.kubectl("label", f"node/{NODE}", "team=physics")
    kube.cluster.kubectl("taint", "node", NODE, "team=physics:PreferNoSchedule")
    return state(kube)


# One node alone, for time's sake: the pods' tests apply what is rendered for all.
ALONE: dict[str, Any] = {
    "nodes": [NODE],
    "gpufleet_kubernetes_taints": ["nvidia.com/gpu=present:NoSchedule"],
}


def test_what_check_mode_announces_is_done_once_and_taken_back(
    kube: Kube, before: dict[str, Any]
) -> None:
    helms = kube.cluster.get("runtimeclass", "nvidia")
    announced = differences(kube.apply("--check", **ALONE))
    assert state(kube) == before
    assert announced
    applied = kube.apply(**ALONE)
    assert differences(applied) == announced
    after = state(kube)
    labels, annotations, tainted = after["nodes"].pop(NODE)
    assert labels.items() > before["nodes"][NODE][0].items()
    assert list(after[f"ConfigMap {CONFIG_MAP}"][0]) == [labels[CONFIG_LABEL]]
    assert (
        json.loads(annotations[f"{OURS}/decision"])["device_list_strategy"]
        == kube.said(NODE)["deviceListStrategy"]
    )
    assert TAINT in tainted
    assert after["nodes"].items() <= before["nodes"].items()
    assert "the RuntimeClass nvidia is there already, from Helm" in " ".join(applied.words.split())
    assert differences(kube.apply(**ALONE)) == []
    assert state(kube)["nodes"][NODE] == (labels, annotations, tainted)

    taken = kube.apply(**ALONE, gpufleet_kubernetes_state="absent")
    assert differences(taken) != []
    assert state(kube) == before
    assert kube.cluster.get("runtimeclass", "nvidia") == helms, "nobody has written it since"
    kube.cluster.kubectl("delete", "runtimeclass", "nvidia")


def test_a_cluster_that_cannot_be_reached_is_one_sentence(kube: Kube) -> None:
    wrong = yaml.safe_load(kube.cluster.kubeconfig.read_text())
    wrong["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
    elsewhere = kube.cluster.place / "elsewhere.kubeconfig"
    elsewhere.write_text(json.dumps(wrong))
    before = state(kube)
    run = kube.apply(nodes=[NODE], gpufleet_kubernetes_kubeconfig=str(elsewhere))
    assert run.status != 0
    ((_host, result),) = run.of("kubernetes_objects").items()
    assert result["msg"].startswith(f"cluster lab (kubeconfig {elsewhere}): ")
    assert result["msg"].endswith("[kubernetes-api.no-answer]")
    assert "ConfigMap" in result["msg"]
    assert "\n" not in result["msg"]
    assert "Traceback" not in run.words
    assert state(kube) == before


BOTH, NEW = ["cdi-cri", "envvar"], ["envvar"]


def kept(kube: Kube, *what: str) -> list[dict[str, Any]]:
    """Tasks that keep what the cluster says at that moment, for `said`."""
    kubectl = [
        str(kube.cluster.programs / "kubectl"),
        f"--kubeconfig={kube.cluster.kubeconfig}",
        "get",
        *what,
        "--output=json",
    ]
    copy = {
        "content": "{{ found.stdout }}",
        "dest": str(kube.cluster.place / what[0]),
        "mode": "0600",
    }
    here = {"delegate_to": "localhost", "become": False}
    return [
        {"ansible.builtin.command": {"argv": kubectl}, "register": "found", **here},
        {"ansible.builtin.copy": copy, **here},
    ]


@pytest.mark.nightly(
    "its six plays take as long as all others of this part; unit tests have the plugin's settings between two changes"
)
def test_a_rollout_tells_the_cluster_before_and_after_the_change_of_a_host(kube: Kube) -> None:
    """From CDI to the legacy runtime no order alone keeps the GPUs, so the plugin uses both ways
    until the host is changed.
    """
    kube.apply(nodes=[NODE])
    assert kube.said(NODE)["deviceListStrategy"] == ["cdi-cri"]
    before = kube.cluster.place / "before.yml"
    before.write_text(
        yaml.safe_dump(
            [
                *kept(kube, "node", NODE),
                *kept(kube, "configmap", CONFIG_MAP, f"--namespace={NAMESPACE}"),
            ]
        )
    )
    settings = {"gpufleet_cdi": "disabled", "gpufleet_rollout_tasks": {"before": str(before)}}
    run = kube.rollout(NODE, gpufleet_rollout_plugin_wait=0, **settings)
    assert run.status == 0, run.words
    node, config_map = (
        json.loads((kube.cluster.place / what).read_text()) for what in ("node", "configmap")
    )
    between = yaml.safe_load(config_map["data"][node["metadata"]["labels"][CONFIG_LABEL]])
    assert between["flags"]["plugin"]["deviceListStrategy"] == BOTH
    assert kube.said(NODE)["deviceListStrategy"] == NEW
    back = kube.rollout(NODE, gpufleet_rollout_plugin_wait=0)
    assert back.status == 0, back.words
    assert kube.said(NODE)["deviceListStrategy"] == ["cdi-cri"]
    # The default handler stays until somebody says that the plugin uses CDI: the line of our own
    # drop-in goes then.
    last = kube.rollout(
        NODE, gpufleet_rollout_plugin_wait=0, gpufleet_device_plugin_strategy=["cdi-cri"]
    )
    assert last.status == 0, last.words
    assert "default_runtime_name" not in kube.fleet.text(NODE, DROP_IN)
    # As for the other tests, where nobody says it: the handler is not the default one, and stays
    # so.
    assert kube.rollout(NODE, gpufleet_rollout_plugin_wait=0).status == 0
    assert "default_runtime_name" not in kube.fleet.text(NODE, DROP_IN)
    kube.plugin(NODE)
    kube.alone(NODE)
