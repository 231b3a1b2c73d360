# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Results of hosts of a cluster, as looks return them, by what Kubernetes tells apart."""

from __future__ import annotations

import dataclasses as dc
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster import (
    members,
    objects,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Kubelet,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import decide

from tests.unit.records import ONE_GPU, instance

KUBELET = Kubelet(
    present=True,
    version="1.34.1",
    endpoint="unix:///run/containerd/containerd.sock",
    installed=True,
)


def looked(
    engine: str = "containerd", version: str = "2.3.7", *, kubelet: Kubelet = KUBELET, **policy: Any
) -> dict[str, Any]:
    """Return the result of a host whose kubelet runs pods in this engine."""
    own = instance(engine, version, used_by_kubelet=kubelet.present)
    record = decide.decide_host(Policy(**policy), [own], ONE_GPU, kubelet)
    return {
        "decision": dc.asdict(record),
        "kubelet": dc.asdict(kubelet),
        "instances": [{"key": own.key, "used_by_kubelet": own.used_by_kubelet}],
        "driver": dc.asdict(ONE_GPU),
        "work": {"hostname": "host", "boot_id": "boot", "cluster": ""},
        "leftovers": [],
        "differences": [],
    }


def native() -> dict[str, Any]:
    return looked()


def fallback(**policy: Any) -> dict[str, Any]:
    return looked(version="1.6.20", **policy)


def hook(**policy: Any) -> dict[str, Any]:
    return looked("crio", "1.34.2", cdi="disabled", **policy)


def hosts(
    results: dict[str, dict[str, Any]], **wanted: members.OfInventory
) -> tuple[members.Host, ...]:
    return members.find_members(
        results, {host: wanted.get(host, members.OfInventory()) for host in results}
    )


def rendered(
    results: dict[str, dict[str, Any]], kept: objects.Kept | None = None, **settings: Any
) -> objects.RenderedCluster:
    return objects.render_cluster(
        "north", hosts(results), objects.ClusterSettings(**settings), kept or objects.Kept()
    )
