# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An API that answers as Kubernetes' does, for nodes, pods and evictions; it records requests. What
it imitates is documented upstream:

- GET, LIST and PATCH of nodes: a JSON patch, 422 Invalid if a test does not hold; dryRun=All keeps
  nothing.
- POST .../pods/NAME/eviction: 201, or 429 with the reason TooManyRequests and the cause
  DisruptionBudget (API-initiated eviction).
- 403 Forbidden and 404 NotFound as Status objects.
"""

from __future__ import annotations

import copy
import dataclasses as dc
import json
import re
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

JSON = dict[str, Any]
RESOURCES = [
    {
        "name": "nodes",
        "singularName": "node",
        "namespaced": False,
        "kind": "Node",
        "verbs": ["get", "list", "patch"],
    },
    {
        "name": "pods",
        "singularName": "pod",
        "namespaced": True,
        "kind": "Pod",
        "verbs": ["get", "list", "delete"],
    },
    {
        "name": "pods/eviction",
        "namespaced": True,
        "kind": "Eviction",
        "group": "policy",
        "version": "v1",
        "verbs": ["create"],
    },
]
APPS = {"groupVersion": "apps/v1", "version": "v1"}
DOCUMENTS: Mapping[str, JSON] = {
    "/version": {"major": "1", "minor": "34", "gitVersion": "v1.34.4"},
    "/api": {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []},
    "/apis": {
        "kind": "APIGroupList",
        "apiVersion": "v1",
        "groups": [{"name": "apps", "versions": [APPS], "preferredVersion": APPS}],
    },
    "/apis/apps/v1": {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": "apps/v1",
        "resources": [
            {
                "name": "daemonsets",
                "singularName": "daemonset",
                "namespaced": True,
                "kind": "DaemonSet",
                "verbs": ["list"],
            }
        ],
    },
    "/api/v1": {"kind": "APIResourceList", "groupVersion": "v1", "resources": RESOURCES},
}


INFO = (
    *(
        "architecture",
        "containerRuntimeVersion",
        "kernelVersion",
        "kubeProxyVersion",
        "kubeletVersion",
    ),
    *("machineID", "operatingSystem", "osImage", "systemUUID"),
)


def node(name: str, *, ready: str = "True", boot_id: str = "", **metadata: Any) -> JSON:
    """Return a node as its kubelet registers it."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "resourceVersion": "1",
            "annotations": {"node.alpha.kubernetes.io/ttl": "0"},
            **metadata,
        },
        "spec": {},
        "status": {
            "conditions": [
                {
                    "type": "Ready",
                    "status": ready,
                    "reason": "KubeletReady" if ready == "True" else "NodeStatusUnknown",
                }
            ],
            "nodeInfo": {**dict.fromkeys(INFO, "-"), "bootID": boot_id},
        },
    }


def pod(
    name: str,
    node_name: str,
    *,
    gpus: int = 0,
    owner: str = "ReplicaSet",
    phase: str = "Running",
    **spec: Any,
) -> JSON:
    """Return a pod on a node. owner: '' for a pod that would not be started again."""
    limits = {"limits": {"nvidia.com/gpu": str(gpus)}} if gpus else {}
    owners = (
        [{"apiVersion": "apps/v1", "kind": owner, "name": "owner", "uid": "1", "controller": True}]
        if owner
        else []
    )
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "team", "ownerReferences": owners},
        "spec": {
            "nodeName": node_name,
            "containers": [{"name": "main", "image": "busybox", "resources": limits}],
            **spec,
        },
        "status": {"phase": phase},
    }


def status(code: int, reason: str, message: str, **details: Any) -> JSON:
    return {
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "code": code, "reason": reason, "message": message, "details": details,
    }  # fmt: skip


@dc.dataclass
class Cluster:
    """The objects of the API, and its faults.

    refused_evictions: how many evictions are refused before one is allowed. ends: pods that are
    gone after so many lists.
    """

    nodes: dict[str, JSON] = dc.field(default_factory=dict)
    pods: dict[str, JSON] = dc.field(default_factory=dict)
    daemon_sets: list[JSON] = dc.field(default_factory=list)
    refused_evictions: int = 0
    ends: dict[str, int] = dc.field(default_factory=dict)
    reports: int = 0  # how many patches find a node whose kubelet has reported since it was read
    rivals: int = 0  # how many find a node that has been labelled since
    forbidden: tuple[str, ...] = ()  # "PATCH nodes", "LIST pods" ...
    requests: list[str] = dc.field(default_factory=list)
    patches: list[JSON] = dc.field(default_factory=list)

    def changes(self) -> list[str]:
        """List the requests that changed something."""
        return [r for r in self.requests if not r.startswith("GET") and "dryRun" not in r]

    def answer(
        self, method: str, path: str, query: Mapping[str, list[str]], body: Any
    ) -> tuple[int, JSON]:
        if path in DOCUMENTS:
            return 200, copy.deepcopy(DOCUMENTS[path])
        if path == "/apis/apps/v1/daemonsets":
            return self._daemon_sets()
        found = re.fullmatch(
            r"/api/v1/(?:namespaces/([^/]+)/)?(nodes|pods)(?:/([^/]+))?(?:/(eviction))?", path
        )
        if not found:
            return 404, status(404, "NotFound", "the server could not find the requested resource")
        _namespace, kind, name, eviction = found.groups()
        verb = "CREATE" if eviction else "LIST" if name is None else method
        what = f"{verb} {kind}{'/eviction' if eviction else ''}"
        if what in self.forbidden:
            text = f'{kind} "{name}" is forbidden: User "gpufleet" cannot {verb.lower()} resource "{kind}" in API group ""'
            return 403, status(403, "Forbidden", text)
        if eviction:
            return self._evict(name)
        return (
            self._list(kind, query) if name is None else self._one(method, kind, name, query, body)
        )

    def _daemon_sets(self) -> tuple[int, JSON]:
        if "LIST daemonsets" in self.forbidden:
            return 403, status(
                403,
                "Forbidden",
                'daemonsets.apps is forbidden: User "gpufleet" cannot list resource "daemonsets"',
            )
        return 200, {
            "kind": "DaemonSetList",
            "apiVersion": "apps/v1",
            "metadata": {},
            "items": copy.deepcopy(self.daemon_sets),
        }

    def _list(self, kind: str, query: Mapping[str, list[str]]) -> tuple[int, JSON]:
        items = list((self.nodes if kind == "nodes" else self.pods).values())
        selector = query.get("fieldSelector", [""])[0].replace("==", "=")
        if selector.startswith("spec.nodeName="):
            items = [i for i in items if i["spec"].get("nodeName") == selector.partition("=")[2]]
            for name in list(self.ends):
                self.ends[name] -= 1
                if self.ends[name] <= 0:
                    self.pods.pop(name, None)
                    del self.ends[name]
        return 200, {
            "kind": f"{kind.capitalize()[:-1]}List",
            "apiVersion": "v1",
            "metadata": {},
            "items": copy.deepcopy(items),
        }

    def _one(
        self, method: str, kind: str, name: str, query: Mapping[str, list[str]], body: Any
    ) -> tuple[int, JSON]:
        there = self.nodes if kind == "nodes" else self.pods
        if name not in there:
            return 404, status(404, "NotFound", f'{kind} "{name}" not found', name=name, kind=kind)
        if method == "GET":
            return 200, copy.deepcopy(there[name])
        if self.reports or self.rivals:
            there[name]["metadata"]["resourceVersion"] += "0"
        if self.rivals:
            there[name]["metadata"]["labels"] = {"rival": str(self.rivals)}
        self.reports, self.rivals = max(0, self.reports - 1), max(0, self.rivals - 1)
        try:
            new = patched(there[name], body)
        except AssertionError:  # the real one tells no more, either
            return 422, status(
                422, "Invalid", "the server rejected our request due to an error in our request"
            )
        new["metadata"]["resourceVersion"] = str(
            int(there[name]["metadata"]["resourceVersion"]) + 1
        )
        if "dryRun" not in query:
            there[name] = new
            self.patches.append(body)
        return 200, copy.deepcopy(new)

    def _evict(self, name: str) -> tuple[int, JSON]:
        if self.refused_evictions:
            self.refused_evictions -= 1
            text = "Cannot evict pod as it would violate the pod's disruption budget."
            cause = {
                "reason": "DisruptionBudget",
                "message": "The disruption budget web needs 2 healthy pods and has 2 currently",
            }
            return 429, status(429, "TooManyRequests", text, causes=[cause])
        if self.pods.pop(name, None) is None:
            return 404, status(404, "NotFound", f'pods "{name}" not found')
        return 201, {"kind": "Status", "apiVersion": "v1", "status": "Success"}


def patched(document: JSON, patch: list[JSON]) -> JSON:
    """Return the document after a patch by RFC 6902, with only `test` and `add` of a member.

    A member that is missing equals null, as for json-patch v4.
    """
    found: JSON = copy.deepcopy(document)
    for step in patch:
        *way, last = step["path"].strip("/").split("/")
        where = found
        for key in way:
            where = where[key]
        if step["op"] == "test":
            assert where.get(last) == step["value"], (
                f"testing value {step['path']} failed: test failed"
            )
        else:
            assert step["op"] == "add"
            where[last] = step["value"]
    return found


class Server:
    """The API on a port of this machine."""

    def __init__(self, cluster: Cluster) -> None:
        lock = threading.Lock()

        class Handler(BaseHTTPRequestHandler):
            def reply(self) -> None:
                url = urlsplit(self.path)
                length = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(length) or b"null") if length else None
                with lock:
                    cluster.requests.append(f"{self.command} {self.path}")
                    code, document = cluster.answer(
                        self.command, url.path, parse_qs(url.query), body
                    )
                text = json.dumps(document).encode()
                self.send_response(code)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_POST = do_PATCH = do_DELETE = do_PUT = reply

            def log_message(self, *_args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def kubeconfig(self) -> JSON:
        address = f"http://127.0.0.1:{self._server.server_address[1]}"
        return {
            "apiVersion": "v1", "kind": "Config", "current-context": "lab",
            "clusters": [{"name": "lab", "cluster": {"server": address}}],
            "users": [{"name": "gpufleet", "user": {"token": "t"}}],
            "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "gpufleet"}}],
        }  # fmt: skip

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
