# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which marks on a Kubernetes node say that others are working on the host: a table, as upstream
writes them.
"""

from __future__ import annotations

import datetime
import json
import re
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster import (
    drain,
    drain_kubernetes,
    other_owners,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import (
    rollout,
    settings,
)
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.rollout_looks import CHANGE, looked

READY = {"conditions": [{"type": "Ready", "status": "True"}]}


def node(kind: str = "", key: str = "", value: str = "", **spec: Any) -> dict[str, Any]:
    """A node that is Ready, with one mark."""
    metadata: dict[str, Any] = {
        "name": "gpu1",
        "labels": {"nvidia.com/gpu.present": "true"},
        "annotations": {"a/b": "c"},
    }
    taints = [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]
    if kind == "taint":
        taints.append({"key": key, **({"value": value} if value else {}), "effect": "NoSchedule"})
    elif kind:
        metadata[f"{kind}s"][key] = value
    return {"metadata": metadata, "spec": {"taints": taints, **spec}, "status": READY}


UPGRADE = "nvidia.com/gpu-driver-upgrade-state"
MIG = "nvidia.com/mig.config.state"
CASES = [
    # the mark, and whose it is; '' where nobody is working on the host
    (("", "", ""), ""),
    (("label", UPGRADE, "upgrade-done"), ""),
    (("label", UPGRADE, "upgrade-required"), ""),  # nothing has been done to the host yet
    (("label", UPGRADE, ""), ""),
    (("label", UPGRADE, "cordon-required"), "the driver upgrade of the GPU Operator"),
    (("label", UPGRADE, "wait-for-jobs-required"), "the driver upgrade of the GPU Operator"),
    (("label", UPGRADE, "pod-deletion-required"), "the driver upgrade of the GPU Operator"),
    (("label", UPGRADE, "drain-required"), "the driver upgrade of the GPU Operator"),
    (("label", UPGRADE, "node-maintenance-required"), "the driver upgrade of the GPU Operator"),
    (("label", UPGRADE, "pod-restart-required"), "the driver upgrade of the GPU Operator"),
    (("label", UPGRADE, "validation-required"), "the driver upgrade of the GPU Operator"),
    (("label", UPGRADE, "uncordon-required"), "the driver upgrade of the GPU Operator"),
    (("label", UPGRADE, "upgrade-failed"), "the driver upgrade of the GPU Operator"),
    (("annotation", UPGRADE, "drain-required"), ""),  # it is a label
    (("label", MIG, "success"), ""),
    (("label", MIG, "failed"), ""),
    (("label", MIG, "pending"), "the MIG manager"),
    (("label", MIG, "rebooting"), "the MIG manager"),
    (("annotation", "weave.works/kured-reboot-in-progress", "2026-11-22T10:00:00Z"), "kured"),
    # stays after the reboot
    (
        ("annotation", "weave.works/kured-most-recent-reboot-needed", "2026-11-22T10:00:00Z"),
        "",
    ),
    (("taint", "ToBeDeletedByClusterAutoscaler", "1795428000"), "the cluster autoscaler"),
    # comes and goes with the load
    (
        ("taint", "DeletionCandidateOfClusterAutoscaler", "1795428000"),
        "",
    ),
    (("taint", "karpenter.sh/disrupted", ""), "Karpenter"),
    (("taint", "karpenter.sh/disruption", "disrupting"), "Karpenter before 1.0"),
    (("taint", "karpenter.sh/unregistered", ""), ""),
    (("taint", "medik8s.io/drain", ""), "the Node Maintenance Operator"),
    (
        ("taint", "kubevirt.io/drain", "draining"),
        "a drain of KubeVirt or of an older Node Maintenance Operator",
    ),
    (("taint", "aws-node-termination-handler/spot-itn", "e"), "the AWS Node Termination Handler"),
    (("taint", "aws-node-termination-handler/rebalance-recommendation", "e"), ""),
    (("taint", "cloud.google.com/impending-node-termination", ""), "Google Kubernetes Engine"),
    (("annotation", "machineconfiguration.openshift.io/state", "Done"), ""),
    (
        ("annotation", "machineconfiguration.openshift.io/state", "Working"),
        "OpenShift's Machine Config Operator",
    ),
]


@pytest.mark.parametrize(("mark", "owner"), CASES)
@pytest.mark.parametrize("cordoned", [False, True])
def test_a_mark_says_in_whose_hands_a_host_is(
    mark: tuple[str, str, str], owner: str, cordoned: bool
) -> None:
    found = drain_kubernetes.judge_kubernetes_standing(node(*mark, unschedulable=cordoned), "r7")
    assert found.state == ("others" if cordoned else "in_service")
    if owner:
        assert re.match(
            rf"{owner} is (working on the node gpu1|taking the node gpu1 away) \({mark[0]} {mark[1]}\b",
            found.obstacle,
        )
    else:
        assert ("has cordoned the node" in found.obstacle) is cordoned
    assert bool(drain.explain_drain_obstacle({"kubernetes": found})) is bool(owner or cordoned)


def test_our_own_hold_does_not_hide_who_came_since() -> None:
    held = node("label", MIG, "rebooting", unschedulable=True)
    held["metadata"]["annotations"]["gpufleet.nvidia/rollout"] = "r7"
    found = drain_kubernetes.judge_kubernetes_standing(held, "r7")
    assert found.state == "held"
    assert "the MIG manager" in found.obstacle


NOW = datetime.datetime(2026, 11, 22, 12, 0, tzinfo=datetime.timezone.utc)
HOUR = 3600 * 10**9  # a duration as Go writes it
# kured-1.17, where it sees the file that asks for a reboot
SENTINEL = {"hostPath": {"path": "/var/run", "type": "Directory"}}


def kured(annotation: str | None, **spec: Any) -> dict[str, Any]:
    annotations = {} if annotation is None else {other_owners.KURED_LOCK: annotation}
    metadata = {"namespace": "kube-system", "name": "kured", "annotations": annotations}
    return {"metadata": metadata, "spec": {"template": {"spec": {"volumes": [SENTINEL], **spec}}}}


LOCKS = [
    # what kured has written on its DaemonSet, whether it holds gpu1
    (None, False),
    (
        {
            "nodeID": "gpu1",
            "metadata": {"unschedulable": False},
            "created": "2026-11-22T10:00:00.123456789Z",
            "TTL": 0,
        },
        True,
    ),
    ({"nodeID": "gpu2", "created": "2026-11-22T10:00:00Z", "TTL": 0}, False),
    ({"nodeID": "manual"}, False),  # somebody has paused kured
    ({"nodeID": "gpu1", "created": "2026-11-22T10:00:00Z", "TTL": HOUR}, False),  # its time is over
    ({"nodeID": "gpu1", "created": "2026-11-22T11:30:00Z", "TTL": HOUR}, True),
    ({"nodeID": "gpu1", "created": "2026-11-22T13:30:00+02:00", "TTL": HOUR}, True),
    ({"nodeID": "gpu1", "TTL": HOUR}, True),  # since when is not said
    # more than a float has room for
    (
        {"nodeID": "gpu1", "created": "2026-11-22T10:00:00Z", "TTL": 10**400},
        True,
    ),
    ({"nodeID": "gpu1", "TTL": 1, "created": "9999-99-99T99:99:99Z"}, True),
    ({"nodeID": "gpu1", "TTL": 1, "created": "2020-01-01T00:00:00+99:99"}, True),
    ({"maxOwners": 2, "locks": [{"nodeID": "gpu3", "TTL": 0}, {"nodeID": "gpu1", "TTL": 0}]}, True),
    ({"maxOwners": 2, "locks": None}, False),
    ([1], False),
    ("gpu1", False),
]


@pytest.mark.parametrize(("lock", "held"), LOCKS)
def test_the_lock_of_kured_holds_the_node_that_it_names(lock: Any, held: bool) -> None:
    daemon_set = kured(None if lock is None else json.dumps(lock))
    found = other_owners.describe_kured_lock("gpu1", [{"metadata": {}}, daemon_set], NOW)
    assert ("the DaemonSet kube-system/kured" in found) is held


def test_a_lock_on_a_daemon_set_that_can_reboot_no_host_holds_nothing() -> None:
    """Any user of a cluster can annotate a DaemonSet of their own, and would keep every rollout
    from every node by it.
    """
    lock = json.dumps({"nodeID": "gpu1", "TTL": 0})
    refused = {**kured(lock), "status": {"desiredNumberScheduled": 3, "currentNumberScheduled": 0}}
    # its nodeSelector fits no node
    nowhere = {
        **kured(lock),
        "status": {"desiredNumberScheduled": 0, "currentNumberScheduled": 0},
    }
    assert (
        other_owners.describe_kured_lock("gpu1", [kured(lock, volumes=[]), refused, nowhere], NOW)
        == ""
    )
    assert other_owners.describe_kured_lock("gpu1", [kured(lock)], NOW)


@given(st.text())
def test_what_is_no_lock_holds_nothing_and_breaks_nothing(text: str) -> None:
    assert other_owners.describe_kured_lock("gpu1", [kured(text)], NOW) == ""


def test_a_host_in_other_hands_is_left_out_and_one_that_has_nothing_to_do_is_done() -> None:
    others = {"a": "kubernetes: it is cordoned", "b": "kubernetes: it is cordoned"}
    seen = rollout.Fleet({"a": looked(CHANGE), "b": looked(), "c": looked(CHANGE)}, others=others)
    found = rollout.plan_rollout(seen, settings.build_rollout_settings({"max_left_out": 1}))
    assert {name: host.state for name, host in found.hosts.items()} == {
        "a": "left out",
        "b": "done",
        "c": "do",
    }
    assert found.hosts["a"].why == others["a"]


def test_an_annotation_that_no_json_reader_gets_through_holds_no_node() -> None:
    """An account that may annotate a DaemonSet must not end a rollout by it."""
    assert not other_owners.describe_kured_lock("gpu1", [kured("[" * 200_000)], NOW)
