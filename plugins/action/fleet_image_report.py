# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Show which image each host gets, and write the same for programs and for Kubernetes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    arguments,
    base,
    console,
    gathered,
    host_variables,
    outside,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster import members
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.text import escape
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import image_table
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.kubelet import (
    node_names,
)

SPEC = arguments.derive_argument_spec("fleet_image_report")
SETTING, NODE, CLUSTER = "gpufleet_image_dir", "gpufleet_kubernetes_node", "gpufleet_cluster"
JSON, AFFINITY = "images.json", "affinity.yml"


class ActionModule(ActionBase):
    _supports_check_mode = True
    _supports_async = False
    _requires_connection = False
    BYPASS_HOST_LOOP = True

    @base.guard_action
    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        args, variables = arguments.read_task_options(self, SPEC), task_vars or {}
        plain = json.loads(
            json.dumps(
                gathered.gather_results(variables, {"results": args["results"], "also": []}),
                default=str,
            )
        )
        results = {host: escape.escape_result(result) for host, result in plain.items()}
        lines = image_table.list_image_lines(results, args["width"] or console.get_terminal_width())
        console.show(["", *lines, ""])
        files = build_image_files(results, variables) if args["directory"] else {}
        place = outside.make_writable_directory(args["directory"], SETTING) if files else None
        named = (
            [
                str(outside.write_outside_file(place, name, text, SETTING))
                for name, text in files.items()
            ]
            if place
            else []
        )
        report = {
            "changed": False,
            "files": named,
            "lines": lines,
            "totals": image_table.count_image_totals(results),
            "cover": image_table.list_covering_images(results),
        }
        return {**report, "problem": image_table.explain_image_failure(results)}


def build_image_files(
    results: Mapping[str, Mapping[str, Any]], variables: Mapping[str, Any]
) -> dict[str, str]:
    """Return the files: name -> text. Everything is judged before the first one is written."""
    known = {host: host_variables.HostVariables(variables["hostvars"], host) for host in results}
    return {
        JSON: json.dumps(image_table.build_images_document(results), indent=1) + "\n",
        **{
            labels_file(cluster): image_table.render_image_labels(results, of)
            for cluster, of in map_image_nodes(results, known).items()
        },
        AFFINITY: image_table.render_image_affinity(results),
    }


def labels_file(cluster: str) -> str:
    """Return the name of a cluster's file of labels.

    A file is applied to one cluster. The document of another cluster's node would create that node
    there.
    """
    return f"labels-{cluster}.yml" if cluster else "labels.yml"


def map_image_nodes(
    results: Mapping[str, Mapping[str, Any]], known: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, str]]:
    """Return the names of the hosts as nodes: cluster -> host -> name.

    A host is left out if its engines serve no kubelet, or if no node can have its name. It may be
    outside of any cluster. A host that the inventory declares as a node stays.
    """
    nodes: dict[str, dict[str, str]] = {}
    for host, result in results.items():
        name, cluster = (str(known[host].get(variable) or "") for variable in (NODE, CLUSTER))
        if cluster:
            # refuses a name that cannot be the name of a file
            members.get_cluster_name({}, members.OfInventory(cluster=cluster))
        if (
            name
            or cluster
            or (image_table.may_be_node(result) and node_names.NODE_NAME.fullmatch(host))
        ):
            nodes.setdefault(cluster, {})[host] = node_names.require_node_name(host, name)
    return nodes or {"": {}}
