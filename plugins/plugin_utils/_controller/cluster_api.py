# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read and write the API of a cluster by the modules of kubernetes.core, on the machine where the
task runs.
"""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    kubernetes_core,
    module_calls,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    messages as controller_messages,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster import (
    api_calls,
    drain_kubernetes,
    live,
    messages,
    objects,
    owners,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError

DELEGATE, RIGHTS = "gpufleet_kubernetes_delegate", "docs/cluster.md"
OF_EVERY_NAMESPACE = "kube-root-ca.crt"


@dc.dataclass(frozen=True)
class ClusterApi:
    """The API of one cluster, by the kubeconfig and the context that count for it."""

    calls: module_calls.Calls
    access: Mapping[str, str]

    def look(self, namespace: str, config_map: str) -> live.Live:
        """Return what is in the cluster now of all that this collection writes. Raise PlanError for
        a failed call.
        """
        listed, there = self._get_config_map(namespace, config_map)
        nodes = self._get("list the nodes", {"kind": "Node"})
        if not nodes:
            # k8s_info takes an answer 400, or a list without items, for an empty cluster
            # (plugins/module_utils/k8s/service.py, `find`). An object that no node needs would be
            # removed.
            raise PlanError(messages.NODES_MISSING.fill())
        classes = self._get(
            "list the RuntimeClasses", {"kind": "RuntimeClass", "api_version": "node.k8s.io/v1"}
        )
        return live.Live(
            nodes={drain_kubernetes.name_of(node): node for node in nodes},
            config_map=listed[0] if listed else None,
            classes={drain_kubernetes.name_of(one): one for one in classes},
            namespace=there,
        )

    def _get_config_map(self, namespace: str, name: str) -> tuple[list[dict[str, Any]], bool]:
        """Return the ConfigMap, if it exists, and whether its namespace exists.

        Raise PlanError if that is not known.

        k8s_info takes an answer 400 for a missing object. Everything that an earlier run has
        written there would then be overwritten. Every namespace has the ConfigMap with the
        cluster's CA (Kubernetes 1.20 and later, kube-controller-manager's rootcacertpublisher), so
        that one proves the answer.
        """
        where = {"kind": "ConfigMap", "namespace": namespace}
        config_map = self._get("read the ConfigMap", {**where, "name": name})
        if config_map:
            return config_map, True
        if not self._get("read the namespace", {"kind": "Namespace", "name": namespace}):
            if not self._get("read the namespace", {"kind": "Namespace", "name": "default"}):
                raise PlanError(messages.NAMESPACE_UNREADABLE.fill(namespace=namespace))
            return [], False
        if not self._get("read the ConfigMap", {**where, "name": OF_EVERY_NAMESPACE}):
            row, other = messages.CONFIG_MAP_UNREADABLE, OF_EVERY_NAMESPACE
            raise PlanError(row.fill(namespace=namespace, name=name, other=other))
        return [], True

    def own_config_maps(self) -> list[dict[str, Any]]:
        """List this collection's ConfigMaps of all namespaces.

        The profile or the namespace may have been another one when they were written.
        """
        return self._get(
            "list the ConfigMaps",
            {"kind": "ConfigMap", "label_selectors": [f"{objects.MANAGED_BY}={objects.MANAGER}"]},
        )

    def get_node(self, name: str) -> dict[str, Any]:
        """Return a node. Raise PlanError if the cluster does not have it."""
        node = self._get("read the node", {"kind": "Node", "name": name})
        if not node:
            raise PlanError(messages.NODE_MISSING.fill(node=name))
        return node[0]

    def list_pods(self, node: str, selector: str) -> list[dict[str, Any]]:
        """List the pods of a node that have these labels."""
        what = {
            "kind": "Pod",
            "field_selectors": [f"spec.nodeName={node}"],
            "label_selectors": [selector],
        }
        return self._get("list the node's pods", what)

    def list_daemon_sets(self, selector: str) -> list[dict[str, Any]]:
        """List the DaemonSets that have these labels, of all namespaces."""
        return self._get(
            "list the DaemonSets",
            {"api_version": "apps/v1", "kind": "DaemonSet", "label_selectors": [selector]},
        )

    def patch_node(
        self,
        doing: str,
        name: str,
        change: Callable[[Mapping[str, Any]], drain_kubernetes.Patch],
        *,
        check: bool,
    ) -> bool:
        """Change a node as it was read.

        If another writer was faster, read it again. Return False if there is nothing to change.
        """
        for _attempt in range(kubernetes_core.CONFLICTS):
            wanted = change(self.get_node(name))
            if not wanted:
                return False
            result = self._call(
                "k8s_json_patch",
                {"api_version": "v1", "kind": "Node", "name": name, "patch": wanted},
                check=check,
            )
            if not result.get("failed"):
                return True
            if not drain_kubernetes.is_api_conflict(result):
                raise drain_kubernetes.build_api_error(result, doing, DELEGATE, RIGHTS)
        raise PlanError(messages.NODE_CHANGES.fill(doing=doing, node=name))

    def judge(self, calls: Sequence[api_calls.Call]) -> None:
        """Let the API judge all calls (dry run), so that a refusal comes before anything is
        changed.
        """
        for call in calls:
            result = self._do(call, check=True)
            if call.makes:
                self._require_new(call, result)

    def carry_out(self, calls: Sequence[api_calls.Call]) -> None:
        """Carry out the calls that were judged."""
        for call in calls:
            self._do(call, check=False)

    def _require_new(self, call: api_calls.Call, result: Mapping[str, Any]) -> None:
        """Raise PlanError if an object that was not listed has fields of another owner.

        k8s_info takes an answer 400 for an empty list, and another writer may have been faster.
        """
        made = result.get("result")
        others = (
            [
                who
                for who, _applied, _fields in owners.list_managed_fields(made)
                if who != objects.MANAGER
            ]
            if isinstance(made, Mapping)
            else []
        )
        if others:
            row, owner = messages.OBJECT_OF_OTHERS, owners.name_manager(others[0])
            raise PlanError(row.fill(doing=call.doing, owner=owner))

    def _do(self, call: api_calls.Call, *, check: bool) -> dict[str, Any]:
        result = self._call(call.module, call.arguments, check=check)
        for _attempt in range(kubernetes_core.CONFLICTS):
            if not (
                call.again and result.get("failed") and drain_kubernetes.is_api_conflict(result)
            ):
                break
            following = call.again(self._get_present_node(call))
            result = (
                self._call(following[0].module, following[0].arguments, check=check)
                if following
                else {}
            )
        if result.get("failed") and not (check and self._is_namespace_missing(result)):
            raise drain_kubernetes.build_api_error(result, call.doing, DELEGATE, RIGHTS)
        return result

    def _get_present_node(self, call: api_calls.Call) -> dict[str, Any]:
        """Return the node as it is now. Raise PlanError if the cluster does not have it any more."""
        name = call.arguments["name"]
        node = self._get("read the node", {"kind": "Node", "name": name})
        if len(node) != 1:
            raise PlanError(messages.NODE_GONE.fill(doing=call.doing, node=name))
        return node[0]

    def _is_namespace_missing(self, result: Mapping[str, Any]) -> bool:
        """Tell whether a call failed because its namespace is missing.

        A call that is judged before the namespace is created cannot find it yet.
        """
        text = drain_kubernetes.get_api_message(result)
        return text.startswith("namespaces ") and text.rstrip(".").endswith("not found")

    def _get(self, doing: str, what: Mapping[str, Any]) -> list[dict[str, Any]]:
        result = self._call("k8s_info", {"api_version": "v1", **what})
        if result.get("failed"):
            raise drain_kubernetes.build_api_error(result, doing, DELEGATE, RIGHTS)
        return kubernetes_core.list_answered_objects(result, doing)

    def _call(
        self, module: str, arguments: Mapping[str, Any], *, check: bool = False
    ) -> dict[str, Any]:
        return kubernetes_core.run_kubernetes_module(
            self.calls,
            module,
            {**self.access, **arguments},
            controller_messages.KUBERNETES_CORE_FOR_FILES,
            check=check,
        )
