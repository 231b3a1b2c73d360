# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A change of a node that another program has just changed: it is made again from the node as it is
now, if that is still there.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    cluster_api,
    kubernetes_core,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster import api_calls
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError

CONFLICT = {"failed": True, "msg": "Failed to patch: the object has been modified"}


class Answers:
    """kubernetes.core as it answers: for each call of a module the next of its answers, the last
    one forever.
    """

    def __init__(self, patches: list[dict[str, Any]], nodes: list[list[dict[str, Any]]]) -> None:
        self.patches, self.nodes = patches, nodes
        self.tried: list[Any] = []

    def run_module(
        self, name: str, arguments: Mapping[str, Any], *, check: bool = False
    ) -> dict[str, Any]:
        if name == "kubernetes.core.k8s_info":
            return {"resources": self.nodes.pop(0) if len(self.nodes) > 1 else self.nodes[0]}
        self.tried.append((arguments["patch"], check))
        return self.patches.pop(0) if len(self.patches) > 1 else self.patches[0]


def node(version: int) -> dict[str, Any]:
    return {"metadata": {"name": "gpu1", "version": version}}


def patching(version: int) -> api_calls.Call:
    arguments = {"api_version": "v1", "kind": "Node", "name": "gpu1", "patch": version}
    return api_calls.Call("taint the node gpu1", "k8s_json_patch", arguments, (), (), again)


def again(found: Mapping[str, Any]) -> list[api_calls.Call]:
    return [patching(found["metadata"]["version"])]


def carried_out(answers: Answers) -> None:
    cluster_api.ClusterApi(answers, {}).judge([patching(1)])  # type: ignore[arg-type]


def test_it_is_made_again_from_the_node_as_it_is() -> None:
    answers = Answers([CONFLICT, CONFLICT, {}], [[node(2)], [node(3)]])
    carried_out(answers)
    assert answers.tried == [(1, True), (2, True), (3, True)]


REFUSED: list[tuple[list[dict[str, Any]], list[list[dict[str, Any]]], str]] = [
    ([CONFLICT], [[]], "cluster.node-gone"),
    ([CONFLICT], [[node(2)], []], "cluster.node-gone"),
    ([CONFLICT], [[node(2)]], "kubernetes-api.failed"),
]


@pytest.mark.parametrize(("patches", "nodes", "code"), REFUSED)
def test_a_node_that_is_gone_or_never_still_is_said(
    patches: list[dict[str, Any]], nodes: list[list[dict[str, Any]]], code: str
) -> None:
    answers = Answers(patches, nodes)
    with pytest.raises(PlanError) as refused:
        carried_out(answers)
    assert refused.value.code == code
    assert refused.value.next
    assert len(answers.tried) <= kubernetes_core.CONFLICTS + 1


THERE = {"Node": "gpu1", "Namespace": "plugin", "ConfigMap": "config", "RuntimeClass": "nvidia"}


class Silent:
    """kubernetes.core where the API answers 400, or a list without items, for some kinds: the
    module lists nothing, and does not fail.
    """

    def __init__(self, *kinds: str, but: str = "") -> None:
        self.kinds, self.but = kinds, but

    def run_module(
        self, name: str, arguments: Mapping[str, Any], *, check: bool = False
    ) -> dict[str, Any]:
        silent = arguments["kind"] in self.kinds and arguments.get("name") != self.but
        there = "" if silent else arguments.get("name") or THERE[arguments["kind"]]
        return {"api_found": True, "resources": [{"metadata": {"name": there}}] if there else []}


# What is not there is made, and what no node needs is removed: all configurations of the plugin,
# and all RuntimeClasses of this collection.
SILENT = [
    (("Node",), "cannot list the nodes"),
    (
        ("ConfigMap",),
        "cannot read the ConfigMap plugin/config (the API shows no ConfigMap kube-root-ca.crt there either",
    ),
    (
        ("ConfigMap", "Namespace"),
        "cannot read the namespace plugin (the API shows no namespace `default` either",
    ),
]


@pytest.mark.parametrize(("kinds", "said"), SILENT)
def test_a_cluster_that_does_not_list_what_every_cluster_has_is_refused(
    kinds: tuple[str, ...], said: str
) -> None:
    with pytest.raises(PlanError) as refused:
        cluster_api.ClusterApi(Silent(*kinds), {}).look("plugin", "config")  # type: ignore[arg-type]
    assert said in str(refused.value)
    assert refused.value.next


def test_what_is_not_there_yet_is_seen_as_that() -> None:
    api = Silent("ConfigMap", "Namespace", "RuntimeClass", but="default")
    found = cluster_api.ClusterApi(api, {}).look("plugin", "config")  # type: ignore[arg-type]
    assert (found.config_map, found.namespace, found.classes) == (None, False, {})


class Dry:
    """kubernetes.core that shows an object as it would be, with all who have written it."""

    def __init__(self, *managers: str) -> None:
        self.made = {
            "metadata": {
                "name": "nvidia",
                "managedFields": [{"manager": who, "operation": "Apply"} for who in managers],
            }
        }
        self.real = 0

    def run_module(
        self, name: str, arguments: Mapping[str, Any], *, check: bool = False
    ) -> dict[str, Any]:
        self.real += not check
        return {"changed": True, "result": self.made}


@pytest.mark.parametrize(
    ("managers", "makes", "refused"),
    [
        (("k3s", "gpufleet.nvidia"), True, True),
        (("k3s", "gpufleet.nvidia"), False, False),
        (("gpufleet.nvidia",), True, False),
    ],
)
def test_what_was_not_listed_and_is_somebody_elses_is_not_taken_over(
    managers: tuple[str, ...], makes: bool, refused: bool
) -> None:
    answers = Dry(*managers)
    calls = [api_calls.Call("write the RuntimeClass nvidia", "k8s", {}, (), makes=makes)]
    api = cluster_api.ClusterApi(answers, {})  # type: ignore[arg-type]
    said = "cannot write the RuntimeClass nvidia .it is there already, from k3s, and the API did not list it"
    with pytest.raises(PlanError, match=said) if refused else contextlib.nullcontext():
        api.judge(calls)
    assert answers.real == 0
    api.carry_out(calls)
    assert answers.real == 1
