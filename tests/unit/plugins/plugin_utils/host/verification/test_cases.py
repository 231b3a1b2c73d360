# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which containers verify a decision: a row for each way of injection, each container with what it
asks for and which nodes it may open.
"""

from __future__ import annotations

import dataclasses as dc
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    get_code,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Instance,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    verify as containerd_verify,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.verification import (
    cases,
)
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.records import instance, record
from tests.unit.verified_cases import (
    COMPATIBLE,
    CONTAINERD_16,
    CONTAINERD_21,
    CRIO,
    IMAGE,
    STRICT,
    build_driver,
    list_nodes,
    plan_cases,
)

RECORD = "/var/log/cli.jsonl"
SHOWS = {"shows": cases.RECORD_SHOWS}
MOUNTS = "/var/run/nvidia-container-devices"


def describe_request(case: dict[str, Any]) -> str:
    """Return by which path a container asks, in one word."""
    annotations = ",".join(f"{k}={v}" for k, v in (case.get("annotations") or {}).items())
    mounts = ",".join(target for _source, target in case.get("mounts") or ())
    variable = (case.get("env") or {}).get("NVIDIA_VISIBLE_DEVICES", "")
    return " ".join(
        p
        for p in (
            "+".join(case.get("devices") or ()),
            annotations,
            variable and f"env:{variable}",
            mounts,
        )
        if p
    )


def describe_case(case: dict[str, Any]) -> tuple[str, str, str, str, str]:
    """Return a case as a row of ROWS: its name, its handler, how it asks, the nodes that it has to
    open, and the nodes that it has to be refused.
    """
    allowed, refused = ",".join(list_nodes(case, "allowed")), ",".join(list_nodes(case, "refused"))
    return (
        case["name"].partition(": ")[2],
        case["handler"],
        describe_request(case),
        allowed,
        refused,
    )


DOCKER_26 = instance("docker", "26.1.5", cri=False)
DOCKER_20 = dc.replace(
    DOCKER_26,
    version="20.10.24",
    cdi=dc.replace(DOCKER_26.cdi, able=False, enabled=False, max_version=""),
)
OLD_FIELD = dc.replace(CRIO, version="1.26.0", cdi=dc.replace(CRIO.cdi, cri_field=False))
BY_MOUNTS = dc.replace(STRICT, device_plugin_strategy=("volume-mounts",))
NONE = ("none", "", "", "", "0,1,ctl,-uvm,-uvm-tools,-modeset")
ROWS = [
    ("native-cdi", COMPATIBLE, CONTAINERD_21, [
        ("one", "", "nvidia.com/gpu=0", "0,ctl", "1"),
        ("all", "", "nvidia.com/gpu=all", "0,1,ctl", ""),
        NONE,
        ("management", "nvidia", "env:all", "0,1,ctl", ""),
    ]),
    ("native-cdi on CRI-O", COMPATIBLE, CRIO, [
        ("one", "", "nvidia.com/gpu=0", "0,ctl", "1"),
        ("all", "", "nvidia.com/gpu=all", "0,1,ctl", ""),
        NONE,
        ("management", "nvidia", "env:all", "0,1,ctl", ""),
    ]),
    ("native-cdi before the CRI field", COMPATIBLE, OLD_FIELD, [
        ("one", "", "cdi.k8s.io/gpufleet-check=nvidia.com/gpu=0", "0,ctl", "1"),
        ("all", "", "cdi.k8s.io/gpufleet-check=nvidia.com/gpu=all", "0,1,ctl", ""),
        NONE,
        ("management", "nvidia", "env:all", "0,1,ctl", ""),
    ]),
    ("nvidia-runtime", COMPATIBLE, CONTAINERD_16, [
        ("one", "", "env:0", "0,ctl", "1"),
        ("all", "", "env:all", "0,1,ctl", ""),
        NONE,
    ]),
    ("nvidia-runtime, strict", STRICT, CONTAINERD_16, [
        ("one", "", "env:0", "0,ctl", "1"),
        ("all", "", "env:all", "0,1,ctl", ""),
        NONE,
        ("isolation", "", "env:all", "", "0,1,ctl,-uvm,-uvm-tools,-modeset"),
    ]),
    ("nvidia-runtime, strict, and a plugin that asks by mounts", BY_MOUNTS, CONTAINERD_16, [
        ("one", "", f"env:{MOUNTS} {MOUNTS}/0", "0,ctl", "1"),
        ("all", "", f"env:{MOUNTS} {MOUNTS}/all", "0,1,ctl", ""),
        NONE,
        ("isolation", "", "env:all", "", "0,1,ctl,-uvm,-uvm-tools,-modeset"),
    ]),
    ("nvidia-runtime that may not be the default", dc.replace(COMPATIBLE, set_as_default="disabled"), CONTAINERD_16, [
        ("one", "nvidia", "env:0", "0,ctl", "1"),
        ("all", "nvidia", "env:all", "0,1,ctl", ""),
        ("none", "nvidia", "", "", NONE[4]),
    ]),
    ("legacy", dc.replace(COMPATIBLE, cdi="disabled"), CONTAINERD_21, [
        ("one", "", "env:0", "0,ctl", "1"),
        ("all", "", "env:all", "0,1,ctl", ""),
        NONE,
    ]),
    ("native-cdi on Docker", COMPATIBLE, DOCKER_26, [
        ("one", "", "nvidia.com/gpu=0", "0,ctl", "1"),
        ("all", "", "nvidia.com/gpu=all", "0,1,ctl", ""),
        NONE,
        ("runtime", "nvidia", "env:all", "0,1,ctl", ""),
    ]),
    ("a Docker without CDI", COMPATIBLE, DOCKER_20, [
        ("one", "nvidia", "env:0", "0,ctl", "1"),
        ("all", "nvidia", "env:all", "0,1,ctl", ""),
        ("none", "nvidia", "", "", NONE[4]),
    ]),
    ("oci-hook", dc.replace(COMPATIBLE, cdi="disabled"), CRIO, [
        ("one", "", "env:0", "0,ctl", "1"),
        ("all", "", "env:all", "0,1,ctl", ""),
        NONE,
    ]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("policy", "engine", "expected"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
def test_each_way_of_injection_is_verified_by_its_own_path(
    policy: Policy, engine: Instance, expected: list[tuple[str, ...]]
) -> None:
    assert [describe_case(case) for case in plan_cases(policy, engine)] == expected


def test_docker_is_asked_in_its_own_words() -> None:
    one, _all, none, runtime = plan_cases(COMPATIBLE, DOCKER_26)
    common = {"User": "0", "Labels": {"gpufleet-check": "1"}, "NetworkDisabled": True}
    host = {"NetworkMode": "none", "CapAdd": ["MKNOD"], "DeviceRequests": []}
    gpu = [{"Driver": "cdi", "DeviceIDs": ["nvidia.com/gpu=0"]}]
    assert one["create"] == {**common, "Env": [], "HostConfig": {**host, "DeviceRequests": gpu}}
    assert none["create"] == {**common, "Env": [], "HostConfig": host}
    assert runtime["create"] == {
        **common,
        "Env": ["NVIDIA_VISIBLE_DEVICES=all"],
        "HostConfig": {**host, "Runtime": "nvidia"},
    }
    strict = plan_cases(STRICT, DOCKER_20)[0]["create"]
    assert strict["HostConfig"]["CapAdd"] == ["MKNOD", "SYS_ADMIN"], (
        "the variable counts for privileged containers only"
    )
    assert "Binds" not in strict["HostConfig"]


def test_companion_nodes_may_come_with_a_gpu() -> None:
    """Which of them a container gets depends on who wrote the CDI spec."""
    assert list_nodes(plan_cases(COMPATIBLE, CONTAINERD_21)[0], "optional") == [
        "-uvm",
        "-uvm-tools",
        "-modeset",
    ]


def test_one_gpu_needs_no_case_of_its_own_for_all() -> None:
    assert [c["name"] for c in plan_cases(COMPATIBLE, CONTAINERD_16, gpus=(0,))] == [
        "containerd: one",
        "containerd: none",
    ]


def test_a_gpu_is_asked_for_by_index_and_found_by_minor() -> None:
    """After a GPU was taken out, index 0 may be /dev/nvidia3."""
    one = plan_cases(COMPATIBLE, CONTAINERD_21, gpus=(3, 1))[0]
    assert describe_case(one) == ("one", "", "nvidia.com/gpu=0", "3,ctl", "1")


def test_a_prepared_host_without_gpu_still_starts_a_container() -> None:
    prepared = plan_cases(dc.replace(COMPATIBLE, no_gpu="prepare"), CONTAINERD_21, gpus=())
    assert [describe_case(c) for c in prepared] == [
        ("none", "", "", "", "ctl,-uvm,-uvm-tools,-modeset")
    ]


def test_every_engine_of_a_host_is_verified() -> None:
    names = [c["name"] for c in plan_cases(COMPATIBLE, CONTAINERD_16, CRIO)]
    assert [n for n in names if n.endswith(": one")] == ["containerd: one", "crio: one"]


def test_two_instances_of_one_engine_are_told_apart() -> None:
    second = dc.replace(
        CONTAINERD_21, socket="/run/other.sock", config_path="/etc/other/config.toml"
    )
    names = [
        c["name"]
        for c in plan_cases(COMPATIBLE, CONTAINERD_21, second, gpus=(0,))
        if c["name"].endswith(": one")
    ]
    assert names == [
        "containerd:/etc/containerd/config.toml: one",
        "containerd:/etc/other/config.toml: one",
    ]


def test_an_engine_that_serves_no_cri_has_no_cases() -> None:
    host = record(COMPATIBLE, CONTAINERD_21, driver=build_driver(0))
    without = dc.replace(CONTAINERD_21, cri=False)
    assert cases.list_cases(host, (without,), build_driver(0), image=IMAGE) == []
    assert get_code(cases.explain_no_cases(host, [])) == "verify.nothing-to-verify"


@pytest.mark.parametrize("engine", [CONTAINERD_21, CRIO], ids=["legacy", "oci-hook"])
def test_a_record_stands_for_the_nodes_where_no_driver_is(engine: Instance) -> None:
    found = plan_cases(dc.replace(COMPATIBLE, cdi="disabled"), engine, evidence_file=RECORD)
    assert [c["record"] for c in found] == [
        {"path": RECORD, "contains": ["--device=0(?![0-9])"], **SHOWS},
        {"path": RECORD, "contains": ["--device=all(?![0-9])"], **SHOWS},
        {"path": RECORD, "silent": True, **SHOWS},
    ]
    assert list_nodes(found[0], "allowed") == []
    assert list_nodes(found[0], "refused") == ["1"], (
        "what was not asked for is refused, record or not"
    )


def test_a_record_is_for_the_legacy_ways_only() -> None:
    assert not any(
        c.get("record") for c in plan_cases(COMPATIBLE, CONTAINERD_16, evidence_file=RECORD)
    )


def test_a_management_container_under_strict_isolation_needs_the_capability_that_makes_the_variable_count() -> (
    None
):
    management = plan_cases(STRICT, CONTAINERD_21)[-1]
    assert (management["name"], management["capabilities"]) == (
        "containerd: management",
        ["SYS_ADMIN"],
    )


SYSTEMD = {
    "runc": {"options": {"SystemdCgroup": True}},
    "nvidia": {"options": {"SystemdCgroup": False}},
}
CGROUPS = [
    ("no status", {}, "", ""),
    (
        "the default handler's driver",
        {"containerd": {"defaultRuntimeName": "runc", "runtimes": SYSTEMD}},
        "",
        "system.slice",
    ),
    (
        "the named handler's driver",
        {"containerd": {"defaultRuntimeName": "runc", "runtimes": SYSTEMD}},
        "nvidia",
        "",
    ),
    (
        "1.x, no options written",
        {"containerd": {"defaultRuntimeName": "runc", "runtimes": {"runc": {"options": None}}}},
        "",
        "",
    ),
    (
        "1.x, one switch for all",
        {"systemdCgroup": True, "containerd": {"runtimes": {}}},
        "",
        "system.slice",
    ),
    ("CRI-O", {"crio": {"CgroupManager": "systemd"}}, "", ""),
]


@pytest.mark.parametrize(
    ("config", "handler", "parent"), [row[1:] for row in CGROUPS], ids=[row[0] for row in CGROUPS]
)
def test_the_cgroup_parent_follows_the_driver_in_force(
    config: dict[str, Any], handler: str, parent: str
) -> None:
    assert containerd_verify.get_pod_cgroup_parent({"info": {"config": config}}, handler) == parent


@given(
    st.lists(st.integers(0, 63), min_size=1, max_size=16, unique=True),
    st.sampled_from([COMPATIBLE, STRICT]),
)
def test_every_case_says_of_every_gpu_what_is_expected(minors: list[int], policy: Policy) -> None:
    for engine in (CONTAINERD_16, CONTAINERD_21, CRIO):
        for case in plan_cases(policy, engine, gpus=tuple(minors)):
            known = sorted(n["path"] for n in case["nodes"] if n["rdev"])
            assert known == sorted(["/dev/nvidiactl", *(f"/dev/nvidia{m}" for m in minors)])
            gives_none = case["name"].endswith((": none", ": isolation"))
            assert (list_nodes(case, "allowed") == []) is gives_none


WAYS = [
    # the engine, what a case of it has that the host carries out by itself
    ("containerd", set()),
    ("crio", set()),
    ("docker", {"create"}),
    ("podman", {"run", "image_there"}),
]


@pytest.mark.parametrize(("engine", "way"), WAYS)
def test_an_engine_is_asked_by_cri_by_its_api_or_by_its_command(engine: str, way: set[str]) -> None:
    case = {"devices": ["nvidia.com/gpu=0"], "handler": ""}
    found = cases.get_engine_way(case, engine, "/usr/bin/x")
    assert set(found) == way
    if "run" in way:
        assert found["run"][:2] == ["/usr/bin/x", "run"]
        assert found["run"][-1] == "--device=nvidia.com/gpu=0"


@pytest.mark.parametrize(
    ("gpus", "variable", "minor"), [((0, 1), "GPU-0", "0"), ((3, 1), "GPU-3", "3")]
)
def test_a_pod_of_a_device_plugin_asks_by_the_uuid_of_the_gpu_that_it_may_open(
    gpus: tuple[int, ...], variable: str, minor: str
) -> None:
    policy = dc.replace(COMPATIBLE, device_plugin_strategy=("envvar",))
    (plugin,) = [
        case for case in plan_cases(policy, CONTAINERD_21, gpus=gpus) if ": plugin" in case["name"]
    ]
    assert plugin["env"]["NVIDIA_VISIBLE_DEVICES"] == variable
    assert list_nodes(plugin, "allowed")[0] == minor
