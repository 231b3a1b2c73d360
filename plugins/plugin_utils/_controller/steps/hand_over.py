# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Do the cluster's part of handing a node over between the GPU Operator's toolkit and this
collection.
"""

from __future__ import annotations

import dataclasses as dc
import time
from collections.abc import Mapping
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    arguments,
    cluster_api,
    clusters,
    messages,
    module_calls,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster import (
    drain_kubernetes,
    hand_over,
    objects,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    end_with_code,
    join_texts,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.kubelet import (
    node_names,
)


def hand_node_over(action: ActionBase, task_vars: dict[str, Any]) -> dict[str, Any]:
    """Do one part of handing the node over, and return whose the node is."""
    args = arguments.read_step_options(action, "hand_over")
    variables = task_vars
    host = str(variables.get("inventory_hostname") or "")
    if args["point"] == "converged":
        hand_over.require_converged(host, variables.get(args["results"]) or {}, args["to"])
        return {"changed": False}
    access = {key: args[key] for key in ("kubeconfig", "context") if args[key]}
    api = cluster_api.ClusterApi(
        module_calls.Calls(action, variables, cluster_api.DELEGATE), access
    )
    name = node_names.require_node_name(host, args["kubernetes_node"])
    return Step(
        api, args, name, variables.get(args["results"]) or {}, bool(action._task.check_mode)
    ).run()


class Step:
    """One task, with the cluster, the node, and the result of the look at its host."""

    def __init__(
        self,
        api: cluster_api.ClusterApi,
        args: Mapping[str, Any],
        name: str,
        result: Mapping[str, Any],
        check: bool,
    ) -> None:
        self.api, self.args, self.name, self.result, self.check = api, args, name, result, check

    def run(self) -> dict[str, Any]:
        to = self.args["to"]
        if self.args["point"] == "check":
            node = self.read_seen(judged=True)
            return self.check_node(node, hand_over.needs_handover(node, to))
        changed = self.set_label(to)
        node = self.read_seen() if self.check else self.wait_for_toolkit(to)
        return self.build_result(node, changed=changed)

    def check_node(self, node: hand_over.Node, needed: bool) -> dict[str, Any]:
        """Return the result of the first step.

        In check mode it is the last step, so it describes what the others would do.
        """
        to = self.args["to"]
        result = self.build_result(node, needed=needed, changed=needed and self.check)
        if not (needed and self.check):
            return result
        steps = end_with_code(hand_over.describe_handover_steps(to))
        said = join_texts(". ", (result["described"], steps))
        before, after = (
            {"labels": {objects.TOOLKIT_LABEL: value}} if value else None
            for value in (node.label, hand_over.LABELS[to])
        )
        return {
            **result,
            "described": said,
            "msg": said,
            "diff": [clusters.build_api_diff(f"Node {node.name}", before, after)],
        }

    def read_seen(self, *, judged: bool = False) -> hand_over.Node:
        """Read the node from the API. judged: raise PlanError unless it is the machine of the look."""
        node = self.api.get_node(self.name)
        if judged:
            drain_kubernetes.require_same_machine(
                node, str((self.result.get("work") or {}).get("boot_id") or "")
            )
        pods = self.api.list_pods(self.name, hand_over.SELECTOR)
        seen_node = hand_over.read_handover_node(
            self.name, node, pods, self.api.list_daemon_sets(hand_over.SELECTOR), self.result
        )
        held = drain_kubernetes.find_node_holder(node, self.args["rollout"]) == "held"
        return dc.replace(
            seen_node,
            held=held,
            why=str(drain_kubernetes.marks_of(node).get(drain_kubernetes.WHY) or ""),
        )

    def set_label(self, to: str) -> bool:
        """Set the label of the toolkit, and return whether that changed something."""
        return self.api.patch_node(
            "set the node's label",
            self.name,
            lambda node: hand_over.build_handover_patch(node, to),
            check=self.check,
        )

    def wait_for_toolkit(self, to: str) -> hand_over.Node:
        """Wait until the toolkit has left the node or has come to it, and return the node.

        Raise PlanError with what is missing when the time is over.
        """
        end = time.monotonic() + self.args["timeout"]
        while True:
            node = self.read_seen()
            still = hand_over.describe_handover_wait(node, to)
            if not still:
                return node
            if time.monotonic() >= end:
                leaves = to == hand_over.COLLECTION
                row = messages.TOOLKIT_HAS_NOT_LEFT if leaves else messages.TOOLKIT_HAS_NOT_COME
                seconds = self.args["timeout"]
                raise PlanError(row.fill(node=self.name, waits=still, seconds=seconds))
            # The pause between two questions; the last question is at `end`. The API announces a
            # change only to watchers, and no module of kubernetes.core watches the pods of one
            # node.
            time.sleep(min(self.args["interval"], max(0.0, end - time.monotonic())))

    def build_result(
        self, node: hand_over.Node, *, changed: bool = False, needed: bool = False
    ) -> dict[str, Any]:
        """Return the result of the task."""
        known = {
            "node": node.name,
            "owner": node.owner,
            "label": node.label,
            "described": hand_over.describe_handover_node(node),
        }
        return {"changed": changed, "needed": needed, **known, "msg": known["described"]}
