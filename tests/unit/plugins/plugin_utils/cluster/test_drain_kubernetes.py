# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a Kubernetes node and its pods say, which patches follow, and what is said of the API's
refusals: tables.
"""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster import (
    drain_kubernetes,
)


def node(
    unschedulable: bool = False,
    mark: str = "",
    ready: str = "True",
    taints: tuple[str, ...] = (),
    hold: str = "",
) -> dict[str, Any]:
    marks = (
        {"gpufleet.nvidia/rollout": mark, **({"gpufleet.nvidia/hold": hold} if hold else {})}
        if mark
        else {}
    )
    return {
        "metadata": {"name": "gpu1", "resourceVersion": "7", "annotations": marks},
        "spec": {
            **({"unschedulable": True} if unschedulable else {}),
            "taints": [{"key": key, "value": "r7", "effect": "NoSchedule"} for key in taints],
        },
        "status": {"conditions": [{"type": "Ready", "status": ready, "reason": "Why"}]},
    }


OUR_TAINT = ("gpufleet.nvidia/rollout",)
STANDINGS = [
    (node(), "in_service"),
    (node(mark="r7"), "in_service"),  # somebody has uncordoned it by hand
    (node(taints=("team",)), "in_service"),
    (node(unschedulable=True), "others"),
    (node(unschedulable=True, mark="r7"), "held"),
    (node(unschedulable=True, mark="r70"), "others"),
    (node(taints=OUR_TAINT, mark="r7", hold="taint"), "held"),
    (node(taints=OUR_TAINT), "others"),
    (node(ready="False"), "broken"),
    (node(ready="Unknown", unschedulable=True, mark="r7"), "broken"),
    ({"metadata": {"name": "gpu1"}}, "broken"),
]


@pytest.mark.parametrize(("found", "state"), STANDINGS)
def test_whose_a_node_is(found: dict[str, Any], state: str) -> None:
    assert drain_kubernetes.judge_kubernetes_standing(found, "r7").state == state


def test_a_hold_is_one_patch_with_its_mark_that_fails_where_somebody_has_changed_the_node() -> None:
    free = node(taints=("team",))
    marks = {
        "gpufleet.nvidia/rollout": "r7",
        "gpufleet.nvidia/why": "ticket 12",
        "gpufleet.nvidia/hold": "cordon",
    }
    assert drain_kubernetes.hold(free, "r7", "ticket 12", "cordon") == [
        {"op": "test", "path": "/metadata/labels", "value": None},
        {"op": "test", "path": "/metadata/annotations", "value": {}},
        {"op": "test", "path": "/spec", "value": free["spec"]},
        {"op": "add", "path": "/metadata/annotations", "value": marks},
        {"op": "add", "path": "/spec", "value": {**free["spec"], "unschedulable": True}},
    ]


def test_what_the_kubelet_reports_is_no_part_of_a_patch() -> None:
    free = node()
    later = {
        **free,
        "metadata": {**free["metadata"], "resourceVersion": "8"},
        "status": {"conditions": []},
    }
    assert drain_kubernetes.hold(later, "r7", "ticket 12", "cordon") == drain_kubernetes.hold(
        free, "r7", "ticket 12", "cordon"
    )


RELEASES = [
    (node(unschedulable=True, mark="r7", hold="cordon"), {"taints": []}),
    (
        node(taints=("team", *OUR_TAINT), mark="r7", hold="taint"),
        {"taints": [{"key": "team", "value": "r7", "effect": "NoSchedule"}]},
    ),
    # somebody has cordoned a node that we hold by a taint: the cordon is theirs
    (node(unschedulable=True, taints=OUR_TAINT, mark="r7", hold="taint"), {"unschedulable": True}),
]


@pytest.mark.parametrize(("held", "spec"), RELEASES)
def test_a_release_takes_back_what_was_ours(held: dict[str, Any], spec: dict[str, Any]) -> None:
    done = {
        step["path"]: step["value"]
        for step in drain_kubernetes.release(held)
        if step["op"] == "add"
    }
    assert done == {"/metadata/annotations": {}, "/spec": spec}


def pod(
    owner: str = "ReplicaSet",
    phase: str = "Running",
    annotations: dict[str, str] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    owners = [{"kind": owner}] if owner else []
    metadata = {
        "namespace": "team",
        "name": "p",
        "ownerReferences": owners,
        "annotations": annotations or {},
    }
    return {"metadata": metadata, "spec": spec, "status": {"phase": phase}}


def using(resource: str, amount: str = "1", where: str = "containers") -> dict[str, Any]:
    return {where: [{"name": "c", "resources": {"limits": {resource: amount}}}]}


PODS = [
    # the pod, whether `wait` waits for it, whether `evict` does
    (pod(**using("nvidia.com/gpu")), True, True),
    (pod(**using("nvidia.com/mig-1g.5gb")), True, True),
    (pod(**using("nvidia.com/gpu", where="initContainers")), True, True),
    (pod(resourceClaims=[{"name": "gpu"}]), True, True),
    (pod(**using("nvidia.com/gpu", "0")), False, True),
    (pod(**using("cpu")), False, True),
    (pod(), False, True),
    (pod(owner="", **using("nvidia.com/gpu")), True, True),
    (pod(owner="DaemonSet", **using("nvidia.com/gpu")), False, False),
    (pod(phase="Succeeded", **using("nvidia.com/gpu")), False, False),
    (pod(phase="Failed", **using("nvidia.com/gpu")), False, False),
    (pod(phase="Pending", **using("nvidia.com/gpu")), True, True),
    (
        pod(annotations={"kubernetes.io/config.mirror": "x"}, **using("nvidia.com/gpu")),
        False,
        False,
    ),
]


@pytest.mark.parametrize(("found", "wait", "evict"), PODS)
def test_which_pods_a_drain_waits_for(found: dict[str, Any], wait: bool, evict: bool) -> None:
    assert bool(drain_kubernetes.list_drained_pods([found], "wait")) == wait
    assert bool(drain_kubernetes.list_drained_pods([found], "evict")) == evict
    assert [
        drain_kubernetes.describe_waiting_pods([found], method) for method in ("wait", "evict")
    ] == [
        "1 pod with GPUs (team/p)" * wait,
        "1 pod (team/p)" * evict,
    ]


def api(code: int, message: str) -> str:
    return f'{{"kind": "Status", "apiVersion": "v1", "code": {code}, "message": "{message}", "details": {{}}}}'


TAKEN = r"Apply failed with 1 conflict: conflict with \"kubectl-edit\" using v1: .data.x"
ENDING = "unable to create new content in namespace gpu because it is being terminated"
REFUSED = r"admission webhook \"validate.kyverno.svc-fail\" denied the request: nodes need an owner"
POLICY = r"nodes \"x\" is forbidden: ValidatingAdmissionPolicy 'labels' with binding 'all' denied request: labels are frozen"
SILENT = r"Internal error occurred: failed calling webhook \"pods.example.org\": Post \"https://x.svc:443/\": connect: connection refused"
FAILURES = [
    # what a module says, the code
    (
        f"Failed to patch object: {api(403, 'nodes is forbidden: User x cannot patch')}",
        "kubernetes-api.forbidden",
    ),
    (
        f"Failed to create object: {api(403, f'configmaps x is forbidden: {ENDING}')}",
        "kubernetes-api.namespace-ending",
    ),
    ("401\nReason: Unauthorized\n", "kubernetes-api.unauthorized"),
    (
        "Failed to import the required Python library (kubernetes) on host's Python",
        "kubernetes-api.no-library",
    ),
    (
        "Exception 'HTTPConnectionPool(host='10.0.0.1'): Max retries exceeded with url",
        "kubernetes-api.no-answer",
    ),
    (
        "Could not create API client: Invalid kube-config file. No configuration found.",
        "kubernetes-api.no-kubeconfig",
    ),
    (
        "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: unable to get local issuer",
        "kubernetes-api.certificate",
    ),
    (
        f"Failed to apply object: {api(409, TAKEN)}",
        "kubernetes-api.field-taken",
    ),
    (
        f"Failed to apply object: {api(400, REFUSED)}",
        "kubernetes-api.denied",
    ),
    (f"Failed to patch object: {api(422, POLICY)}", "kubernetes-api.denied"),
    (f"Failed to apply object: {api(500, SILENT)}", "kubernetes-api.webhook-failed"),
    (
        "Pod deletion errors: cannot delete Pods with local storage: team/p.",
        "kubernetes-api.pods-stay",
    ),
]


@pytest.mark.parametrize(("said", "code"), FAILURES)
def test_a_refusal_is_one_message(said: str, code: str) -> None:
    failure = drain_kubernetes.build_api_error({"failed": True, "msg": said}, "read the node")
    assert (failure.code, failure.values["doing"]) == (code, "read the node")
    assert "\n" not in str(failure)


ENDED = (
    "Traceback (most recent call last):\n  File x\n"
    "urllib3.exceptions.MaxRetryError: HTTPConnectionPool(host='a'): Max retries exceeded\n"
)
RAISED = [
    # how releases of ansible-core tell an exception that ended a module
    {"failed": True, "msg": "", "exception": ENDED},
    {
        "failed": True,
        "msg": "MODULE FAILURE\nSee stdout/stderr for the exact error",
        "module_stderr": ENDED,
    },
]


@pytest.mark.parametrize("result", RAISED)
def test_an_exception_that_ended_a_module_is_read(result: dict[str, Any]) -> None:
    assert "the Kubernetes API does not answer" in str(
        drain_kubernetes.build_api_error(drain_kubernetes.add_api_message(result), "read the node")
    )


LONG = [
    # a failed module whose message or exception somebody else has made very long; its code
    ({"msg": "Apply failed with " * 50_000}, "kubernetes-api.failed"),
    ({"msg": '{"kind": "Status"' * 50_000}, "kubernetes-api.failed"),
    ({"msg": "", "exception": "ApiException: " + "context " * 50_000}, "kubernetes-api.failed"),
    ({"msg": "Unauthorized " + "x" * 500_000}, "kubernetes-api.unauthorized"),
]


@pytest.mark.parametrize(("result", "code"), LONG)
def test_a_long_message_is_cut_before_anything_is_searched_in_it(
    result: dict[str, Any], code: str
) -> None:
    """Some patterns take the square of its length."""
    told = drain_kubernetes.add_api_message(result)
    assert len(told["msg"]) <= drain_kubernetes.LONGEST_MESSAGE + 1
    assert drain_kubernetes.build_api_error(told, "read the node").code == code


def test_a_budget_is_no_refusal_for_good() -> None:
    said = "Failed to delete pod team/p due to: Cannot evict pod as it would violate the pod's disruption budget."
    assert drain_kubernetes.is_refused_by_budget({"msg": said})
    assert not drain_kubernetes.is_refused_by_budget({"msg": api(403, "pods is forbidden")})


# What kubernetes.core says of answers of a real API server 1.34.
REJECTED = (
    '{"kind":"Status","status":"Failure","message":"%s","reason":"Invalid","details":{},"code":422}'
)
CONFLICTS = [
    (REJECTED % "the server rejected our request due to an error in our request", True),
    (
        '{"kind":"Status","message":"Operation cannot be fulfilled on nodes: the object has been modified","code":409}',
        True,
    ),
    (
        REJECTED % 'Node \\"gpu1\\" is invalid: metadata.taints[0].effect: Invalid value: \\"x\\"',
        False,
    ),
    ('{"kind":"Status","message":"nodes is forbidden","reason":"Forbidden","code":403}', False),
]


@pytest.mark.parametrize(("said", "faster"), CONFLICTS)
def test_that_somebody_was_faster_is_read_of_the_answer(said: str, faster: bool) -> None:
    assert (
        drain_kubernetes.is_api_conflict(
            {"failed": True, "msg": f"Failed to patch existing object: b'{said}'"}
        )
        is faster
    )
