# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""MIG devices in a spec: their names, their capabilities, and when NVML is asked for them again."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    NeedMore,
    PlanError,
)

from tests.unit.coded import read_all_coded
from tests.unit.gpus import UUIDS, host, instances, mig, node, nvml
from tests.unit.mig_hosts import (
    MIGS,
    MIXED,
    PAIRS,
    list_caps,
    map_nodes,
    plan_devices,
    read_only_spec,
    see_host,
)


def test_a_host_with_both_modes() -> None:
    made = map_nodes(read_only_spec(plan_devices(see_host(MIXED))))
    assert list(made) == [
        "0:0",
        "0:1",
        "0:2",
        "1",
        UUIDS[1],
        *sorted(m["uuid"] for m in MIGS),
        "all",
    ]
    for index, (gi, ci) in enumerate(PAIRS):
        assert (
            made[f"0:{index}"] == made[MIGS[index]["uuid"]] == ["/dev/nvidia0", *list_caps(gi, ci)]
        )
    assert made["1"] == ["/dev/nvidia1"]
    assert set(made["all"]) == {
        "/dev/nvidia0",
        "/dev/nvidia1",
        *(path for pair in PAIRS for path in list_caps(*pair)),
    }


def test_numbers_of_capabilities_are_not_recorded() -> None:
    found = read_only_spec(plan_devices(see_host(MIXED)))
    assert {
        (n.major, n.minor) for d in found.devices for n in d.edits.device_nodes if "caps" in n.path
    } == {(None, None)}


def test_capabilities_are_counted_by_minor_and_names_by_index() -> None:
    files = {**host(2, minors=(1, 0)), **instances(1, (3, 0))}
    made = map_nodes(
        read_only_spec(plan_devices(see_host(files, nvml(minors=(1, 0), migs={0: [mig(0, 3)]}))))
    )
    assert made["0:0"] == ["/dev/nvidia1", *list_caps(3, 0, minor=1)]
    assert made["1"] == ["/dev/nvidia0"]


def test_the_second_run_asks_nobody() -> None:
    path, text = next((c["path"], c["content"]) for c in plan_devices(see_host(MIXED)).changes)
    assert plan_devices(see_host({**MIXED, path: text}, {})).empty


CHANGES = [
    ("an instance more", instances(0, (5, 0))),
    ("an instance less", dict.fromkeys(instances(0, (2, 1)))),
    ("the other GPU, too", instances(1, (1, 0))),
    (
        "the driver's table is another",
        {"/proc/driver/nvidia/capabilities/gpu0/mig/gi1/access": "DeviceFileMinor: 99\n"},
    ),
]


@pytest.mark.parametrize(
    "changes", [case[1] for case in CHANGES], ids=[case[0] for case in CHANGES]
)
def test_a_change_of_instances_makes_us_ask_again(changes: dict[str, Any]) -> None:
    path, text = next((c["path"], c["content"]) for c in plan_devices(see_host(MIXED)).changes)
    there = {**MIXED, path: text, **changes, "/dev/nvidia-caps/nvidia-cap99": node(510, 99)}
    with pytest.raises(NeedMore):
        plan_devices(see_host(there, {}))


def test_without_nvml_known_instances_keep_their_uuids() -> None:
    path, text = next((c["path"], c["content"]) for c in plan_devices(see_host(MIXED)).changes)
    hangs = {"probe:nvml": {"error": {"kind": "timeout", "message": "no answer"}}}
    made = plan_devices(see_host({**MIXED, **instances(0, (5, 0)), path: text}, hangs))
    assert [d.name for d in read_only_spec(made).devices if d.name.startswith("MIG-")] == sorted(
        m["uuid"] for m in MIGS
    )
    assert ("spec.mig-without-uuid", {"devices": "0:3"}) in read_all_coded(made.advice)


def test_mig_mode_without_an_instance_names_nothing() -> None:
    made = plan_devices(see_host(host(2), nvml(migs={0: []})))
    assert list(map_nodes(read_only_spec(made))) == ["1", UUIDS[1], "all"]
    assert ("spec.mig-without-instance", {"gpus": "0"}) in read_all_coded(made.advice)


def test_a_host_that_offers_nothing_has_no_spec() -> None:
    made = plan_devices(see_host(host(1), nvml(1, migs={0: []})))
    assert made.empty
    assert ("cdi.no-device-of-kind", {"kind": "nvidia.com/gpu"}) in read_all_coded(made.advice)


def test_a_capability_without_a_node_is_missing() -> None:
    gone = dict.fromkeys(list_caps(2, 1)[1:])
    with pytest.raises(PlanError, match=rf"{list_caps(2, 1)[1]} .*\[cdi.node-missing\]"):
        plan_devices(see_host({**MIXED, **gone}))
    allowed = plan_devices(see_host({**MIXED, **gone}), cdi_missing_nodes="allow")
    assert map_nodes(read_only_spec(allowed))["0:2"] == ["/dev/nvidia0", list_caps(2, 1)[0]]
