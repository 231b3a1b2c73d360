# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An answer of another shape is refused with the part that is wrong, before anything is read of it."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster import (
    api_shapes,
    drain_kubernetes,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError

NAMED = {"name": "gpu1"}
RIGHT: dict[str, Any] = {
    "a node with nothing else": {"metadata": NAMED},
    "parts that are null": {
        "metadata": {**NAMED, "labels": None, "managedFields": None},
        "spec": None,
        "status": {"conditions": None},
    },
    "a node": {
        "metadata": {
            **NAMED,
            "labels": {"a": "b"},
            "managedFields": [{"manager": "kubelet", "fieldsV1": {"f:metadata": {"f:labels": {}}}}],
        },
        "spec": {
            "taints": [
                {"key": "dedicated", "value": "gpu", "effect": "NoSchedule", "timeAdded": None}
            ]
        },
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "nodeInfo": {"bootID": "b"},
        },
    },
    "a label called as a pattern is": {"metadata": {**NAMED, "labels": {"*": "b"}}},
    "a pod": {
        "metadata": NAMED,
        "spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "1"}}}], "volumes": []},
    },
    "a RuntimeClass": {"metadata": NAMED, "handler": "nvidia"},
}
WRONG: list[tuple[Any, str]] = [
    ("text", "value"),
    ({"metadata": "text"}, "metadata"),
    ({"metadata": {"name": {}}}, "metadata.name"),
    ({"metadata": {**NAMED, "namespace": 1}}, "metadata.namespace"),
    ({"metadata": {**NAMED, "labels": []}}, "metadata.labels"),
    ({"metadata": {**NAMED, "labels": {"a": 1}}}, "metadata.labels.a"),
    ({"metadata": {**NAMED, "managedFields": {}}}, "metadata.managedFields"),
    ({"metadata": {**NAMED, "managedFields": ["text"]}}, "metadata.managedFields"),
    (
        {"metadata": {**NAMED, "managedFields": [{"fieldsV1": []}]}},
        "metadata.managedFields.fieldsV1",
    ),
    (
        {"metadata": {**NAMED, "managedFields": [{"fieldsV1": {"f:metadata": {"f:labels": "x"}}}]}},
        "metadata.managedFields.fieldsV1.f:metadata.f:labels",
    ),
    ({"metadata": {**NAMED, "ownerReferences": [{"kind": []}]}}, "metadata.ownerReferences.kind"),
    ({"metadata": NAMED, "spec": {"taints": "text"}}, "spec.taints"),
    ({"metadata": NAMED, "spec": {"taints": [None]}}, "spec.taints"),
    ({"metadata": NAMED, "spec": {"taints": [{"key": []}]}}, "spec.taints.key"),
    ({"metadata": NAMED, "status": {"conditions": {}}}, "status.conditions"),
    ({"metadata": NAMED, "status": {"nodeInfo": []}}, "status.nodeInfo"),
    ({"metadata": NAMED, "status": {"nodeInfo": {"bootID": 1}}}, "status.nodeInfo.bootID"),
    ({"metadata": NAMED, "spec": {"containers": [{"resources": []}]}}, "spec.containers.resources"),
    (
        {"metadata": NAMED, "spec": {"template": {"spec": {"volumes": [1]}}}},
        "spec.template.spec.volumes",
    ),
    ({"metadata": NAMED, "data": []}, "data"),
]


@pytest.mark.parametrize("case", RIGHT)
def test_what_kubernetes_answers_has_the_shape(case: str) -> None:
    assert api_shapes.find_wrong_part(RIGHT[case]) == ""
    assert drain_kubernetes.list_api_objects([RIGHT[case]], "list the nodes") == [RIGHT[case]]


@pytest.mark.parametrize(
    ("thing", "part"), WRONG, ids=[part + str(n) for n, (_thing, part) in enumerate(WRONG)]
)
def test_the_part_that_is_wrong_is_named(thing: Any, part: str) -> None:
    with pytest.raises(PlanError) as refused:
        drain_kubernetes.list_api_objects([{"metadata": NAMED}, thing], "list the nodes")
    assert (
        f"cannot list the nodes (the answer has an object whose {part} is not what Kubernetes has there)"
        in str(refused.value)
    )
    assert "Check gpufleet_kubernetes_kubeconfig" in str(refused.value.next)


@pytest.mark.parametrize("thing", [{}, {"metadata": None}, {"metadata": {"name": ""}}])
def test_what_has_no_name_is_refused(thing: Any) -> None:
    with pytest.raises(PlanError, match=r"\[kubernetes-api.nameless-object\]$"):
        drain_kubernetes.list_api_objects([thing], "list the nodes")
