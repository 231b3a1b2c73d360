# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A change of a node that somebody else was faster with: it is made again from the node as it is by now, if that is still there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.action import cluster_api, draining
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster import api_calls
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.model import PlanError

CONFLICT = {"failed": True, "msg": "Failed to patch: the object has been modified"}


class Answers:
    """kubernetes.core as it answers: for each call of a module the next of its answers, the last one for ever."""

    def __init__(self, patches: list[dict[str, Any]], nodes: list[list[dict[str, Any]]]) -> None:
        self.patches, self.nodes = patches, nodes
        self.tried: list[Any] = []

    def module(self, name: str, arguments: Mapping[str, Any], *, check: bool = False) -> dict[str, Any]:
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
    cluster_api.Api(answers, {}).carry_out([patching(1)], check=True)  # type: ignore[arg-type]


def test_it_is_made_again_from_the_node_as_it_is() -> None:
    answers = Answers([CONFLICT, CONFLICT, {}], [[node(2)], [node(3)]])
    carried_out(answers)
    assert answers.tried == [(1, True), (2, True), (3, True)]


REFUSED: list[tuple[list[dict[str, Any]], list[list[dict[str, Any]]], str]] = [
    ([CONFLICT], [[]], "cannot taint the node gpu1: the cluster has no node gpu1 any more"),
    ([CONFLICT], [[node(2)], []], "cannot taint the node gpu1: the cluster has no node gpu1 any more"),
    ([CONFLICT], [[node(2)]], "cannot taint the node gpu1"),
]


@pytest.mark.parametrize(("patches", "nodes", "said"), REFUSED)
def test_a_node_that_is_gone_or_never_still_is_said(patches: list[dict[str, Any]], nodes: list[list[dict[str, Any]]], said: str) -> None:
    answers = Answers(patches, nodes)
    with pytest.raises(PlanError) as refused:
        carried_out(answers)
    assert said in str(refused.value)
    assert refused.value.next
    assert len(answers.tried) <= draining.CONFLICTS + 1


class Silent:
    """kubernetes.core where the API answers 400, or a list without items: the module lists nothing, and does not fail."""

    def module(self, name: str, arguments: Mapping[str, Any], *, check: bool = False) -> dict[str, Any]:
        there = {"Namespace": "plugin", "ConfigMap": "config", "RuntimeClass": "nvidia"}.get(arguments["kind"])
        return {"api_found": True, "resources": [{"metadata": {"name": there}}] if there else []}


def test_a_cluster_that_lists_no_nodes_is_none_whose_objects_nobody_needs() -> None:
    """What no node needs is removed: all configurations of the plugin, and all RuntimeClasses of this collection."""
    with pytest.raises(PlanError) as refused:
        cluster_api.Api(Silent(), {}).look("plugin", "config")  # type: ignore[arg-type]
    assert "cannot list the nodes" in str(refused.value)
    assert refused.value.next
