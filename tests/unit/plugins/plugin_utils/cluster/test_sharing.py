# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How pods share GPUs: `sharing` of the device plugin's file, for each group, and what the plugin
cannot do.
"""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster import (
    helm,
    members,
    objects,
    summary,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError

from tests.unit.cluster_hosts import hosts, native

UUID, BUS, MODEL = "GPU-11111111-0000-5000-8000-000000000001", "0000:17:00.0", "NVIDIA A100"
OTHER = "0000:43:00.0"
FOUR = {"time_slicing": {"replicas": 4}}
PROFILES = {
    "chart": {},
    "operator": {"profile": "operator", "environment": helm.get_plugin_environment({})},
}


def looked(*migs: int) -> dict[str, Any]:
    """A host with a GPU for each number, which is that of its MIG devices."""
    rows = [
        {
            "index": n,
            "minor": n,
            "bus_id": bus,
            "uuid": f"{UUID[:-1]}{n + 1}",
            "model": MODEL,
            "migs": found,
        }
        for n, (bus, found) in enumerate(zip((BUS, OTHER), migs, strict=False))
    ]
    result = native()
    return {**result, "driver": {**result["driver"], "gpus": rows}}


def rendered(
    sharing: dict[str, Any], *migs: int, mig: str = "", **settings: Any
) -> objects.RenderedCluster:
    wanted = members.OfInventory(sharing=sharing, mig=mig)
    return objects.render_cluster(
        "north",
        hosts({"gpu1": looked(*(migs or (0, 0)))}, gpu1=wanted),
        objects.ClusterSettings(**settings),
    )


RESOURCES = {"resources": [{"name": "nvidia.com/gpu", "replicas": 4}]}
WRITTEN: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "time slices": ({MODEL: FOUR}, {"timeSlicing": RESOURCES}),
    "each GPU named in its own way": ({"0": FOUR, OTHER: FOUR}, {"timeSlicing": RESOURCES}),
    "all that there is": (
        {
            MODEL: {
                "time_slicing": {
                    "replicas": 4,
                    "rename_by_default": True,
                    "fail_requests_greater_than_one": False,
                }
            }
        },
        {
            "timeSlicing": {
                "renameByDefault": True,
                "failRequestsGreaterThanOne": False,
                **RESOURCES,
            }
        },
    ),
    # https://github.com/NVIDIA/k8s-device-plugin/blob/v0.20.0/api/config/v1/config_test.go
    "MPS that hands out several": (
        {MODEL: {"mps": {"replicas": 4, "fail_requests_greater_than_one": False}}},
        {"mps": {"failRequestsGreaterThanOne": False, **RESOURCES}},
    ),
    "MPS": ({MODEL: {"mps": {"replicas": 4}}}, {"mps": RESOURCES}),
}


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("case", WRITTEN)
def test_the_policy_of_a_node_is_in_the_file_of_its_group(case: str, profile: str) -> None:
    """In both profiles: no variable of the plugin's environment says anything of sharing."""
    given, expected = WRITTEN[case]
    (group,) = rendered(given, **PROFILES[profile]).groups
    assert yaml.safe_load(group.text)["sharing"] == expected


@pytest.mark.parametrize("policy", ["time_slicing", "mps"])
@pytest.mark.parametrize("profile", PROFILES)
def test_how_the_plugin_chooses_among_replicas_is_a_flag_of_it(policy: str, profile: str) -> None:
    packed = {policy: {"replicas": 4, "shared_devices_allocation_policy": "packed"}}
    (group,) = rendered({MODEL: packed}, **PROFILES[profile]).groups
    (plain,) = rendered({MODEL: {policy: {"replicas": 4}}}, **PROFILES[profile]).groups
    flags = yaml.safe_load(group.text)["flags"]["plugin"]
    assert flags["sharedDevicesAllocationPolicy"] == "packed"
    assert "sharedDevicesAllocationPolicy" not in plain.text
    assert group.name != plain.name


def test_hosts_that_share_are_a_group_of_their_own() -> None:
    wanted = {
        "gpu1": members.OfInventory(sharing={MODEL: FOUR}),
        "gpu3": members.OfInventory(sharing={MODEL: {"mps": {"replicas": 2}}}),
    }
    found = objects.render_cluster(
        "north",
        hosts({f"gpu{n}": looked(0) for n in (1, 2, 3)}, **wanted),
        objects.ClusterSettings(),
    )
    assert sorted(
        ([m.host for m in group.members], "sharing" in group.text) for group in found.groups
    ) == [
        (["gpu1"], True),
        (["gpu2"], False),
        (["gpu3"], True),
    ]
    lines = "\n".join(summary.list_cluster_lines(found))
    assert "gpu1: cdi-cri; each GPU for 4 pods (time_slicing);" in lines
    assert "gpu3: cdi-cri; each GPU for 2 pods (mps);" in lines
    assert found.values.values["gfd"] == {"enabled": True}, (
        "the chart's MPS daemon runs where GPU Feature Discovery has labelled"
    )


def test_no_gpu_is_known_of_a_directory_tree() -> None:
    (group,) = objects.render_cluster(
        "north",
        hosts({"gpu1": looked()}, gpu1=members.OfInventory(sharing={"0": FOUR})),
        objects.ClusterSettings(),
    ).groups
    assert "replicas: 4" in group.text


def test_whole_gpus_are_shared_beside_mig_devices_with_names_of_their_own() -> None:
    """The way round for a node that is to have both."""
    (group,) = rendered({BUS: FOUR}, 0, 2, mig="mixed").groups
    assert yaml.safe_load(group.text)["sharing"] == {"timeSlicing": RESOURCES}


NAME = "gpufleet_sharing for gpu1"
REFUSED: dict[str, tuple[dict[str, Any], tuple[int, ...], str, str, dict[str, Any]]] = {
    # the option, MIG devices of each GPU, the strategy, the code of the refusal, its values besides
    # the option
    "two policies on one node": (
        {BUS: FOUR, OTHER: {"time_slicing": {"replicas": 2}}},
        (0, 0),
        "",
        "plugin-policies-differ",
        {"gpu": BUS, "other": OTHER},
    ),
    "dedicated beside shared": (
        {BUS: FOUR, OTHER: "dedicated"},
        (0, 0),
        "",
        "plugin-policies-differ",
        {"gpu": BUS, "other": OTHER},
    ),
    "a GPU that is left out": (
        {BUS: FOUR},
        (0, 0),
        "",
        "gpu-left-out",
        {"gpu": OTHER, "model": MODEL},
    ),
    "a GPU that is not there": (
        {MODEL: FOUR, "Tesla T4": FOUR},
        (0,),
        "",
        "no-such-gpu-or-product",
        {"key": "Tesla T4", "gpus": f"{UUID} ({BUS})", "products": MODEL},
    ),
    "a divided GPU": ({MODEL: FOUR}, (0, 2), "mixed", "divided-gpu-named", {"gpu": OTHER}),
    "MPS beside MIG": (
        {BUS: {"mps": {"replicas": 2}}},
        (0, 2),
        "mixed",
        "mps-on-divided-gpu",
        {"gpu": OTHER},
    ),
    "MPS with the strategy mixed": (
        {BUS: {"mps": {"replicas": 2}}},
        (0,),
        "mixed",
        "mps-with-mixed-mig",
        {},
    ),
    "MIG devices under the shared name": (
        {BUS: FOUR},
        (0, 2),
        "single",
        "slices-on-divided-gpu",
        {"gpu": OTHER, "strategy": "single"},
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_the_plugin_cannot_do_is_refused_with_the_way_round(case: str) -> None:
    given, migs, mig, code, values = REFUSED[case]
    with pytest.raises(PlanError) as refused:
        rendered(given, *migs, mig=mig)
    assert (refused.value.code, refused.value.values) == (
        f"sharing.{code}",
        {"option": NAME, **values},
    )


def test_modes_of_a_host_are_refused_with_the_way_round() -> None:
    with pytest.raises(PlanError) as refused:
        rendered({BUS: {"time_slicing": {"interval": "short"}}}, 0)
    assert (refused.value.code, refused.value.values) == (
        "cluster.no-replicas",
        {"of_host": " for gpu1"},
    )


def test_mps_is_refused_where_the_operator_sets_mig_to_mixed_for_all_nodes() -> None:
    environment = helm.get_plugin_environment({"MIG_STRATEGY": "mixed"})
    with pytest.raises(
        PlanError,
        match="gpufleet_sharing has mps, and the device plugin does not start with that and MIG_STRATEGY=mixed",
    ):
        rendered({MODEL: {"mps": {"replicas": 2}}}, profile="operator", environment=environment)
