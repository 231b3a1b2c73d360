# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What follows for a cluster from its hosts' decisions: groups, the plugin's file, labels,
RuntimeClass objects, and who is in none.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster import (
    groups,
    members,
    objects,
    settings,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    get_code,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Kubelet

from tests.unit.cluster_hosts import fallback, hook, hosts, looked, native, rendered

NO_KUBELET = Kubelet()
INSTALLED = Kubelet(installed=True)

# A host -> what the device plugin is set to there.
PLUGIN: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "the engine resolves CDI": (
        native(),
        {"deviceListStrategy": ["cdi-cri"], "deviceIDStrategy": "uuid", "nvidiaCTKPath": "/usr/bin/nvidia-ctk"},
    ),
    "its kubelet is older than the field": (
        looked(kubelet=Kubelet(present=True, version="1.28.9", endpoint="x")),
        {
            "deviceListStrategy": ["cdi-annotations"],
            "deviceIDStrategy": "uuid",
            "cdiAnnotationPrefix": "cdi.k8s.io/",
            "nvidiaCTKPath": "/usr/bin/nvidia-ctk",
        },
    ),
    "the NVIDIA runtime does it": (
        fallback(),
        {
            "deviceListStrategy": ["envvar", "cdi-annotations"],
            "deviceIDStrategy": "uuid",
            "cdiAnnotationPrefix": "nvidia.cdi.k8s.io/",
            "nvidiaCTKPath": "/usr/bin/nvidia-ctk",
        },
    ),
    "without CDI": (looked(cdi="disabled"), {"deviceListStrategy": ["envvar"], "deviceIDStrategy": "uuid"}),
    "by an OCI hook": (hook(), {"deviceListStrategy": ["envvar"], "deviceIDStrategy": "uuid"}),
}  # fmt: skip


@pytest.mark.parametrize("case", PLUGIN)
def test_the_plugin_is_set_to_what_the_host_can_do(case: str) -> None:
    result, plugin = PLUGIN[case]
    (group,) = rendered({"gpu1": result}).groups
    assert yaml.safe_load(group.text) == {
        "version": "v1",
        "flags": {"migStrategy": "none", "nvidiaDriverRoot": "/", "plugin": plugin},
    }


def test_hosts_with_equal_decisions_are_one_group() -> None:
    found = rendered(
        {"gpu1": native(), "gpu2": native(), "gpu10": looked("crio", "1.34.2"), "old1": fallback()}
    )
    assert [[m.host for m in group.members] for group in found.groups] == [
        ["gpu1", "gpu2", "gpu10"],
        ["old1"],
    ]
    labels = {
        n["metadata"]["name"]: n["metadata"]["labels"][objects.CONFIG_LABEL] for n in found.nodes
    }
    assert found.config_map is not None
    assert set(labels.values()) == set(found.config_map["data"])
    assert labels["gpu1"] == labels["gpu10"] != labels["old1"]


def test_a_group_is_called_by_its_content() -> None:
    """The plugin's sidecar looks at the label alone: other content under the same name would never
    be read.
    """
    one, same = rendered({"gpu1": native()}).groups[0], rendered({"other": native()}).groups[0]
    (another,) = objects.render_cluster(
        "north",
        hosts({"gpu1": native()}, gpu1=members.OfInventory(device_ids="index")),
        objects.ClusterSettings(),
    ).groups
    assert one.name == same.name
    assert one.name != another.name
    assert all(len(group.name) <= objects.LONGEST_LABEL for group in (one, another))


CLASSES: dict[str, tuple[dict[str, dict[str, Any]], list[tuple[str, dict[str, Any] | None]]]] = {
    "all hosts have the handler": ({"a": native(), "b": fallback()}, [("nvidia", None)]),
    "some have it": (
        {"a": native(), "b": hook()},
        [("nvidia", {"nodeSelector": {"gpufleet.nvidia/handler-nvidia": "true"}})],
    ),
    "the hook needs none": ({"a": hook()}, []),
}


@pytest.mark.parametrize("case", CLASSES)
def test_a_runtime_class_is_there_for_each_handler(case: str) -> None:
    results, classes = CLASSES[case]
    found = objects.build_runtime_classes(
        groups.group_members(m for m in hosts(results) if isinstance(m, members.ClusterMember)),
        objects.Kept(),
    )
    assert [(c["handler"], c.get("scheduling")) for c in found] == classes


# A result -> why the host is in no group, and whether that is its own word.
LEFT_OUT: dict[str, tuple[dict[str, Any], str, bool]] = {
    "not reached": ({}, "not reached", False),
    "lost": (
        {"unreachable": True, "msg": "ssh: timed\r\n out.\r\n"},
        "lost: ssh: timed out.",
        False,
    ),
    "refused": ({**native(), "problem": "line 3: no TOML"}, "refused: line 3: no TOML", False),
    "no GPU": (
        {**native(), "decision": {"skipped": "no GPU: none in procfs"}},
        "no GPU: none in procfs",
        True,
    ),
    "no kubelet": (
        looked(kubelet=NO_KUBELET),
        "no kubelet is there. If the host is a node, name its cluster in gpufleet_cluster",
        True,
    ),
    "its Kubernetes is stopped": (
        {**looked(kubelet=NO_KUBELET), "instances": [{"key": "k", "manager": "k3s"}]},
        "its Kubernetes does not run",
        False,
    ),
    "only a result of a change": (
        {"decision": {}, "changed": True},
        "it was not looked at by host_info",
        False,
    ),
    "its engine is the operator's": (
        {
            **native(),
            "decision": {"decisions": [], "refused": [["k", "the GPU Operator configures it"]]},
        },
        "the GPU Operator configures it",
        False,
    ),
    "a strategy that there is not": (
        {
            **native(),
            "decision": {
                "decisions": [
                    {
                        "device_list_strategy": ["evil\n"],
                        "instance": native()["instances"][0]["key"],
                    }
                ]
            },
        },
        "its decision has a value that Kubernetes does not take: evil\\n",
        False,
    ),
}


@pytest.mark.parametrize("case", LEFT_OUT)
def test_a_host_that_is_no_node_with_gpus_has_its_row(case: str) -> None:
    result, why, gone = LEFT_OUT[case]
    (found,) = hosts({"gpu1": result})
    assert found == members.LeftOut("gpu1", "gpu1", "default", why, gone)


def test_an_image_is_a_node_where_the_inventory_says_so() -> None:
    """A kubelet may come into an image later; on a host that runs there is one, or there is none."""
    image = {**looked(kubelet=NO_KUBELET), "work": {"hostname": ""}}
    declared = members.OfInventory(cluster="north")
    assert isinstance(hosts({"gpu1": image}, gpu1=declared)[0], members.ClusterMember)
    assert isinstance(
        hosts({"gpu1": looked(kubelet=NO_KUBELET)}, gpu1=declared)[0], members.LeftOut
    )
    assert isinstance(
        hosts({"gpu1": {**image, "kubelet": INSTALLED.__dict__}})[0], members.ClusterMember
    )


def test_a_lost_host_is_of_the_only_cluster_and_of_none_of_several() -> None:
    """Only its kubelet's CA says which cluster a host is of where the inventory does not."""
    north, south, lost = (
        {**native(), "work": {"hostname": "h", "cluster": c}} for c in ("ca-north", "ca-south", "")
    )
    one = objects.group_hosts_by_cluster(hosts({"gpu1": north, "gpu2": {}}))
    assert {name: [h.host for h in of] for name, of in one.items()} == {
        "ca-north": ["gpu1", "gpu2"]
    }
    several = objects.group_hosts_by_cluster(hosts({"gpu1": north, "gpu2": {}, "gpu3": south}))
    assert {name: [h.host for h in of] for name, of in several.items()} == {
        "ca-north": ["gpu1"],
        "ca-south": ["gpu3"],
        "default": ["gpu2"],
    }
    assert objects.is_without_cluster(several)
    assert not objects.is_without_cluster(
        objects.group_hosts_by_cluster(hosts({"gpu1": north, "gpu3": south}))
    )
    assert not objects.is_without_cluster(objects.group_hosts_by_cluster(hosts({"gpu1": {}})))
    assert not objects.is_without_cluster(
        objects.group_hosts_by_cluster(hosts({"gpu1": north, "gpu2": lost, "gpu3": south}))
    )


def test_what_this_run_knows_nothing_of_stays() -> None:
    """A node whose host gave no answer keeps its label, so its file and its RuntimeClass stay, too."""
    before = rendered({"old1": fallback(), "gpu1": native()})
    (old,) = (n for n in before.nodes if n["metadata"]["name"] == "old1")
    assert before.config_map is not None
    kept = objects.Kept({"old1": old["metadata"]["labels"]}, before.config_map["data"])
    after = rendered({"gpu1": native(), "old1": {}}, kept)
    assert after.config_map == before.config_map
    assert [n["metadata"]["name"] for n in after.nodes] == ["gpu1"]
    gone = rendered({"gpu1": native()})
    assert gone.config_map is not None
    assert len(gone.config_map["data"]) == 1


def test_words_of_a_host_are_data() -> None:
    hostile = looked(version="2.3.7")
    hostile["decision"]["decisions"][0]["engine_version"] = (
        "2.3.7\n---\nkind: Secret\x1b[31m{{ lookup('env', 'HOME') }}"
    )
    (node,) = rendered({"gpu1": hostile}).nodes
    said = node["metadata"]["annotations"][objects.DECISION]
    assert (
        json.loads(said)["engine_version"]
        == "2.3.7\\n---\\nkind: Secret\\x1b[31m{{ lookup('env', 'HOME') }}"
    )


TWO = {"gpu1": native(), "old1": fallback()}
REFUSED: dict[str, tuple[dict[str, dict[str, Any]], dict[str, Any], str]] = {
    "a value for all over different decisions": (
        TWO,
        {"values": {"deviceListStrategy": "cdi-cri"}},
        "gpufleet_kubernetes_values sets deviceListStrategy to 'cdi-cri' for the whole cluster, and the decision is another one: envvar",
    ),
    "an engine too old for the operator": (
        TWO,
        {"profile": "operator"},
        "nvidia-runtime does not understand DEVICE_LIST_STRATEGY=cdi-anno",
    ),
    "the variable, where it is for privileged containers alone": (
        {"old1": fallback(isolation="strict")},
        {"profile": "operator", "environment": {"DEVICE_LIST_STRATEGY": "envvar"}},
        "cdi.k8s.io/; pods that name no RuntimeClass get GPUs there by cdi-annotations.",
    ),
    "another ConfigMap than the one that is written": (
        {"gpu1": native()},
        {"values": {"config": {"name": "mine"}}},
        "sets config.name to 'mine', and gpufleet_kubernetes_config_map makes it 'gpufleet-device-plugin'",
    ),
    "another strategy of MIG than hosts are judged by": (
        {"gpu1": native()},
        {"profile": "operator", "values": {"mig": {"strategy": "mixed"}}},
        "Take mig.strategy out, and set gpufleet_kubernetes_operator_environment.MIG_STRATEGY",
    ),
    "a variable of the plugin among the operator's values": (
        {"gpu1": native()},
        {
            "profile": "operator",
            "values": {
                "devicePlugin": {"env": [{"name": "DEVICE_LIST_STRATEGY", "value": "envvar"}]}
            },
        },
        "gpufleet_kubernetes_values sets DEVICE_LIST_STRATEGY in devicePlugin.env",
    ),
    "claims instead of the device plugin (gpu-operator 26.7)": (
        {"gpu1": native()},
        {"profile": "operator", "values": {"gpuCluster": {"deployCR": True}}},
        "gpufleet_kubernetes_values sets gpuCluster.deployCR to True",
    ),
    "no device plugin": (
        {"gpu1": native()},
        {"profile": "operator", "values": {"clusterPolicy": {"deployCR": False}}},
        "gpufleet_kubernetes_values sets clusterPolicy.deployCR to False",
    ),
    "another name of devices than the operator's": (
        {"gpu1": native()},
        {"profile": "operator", "environment": {"DEVICE_ID_STRATEGY": "index"}},
        "gpufleet_kubernetes_device_ids is uuid, and DEVICE_ID_STRATEGY=index",
    ),
    "a variable that the plugin has not": (
        {"gpu1": native()},
        {"environment": {"DEVICE_LIST": "x"}},
        "has the unknown name 'DEVICE_LIST'",
    ),
    "two ways for the plugin's own pods": (
        {"gpu1": native(), "c1": hook()},
        {},
        "runtimeClassName differs: ",
    ),
    "a taint without an effect": (
        {"gpu1": native()},
        {"taints": ("nvidia.com/gpu",)},
        "gpufleet_kubernetes_taints has 'nvidia.com/gpu'",
    ),
    "uniform, and two engines": (
        {"gpu1": native(), "c1": looked("crio", "1.34.2")},
        {"uniform": True},
        "mixed container engines in the cluster north: containerd on gpu1; crio on c1",
    ),
    "uniform, and an old host": (
        TWO,
        {"uniform": True},
        "Set gpufleet_injection: nvidia-runtime for all, upgrade old1, or set",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_one_value_for_different_decisions_is_refused(case: str) -> None:
    results, settings, words = REFUSED[case]
    with pytest.raises(PlanError) as refused:
        rendered(results, **settings)
    assert words in str(refused.value)


def test_the_chart_leaves_unset_what_differs() -> None:
    values = rendered(TWO).values.values
    assert {
        name: values[name] for name in ("deviceListStrategy", "deviceIDStrategy", "migStrategy")
    } == dict.fromkeys(("deviceListStrategy", "deviceIDStrategy", "migStrategy"))
    assert (values["config"]["name"], values["runtimeClassName"], values["nvidiaDriverRoot"]) == (
        "gpufleet-device-plugin",
        "nvidia",
        "/",
    )


def test_the_operators_files_hold_what_its_environment_does_not_say() -> None:
    found = rendered({"gpu1": native()}, profile="operator")
    assert yaml.safe_load(found.groups[0].text) == {
        "version": "v1",
        "flags": {"plugin": {"nvidiaCTKPath": "/usr/bin/nvidia-ctk"}},
    }
    assert found.values.values["toolkit"] == {"enabled": False}
    assert found.values.values["driver"] == {"enabled": False}
    assert found.nodes[0]["metadata"]["labels"][objects.TOOLKIT_LABEL] == "false"


def test_own_values_are_added_to_what_is_rendered() -> None:
    own = {
        "devicePlugin": {"env": [{"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "all"}]},
        "mig": {"strategy": "single"},
        "nfd": {"enabled": False},
    }
    values = rendered(
        {"gpu1": native()},
        profile="operator",
        values=own,
        environment={"PASS_DEVICE_SPECS": "false"},
    ).values.values
    assert [entry["name"] for entry in values["devicePlugin"]["env"]] == [
        "PASS_DEVICE_SPECS",
        "NVIDIA_DRIVER_CAPABILITIES",
    ]
    assert (values["devicePlugin"]["config"]["name"], values["nfd"]) == (
        "gpufleet-device-plugin",
        {"enabled": False},
    )


def test_an_old_host_fits_the_operator_where_its_runtime_answers_the_operators_prefix() -> None:
    """Nobody else answers `cdi.k8s.io/` there; on an engine that resolves CDI the runtime stays
    with its own prefix.
    """
    prefix = "cdi.k8s.io/"
    found = rendered(
        {
            "gpu1": looked(device_plugin_prefix=prefix),
            "old1": fallback(device_plugin_prefix=prefix),
        },
        profile="operator",
    )
    answers = {m.host: m.answers for m in found.members}
    assert answers == {"gpu1": ("nvidia.cdi.k8s.io/",), "old1": ("nvidia.cdi.k8s.io/", prefix)}
    assert {group.injection: group.setting.prefix for group in found.groups} == {
        "native-cdi": "",
        "nvidia-runtime": prefix,
    }


def test_names_that_cannot_be_are_refused() -> None:
    with pytest.raises(PlanError, match="Set gpufleet_kubernetes_node for GPU_1"):
        hosts({"GPU_1": native()})
    with pytest.raises(PlanError, match=r"gpu1 and gpu2 .* default\. .*\[cluster.same-node\]$"):
        hosts(
            {"gpu1": native(), "gpu2": native()},
            gpu1=members.OfInventory(node="same"),
            gpu2=members.OfInventory(node="same"),
        )
    with pytest.raises(PlanError, match=r"\[cluster.name\]$"):
        hosts({"gpu1": native()}, gpu1=members.OfInventory(cluster="../etc"))
    with pytest.raises(PlanError, match="North for gpu1 and north for gpu2") as refused:
        hosts(
            {"gpu1": native(), "gpu2": {}},
            gpu1=members.OfInventory(cluster="North"),
            gpu2=members.OfInventory(cluster="north"),
        )
    assert refused.value.code == "cluster.same-directory"
    with pytest.raises(
        PlanError, match=r"Default for gpu1 and default for gpu2 .*\[cluster.same-directory\]$"
    ):
        hosts({"gpu1": native(), "gpu2": native()}, gpu1=members.OfInventory(cluster="Default"))


def test_a_host_without_a_cluster_gets_no_node_of_the_one_cluster_twice() -> None:
    """Without GPUs, it would take the labels from a node that another host has."""
    none = {**native(), "decision": {"skipped": "no GPU"}}
    found = hosts(
        {"gpu1": native(), "gpu2": none},
        gpu1=members.OfInventory(cluster="north", node="same"),
        gpu2=members.OfInventory(node="same"),
    )
    with pytest.raises(PlanError, match=r"gpu1 and gpu2 .* north\. .*\[cluster.same-node\]$"):
        objects.group_hosts_by_cluster(found)


BAD: dict[str, tuple[str, Any, str]] = {
    "a directory elsewhere": ("gpufleet_cluster", "../etc", "cluster.name"),
    "no name of a node": ("gpufleet_kubernetes_node", "GPU 1", "kubernetes.node-name-invalid"),
    "no way to call devices": ("gpufleet_kubernetes_device_ids", "name", "cluster.choice"),
    "no strategy": ("gpufleet_kubernetes_mig_strategy", "auto", "cluster.choice"),
    "no path": ("gpufleet_kubernetes_hook", "nvidia-ctk", "cluster.hook-path"),
    "no taint": ("gpufleet_kubernetes_taints", ["gpu:Maybe"], "cluster.taint"),
    "a blank in a key": ("gpufleet_kubernetes_taints", ["foo bar=x:NoSchedule"], "cluster.taint"),
    "a colon in a value": ("gpufleet_kubernetes_taints", ["gpu=a:b:NoSchedule"], "cluster.taint"),
    "a prefix in capitals": (
        "gpufleet_kubernetes_taints",
        ["Nvidia.com/gpu=x:NoSchedule"],
        "cluster.taint",
    ),
    "one taint twice": (
        "gpufleet_kubernetes_taints",
        ["gpu=a:NoSchedule", "gpu=b:NoSchedule"],
        "cluster.two-taints",
    ),
    "no variable of the plugin": (
        "gpufleet_kubernetes_operator_environment",
        {"FOO": "x"},
        "helm.unknown-environment",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_a_wrong_setting_is_one_message_before_a_host_is_looked_at(case: str) -> None:
    name, value, code = BAD[case]
    (message,) = settings.list_cluster_setting_problems(
        {**dict.fromkeys(settings.RULES, ""), name: value}
    )
    assert message.code == code
    assert message.startswith(f"{name} ")


TAINTS_AS_KUBECTL_WRITES_THEM = {
    "nvidia.com/gpu=present:NoSchedule": {
        "key": "nvidia.com/gpu",
        "value": "present",
        "effect": "NoSchedule",
    },
    "gpu:NoExecute": {"key": "gpu", "effect": "NoExecute"},
    "gpu=:PreferNoSchedule": {"key": "gpu", "effect": "PreferNoSchedule"},
    "a.b-c.io/A_b.c=x_y.z-1:NoSchedule": {
        "key": "a.b-c.io/A_b.c",
        "value": "x_y.z-1",
        "effect": "NoSchedule",
    },
}


def test_taints_as_kubectl_writes_them() -> None:
    texts = TAINTS_AS_KUBECTL_WRITES_THEM
    assert objects.parse_taints(texts) == tuple(texts.values())


@pytest.mark.parametrize(
    ("strategy", "said"), [("mixed", True), ("single", False), ("none", False)]
)
@pytest.mark.parametrize("profile", ["chart", "operator"])
def test_the_names_of_mig_devices_are_said_where_they_have_some(
    profile: str, strategy: str, said: bool
) -> None:
    """k8s-device-plugin pull request 1807: before 0.20.0 a profile with a suffix had none."""
    found = objects.render_cluster(
        "north",
        hosts({"gpu1": native()}, gpu1=members.OfInventory(mig=strategy)),
        objects.ClusterSettings(profile=profile, environment={"MIG_STRATEGY": strategy}),
    )
    assert ("helm.mig-names" in {get_code(line) for line in found.values.why}) == said


def test_mig_devices_need_a_word_of_the_user() -> None:
    divided = native()
    divided["driver"]["gpus"][0]["migs"] = 2
    with pytest.raises(PlanError, match=r"gpu1 .*\[cluster.mig-strategy-missing\]$"):
        hosts({"gpu1": divided})
    (m,) = hosts({"gpu1": divided}, gpu1=members.OfInventory(mig="mixed"))
    assert isinstance(m, members.ClusterMember)
    assert m.setting.mig == "mixed"
