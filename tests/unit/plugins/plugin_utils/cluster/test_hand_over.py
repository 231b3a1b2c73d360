# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whose a node is, whether it can go to somebody else, and what is still waited for."""

from __future__ import annotations

import dataclasses as dc
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster import hand_over
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError

from tests.unit.coded import Coded, get_codes, read_all_coded, read_coded

LIVE = {
    "fate": "live",
    "why": "its process nvidia-toolkit runs",
    "handlers": {"nvidia": "/x/toolkit/nvidia"},
    "installed": True,
}
GONE = {"fate": "dead", "why": "operator_toolkit is gone", "handlers": {}, "installed": False}
READY = {"type": "Ready", "status": "True"}


def pod(
    *conditions: dict[str, str], ending: bool = False, privileged: bool | None = True, **more: Any
) -> dict[str, Any]:
    metadata = {
        "name": "toolkit-x",
        **({"deletionTimestamp": "2026-01-01T00:00:00Z"} if ending else {}),
        **more,
    }
    spec = {
        "containers": [
            {
                "name": "c",
                **({} if privileged is None else {"securityContext": {"privileged": privileged}}),
            }
        ]
    }
    return {
        "metadata": metadata,
        "spec": spec,
        "status": {"phase": "Running", "conditions": list(conditions)},
    }


MOUNTED = {
    "metadata": {"name": "toolkit-x"},
    "spec": {"volumes": [{"hostPath": {"path": "/"}}]},
    "status": {"phase": "Running"},
}


def daemon_set(privileged: bool = True) -> dict[str, Any]:
    return {"spec": {"template": pod(privileged=privileged)}}


def node(
    label: str = "",
    *pods: dict[str, Any],
    host: dict[str, Any] | None = None,
    there: bool = True,
    **result: Any,
) -> hand_over.Node:
    """there: the operator's DaemonSet; else one of a user with its label, which has no rights on a
    host.
    """
    labels = {"labels": {hand_over.TOOLKIT_LABEL: label}} if label else {}
    found = {"operator_toolkit": host or GONE, "decision": {"decisions": []}, **result}
    return hand_over.read_handover_node(
        "gpu1", {"metadata": {"name": "gpu1", **labels}}, pods, [daemon_set(there)], found
    )


OURS = {"decision": {"decisions": [{"engine": "containerd"}]}, "differences": []}
NOT_YET = {**OURS, "differences": [{"what": "handler"}]}
# A node -> whose it is, whether it has to go to the collection, and whether to the operator.
OWNERS: dict[str, tuple[hand_over.Node, str, bool, bool]] = {
    "the operator's": (node("true", pod(READY), host=LIVE), "operator", True, False),
    "its pod is not there yet": (node("true"), "nobody", True, True),
    "its pod is there, and has written nothing": (node("true", pod()), "operator", True, True),
    "only its host shows it": (node("false", host=LIVE), "operator", True, True),
    "the collection's": (node("false", **OURS), "collection", False, True),
    "the label is right, and the host is not": (node("false", **NOT_YET), "nobody", True, True),
    "the collection's, with a pod of somebody else": (node("false", pod(READY, privileged=False), **OURS), "collection", False, True),
    "converged, and the label is not set": (node("", **OURS), "nobody", True, True),
    "nobody's": (node("false"), "nobody", True, True),
}  # fmt: skip


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_keeps_no_node(phase: str) -> None:
    """One that its kubelet has refused, for example, stays in the cluster until somebody removes
    it.
    """
    ended = {**pod(), "status": {"phase": phase}}
    assert hand_over.describe_handover_wait(node("false", ended), hand_over.COLLECTION) == ""
    assert node("false", ended, **OURS).owner == hand_over.COLLECTION


# Where it goes, and what a run that was killed before it put the node back has left.
HELD = [
    ("collection", node("false", **OURS), True),
    ("operator", node("true", pod(READY), host=LIVE), True),
    ("state", node("false", **OURS), False),
]


@pytest.mark.parametrize(("to", "found", "needed"), HELD)
def test_a_node_that_was_left_out_of_service_is_handed_over_again(
    to: str, found: hand_over.Node, needed: bool
) -> None:
    assert hand_over.needs_handover(found, to) is False
    held = dc.replace(found, held=True)
    assert hand_over.needs_handover(held, to) is needed
    assert hand_over.describe_handover_node(held).endswith(" [hand-over.node-held]")


@pytest.mark.parametrize("case", OWNERS)
def test_whose_a_node_is_and_where_it_has_to_go(case: str) -> None:
    found, owner, to_collection, to_operator = OWNERS[case]
    assert found.owner == owner
    directions = (hand_over.COLLECTION, hand_over.OPERATOR, hand_over.STATE)
    needed = [hand_over.needs_handover(found, to) for to in directions]
    assert needed == [to_collection, to_operator, False]


NO_OPERATOR = {"collection": "hand-over.nothing-to-take", "operator": "hand-over.no-operator"}


@pytest.mark.parametrize("to", NO_OPERATOR)
def test_without_the_operator_there_is_nothing_to_hand_over(to: str) -> None:
    with pytest.raises(PlanError) as refused:
        hand_over.needs_handover(node(there=False), to)
    assert refused.value.code == NO_OPERATOR[to]


# Status of a DaemonSet -> whether it is the operator's presence. No node is left for it where all
# of them are the collection's.
COUNTS: list[tuple[dict[str, int] | None, bool]] = [
    (None, True),
    ({"desiredNumberScheduled": 0, "currentNumberScheduled": 0}, True),
    ({"desiredNumberScheduled": 2, "currentNumberScheduled": 1}, True),
    ({"desiredNumberScheduled": 2, "currentNumberScheduled": 0}, False),
]


@pytest.mark.parametrize(("status", "there"), COUNTS)
def test_a_daemon_set_whose_pods_are_all_refused_is_nobody(
    status: dict[str, int] | None, there: bool
) -> None:
    """Any user can make one in a namespace of their own; that its pods may not change a host is the
    namespace's pod security.
    """
    sets = [{**daemon_set(), "status": status}]
    assert (
        hand_over.read_handover_node("gpu1", {"metadata": {"name": "gpu1"}}, (), sets, {}).there
        is there
    )


def test_of_a_host_that_nobody_has_looked_at_nothing_is_said() -> None:
    """Its look has failed, for example."""
    found = hand_over.read_handover_node(
        "gpu1", {"metadata": {"name": "gpu1"}}, (), (), {"unreachable": True}
    )
    assert get_codes(hand_over.list_node_facts(found)) == [
        "hand-over.node-label",
        "hand-over.no-pod",
        "hand-over.host-not-seen",
    ]


PATCHES: dict[str, tuple[dict[str, str] | None, str, dict[str, str] | None]] = {
    "no labels": (None, "collection", {hand_over.TOOLKIT_LABEL: "false"}),
    "others stay": ({"a": "b", hand_over.TOOLKIT_LABEL: "true"}, "collection", {"a": "b", hand_over.TOOLKIT_LABEL: "false"}),
    "it is so already": ({hand_over.TOOLKIT_LABEL: "false"}, "collection", None),
    "back": ({hand_over.TOOLKIT_LABEL: "false"}, "operator", {hand_over.TOOLKIT_LABEL: "true"}),
}  # fmt: skip


@pytest.mark.parametrize("case", PATCHES)
def test_the_label_is_set_where_nobody_has_changed_the_labels_meanwhile(case: str) -> None:
    labels, to, after = PATCHES[case]
    found = hand_over.build_handover_patch({"metadata": {"labels": labels}}, to)
    path = "/metadata/labels"
    assert found == (
        []
        if after is None
        else [
            {"op": "test", "path": path, "value": labels},
            {"op": "add", "path": path, "value": after},
        ]
    )


MADE_NONE = ("hand-over.no-pod-made", {})
STARTS = ("hand-over.pod-phase", {"pod": "toolkit-x", "phase": "Running"})
ENDS = ("hand-over.pod-ending", {"pod": "toolkit-x", "due": "2026-01-01T00:00:00Z"})
ENDS_HELD = ("hand-over.pod-ending-held", {**ENDS[1], "finalizers": "example.org/hold"})
WAITING: dict[str, tuple[tuple[dict[str, Any], ...], str, Coded | None]] = {
    "it has gone": ((), "collection", None),
    "a pod with its label that may not write to the host": ((pod(READY, privileged=None),), "collection", None),
    "one that mounts the host's root": ((MOUNTED,), "collection", STARTS),
    "such a pod is not the toolkit": ((pod(READY, privileged=False),), "operator", MADE_NONE),
    "it is ending": ((pod(READY, ending=True),), "collection", ENDS),
    "it is ready": ((pod(READY),), "operator", None),
    "it starts": ((pod(),), "operator", STARTS),
    "one that ends does not count": ((pod(READY, ending=True),), "operator", ENDS),
    "one that has ended, and is held": (
        ({**pod(ending=True, finalizers=["example.org/hold"]), "status": {"phase": "Failed"}},), "operator", ENDS_HELD),
    "none is made": ((), "operator", MADE_NONE),
}  # fmt: skip


@pytest.mark.parametrize("case", WAITING)
def test_what_the_cluster_still_has_to_do(case: str) -> None:
    pods, to, wait = WAITING[case]
    found = hand_over.describe_handover_wait(node("true", *pods), to)
    assert (read_coded(found) if found else None) == wait


BACK = {"state": "rolled_back", "reason": "gpufleet.nvidia.host (state: absent)", "why": "crashed"}
LEFT: dict[str, tuple[dict[str, Any], str, Coded | None]] = {
    "lost": ({"unreachable": True, "msg": "timed out"}, "operator", ("hand-over.host-lost", {"host": "gpu1", "cause": "timed out"})),
    "left alone": (
        {"decision": {"decisions": [], "refused": [["k", "it still runs"]]}}, "collection",
        ("hand-over.not-converged", {"host": "gpu1", "cause": "it still runs"})),
    "nothing was configured": (
        {"decision": {"decisions": []}}, "collection",
        ("hand-over.not-converged", {"host": "gpu1", "cause": ("hand-over.no-engine-configured", {})})),
    "converged": (OURS, "collection", None),
    "taken back": ({"decision": {"decisions": []}}, "operator", None),
    "taken back, and that stands": ({"journal": [{**BACK, "state": "committed"}, BACK]}, "operator", None),
    "taken back, and put there again": (
        {"journal": [BACK]}, "operator", ("hand-over.rolled-back", {"host": "gpu1", "cause": "crashed"})),
    "put there again, and the host does not say why": (
        {"journal": [{**BACK, "why": ""}]}, "operator",
        ("hand-over.rolled-back", {"host": "gpu1", "cause": ("hand-over.no-reason", {})})),
    "taken back by a change": ({"journal": "/var/lib/gpufleet/journal/20260131T165844Z-52"}, "operator", None),
    "another one was rolled back before": ({"journal": [{**BACK, "reason": "gpufleet.nvidia.host"}]}, "operator", None),
}  # fmt: skip


@pytest.mark.parametrize("case", LEFT)
def test_a_host_that_was_left_as_it_was_has_not_been_handed_over(case: str) -> None:
    result, to, why = LEFT[case]
    if why is None:
        hand_over.require_converged("gpu1", result, to)
        return
    with pytest.raises(PlanError) as refused:
        hand_over.require_converged("gpu1", result, to)
    assert read_coded(refused.value.message) == why


def test_a_node_is_described_by_what_cluster_and_host_show() -> None:
    label = {"node": "gpu1", "label": hand_over.TOOLKIT_LABEL}
    assert read_all_coded(hand_over.list_node_facts(node("true", pod(READY), host=LIVE))) == [
        ("hand-over.node-label", {**label, "value": "true"}),
        ("hand-over.pod-phase", {"pod": "toolkit-x", "phase": "ready"}),
        (
            "hand-over.host-trace",
            {"fate": "live", "cause": "its process nvidia-toolkit runs", "handlers": "nvidia"},
        ),
    ]
    assert read_all_coded(hand_over.list_node_facts(node(host={"fate": ""}, **OURS))) == [
        ("hand-over.node-label", {**label, "value": "(none)"}),
        ("hand-over.no-pod", {}),
        (
            "hand-over.host-trace",
            {"fate": "not known", "cause": ("hand-over.no-trace", {}), "handlers": "none"},
        ),
        ("hand-over.engine-configured", {}),
    ]


def test_a_node_that_is_held_says_why_it_is() -> None:
    held = dc.replace(node("false"), held=True, why="a disk is full")
    assert read_coded(hand_over.explain_held_node(held)) == (
        "hand-over.node-held-for",
        {"node": "gpu1", "cause": "a disk is full"},
    )
