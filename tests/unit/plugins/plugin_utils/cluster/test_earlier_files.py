# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What was written before, in files and in the API, and was edited since: it is read, or is one
sentence with its place.
"""

from __future__ import annotations

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster import files, groups
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError

NO_YAML = [
    "version: 2026-99-99",
    f"version: {'9' * 5000}",
    "version: !!timestamp v1",
    "version: !!bool v1",
    "version: [",
    "[" * 10_000,
]
NODE = "metadata: {name: old1, labels: {nvidia.com/device-plugin.config: one}}"


@pytest.mark.parametrize("text", NO_YAML)
def test_a_file_of_the_plugin_that_is_none_says_no_strategy(text: str) -> None:
    assert groups.list_file_strategies(text) == ()


@pytest.mark.parametrize("text", [*NO_YAML, "- a", "metadata: x", "metadata: {labels: [a]}"])
def test_a_node_that_cannot_be_read_is_named(text: str) -> None:
    with pytest.raises(
        PlanError,
        match=r"clusters/north/nodes/old1.yaml(:2)?: .*\[cluster.file-(unreadable|without-table)\]$",
    ):
        files.read_kept_files({"nodes/old1.yaml": f"{files.HEAD}\n{text}\n"}, (), "clusters/north")


@pytest.mark.parametrize("text", [*NO_YAML, "data: [a]"])
def test_a_config_map_that_cannot_be_read_is_named(text: str) -> None:
    before = {
        "nodes/old1.yaml": f"{files.HEAD}\n{NODE}\n",
        "configmap.yaml": f"{files.HEAD}\n{text}\n",
    }
    with pytest.raises(
        PlanError,
        match=r"clusters/north/configmap.yaml(:2)?: .*\[cluster.file-(unreadable|without-table)\]$",
    ):
        files.read_kept_files(before, (), "clusters/north")


def test_what_can_be_read_is_kept() -> None:
    before = {
        "nodes/old1.yaml": f"{files.HEAD}\n{NODE}\n",
        "configmap.yaml": f"{files.HEAD}\ndata: {{one: text}}\n",
    }
    found = files.read_kept_files(before, (), "clusters/north")
    assert (found.nodes, found.texts) == (
        {"old1": {"nvidia.com/device-plugin.config": "one"}},
        {"one": "text"},
    )
    assert files.read_kept_files(
        {"nodes/old1.yaml": f"{files.HEAD}\nmetadata:\n"}, (), "x"
    ).nodes == {"old1": {}}, "the file is the node's, whatever is in it"
