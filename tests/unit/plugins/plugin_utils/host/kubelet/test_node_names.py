# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which names a Kubernetes node can have, and which hosts of an inventory are asked for by one."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.action import fleet_image_report
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import draining
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster import drain
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.kubelet import (
    node_names,
)

GOOD = ["gpu1", "gpu-1.rack2.example.org", "1", "a" * 63, ".".join(["a" * 60] * 4)]
BAD = [
    "../../x",
    "gpu1/../x",
    "",
    ".",
    "..",
    "GPU1",
    "gpu_1",
    "-a",
    "a-",
    "a..b",
    "a" * 64,
    ".".join(["a" * 60] * 5),
    "a\n",
    "a?b",
    "a%2fb",
    "{{ x }}",
]
CRI = {"facts": {"engines": [{"engine": "containerd"}]}, "choices": [{}]}


@pytest.mark.parametrize("name", GOOD)
def test_what_a_node_can_be_called(name: str) -> None:
    assert (
        node_names.require_node_name(name, "") == node_names.require_node_name("x/y", name) == name
    )
    assert fleet_image_report.map_image_nodes({name: CRI}, {name: {}}) == {"": {name: name}}


@pytest.mark.parametrize("name", BAD)
def test_what_no_node_is_called_names_none(name: str) -> None:
    """Not in an object, not in a file, and not in an address of the API."""
    with pytest.raises(PlanError) as refused:
        node_names.require_node_name(name, "")
    assert refused.value.code == "kubernetes.node-name-unknown"
    assert fleet_image_report.map_image_nodes({name: CRI}, {name: {}}) == {"": {}}
    if name:
        with pytest.raises(PlanError):
            node_names.require_node_name("gpu1", name)
        for known in (
            {"gpufleet_kubernetes_node": name},
            {"gpufleet_cluster": "one", "gpufleet_kubernetes_node": name},
        ):
            with pytest.raises(PlanError):
                fleet_image_report.map_image_nodes({"gpu1": CRI}, {"gpu1": known})
    with pytest.raises(PlanError):
        fleet_image_report.map_image_nodes({name: CRI}, {name: {"gpufleet_cluster": "one"}})


ASKED = [
    # name in the inventory, what the host calls itself, gpufleet_kubernetes_node; names that the
    # API is asked for, None if it is not asked
    ("gpu1", "gpu1.example.org", "", ("gpu1.example.org", "gpu1")),
    ("../../x", "gpu1", "", ("gpu1",)),
    ("../../x", "", "", None),
    ("GPU_1", "", "", None),
    ("GPU_1", "", "worker-1", ("worker-1",)),
    ("gpu1", "gpu1", "../nodes", None),
]


@pytest.mark.parametrize(("host", "own", "given", "names"), ASKED)
def test_the_api_is_asked_for_names_that_a_node_can_have(
    host: str, own: str, given: str, names: tuple[str, ...] | None
) -> None:
    args: dict[str, Any] = {
        "kubernetes_node": given,
        "slurm_node": "",
        "rollout": "r",
        "kubeconfig": "",
        "context": "",
    }

    def asked() -> Any:
        work = drain.Work(hostname=own, boot_id="b")
        return draining.choose_orchestrators(
            None, {"inventory_hostname": host}, args, work, "", ["kubernetes"]
        )["kubernetes"]  # type: ignore[arg-type]

    if names is None:
        with pytest.raises(PlanError):
            asked()
    else:
        assert asked().names == names
