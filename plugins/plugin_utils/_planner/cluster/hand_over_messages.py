# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List the sentences about a node that is handed over between two owners."""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Sentence,
)

NO_DAEMON_SET = "the cluster has no DaemonSet of it that can make pods"

# ---------------------------------------------------------------- what is refused
NOTHING_TO_TAKE = Sentence(
    "hand-over.nothing-to-take",
    "the GPU Operator's toolkit is not on the node {node}",
    why=NO_DAEMON_SET,
    next="Run gpufleet.nvidia.site, which configures it",
)
NO_OPERATOR = Sentence(
    "hand-over.no-operator",
    "the node {node} cannot go to the GPU Operator's toolkit",
    why=NO_DAEMON_SET,
    next="Set toolkit.enabled: true in the operator's values first",
)
NO_OPERATOR_AND_HELD = Sentence(
    "hand-over.no-operator-and-held",
    "the node {node} cannot go to the GPU Operator's toolkit",
    why=NO_DAEMON_SET,
    next="Set toolkit.enabled: true in the operator's values first, or hand it over to `collection`, which puts it back into service",
)
HOST_LOST = Sentence(
    "hand-over.host-lost",
    "{host} was lost while it was changed",
    why="{cause}",
    next="See what its next look says",
)
HOST_ROLLED_BACK = Sentence(
    "hand-over.rolled-back",
    "this collection's changes to {host} are there again, since taking them back was rolled back",
    why="{cause}",
    next="See what its next look says, and run again",
)
NOT_CONVERGED = Sentence(
    "hand-over.not-converged",
    "{host} was not converged",
    why="{cause}",
    next="See the advice in the result",
)
NO_ENGINE_CONFIGURED = Sentence(
    "hand-over.no-engine-configured", "this run has configured no engine of the host"
)
NO_REASON_KNOWN = Sentence("hand-over.no-reason", "the host reports no reason")

# ---------------------------------------------------------------- what a node and its host show
NODE_HELD_BACK = Sentence(
    "hand-over.node-held",
    "this collection holds the node {node} out of service",
    next="Hand the node over to `collection` or `operator` to put it back into service",
)
NODE_HELD_FOR = Sentence(
    "hand-over.node-held-for",
    "this collection holds the node {node} out of service",
    why="{cause}",
    next="Hand the node over to `collection` or `operator` to put it back into service",
)
NODE_LABEL = Sentence("hand-over.node-label", "the node {node} has the label {label}={value}")
NO_POD = Sentence("hand-over.no-pod", "none of its pods is there")
NO_POD_MADE = Sentence("hand-over.no-pod-made", "no pod of it has been made for this node")
POD_ENDING = Sentence("hand-over.pod-ending", "the pod {pod} is ending, due {due}")
POD_ENDING_HELD = Sentence(
    "hand-over.pod-ending-held", "the pod {pod} is ending, due {due}, held by {finalizers}"
)
POD_PHASE = Sentence("hand-over.pod-phase", "the pod {pod} is {phase}")
HOST_NOT_SEEN = Sentence("hand-over.host-not-seen", "this run did not look at its host")
HOST_TRACE = Sentence(
    "hand-over.host-trace", "on the host it is {fate} ({cause}), handlers of it: {handlers}"
)
NO_TRACE = Sentence("hand-over.no-trace", "no trace of it")
ENGINE_CONFIGURED = Sentence(
    "hand-over.engine-configured", "this collection has configured its engine"
)

# ---------------------------------------------------------------- what a run would do
TO_COLLECTION = Sentence(
    "hand-over.to-collection",
    "It would be handed over to the collection. It is drained, the label {label} is set, and its host is converged. "
    "If gpufleet_verify_image is set, the host is verified. Then the node is put back into service",
)
TO_OPERATOR = Sentence(
    "hand-over.to-operator",
    "It would be handed over to the operator. It is drained, and its host gets its state from before this collection. "
    "Then the label {label} is set, and the node is put back into service",
)
