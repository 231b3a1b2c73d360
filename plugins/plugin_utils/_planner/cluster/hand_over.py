# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hand a node over between the GPU Operator's toolkit and this collection.

The owner of a node is the one that configures its engine.

The operator writes a label of its operands only where it is missing or empty, so `false` stays, and
the DaemonSet's node selector wants `true` (gpu-operator v26.7, assets/state-container-toolkit and
controllers/state_manager.go). A pod of it that is ended takes its handlers out of the engine's
configuration, and restarts the engine (nvidia-container-toolkit v1.20, cmd/nvidia-ctk-installer).
"""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster import (
    daemon_sets,
    drain_kubernetes,
    hand_over_messages,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster.objects import (
    TOOLKIT_LABEL,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
    end_with_code,
    join_texts,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.text import escape

COLLECTION, OPERATOR, STATE = ("collection", "operator", "state")
SELECTOR = "app=nvidia-container-toolkit-daemonset"  # of the DaemonSet and of its pods
LABELS: Mapping[str, str] = {COLLECTION: "false", OPERATOR: "true"}
NOBODY = "nobody"
ABSENT = "(state: absent)"  # in the reason of a transaction of `node` that takes everything back


@dc.dataclass(frozen=True)
class Node:
    """A node as the cluster and its host show it."""

    name: str
    label: str  # '' if it is not set
    pods: tuple[Mapping[str, Any], ...]  # of the toolkit, on this node
    there: bool  # the cluster has the toolkit's DaemonSet
    host: Mapping[str, Any]  # operator_toolkit of the look
    decided: bool  # this collection configures an engine there
    ended: tuple[
        Mapping[str, Any], ...
    ] = ()  # pods of it that have ended, and that the cluster still has
    why: str = ""  # the reason why it is out of service, if it is held
    # an earlier run has taken it out of service, and was killed before it put it back
    held: bool = False

    @property
    def owner(self) -> str:
        if self.pods or self.host.get("fate") == "live":
            return OPERATOR
        return COLLECTION if self.decided and self.label == LABELS[COLLECTION] else NOBODY


def read_handover_node(
    name: str,
    node: Mapping[str, Any],
    pods: Iterable[Mapping[str, Any]],
    sets: Sequence[Any],
    result: Mapping[str, Any],
) -> Node:
    """Return a node as a handover sees it.

    pods: those of the toolkit on it. sets: the toolkit's DaemonSets. result: the look at its host.
    """
    labels = (node.get("metadata") or {}).get("labels") or {}
    decided = bool((result.get("decision") or {}).get("decisions")) and not result.get(
        "differences"
    )
    able = [pod for pod in pods if daemon_sets.may_write(pod)]
    ended = tuple(
        pod for pod in able if (pod.get("status") or {}).get("phase") in drain_kubernetes.ENDED
    )
    own = tuple(pod for pod in able if pod not in ended)
    there = any(daemon_sets.may_change_hosts(one) for one in sets)
    return Node(
        name,
        str(labels.get(TOOLKIT_LABEL) or ""),
        own,
        there,
        result.get("operator_toolkit") or {},
        decided,
        ended,
    )


def describe_handover_node(node: Node) -> str:
    """Describe the state of a node in words. The next step for a person stands at the end."""
    held = end_with_code(explain_held_node(node)) if node.held else ""
    return join_texts("; ", filter(None, (*list_node_facts(node), held)))


def list_node_facts(node: Node) -> list[str]:
    """List what the cluster and the host show of a node."""
    value = node.label or "(none)"
    return [
        hand_over_messages.NODE_LABEL.fill(node=node.name, label=TOOLKIT_LABEL, value=value),
        describe_pods((*node.pods, *node.ended)) or hand_over_messages.NO_POD.fill(),
        describe_host(node.host),
        *([hand_over_messages.ENGINE_CONFIGURED.fill()] if node.decided else []),
    ]


def describe_host(host: Mapping[str, Any]) -> Message:
    if not host:
        return hand_over_messages.HOST_NOT_SEEN.fill()
    cause = str(host.get("why") or "")
    return hand_over_messages.HOST_TRACE.fill(
        fate=str(host.get("fate") or "not known"),
        cause=escape.escape_line(cause) if cause else hand_over_messages.NO_TRACE.fill(),
        handlers=escape.escape_line(", ".join(sorted(host.get("handlers") or {})) or "none"),
    )


def explain_held_node(node: Node) -> Message:
    """Return how a node that is held out of service gets back."""
    if not node.why:
        return hand_over_messages.NODE_HELD_BACK.fill(node=node.name)
    cause = escape.escape_line(node.why)
    return hand_over_messages.NODE_HELD_FOR.fill(node=node.name, cause=cause)


def describe_pods(pods: Iterable[Mapping[str, Any]]) -> str:
    """Return pods with their phases, in words."""
    return join_texts(", ", map(describe_pod, pods))


def describe_pod(pod: Mapping[str, Any]) -> Message:
    """Return a pod with its phase, in words."""
    name, phase = drain_kubernetes.name_of(pod), str((pod.get("status") or {}).get("phase") or "")
    metadata = pod.get("metadata") or {}
    since = metadata.get("deletionTimestamp")
    if not since:
        shown = "ready" if is_pod_ready(pod) else phase or "there"
        return hand_over_messages.POD_PHASE.fill(pod=name, phase=shown)
    due = escape.escape_line(str(since))
    held = escape.escape_line(", ".join(map(str, metadata.get("finalizers") or ())))
    if not held:
        return hand_over_messages.POD_ENDING.fill(pod=name, due=due)
    return hand_over_messages.POD_ENDING_HELD.fill(pod=name, due=due, finalizers=held)


def is_pod_ready(pod: Mapping[str, Any]) -> bool:
    """Tell whether a pod is ready, and not about to end."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return not (pod.get("metadata") or {}).get("deletionTimestamp") and any(
        c.get("type") == "Ready" and c.get("status") == "True" for c in conditions
    )


def needs_handover(node: Node, to: str) -> bool:
    """Tell whether a node has to be handed over. Raise PlanError if it cannot be.

    A node that is already with its new owner is left as it is, regardless of who brought it there.
    A node that an earlier run has left out of service is handed over once more. Its host may not be
    verified yet, and the node has to go back into service.
    """
    if to == STATE:
        return False
    if to == COLLECTION:
        if node.owner == NOBODY and not (node.there or node.held):
            raise PlanError(hand_over_messages.NOTHING_TO_TAKE.fill(node=node.name))
        return node.held or node.owner != COLLECTION
    if not node.there:
        row = (
            hand_over_messages.NO_OPERATOR_AND_HELD if node.held else hand_over_messages.NO_OPERATOR
        )
        raise PlanError(row.fill(node=node.name))
    return node.held or node.label != LABELS[OPERATOR] or not node.host.get("installed")


def describe_handover_steps(to: str) -> Message:
    """Describe, for check mode, what a run does with a node."""
    row = hand_over_messages.TO_COLLECTION if to == COLLECTION else hand_over_messages.TO_OPERATOR
    return row.fill(label=f"{TOOLKIT_LABEL}={LABELS[to]}")


def build_handover_patch(node: Mapping[str, Any], to: str) -> drain_kubernetes.Patch:
    """Build the patch that sets the label; [] if the label has its value already.

    The patch applies only if the node's labels have not changed since they were read.
    """
    labels = (node.get("metadata") or {}).get("labels")
    if (labels or {}).get(TOOLKIT_LABEL) == LABELS[to]:
        return []
    path = "/metadata/labels"
    return [
        {"op": "test", "path": path, "value": labels},
        {"op": "add", "path": path, "value": {**(labels or {}), TOOLKIT_LABEL: LABELS[to]}},
    ]


def describe_handover_wait(node: Node, to: str) -> str:
    """Describe what the cluster still has to do; '' if it has done its part."""
    if to == COLLECTION:
        return describe_pods(node.pods)
    if any(is_pod_ready(pod) for pod in node.pods):
        return ""
    return describe_pods((*node.pods, *node.ended)) or hand_over_messages.NO_POD_MADE.fill()


def require_converged(name: str, result: Mapping[str, Any], to: str) -> None:
    """Raise PlanError unless the host's own part is done.

    A host that was lost, or whose engine was left alone, has not been handed over.
    """
    if result.get("unreachable"):
        cause = escape.escape_line(str(result.get("msg") or ""))
        raise PlanError(hand_over_messages.HOST_LOST.fill(host=name, cause=cause))
    # a look has a list of transactions here, a change its own directory
    journal = result.get("journal")
    newest: Mapping[str, Any] = journal[0] if journal and isinstance(journal, list) else {}
    if (
        to == OPERATOR
        and newest.get("state") == "rolled_back"
        and ABSENT in str(newest.get("reason"))
    ):
        said = escape.escape_line(str(newest.get("why") or ""))
        cause = said or hand_over_messages.NO_REASON_KNOWN.fill()
        raise PlanError(hand_over_messages.HOST_ROLLED_BACK.fill(host=name, cause=cause))
    if to == COLLECTION and not (result.get("decision") or {}).get("decisions"):
        refused = [
            str(r[1]) for r in (result.get("decision") or {}).get("refused") or () if len(r) == 2
        ]
        unset = hand_over_messages.NO_ENGINE_CONFIGURED.fill()
        cause = escape.escape_line(refused[0]) if refused else unset
        raise PlanError(hand_over_messages.NOT_CONVERGED.fill(host=name, cause=cause))
