# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names of groups stay: nodes have them in a label, and a new one has the device plugin of each
node start again.
"""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster import (
    members,
    objects,
)

from tests.unit.cluster_hosts import fallback, hook, hosts, native

FOUR = {"replicas": 4}
MORE = {"rename_by_default": True, "fail_requests_greater_than_one": True}
NAMES: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    # the host, what the inventory says of it, its group
    "by CDI": (native(), {}, "native-cdi-955e5472"),
    "by the NVIDIA runtime": (fallback(), {}, "nvidia-runtime-b96f3360"),
    "by the OCI hook": (hook(), {}, "oci-hook-63c690ca"),
    "shared by time slices": (
        native(),
        {"sharing": {"0": {"time_slicing": FOUR}}},
        "native-cdi-6d02a26b",
    ),
    "shared, with all that there is": (
        native(),
        {"sharing": {"0": {"time_slicing": {**FOUR, **MORE}}}},
        "native-cdi-f017ec94",
    ),
    "shared by MPS": (native(), {"sharing": {"0": {"mps": FOUR}}}, "native-cdi-eaec730b"),
}


@pytest.mark.parametrize("case", NAMES)
def test_a_group_keeps_its_name(case: str) -> None:
    host, said, name = NAMES[case]
    known = hosts(
        {"gpu1": {**host, "driver": {**host["driver"], "gpus": []}}},
        gpu1=members.OfInventory(**said),
    )
    (group,) = objects.render_cluster("north", known, objects.ClusterSettings()).groups
    assert group.name == name
