# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Take a host out of service by Kubernetes."""

from __future__ import annotations

import dataclasses as dc
import datetime
from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    draining_messages,
    kubernetes_core,
    messages,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller.kubernetes_core import (
    CONFLICTS,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller.module_calls import Calls
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller.orchestrator import (
    Refused,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster import (
    drain,
    drain_kubernetes,
    drain_messages,
    other_owners,
)

LIST_PODS = "list the node's pods"


@dc.dataclass(frozen=True)
class Kubernetes:
    """Kubernetes, by kubernetes.core's modules where the task runs."""

    calls: Calls
    args: Mapping[str, Any]
    names: tuple[str, ...]
    why: str
    boot_id: str

    def read_node(self) -> dict[str, Any]:
        """Return the node, as the API has it."""
        for name in self.names:
            node = self._get("read the node", {"kind": "Node", "name": name})
            if node:
                return dict(node[0])
        known = [drain_kubernetes.name_of(n) for n in self._get("list the nodes", {"kind": "Node"})]
        raise drain.build_unknown_node_error(
            "gpufleet_kubernetes_node", self.names, known, "the cluster"
        )

    def get_standing(self) -> drain.Standing:
        node = self.read_node()
        standing = drain_kubernetes.judge_kubernetes_standing(node, self.args["rollout"])
        if standing.state == "in_service":
            drain_kubernetes.require_same_machine(node, self.boot_id)
        return standing

    def find_kured_lock(self, name: str) -> str:
        """Return who has locked the node by kured; '' if it is not locked.

        Raise PlanError if that is not known.
        """
        daemon_sets = self._get(
            "list the DaemonSets", {"api_version": "apps/v1", "kind": "DaemonSet"}
        )
        return other_owners.describe_kured_lock(
            name, daemon_sets, datetime.datetime.now(datetime.timezone.utc)
        )

    def take_out(self, *, try_only: bool = False) -> None:
        how = self.args["kubernetes_hold"]
        why = self.args["reason"] or self.why
        self._patch(
            "hold the node",
            lambda node: drain_kubernetes.hold(node, self.args["rollout"], why, how),
            "in_service",
            try_only,
        )

    def describe_waiting(self, _left: int, /) -> str:
        node = self.read_node()
        standing = drain_kubernetes.judge_kubernetes_standing(node, self.args["rollout"])
        if standing.state in ("others", "in_service"):
            raise Refused(standing.text or draining_messages.NODE_PUT_BACK.fill(node=standing.node))
        if standing.state == "broken":
            return standing.text
        # held by a run with other settings
        if self.args["method"] == "evict" and drain_kubernetes.find_hold_method(node) == "taint":
            cordons = drain_messages.EVICTION_CORDONS.fill()
            raise Refused(draining_messages.HELD_BY_TAINT.fill(node=standing.node, cause=cordons))
        refused = self._evict(standing.node) if self.args["method"] == "evict" else ""
        pods = self._get(
            LIST_PODS, {"kind": "Pod", "field_selectors": [f"spec.nodeName={standing.node}"]}
        )
        left_ = drain_kubernetes.describe_waiting_pods(pods, self.args["method"])
        if not left_:
            self._must_list_pods(standing.node)
        return f"{left_}{'; ' if refused else ''}{refused}" if left_ else ""

    def _must_list_pods(self, name: str) -> None:
        """Raise PlanError unless the API lists the node's pods.

        k8s_info takes an answer 400, or a list without items, for a node without pods
        (plugins/module_utils/k8s/service.py, `find`). k8s_drain, which only tries here, fails in
        both cases.
        """
        options = {"ignore_daemonsets": True, "force": True, "delete_emptydir_data": True}
        result = self._call(
            "k8s_drain", {"name": name, "state": "drain", "delete_options": options}, check=True
        )
        if result.get("failed"):
            raise drain_kubernetes.build_api_error(result, LIST_PODS)

    def _evict(self, name: str) -> str:
        """Evict pods once; return what a disruption budget refuses, '' if nothing.

        Refused pods are tried again until the time is over.
        """
        options = {"ignore_daemonsets": True, "force": self.args["kubernetes_force"]}
        options["delete_emptydir_data"] = self.args["kubernetes_delete_emptydir_data"]
        result = self._call(
            "k8s_drain", {"name": name, "state": "drain", "delete_options": options}
        )
        if not result.get("failed"):
            return ""
        if drain_kubernetes.is_refused_by_budget(result):
            return drain_kubernetes.get_api_message(result).rstrip(".")
        raise drain_kubernetes.build_api_error(result, "evict the node's pods")

    def give_back(self, *, try_only: bool = False) -> None:
        self._patch("put the node back", drain_kubernetes.release, "held", try_only)

    def keep(self, why: str, *, try_only: bool = False) -> None:
        self._patch(
            "mark the node",
            lambda node: drain_kubernetes.patch_node_reason(node, why),
            "held",
            try_only,
        )

    def _patch(
        self,
        doing: str,
        change: Callable[[Mapping[str, Any]], drain_kubernetes.Patch],
        wanted: str,
        try_only: bool,
    ) -> None:
        """Change the node as it was read.

        If another writer was faster, read it again, and change it only if its standing is still the
        same.
        """
        for _attempt in range(CONFLICTS):
            node = self.read_node()
            standing = drain_kubernetes.judge_kubernetes_standing(node, self.args["rollout"])
            claimed = standing.claimed if wanted == "in_service" else ""
            if claimed or drain_kubernetes.find_node_holder(node, self.args["rollout"]) != wanted:
                raise Refused(
                    claimed
                    or standing.text
                    or draining_messages.NODE_CHANGED_MEANWHILE.fill(node=standing.node)
                )
            what = {
                "api_version": "v1",
                "kind": "Node",
                "name": standing.node,
                "patch": change(node),
            }
            result = self._call("k8s_json_patch", what, check=try_only)
            if not result.get("failed"):
                return
            if not drain_kubernetes.is_api_conflict(result):
                raise drain_kubernetes.build_api_error(result, doing)
        raise Refused(draining_messages.NODE_ALWAYS_CHANGED.fill(doing=doing))

    def _get(self, doing: str, what: Mapping[str, Any]) -> list[dict[str, Any]]:
        result = self._call("k8s_info", {"api_version": "v1", **what})
        if result.get("failed"):
            raise drain_kubernetes.build_api_error(result, doing)
        return kubernetes_core.list_answered_objects(result, doing)

    def _call(
        self, module: str, arguments: Mapping[str, Any], *, check: bool = False
    ) -> dict[str, Any]:
        access = {key: self.args[key] for key in ("kubeconfig", "context") if self.args[key]}
        return kubernetes_core.run_kubernetes_module(
            self.calls,
            module,
            {**access, **arguments},
            messages.KUBERNETES_CORE_FOR_DRAIN,
            check=check,
        )
