# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A cluster's files, and tools that remove from a cluster what has left their source."""

from __future__ import annotations

import yaml
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster import files

from tests.unit.cluster_hosts import fallback, native, rendered

NODES = {"nodes/gpu1.yaml", "nodes/old1.yaml"}


def test_nodes_alone_are_never_pruned() -> None:
    """Argo CD and Flux would delete the Node, and with it all its pods; any other object may go
    with its file.
    """
    found = rendered({"gpu1": native(), "old1": fallback()})
    documents = {
        name: yaml.safe_load(text) for name, text in files.render_cluster_files(found).items()
    }
    said = {
        name: (document.get("metadata") or {}).get("annotations") or {}
        for name, document in documents.items()
    }
    assert {
        name
        for name, notes in said.items()
        if notes.get("kustomize.toolkit.fluxcd.io/prune") == "disabled"
    } == NODES
    assert {
        name
        for name, notes in said.items()
        if "Prune=false" in notes.get("argocd.argoproj.io/sync-options", "").split(",")
    } == NODES
    # What is applied by the playbook itself is never pruned by anybody, so it has none of this.
    assert all(
        not files.UNPRUNED.keys() & node["metadata"]["annotations"].keys() for node in found.nodes
    )
