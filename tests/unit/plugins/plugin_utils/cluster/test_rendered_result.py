# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What was rendered for a cluster, as the result of the task has it."""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster import summary

from tests.unit.cluster_hosts import native, rendered


def test_a_result_has_each_host_once() -> None:
    found = rendered({"gpu1": native(), "gpu2": native(), "old1": {}})
    told = summary.convert_rendered(found)
    assert told["name"] == "north"
    assert [(group["hosts"], group["config"]) for group in told["groups"]] == [
        (["gpu1", "gpu2"], found.groups[0].text)
    ]
    assert [one["host"] for one in told["left_out"]] == ["old1"]
    kinds = [entry["kind"] for entry in told["objects"]]
    assert (kinds.count("ConfigMap"), kinds.count("Node")) == (1, 2)
    assert told["values"] == dict(found.values.values)
