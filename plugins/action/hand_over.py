# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Do the cluster's part of handing a node over between the GPU Operator's toolkit and this collection."""

from __future__ import annotations

import dataclasses as dc
import time
from collections.abc import Mapping
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.gpufleet.nvidia.plugins.action import arguments, base, cluster_api, clusters, draining
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import messages
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster import hand_over, objects
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import drain_kubernetes
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.kubernetes import node_names

SPEC = arguments.spec("hand_over")


class ActionModule(ActionBase):
    _supports_check_mode = True
    _supports_async = False

    @base.shown
    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        args = arguments.of_task(self, SPEC)
        variables = task_vars or {}
        host = str(variables.get("inventory_hostname") or "")
        if args["step"] == "converged":
            hand_over.require_converged(host, variables.get(args["results"]) or {}, args["to"])
            return {"changed": False}
        access = {key: args[key] for key in ("kubeconfig", "context") if args[key]}
        api = cluster_api.Api(draining.Calls(self, variables, cluster_api.DELEGATE), access)
        name = node_names.require(host, args["kubernetes_node"])
        return Step(api, args, name, variables.get(args["results"]) or {}, bool(self._task.check_mode)).run()


class Step:
    """One task, with the cluster, the node, and the result of the look at its host."""

    def __init__(self, api: cluster_api.Api, args: Mapping[str, Any], name: str, result: Mapping[str, Any], check: bool) -> None:
        self.api, self.args, self.name, self.result, self.check = api, args, name, result, check

    def run(self) -> dict[str, Any]:
        to = self.args["to"]
        if self.args["step"] == "check":
            node = self.seen(judged=True)
            return self.checked(node, hand_over.needed(node, to))
        changed = self.labelled(to)
        node = self.seen() if self.check else self.waited(to)
        return self.shaped(node, changed=changed)

    def checked(self, node: hand_over.Node, needed: bool) -> dict[str, Any]:
        """Return the result of the first step.

        In check mode it is the last step, so it describes what the others would do.
        """
        to = self.args["to"]
        found = self.shaped(node, needed=needed, changed=needed and self.check)
        if not (needed and self.check):
            return found
        said = f"{found['described']}. {hand_over.steps(to)}"
        before, after = ({"labels": {objects.TOOLKIT_LABEL: value}} if value else None for value in (node.label, hand_over.LABELS[to]))
        return {**found, "described": said, "msg": said, "diff": [clusters.api_diff(f"Node {node.name}", before, after)]}

    def seen(self, *, judged: bool = False) -> hand_over.Node:
        node = self.api.node(self.name)
        if judged:
            drain_kubernetes.require_same_machine(node, str((self.result.get("work") or {}).get("boot_id") or ""))
        pods = self.api.pods(self.name, hand_over.SELECTOR)
        found = hand_over.of(self.name, node, pods, self.api.daemon_sets(hand_over.SELECTOR), self.result)
        held = drain_kubernetes.holder(node, self.args["rollout"]) == "held"
        return dc.replace(found, held=held, why=str(drain_kubernetes.marks_of(node).get(drain_kubernetes.WHY) or ""))

    def labelled(self, to: str) -> bool:
        return self.api.patched("set the node's label", self.name, lambda node: hand_over.patch(node, to), check=self.check)

    def waited(self, to: str) -> hand_over.Node:
        """Wait until the toolkit has left the node or has come to it, and return the node.

        Raise PlanError with what is missing when the time is over.
        """
        end = time.monotonic() + self.args["timeout"]
        while True:
            node = self.seen()
            still = hand_over.waiting(node, to)
            if not still:
                return node
            if time.monotonic() >= end:
                leaves = to == hand_over.COLLECTION
                row = messages.TOOLKIT_HAS_NOT_LEFT if leaves else messages.TOOLKIT_HAS_NOT_COME
                seconds = self.args["timeout"]
                raise PlanError(row.fill(node=self.name, waits=still, seconds=seconds))
            # The pause between two questions; the last question is at `end`. The API announces a change only to
            # watchers, and no module of kubernetes.core watches the pods of one node.
            time.sleep(min(self.args["interval"], max(0.0, end - time.monotonic())))

    def shaped(self, node: hand_over.Node, *, changed: bool = False, needed: bool = False) -> dict[str, Any]:
        known = {"node": node.name, "owner": node.owner, "label": node.label, "described": hand_over.described(node)}
        return {"changed": changed, "needed": needed, **known, "msg": known["described"]}
