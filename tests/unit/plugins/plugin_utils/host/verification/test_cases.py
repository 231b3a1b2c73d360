# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which containers verify a decision: one row per way of injection, each container with what it
asks for and what it must find.
"""

from __future__ import annotations

import dataclasses as dc
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import causes
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
    get_code,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Driver,
    Instance,
    Policy,
    SeenGpu,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    verify as containerd_verify,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.verification import (
    cases as verify_cases,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.verification import (
    evidence,
    told_words,
)
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.coded import read_coded
from tests.unit.endless_patterns import count_endless_repeats
from tests.unit.records import instance, record

IMAGE = "localhost/probe:lab"
RECORD = "/var/log/cli.jsonl"
SHOWS = {"shows": verify_cases.RECORD_SHOWS}
MOUNTS = "/var/run/nvidia-container-devices"


def driver(*minors: int) -> Driver:
    return Driver(
        "ok",
        "580.95.05",
        tuple(SeenGpu(index, minor, "", f"GPU-{minor}") for index, minor in enumerate(minors)),
        "procfs",
    )


def cases(
    policy: Policy, *instances: Instance, gpus: tuple[int, ...] = (0, 1), evidence_file: str = ""
) -> list[dict[str, Any]]:
    host = record(
        policy, *instances, driver=driver(*gpus), plugin_strategies=policy.device_plugin_strategy
    )
    return verify_cases.list_cases(
        host, instances, driver(*gpus), image=IMAGE, evidence_file=evidence_file
    )


def nodes(case: dict[str, Any], expect: str) -> list[str]:
    return [n["path"].removeprefix("/dev/nvidia") for n in case["nodes"] if n["expect"] == expect]


def asked(case: dict[str, Any]) -> str:
    """By which path a container asks, in one word."""
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


def told(case: dict[str, Any]) -> tuple[str, str, str, str, str]:
    """A case as a row of the tables below: name, handler, how it asks, nodes it must be able to
    open, nodes that it must be refused.
    """
    allowed, refused = ",".join(nodes(case, "allowed")), ",".join(nodes(case, "refused"))
    return case["name"].partition(": ")[2], case["handler"], asked(case), allowed, refused


DOCKER_26 = instance("docker", "26.1.5", cri=False)
DOCKER_20 = dc.replace(
    DOCKER_26,
    version="20.10.24",
    cdi=dc.replace(DOCKER_26.cdi, able=False, enabled=False, max_version=""),
)
CONTAINERD_16, CONTAINERD_21, CRIO = (
    instance(version="1.6.20"),
    instance(version="2.1.9"),
    instance("crio", "1.34.0"),
)
OLD_FIELD = dc.replace(CRIO, version="1.26.0", cdi=dc.replace(CRIO.cdi, cri_field=False))
COMPATIBLE, STRICT = Policy(isolation="compatible"), Policy(isolation="strict")
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
    assert [told(case) for case in cases(policy, engine)] == expected


def test_docker_is_asked_in_its_own_words() -> None:
    one, _all, none, runtime = cases(COMPATIBLE, DOCKER_26)
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
    strict = cases(STRICT, DOCKER_20)[0]["create"]
    assert strict["HostConfig"]["CapAdd"] == ["MKNOD", "SYS_ADMIN"], (
        "the variable counts for privileged containers only"
    )
    assert "Binds" not in strict["HostConfig"]


def test_companion_nodes_may_come_with_a_gpu() -> None:
    """Which of them a container gets depends on who wrote the CDI spec."""
    assert nodes(cases(COMPATIBLE, CONTAINERD_21)[0], "optional") == [
        "-uvm",
        "-uvm-tools",
        "-modeset",
    ]


def test_one_gpu_needs_no_case_of_its_own_for_all() -> None:
    assert [c["name"] for c in cases(COMPATIBLE, CONTAINERD_16, gpus=(0,))] == [
        "containerd: one",
        "containerd: none",
    ]


def test_a_gpu_is_asked_for_by_index_and_found_by_minor() -> None:
    """After a GPU was taken out, index 0 may be /dev/nvidia3."""
    one = cases(COMPATIBLE, CONTAINERD_21, gpus=(3, 1))[0]
    assert told(one) == ("one", "", "nvidia.com/gpu=0", "3,ctl", "1")


def test_a_prepared_host_without_gpu_still_starts_a_container() -> None:
    prepared = cases(dc.replace(COMPATIBLE, no_gpu="prepare"), CONTAINERD_21, gpus=())
    assert [told(c) for c in prepared] == [("none", "", "", "", "ctl,-uvm,-uvm-tools,-modeset")]


def test_every_engine_of_a_host_is_verified() -> None:
    names = [c["name"] for c in cases(COMPATIBLE, CONTAINERD_16, CRIO)]
    assert [n for n in names if n.endswith(": one")] == ["containerd: one", "crio: one"]


def test_two_instances_of_one_engine_are_told_apart() -> None:
    second = dc.replace(
        CONTAINERD_21, socket="/run/other.sock", config_path="/etc/other/config.toml"
    )
    names = [
        c["name"]
        for c in cases(COMPATIBLE, CONTAINERD_21, second, gpus=(0,))
        if c["name"].endswith(": one")
    ]
    assert names == [
        "containerd:/etc/containerd/config.toml: one",
        "containerd:/etc/other/config.toml: one",
    ]


def test_an_engine_that_serves_no_cri_has_no_cases() -> None:
    host = record(COMPATIBLE, CONTAINERD_21, driver=driver(0))
    without = dc.replace(CONTAINERD_21, cri=False)
    assert verify_cases.list_cases(host, (without,), driver(0), image=IMAGE) == []
    assert get_code(verify_cases.explain_no_cases(host, [])) == "verify.nothing-to-verify"


@pytest.mark.parametrize("engine", [CONTAINERD_21, CRIO], ids=["legacy", "oci-hook"])
def test_a_record_stands_for_the_nodes_where_no_driver_is(engine: Instance) -> None:
    found = cases(dc.replace(COMPATIBLE, cdi="disabled"), engine, evidence_file=RECORD)
    assert [c["record"] for c in found] == [
        {"path": RECORD, "contains": ["--device=0(?![0-9])"], **SHOWS},
        {"path": RECORD, "contains": ["--device=all(?![0-9])"], **SHOWS},
        {"path": RECORD, "silent": True, **SHOWS},
    ]
    assert nodes(found[0], "allowed") == []
    assert nodes(found[0], "refused") == ["1"], "what was not asked for is refused, record or not"


def test_a_record_is_for_the_legacy_ways_only() -> None:
    assert not any(c.get("record") for c in cases(COMPATIBLE, CONTAINERD_16, evidence_file=RECORD))


def test_a_management_container_under_strict_isolation_needs_the_capability_that_makes_the_variable_count() -> (
    None
):
    management = cases(STRICT, CONTAINERD_21)[-1]
    assert management["capabilities"] == ["SYS_ADMIN"]


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
        for case in cases(policy, engine, gpus=tuple(minors)):
            known = sorted(n["path"] for n in case["nodes"] if n["rdev"])
            assert known == sorted(["/dev/nvidiactl", *(f"/dev/nvidia{m}" for m in minors)])
            assert case["name"].endswith(("none", "isolation")) or nodes(case, "allowed")


# What engines really said, and the code of the advice.
ADVICE = [
    ("containerd", "native-cdi", "ImageStatus: image x is not on this host", "load-image"),
    ("crio", "native-cdi", "ImageStatus: image x is not on this host", "load-image"),
    (
        "containerd",
        "native-cdi",
        'RunPodSandbox: no runtime for "nvidia" is configured',
        "handler-unknown",
    ),
    (
        "crio",
        "native-cdi",
        "RunPodSandbox: failed to find runtime handler nvidia from runtime list map[]",
        "handler-unknown",
    ),
    (
        "containerd",
        "native-cdi",
        "CreateContainer: unresolvable CDI devices nvidia.com/gpu=0",
        "device-unresolvable",
    ),
    (
        "containerd",
        "native-cdi",
        "RunPodSandbox: unknown service runtime.v1.RuntimeService",
        "no-cri",
    ),
    (
        "crio",
        "native-cdi",
        "RunPodSandbox: unable to try pulling possible OCI artifact: pinging container registry",
        "no-sandbox-image",
    ),
    (
        "containerd",
        "native-cdi",
        "RunPodSandbox: /run/containerd/containerd.sock: Connection refused",
        "socket-silent",
    ),
    (
        "containerd",
        "native-cdi",
        "/dev/nvidia0 was requested and is not in the container",
        "cdi-ignored",
    ),
    (
        "crio",
        "native-cdi",
        "/dev/nvidia0 was requested and is not in the container",
        "not-injected",
    ),
    (
        "containerd",
        "native-cdi",
        "/dev/nvidia1 can be opened although it was not requested (ENXIO)",
        "more-than-requested",
    ),
    (
        "crio",
        "oci-hook",
        "/var/log/cli.jsonl says nothing that matches --device=0",
        "hook-not-called",
    ),
    (
        "crio",
        "",
        "StartContainer: no such file or directory; nvidia-container-runtime",
        "no-handler-program",
    ),
    ("crio", "", "RunPodSandbox: runtime handler nvidia not supported", "handler-unknown"),
    ("crio", "", "ExecSync: mknod: command not found", "no-shell"),
    ("crio", "native-cdi", "RunPodSandbox: something new", ""),
    ("crio", "native-cdi", "RunPodSandbox: gRPC status 2 (UNKNOWN)", "read-journal"),
    ("podman", "native-cdi", "run: exit status 126", "podman-by-hand"),
    ("docker", "native-cdi", "run: exit status 125: not found", "docker-by-hand"),
    ("containerd", "native-cdi", "RunPodSandbox: runc create failed", "read-journal"),
    (
        "containerd",
        "nvidia-runtime",
        "/dev/nvidia0 was requested and is not in the container",
        "not-injected",
    ),
]


@pytest.mark.parametrize(("engine", "injection", "text", "code"), ADVICE)
def test_a_failure_says_what_to_do(engine: str, injection: str, text: str, code: str) -> None:
    assert get_code(evidence.advise_on_case(engine, injection, text)) == (
        f"verify.{code}" if code else ""
    )


REPEATS = {
    "a.*b": 1,
    "(?:a+|b{2,})?": 2,
    "(?=.*a).*?b": 2,
    "[*+]a{0,9}\\*": 0,
    "(?:a{1,2}/){0,8}": 0,
}


def test_the_judge_of_patterns_counts_what_has_no_end() -> None:
    assert {pattern: count_endless_repeats(pattern) for pattern in REPEATS} == REPEATS


# what the controller looks for, what the host looks for in the words of engines, and in a record
PATTERNS = {
    *(words for row in evidence.ADVICE for words in row[0]),
    *told_words.PHRASES,
    *told_words.AGAIN,
    verify_cases.RECORD_SHOWS,
}


@pytest.mark.parametrize("words", sorted(PATTERNS))
def test_no_text_of_a_host_or_a_container_holds_up_a_run(words: str) -> None:
    assert count_endless_repeats(words) == 0


KNOWN = " gRPC status 2"


@pytest.mark.parametrize(("behind", "code"), [(0, "verify.read-journal"), (1, "")])
def test_a_failure_is_judged_by_its_beginning(behind: int, code: str) -> None:
    """A host may return thousands of problems, of thousands of characters each."""
    text = "x" * (evidence.LONGEST - len(KNOWN) + behind) + KNOWN
    assert get_code(evidence.advise_on_case("crio", "", text)) == code


IMAGES = [("containerd", "ctr -n k8s.io images import"), ("crio", "skopeo copy")]


@pytest.mark.parametrize(("engine", "way"), IMAGES)
def test_an_image_is_loaded_by_the_engines_own_way(engine: str, way: str) -> None:
    advice = evidence.advise_on_case(
        engine, "native-cdi", "ImageStatus: image x is not on this host"
    )
    assert isinstance(advice, Message)
    assert way in advice.values["way"]


def test_evidence_joins_what_was_planned_with_what_was_found() -> None:
    planned = cases(COMPATIBLE, CONTAINERD_16, gpus=(0,))
    problem = "/dev/nvidia0 was requested and is not in the container"
    found = {
        "name": "containerd: one",
        "ok": False,
        "problems": [problem],
        "error": None,
        "found": {"/dev/nvidia0": "absent"},
    }
    answer = {"cases": [found]}
    one, none = evidence.list_case_evidence(planned, answer)
    assert (one["injection"], one["env"], one["found"]) == (
        "nvidia-runtime",
        {"NVIDIA_VISIBLE_DEVICES": "0"},
        {"/dev/nvidia0": "absent"},
    )
    assert none["error"] == {"step": "run", "message": "the host returned no result"}
    assert one["advice"].endswith("[verify.not-injected]")
    code, values = read_coded(evidence.describe_unverified([one, none]))
    assert (code, values["failed"], values["total"]) == ("verify.checks-failed", 2, 2)
    told = f"containerd: one: {problem}. containerd: none: run: the host returned no result. Next: "
    assert values["details"].startswith(told)


@pytest.mark.parametrize(
    ("failure", "shown"),
    [
        ({"problems": ["a is absent", "b is absent"]}, "a is absent; b is absent"),
        ({"problems": ["p"] * 8}, "; ".join("p" * 8)),
        ({"problems": ["p"] * 4096}, "; ".join("p" * 8) + "; and 4088 more"),
        ({"problems": ["x" * 4096] * 4096}, "x" * 4096),
        ({"error": {"step": "start", "message": "x" * 4096}}, "start: " + "x" * 4089),
    ],
)
def test_a_failure_is_described_within_bounds_whatever_a_host_says(
    failure: dict[str, Any], shown: str
) -> None:
    text = evidence.describe_case_failure(failure)
    assert text.startswith(shown)
    assert len(text) <= evidence.LONGEST + 40


def test_the_message_of_all_cases_is_bounded() -> None:
    failed = [
        {"name": f"containerd: {n}", "ok": False, "problems": [f"{n % 40} " + "x" * 4000]}
        for n in range(4096)
    ]
    details = read_coded(evidence.describe_unverified(failed))[1]["details"]
    assert details.startswith("containerd: 0, 40, 80")
    assert len(details) <= 2 * evidence.LONGEST + 40


def test_advice_is_looked_for_beyond_what_is_shown() -> None:
    planned = cases(COMPATIBLE, CONTAINERD_16, gpus=(0,))
    problems = ["?"] * 20 + ["/dev/nvidia0 was requested and is not in the container"]
    found = {"name": "containerd: one", "ok": False, "problems": problems, "error": None}
    one, _none = evidence.list_case_evidence(planned, {"cases": [found]})
    assert one["advice"].endswith("[verify.not-injected]")


def test_a_verified_host_has_no_complaint() -> None:
    planned = cases(COMPATIBLE, CONTAINERD_21)
    good = {
        "cases": [{"name": c["name"], "ok": True, "problems": [], "error": None} for c in planned]
    }
    assert evidence.describe_unverified(evidence.list_case_evidence(planned, good)) == ""


def test_check_mode_tells_the_cases_and_verifies_none() -> None:
    first = evidence.list_unverified_cases(cases(COMPATIBLE, CONTAINERD_21))[0]
    assert (first["ok"], first["expected"]["/dev/nvidia1"], first["devices"]) == (
        None,
        "refused",
        ["nvidia.com/gpu=0"],
    )
    assert first["found"] == {}, "playbooks show this key in check mode, too"


# ---------------------------------------------------------------- MIG and the fabric


def mig_cases(
    *migs: int,
    fabric: tuple[str, ...] = (),
    policy: Policy = Policy(),  # noqa: B008  a frozen value
    engine: Instance = instance("containerd", "2.4.0"),  # noqa: B008  a frozen value
    nodes_of_all: frozenset[str] | None = None,
) -> dict[str, dict[str, Any]]:
    """A host whose GPUs have so many MIG devices."""
    seen = dc.replace(
        driver(*range(len(migs))),
        gpus=tuple(SeenGpu(i, i, "", f"GPU-{i}", migs=count) for i, count in enumerate(migs)),
    )
    found = verify_cases.list_cases(
        record(policy, engine, driver=seen),
        (engine,),
        seen,
        image=IMAGE,
        fabric=fabric,
        nodes_of_all=nodes_of_all,
    )
    return {case["name"].rpartition(": ")[2]: case for case in found}


@pytest.mark.parametrize(
    ("migs", "one", "sure", "perhaps"),
    [
        ((3, 0), "0:0", ["0"], ["1"]),
        ((0, 2), "1:0", ["1"], ["0"]),
        ((2, 2), "0:0", ["0", "1"], []),
        ((0, 0), "0", ["0", "1"], []),
    ],
)
def test_a_gpu_with_mig_devices_is_asked_for_by_one_of_them(
    migs: tuple[int, ...], one: str, sure: list[str], perhaps: list[str]
) -> None:
    found = mig_cases(*migs)
    assert one in str(
        found["one"].get("devices") or found["one"].get("annotations") or found["one"].get("env")
    )
    assert [n for n in nodes(found["all"], "allowed") if n.isdigit()] == sure
    assert [n for n in nodes(found["all"], "optional") if n.isdigit()] == perhaps


LEGACY = Policy(injection="legacy", isolation="compatible")


@pytest.mark.parametrize(
    ("policy", "engine", "nodes_of_all", "sure", "refused", "perhaps"),
    [  # GPU 0 has MIG devices, GPU 1 has none
        (COMPATIBLE, CONTAINERD_21, {"0", "1"}, "0,1", "", ""),
        (COMPATIBLE, CONTAINERD_21, {"0"}, "0", "1", ""),  # in MIG mode without an instance
        (COMPATIBLE, CONTAINERD_21, None, "0", "", "1"),  # no spec was read
        (COMPATIBLE, CONTAINERD_16, {"0", "1"}, "0,1", "", ""),
        (COMPATIBLE, CONTAINERD_16, {"0"}, "0", "1", ""),
        (LEGACY, CONTAINERD_16, None, "0,1", "", ""),  # the hook gives every GPU
        (LEGACY, CONTAINERD_16, {"0"}, "0,1", "", ""),
    ],
)
def test_all_gpus_beside_mig_devices_are_just_those_that_are_granted(
    policy: Policy,
    engine: Instance,
    nodes_of_all: set[str] | None,
    sure: str,
    refused: str,
    perhaps: str,
) -> None:
    given = None if nodes_of_all is None else frozenset(f"/dev/nvidia{n}" for n in nodes_of_all)
    found = mig_cases(2, 0, policy=policy, engine=engine, nodes_of_all=given)["all"]
    told = {
        expect: ",".join(n for n in nodes(found, expect) if n.isdigit())
        for expect in ("allowed", "refused", "optional")
    }
    assert told == {"allowed": sure, "refused": refused, "optional": perhaps}


@pytest.mark.parametrize("case", ["one", "all", "none"])
def test_no_container_may_open_what_it_has_not_asked_for(case: str) -> None:
    fabric = ("/dev/nvidia-nvswitchctl", "/dev/nvidia-caps-imex-channels/channel0")
    refused = {
        n["path"] for n in mig_cases(0, 0, fabric=fabric)[case]["nodes"] if n["expect"] == "refused"
    }
    assert refused >= set(fabric)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ('rpc error: unresolvable CDI devices nvidia.com/gpu=9: https://u:pw@h', "unresolvable CDI devices nvidia.com/gpu=9"),
        ('no runtime for "nvidia" is configured, token=x', 'no runtime for "nvidia" is configured'),
        ('could not select device driver "cdi" with capabilities: []', 'could not select device driver "cdi"'),
        ("nvidia-container-cli: initialization error: nvml error: /home/x", "nvidia-container-cli: initialization error"),
        ("failed to pull image https://u:pw@h/pause", "failed to pull"),
        ("password=x", ""),
    ],
)  # fmt: skip
def test_of_what_an_engine_says_only_known_phrases_are_told(said: str, told: str) -> None:
    assert causes.extract_known_phrases(said, told_words.PHRASES) == told


CUDA = "/usr/lib/x86_64-linux-gnu/libcuda.so.550.163.01"
# What a runtime says of a file that a spec names and the host lacks: its words, and those that are
# told.
LACKING = {
    "runc 1.2": (
        f'runc create failed: error mounting "{CUDA}" to rootfs at "{CUDA}": mount src={CUDA}: no such file or directory',
        f'error mounting "{CUDA}"',
    ),
    "runc 1.1": (f"rootfs_linux.go:75: stat {CUDA}: no such file or directory", f"stat {CUDA}"),
    "crun": (f"crun: cannot stat `{CUDA}`: No such file or directory", f"cannot stat `{CUDA}`"),
    "the CDI library": (
        'CDI device injection failed: failed to stat CDI host device "/dev/nvidia0": no such file or directory',
        'failed to stat CDI host device "/dev/nvidia0"',
    ),
    "a driver container": (
        'error mounting "/run/nvidia/driver/usr/lib64/libnvidia-ml.so.580.65.06" to rootfs: no such file or directory',
        'error mounting "/run/nvidia/driver/usr/lib64/libnvidia-ml.so.580.65.06"',
    ),
    "a hook": (
        "error running createContainer hook #0: fork/exec /usr/bin/nvidia-cdi-hook: no such file or directory",
        "exec /usr/bin/nvidia-cdi-hook: no such file or directory",
    ),
}


@pytest.mark.parametrize("case", LACKING)
def test_a_file_of_the_spec_that_is_gone_is_named_with_its_path(case: str) -> None:
    said, told = LACKING[case]
    phrases = causes.extract_known_phrases(said, told_words.PHRASES)
    assert told in phrases.split("; ")
    advice = evidence.advise_on_case("containerd", "native-cdi", f"StartContainer: {phrases}")
    assert get_code(advice) == "verify.spec-file-gone"


# Paths that are no files of the driver in a folder of the system.
UNTOLD = [
    "/home/alice/libcuda.so.1",
    "/opt/site/token-a1b2",
    "/var/lib/kubelet/pods/x",
    "/etc/ssl/private/key.pem",
    "/usr/lib/../../home/alice/libcuda.so.1",
    "/opt/acme/libcuda.so.1",
    "/etc/acme/nvidia.icd",
    "/usr/lib/acme/libcuda.so.1",
    "/usr/share/nvidia/acme/nvoptix.bin",
    "/run/nvidia/acme/usr/lib64/libnvidia-ml.so.1",
    "/dev/acme/nvidia0",
]
# Folders of the driver's files, each of which is told.
TOLD = [
    "/usr/lib/x86_64-linux-gnu/nvidia/tesla-470/libcuda.so.470.1.1",
    "/usr/lib/x86_64-linux-gnu/nvidia/current/libcuda.so.535.1.1",
    "/lib/firmware/nvidia/580.65.06/gsp_ga10x.bin",
    "/usr/lib64/xorg/modules/drivers/nvidia_drv.so",
    "/usr/lib/x86_64-linux-gnu/vdpau/libvdpau_nvidia.so.580.65.06",
    "/usr/share/nvidia/nvoptix.bin",
    "/usr/share/vulkan/icd.d/nvidia_icd.json",
    "/etc/OpenCL/vendors/nvidia.icd",
    "/run/nvidia/driver/usr/bin/nvidia-smi",
    "/dev/nvidia-caps/nvidia-cap21",
    "/run/opengl-driver/lib/libcuda.so.580.65.06",
]


@pytest.mark.parametrize("path", TOLD)
def test_a_file_of_the_driver_is_told_with_each_folder_that_a_look_asks_for(path: str) -> None:
    said = f"stat {path}: no such file or directory"
    assert f"stat {path}" in causes.extract_known_phrases(said, told_words.PHRASES).split("; ")


@pytest.mark.parametrize("path", UNTOLD)
def test_no_other_path_is_told(path: str) -> None:
    said = f'error mounting "{path}" to rootfs at "{path}": stat {path}: no such file or directory'
    phrases = causes.extract_known_phrases(said, told_words.PHRASES)
    assert path not in phrases
    assert not any(word in phrases for word in ("acme", "alice", "token", "ssl"))
    assert "no such file or directory" in phrases


def test_a_file_of_the_driver_elsewhere_is_told_by_its_name() -> None:
    said = 'error mounting "/opt/acme/libcuda.so.1": stat /opt/acme/libcuda.so.1: no such file or directory'
    phrases = causes.extract_known_phrases(said, told_words.PHRASES)
    assert "libcuda.so.1: no such file or directory" in phrases.split("; ")
    advice = evidence.advise_on_case("containerd", "native-cdi", f"StartContainer: {phrases}")
    assert get_code(advice) == "verify.spec-file-gone"


GONE = "no such file or directory"
# A program of the toolkit that is gone: what is said, what is told, and the code of the step.
PROGRAMS = [
    (f"exec /home/alice/acme/nvidia-ctk: {GONE}", f"nvidia-ctk: {GONE}", "spec-file-gone"),
    (f"exec /usr/../acme/nvidia-cdi-hook: {GONE}", f"nvidia-cdi-hook: {GONE}", "spec-file-gone"),
    (
        f"exec /run/nvidia/driver/usr/bin/nvidia-ctk: {GONE}",
        f"exec /run/nvidia/driver/usr/bin/nvidia-ctk: {GONE}",
        "spec-file-gone",
    ),
    (
        f"stat /home/alice/acme/nvidia-container-runtime: {GONE}",
        f"nvidia-container-runtime: {GONE}",
        "no-handler-program",
    ),
    (
        f"stat /usr/local/nvidia/toolkit/nvidia-container-runtime.cdi: {GONE}",
        f"stat /usr/local/nvidia/toolkit/nvidia-container-runtime.cdi: {GONE}",
        "no-handler-program",
    ),
]


@pytest.mark.parametrize(("said", "told", "code"), PROGRAMS)
def test_a_program_that_is_gone_is_told_with_a_folder_of_the_system_alone(
    said: str, told: str, code: str
) -> None:
    phrases = causes.extract_known_phrases(said, told_words.PHRASES)
    assert told in phrases.split("; ")
    assert "acme" not in phrases
    advice = evidence.advise_on_case("containerd", "native-cdi", f"StartContainer: {phrases}")
    assert get_code(advice) == f"verify.{code}"


def test_another_trouble_with_a_file_of_the_driver_has_another_step() -> None:
    said = f'error mounting "{CUDA}" to rootfs at "{CUDA}": permission denied'
    phrases = causes.extract_known_phrases(said, told_words.PHRASES)
    assert CUDA in phrases
    advice = evidence.advise_on_case("containerd", "native-cdi", f"StartContainer: {phrases}")
    assert get_code(advice) != "verify.spec-file-gone"


ALIKE = [
    # the checks that failed, each with its problem; how the details begin
    ({"containerd: one": "no pause image"}, "containerd: one: no pause image"),
    (
        {"containerd: one": "no pause image", "containerd: all": "no pause image"},
        "containerd: one, all: no pause image",
    ),
    (
        {"containerd: one": "refused", "containerd: all": "no pause image"},
        "containerd: one: refused. containerd: all: no pause image",
    ),
    (
        {"containerd: one": "refused", "crio: one": "refused"},
        "containerd: one: refused. crio: one: refused",
    ),
]


@pytest.mark.parametrize(("failed", "details"), ALIKE)
def test_checks_that_fail_alike_share_a_sentence(failed: dict[str, str], details: str) -> None:
    checks = [
        {"name": name, "ok": False, "problems": [problem]} for name, problem in failed.items()
    ]
    _code, values = read_coded(evidence.describe_unverified(checks))
    assert (values["failed"], values["total"], values["details"]) == (
        len(failed),
        len(failed),
        details,
    )


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
    found = verify_cases.get_engine_way(case, engine, "/usr/bin/x")
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
        case for case in cases(policy, CONTAINERD_21, gpus=gpus) if ": plugin" in case["name"]
    ]
    assert plugin["env"]["NVIDIA_VISIBLE_DEVICES"] == variable
    assert nodes(plugin, "allowed")[0] == minor
