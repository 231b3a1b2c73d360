# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is done in a cluster, by what is there: nothing twice, nothing of others, and a label only
where its configuration is.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster import (
    groups,
    live,
    objects,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError

from tests.unit.cluster_hosts import fallback, hosts, native, rendered
from tests.unit.cluster_objects import by, doing, empty, made, node

SETTINGS = objects.ClusterSettings()
TWO = {"gpu1": native(), "old1": fallback()}
TAINT = "nvidia.com/gpu=present:NoSchedule"


def after(wanted: objects.RenderedCluster) -> live.Live:
    """The cluster once all of it was applied."""
    nodes = {
        n["metadata"]["name"]: made(
            {**node(n["metadata"]["name"]), "metadata": {**n["metadata"], "uid": "u"}}
        )
        for n in wanted.nodes
    }
    classes = {c["metadata"]["name"]: made(c) for c in wanted.classes}
    return live.Live(nodes, made(wanted.config_map) if wanted.config_map else None, classes, True)


def test_a_new_cluster_gets_what_labels_name_before_the_labels() -> None:
    plan = live.plan_cluster(rendered(TWO), empty("gpu1", "old1", namespace=False), SETTINGS)
    assert doing(plan) == [
        "make the namespace nvidia-device-plugin",
        "write the ConfigMap",
        "write the RuntimeClass nvidia",
        "label the nodes",
    ]
    nodes = plan.calls[-1].arguments["resource_definition"]
    assert [n["metadata"]["uid"] for n in nodes] == ["uid-gpu1", "uid-old1"], (
        "a node that is gone meanwhile is not made by its label"
    )


def test_what_is_there_is_not_done_again() -> None:
    wanted = rendered(TWO)
    assert live.plan_cluster(wanted, after(wanted), SETTINGS) == live.ClusterPlan()


@pytest.mark.parametrize(
    ("finalizers", "holder"),
    [(["acme.example/hold"], "acme.example/hold"), ([], "another person or program")],
)
def test_nothing_is_written_into_a_config_map_that_is_being_deleted(
    finalizers: list[str], holder: str
) -> None:
    wanted = rendered(TWO)
    there = after(wanted)
    assert there.config_map
    there.config_map["metadata"].update(
        deletionTimestamp="2026-01-31T16:58:44Z", finalizers=finalizers
    )
    with pytest.raises(PlanError) as refused:
        live.plan_cluster(wanted, there, SETTINGS)
    assert refused.value.code == "cluster.being-deleted"
    assert refused.value.values == {
        "object": "ConfigMap nvidia-device-plugin/gpufleet-device-plugin",
        "holder": holder,
    }


def test_an_annotation_alone_that_is_another_one_is_named() -> None:
    wanted = rendered({"gpu1": native()})
    there = after(wanted)
    there.nodes["gpu1"]["metadata"]["annotations"][objects.DECISION] = "{}"
    (call,) = live.plan_cluster(wanted, there, SETTINGS).calls
    (found,) = call.differences
    assert (found.key, found.before, found.after) == (
        "annotations",
        f"{objects.DECISION} (another value)",
        objects.DECISION,
    )


def test_a_configuration_goes_after_the_last_label_that_names_it() -> None:
    before = after(rendered(TWO))
    wanted = rendered({"gpu1": native(), "old1": native()})
    plan = live.plan_cluster(wanted, before, SETTINGS)
    assert doing(plan) == ["label the nodes", "write the ConfigMap"]
    assert list(plan.calls[-1].arguments["resource_definition"][0]["data"]) == [
        wanted.groups[0].name
    ]


@pytest.mark.parametrize("who", ["argocd-controller", "kubectl-label"])
def test_a_configuration_stays_while_somebody_elses_label_names_it(who: str) -> None:
    """The plugin's sidecar ends with an error for a name that it does not find."""
    before = after(rendered(TWO))
    old, host = before.nodes["old1"], "old1" if who == "argocd-controller" else "gpu1"
    theirs = {
        name: (made(old, who) if name == "old1" else there) for name, there in before.nodes.items()
    }
    wanted = rendered({host: native()})
    plan = live.plan_cluster(
        wanted, empty(nodes=theirs, config_map=before.config_map, classes=before.classes), SETTINGS
    )
    named = old["metadata"]["labels"][objects.CONFIG_LABEL]
    assert all(
        named in c.arguments["resource_definition"][0]["data"]
        for c in plan.calls
        if "ConfigMap" in c.doing
    )
    none = {"gpu1": {**native(), "decision": {"skipped": "no GPU"}}}
    plan = live.plan_cluster(
        rendered(none), empty(nodes=theirs, config_map=before.config_map, classes={}), SETTINGS
    )
    assert list(plan.calls[-1].arguments["resource_definition"][0]["data"]) == [named], (
        "and it is not removed with the last of our own"
    )


def test_a_node_without_an_answer_keeps_its_configuration() -> None:
    before = after(rendered(TWO))
    kept = live.list_kept_nodes(before, ["gpu1"])
    assert (
        live.plan_cluster(rendered({"gpu1": native(), "old1": {}}, kept), before, SETTINGS)
        == live.ClusterPlan()
    )


@pytest.mark.parametrize("handler", ["gvisor", "Not_A.Name"])
def test_the_label_of_a_lost_node_makes_no_runtime_class(handler: str) -> None:
    """Root of that host is its kubelet, which may label the node, in our name as well. The API
    would refuse some of the names, for all.
    """
    before = after(rendered(TWO))
    old = before.nodes["old1"]
    labels = {**old["metadata"]["labels"], f"{objects.HANDLER_LABEL}{handler}": "true"}
    lost = made({**old, "metadata": {**old["metadata"], "labels": labels}})
    there = empty(
        nodes={**before.nodes, "old1": lost}, config_map=before.config_map, classes=before.classes
    )
    wanted = rendered(
        {"gpu1": native(), "old1": {"unreachable": True}}, live.list_kept_nodes(there, ["gpu1"])
    )
    assert live.plan_cluster(wanted, there, SETTINGS) == live.ClusterPlan()


LISTS = [
    ("[cdi-cri, envvar]", ("cdi-cri", "envvar")),
    ("'cdi-cri,envvar'", ("cdi-cri", "envvar")),
    ("[[cdi-cri], {envvar: 1}, 5]", ()),
    ("5", ()),
]


@pytest.mark.parametrize(("text", "known"), LISTS)
def test_the_strategies_in_a_configuration_are_words(text: str, known: tuple[str, ...]) -> None:
    assert (
        groups.list_file_strategies(f"flags: {{plugin: {{deviceListStrategy: {text}}}}}") == known
    )


def test_a_configuration_that_somebody_else_has_written_is_read_to_an_end() -> None:
    """Lists of lists by aliases: some lines of the ConfigMap would be gigabytes as text."""
    signs = "abcdefghijkl"
    lines = [
        f"{sign}: &{sign} [{', '.join([f'*{before}'] * 10)}]"
        for before, sign in zip(signs, signs[1:], strict=False)
    ]
    text = "\n".join(["a: &a [x]", *lines, "flags: {plugin: {deviceListStrategy: *l}}"])
    assert groups.list_file_strategies(text) == ()


def test_a_node_without_gpus_loses_what_was_written_there() -> None:
    before = after(rendered(TWO, taints=(TAINT,)))
    none = {**fallback(), "decision": {"skipped": "no GPU"}}
    plan = live.plan_cluster(rendered({"gpu1": native(), "old1": none}), before, SETTINGS)
    assert doing(plan) == ["take the labels from the nodes", "write the ConfigMap"]
    assert plan.calls[0].arguments["resource_definition"] == [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "old1", "uid": "u"}}
    ]


def keeper(name: str) -> dict[str, Any]:
    """The ConfigMap of our name, as another tool has written it."""
    config_map = rendered({"gpu1": native()}).config_map
    assert config_map is not None
    found = {**config_map, "data": {"mine": "version: v1\n"}}
    found["metadata"] = {
        **config_map["metadata"],
        "annotations": {"argocd.argoproj.io/tracking-id": "x"} if name == "Argo CD" else {},
    }
    return made(found, "argocd-controller" if name == "Argo CD" else name)


def helm_class(handler: str) -> dict[str, Any]:
    one = {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": "nvidia"},
        "handler": handler,
    }
    return made(
        {**one, "metadata": {"name": "nvidia", "labels": {objects.MANAGED_BY: "Helm"}}}, "helm"
    )


OTHERS: dict[str, tuple[dict[str, Any], list[str], list[str]]] = {
    "Argo CD keeps the ConfigMap": (
        {"config_map": keeper("Argo CD")},
        ["write the RuntimeClass nvidia"],
        [
            "the ConfigMap nvidia-device-plugin/gpufleet-device-plugin is kept by Argo CD: it is only rendered",
            "the node gpu1 is only rendered: its configuration is not in the ConfigMap yet",
        ],
    ),
    "Helm keeps the RuntimeClass": (
        {"classes": {"nvidia": helm_class("nvidia")}},
        ["write the ConfigMap", "label the nodes"],
        ["the RuntimeClass nvidia is there already, from Helm, and stays as it is"],
    ),
    "with another handler": (
        {"classes": {"nvidia": helm_class("nvidia-container-runtime")}},
        ["write the ConfigMap", "label the nodes"],
        [
            "the RuntimeClass nvidia of Helm names the handler nvidia-container-runtime, not nvidia: it is only rendered"
        ],
    ),
    "Flux keeps the label": (
        {
            "nodes": {
                "gpu1": made(
                    node("gpu1", labels={objects.CONFIG_LABEL: "mine"}), "kustomize-controller"
                )
            }
        },
        ["write the ConfigMap", "write the RuntimeClass nvidia"],
        [f"the node gpu1 is only rendered: its label {objects.CONFIG_LABEL} is kept by Flux"],
    ),
    "the operator's own label is handed over": (
        {
            "nodes": {
                "gpu1": made(node("gpu1", labels={objects.TOOLKIT_LABEL: "true"}), "gpu-operator")
            }
        },
        ["write the ConfigMap", "write the RuntimeClass nvidia", "label the nodes"],
        [],
    ),
}


@pytest.mark.parametrize("case", OTHERS)
def test_what_others_keep_is_only_rendered(case: str) -> None:
    there, calls, said = OTHERS[case]
    profile = "operator" if "operator" in case else "chart"
    plan = live.plan_cluster(
        rendered({"gpu1": native()}, profile=profile),
        empty("gpu1", **there),
        objects.ClusterSettings(profile=profile),
    )
    assert (doing(plan), list(plan.said)) == (calls, said)


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no such node": (
        {},
        (
            "no host of the cluster north is a node of the one that answers (there is no node gpu1; it has no nodes). "
            "Check gpufleet_kubernetes_kubeconfig"
        ),
    ),
    "another machine of that name": (
        {"gpu1": node("gpu1", "other")},
        "the node gpu1 is another machine than this host",
    ),
    "an annotation of a person's": (
        {
            "gpu1": made(
                node("gpu1", annotations={"gpufleet.nvidia/decision": "{}"}), "kubectl-annotate"
            )
        },
        (
            "the node gpu1 has the annotation gpufleet.nvidia/decision from kubectl-annotate, and it differs from the host's decision "
            "(this collection takes over no annotation that another program has set). "
            "Remove it (kubectl annotate node gpu1 gpufleet.nvidia/decision-) and run"
        ),
    ),
    "a label of a person's": (
        {"gpu1": made(node("gpu1", labels={objects.CONFIG_LABEL: "mine"}), "kubectl-label")},
        "the node gpu1 has nvidia.com/device-plugin.config=mine from kubectl-label, and its group is native-cdi-",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_node_that_is_not_the_host_is_refused(case: str) -> None:
    nodes, words = REFUSED[case]
    with pytest.raises(PlanError) as refused:
        live.plan_cluster(rendered({"gpu1": native()}), empty(nodes=nodes), SETTINGS)
    assert str(refused.value).startswith(words)


def test_one_node_that_is_not_there_has_another_name() -> None:
    """Where others of the cluster are, the kubeconfig is the right one."""
    with pytest.raises(PlanError) as refused:
        live.plan_cluster(rendered({"gpu1": native(), "gpu2": native()}), empty("gpu2"), SETTINGS)
    assert str(refused.value).startswith(
        "there is no node gpu1 (the cluster north has gpu2). Set gpufleet_kubernetes_node"
    )


def test_absent_takes_ours_and_nothing_else() -> None:
    before = after(rendered(TWO))
    assert before.config_map is not None
    plan = live.plan_cluster_removal(
        before, [before.config_map, keeper("Argo CD")], hosts({"gpu1": native()}), SETTINGS
    )
    assert doing(plan) == [
        "take the labels from the nodes",
        "remove the ConfigMap nvidia-device-plugin/gpufleet-device-plugin",
        "remove the RuntimeClass nvidia",
    ]
    assert {d.why for call in plan.calls for d in call.differences} == {live.TAKEN_BACK}
    foreign = empty("gpu1", classes={"nvidia": helm_class("nvidia")})
    assert (
        live.plan_cluster_removal(foreign, [keeper("Argo CD")], hosts({"x": {}}), SETTINGS)
        == live.ClusterPlan()
    )


KEPT_SINCE: dict[str, tuple[str, dict[str, Any]]] = {
    # who has written it as well, what it has got
    "Helm, by its label": ("kubectl-edit", {"labels": {"app.kubernetes.io/managed-by": "Helm"}}),
    "Argo CD, by its mark": (
        "kubectl-edit",
        {"annotations": {"argocd.argoproj.io/tracking-id": "x"}},
    ),
    "Flux, by its name": ("kustomize-controller", {}),
}


@pytest.mark.parametrize("case", KEPT_SINCE)
def test_what_somebody_has_taken_over_is_theirs(case: str) -> None:
    who, more = KEPT_SINCE[case]
    before = after(rendered({"gpu1": native()}))
    there = copy.deepcopy(dict(before.classes["nvidia"]))
    there["metadata"].update(more)
    there["metadata"]["managedFields"].append(by(who, there))
    plan = live.plan_cluster_removal(
        empty(nodes=before.nodes, classes={"nvidia": there}),
        [],
        hosts({"gpu1": native()}),
        SETTINGS,
    )
    assert doing(plan) == ["take the labels from the nodes"]
    there["handler"] = "another"
    plan = live.plan_cluster(
        rendered({"gpu1": native()}),
        empty(nodes=before.nodes, config_map=before.config_map, classes={"nvidia": there}),
        SETTINGS,
    )
    assert (doing(plan), len(plan.said)) == ([], 1)


STRANGE: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    # hosts of the run, nodes beside the labelled gpu1, the sentence
    "none of its hosts is a node there": (
        {"gpu8": native(), "gpu9": {"unreachable": True}},
        {},
        "no host of this run is a node",
    ),
    "another machine of that name": (
        {"gpu2": native()},
        {"gpu2": node("gpu2", "other")},
        "the node gpu2 is another machine",
    ),
}


@pytest.mark.parametrize("case", STRANGE)
def test_another_cluster_is_not_taken_back(case: str) -> None:
    of_run, more, words = STRANGE[case]
    before = after(rendered({"gpu1": native()}))
    there = empty(
        nodes={**before.nodes, **more}, config_map=before.config_map, classes=before.classes
    )
    with pytest.raises(PlanError, match=words):
        live.plan_cluster_removal(there, [], hosts(of_run), SETTINGS)
