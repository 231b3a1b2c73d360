# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the marks with which other programs claim a Kubernetes node.

A mark shows the program that works on the host, and until when.

A rollout leaves such a host out, whether or not its own change would need a drain. If two programs
restart engines, drivers or the whole host at the same time, each spoils what the other one
verifies.
"""

from __future__ import annotations

import dataclasses as dc
import datetime
import re
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster import (
    daemon_sets as fleet_daemon_sets,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster import drain_messages
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import (
    json_bounds,
)


@dc.dataclass(frozen=True)
class Mark:
    """A mark of one program. kind: label, annotation or taint; values: each means work in progress;
    empty if every value does.
    """

    kind: str
    key: str
    values: tuple[str, ...]
    owner: str
    ends: str  # until when


# The states between `upgrade-required`, in which nothing has been done yet, and `upgrade-done`
# (k8s-operator-libs, pkg/upgrade/consts.go). A node whose upgrade has failed stays cordoned, with
# the driver in an unknown state, until a person repairs it.
UPGRADING = (
    *(
        "cordon-required",
        "wait-for-jobs-required",
        "pod-deletion-required",
        "drain-required",
        "node-maintenance-required",
    ),
    *(
        "post-maintenance-required",
        "pod-restart-required",
        "validation-required",
        "uncordon-required",
        "upgrade-failed",
    ),
)
GPU_OPERATOR = "the driver upgrade of the GPU Operator"
LEAVES = "which takes the host away"
MARKS = (
    Mark(
        "label",
        "nvidia.com/gpu-driver-upgrade-state",
        UPGRADING,
        GPU_OPERATOR,
        drain_messages.UNTIL_STATE.fill(state="upgrade-done"),
    ),
    Mark(
        "label",
        "nvidia.com/mig.config.state",
        ("pending", "rebooting"),
        "the MIG manager",
        drain_messages.UNTIL_STATE.fill(state="success"),
    ),
    # kured sets it if it runs with --annotate-nodes, and removes it after the reboot.
    # most-recent-reboot-needed stays.
    Mark(
        "annotation",
        "weave.works/kured-reboot-in-progress",
        (),
        "kured",
        drain_messages.UNTIL_REBOOTED.fill(),
    ),
    Mark("taint", "ToBeDeletedByClusterAutoscaler", (), "the cluster autoscaler", LEAVES),
    Mark("taint", "karpenter.sh/disrupted", (), "Karpenter", LEAVES),
    Mark("taint", "karpenter.sh/disruption", ("disrupting",), "Karpenter before 1.0", LEAVES),
    Mark(
        "taint",
        "medik8s.io/drain",
        (),
        "the Node Maintenance Operator",
        drain_messages.UNTIL_MAINTENANCE_DELETED.fill(),
    ),
    Mark(
        "taint",
        "kubevirt.io/drain",
        (),
        "a drain of KubeVirt or of an older Node Maintenance Operator",
        drain_messages.UNTIL_TAINT_GONE.fill(),
    ),
    Mark(
        "taint",
        "aws-node-termination-handler/spot-itn",
        (),
        "the AWS Node Termination Handler",
        LEAVES,
    ),
    Mark(
        "taint",
        "aws-node-termination-handler/asg-lifecycle-termination",
        (),
        "the AWS Node Termination Handler",
        LEAVES,
    ),
    Mark(
        "taint",
        "aws-node-termination-handler/scheduled-maintenance",
        (),
        "the AWS Node Termination Handler",
        drain_messages.UNTIL_MAINTENANCE_OVER.fill(),
    ),
    Mark(
        "taint",
        "cloud.google.com/impending-node-termination",
        (),
        "Google Kubernetes Engine",
        LEAVES,
    ),
    Mark(
        *("annotation", "machineconfiguration.openshift.io/state", ("Working", "Rebooting")),
        *("OpenShift's Machine Config Operator", drain_messages.UNTIL_STATE.fill(state="Done")),
    ),
)
# an annotation of kured's DaemonSet, see pkg/daemonsetlock
KURED_LOCK = "weave.works/kured-node-lock"


def find_other_owner(node: Mapping[str, Any]) -> str:
    """Name the program that is working on a node, by the marks on it: one sentence without its end,
    '' if there is none.
    """
    metadata = node.get("metadata") or {}
    taints = {
        str(t.get("key")): str(t.get("value") or "")
        for t in (node.get("spec") or {}).get("taints") or ()
    }
    there: Mapping[str, Mapping[str, Any]] = {
        "label": metadata.get("labels") or {},
        "annotation": metadata.get("annotations") or {},
        "taint": taints,
    }
    for mark in MARKS:
        value = there[mark.kind].get(mark.key)
        if value is not None and (not mark.values or value in mark.values):
            return describe_owner_mark(str(metadata.get("name") or ""), mark, str(value))
    return ""


def describe_owner_mark(node: str, mark: Mark, value: str) -> str:
    """Return the sentence about a mark by which another tool works on a node.

    value: the value of the label or the annotation.
    """
    said = f"{mark.kind} {mark.key}" + (f"={value[:63]}" if value else "")
    if mark.ends == LEAVES:
        row = drain_messages.OWNER_TAKES_AWAY
        return row.fill(owner=mark.owner, node=node, mark=said)
    given = {"owner": mark.owner, "node": node, "mark": said, "ends": mark.ends}
    return drain_messages.OWNER_AT_WORK.fill(**given)


def describe_kured_lock(
    node: str, daemon_sets: Iterable[Mapping[str, Any]], now: datetime.datetime
) -> str:
    """Return the sentence that kured holds its lock for a node, '' if it does not.

    Between the lock and the reboot kured cordons and drains the node. kured's pods see the host's
    file that asks for a reboot, and reboot the host. So only a DaemonSet that may change hosts
    counts: any other one may carry the annotation without being kured.
    """
    for daemon_set in (
        one
        for one in daemon_sets
        if fleet_daemon_sets.may_change_hosts(one) and not fleet_daemon_sets.is_nowhere(one)
    ):
        metadata = daemon_set.get("metadata") or {}
        text = (metadata.get("annotations") or {}).get(KURED_LOCK)
        if text is not None and any(_holds(lock, node, now) for lock in _locks(str(text))):
            where = f"annotation {KURED_LOCK} of the DaemonSet {metadata.get('namespace')}/{metadata.get('name')}"
            return drain_messages.KURED_AT_WORK.fill(node=node, where=where)
    return ""


def _locks(text: str) -> list[Mapping[str, Any]]:
    """Parse one lock, or those of a kured with --concurrency. Return [] for anything else, which
    then holds no node.
    """
    try:
        value = json_bounds.load_bounded_json(text)
    except ValueError:
        return []
    locks = value.get("locks") if isinstance(value, dict) and "locks" in value else [value]
    return [lock for lock in locks if isinstance(lock, dict)] if isinstance(locks, list) else []


def _holds(lock: Mapping[str, Any], node: str, now: datetime.datetime) -> bool:
    """Tell whether a lock holds the node.

    For kured a lock is free once its TTL, in nanoseconds, is over. A TTL of 0 never ends.
    """
    if lock.get("nodeID") != node:
        return False
    ttl, made = (
        lock.get("TTL") or 0,
        re.match(
            r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.\d+)?(Z|[+-]\d\d:\d\d)$",
            str(lock.get("created")),
        ),
    )
    if not isinstance(ttl, int) or ttl <= 0 or not made:
        return True
    try:
        created = datetime.datetime.fromisoformat(made[1] + made[2].replace("Z", "+00:00"))
    except ValueError:  # no time that there is, so none that is over
        return True
    return (now - created).total_seconds() * 1e9 < ttl  # of any length: no float may hold it
